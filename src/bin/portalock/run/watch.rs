//! Watches over a command that runs under the lock.

use std::time::{Duration, Instant};

use portalock::Loss;
use rustix::process::Signal;

use super::job::{Job, Turn};
use super::stop_here;
use crate::arguments::{OnLost, Run};
use crate::news::{Inbox, News, Notice};
use crate::output::{quote, say};

/// How often those are looked after who are left of a command that has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A command and what is to be done if its lock is lost.
pub struct Watch<'a> {
    job: Job,
    arguments: &'a Run,
    /// Just before it was started.
    begun: Instant,
    lost: bool,
    /// When what is left of it is killed.
    kill_at: Option<Instant>,
}

impl<'a> Watch<'a> {
    pub fn new(job: Job, arguments: &'a Run, begun: Instant) -> Self {
        Self { job, arguments, begun, lost: false, kill_at: None }
    }

    /// Passes signals on, ends the command if the lock is lost, and waits for its end: the exit status
    /// that stands for it, and whether the loss was told.
    pub fn until_it_ends(mut self, inbox: &Inbox) -> (u8, bool) {
        loop {
            match self.job.turn() {
                Some(Turn::Ended(code)) => {
                    self.end_remains(inbox);
                    return (code, self.lost);
                }
                Some(Turn::Stopped) => self.stopped(),
                None => {}
            }
            match inbox.next(self.kill_at) {
                Some(News::Signal(notice)) => self.pass_on(notice),
                Some(News::Lost(loss)) => self.lost(&loss),
                Some(_) => {}
                None => self.kill(),
            }
        }
    }

    fn pass_on(&mut self, notice: Notice) {
        let Notice { signal, from_terminal, at } = notice;
        if signal == Signal::CHILD {
            return;
        }
        // What came before it was there has not reached it. Nothing must reach it twice: a second Ctrl-Z would
        // stop it again when it goes on.
        let knows = from_terminal && self.job.shares_group() && at >= self.begun;
        if !knows {
            self.job.signal(signal);
        }
    }

    /// The shell takes a job for stopped only when all of it is, and a command that goes on needs its lock:
    /// portalock stops once the command has. Elsewhere the command stops alone, and keeps its lock.
    fn stopped(&self) {
        // One that is about to be killed needs somebody who does that.
        if self.job.shares_group() && self.kill_at.is_none() {
            stop_here();
        }
    }

    fn lost(&mut self, loss: &Loss) {
        if std::mem::replace(&mut self.lost, true) {
            return;
        }
        let name = quote(&self.arguments.name);
        let then = match self.arguments.on_lost {
            OnLost::Ignore => "the command goes on without it",
            OnLost::Term | OnLost::Kill => "ending the command",
        };
        if self.arguments.on_lost != OnLost::Ignore {
            self.job.signal_all(Signal::TERM);
            // One that is stopped would not hear of it.
            self.job.signal_all(Signal::CONT);
        }
        if self.arguments.on_lost == OnLost::Kill {
            self.kill_at = Some(Instant::now() + self.arguments.grace);
        }
        say(&format!("{name} is lost: {}; {then}", loss.message));
    }

    fn kill(&mut self) {
        self.kill_at = None;
        self.job.signal_all(Signal::KILL);
    }

    /// The command itself has ended. What it has started and left behind may go on, but not without the
    /// lock.
    fn end_remains(&mut self, inbox: &Inbox) {
        let mut was_asked = false;
        while let Some(at) = self.kill_at
            && self.job.has_remains()
        {
            match inbox.next(Some(at.min(Instant::now() + LOOK_EVERY))) {
                // Whoever asks twice means it.
                Some(News::Signal(notice)) if notice.is_end() && was_asked => self.kill(),
                Some(News::Signal(notice)) => {
                    was_asked |= notice.is_end();
                    self.pass_to_remains(notice);
                }
                Some(_) => {}
                None if Instant::now() < at => {}
                None => self.kill(),
            }
        }
    }

    fn pass_to_remains(&mut self, notice: Notice) {
        let knows = notice.from_terminal && self.job.shares_group();
        if notice.signal != Signal::CHILD && !knows {
            self.job.signal_all(notice.signal);
        }
    }
}
