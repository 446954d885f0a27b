//! Watches over a command that runs under the lock.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use portalock::Loss;
use rustix::process::{Signal, getpid, kill_process};

use super::job::{Job, code_of};
use crate::arguments::{OnLost, Run};
use crate::news::{Inbox, News, Notice};
use crate::output::{quote, say};

/// How often those are looked after who are left of a command that has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A command and what is to be done if its lock is lost.
pub struct Watch<'a> {
    job: Job,
    arguments: &'a Run,
    lost: bool,
    /// When what is left of it is killed.
    kill_at: Option<Instant>,
}

impl<'a> Watch<'a> {
    pub fn new(job: Job, arguments: &'a Run) -> Self {
        Self { job, arguments, lost: false, kill_at: None }
    }

    /// Passes signals on, ends the command if the lock is lost, and waits for its end: the exit status
    /// that stands for it, and whether the loss was told.
    pub fn until_it_ends(mut self, inbox: &Inbox) -> (u8, bool) {
        loop {
            if let Some(status) = self.job.status() {
                let code = self.ended(status);
                return (code, self.lost);
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
        let Notice { signal, from_terminal } = notice;
        if signal == Signal::CHILD {
            return;
        }
        let knows = from_terminal && self.job.shares_group();
        if !knows {
            self.job.signal(signal);
        }
        // The shell takes a job for stopped only when all of it is. Elsewhere the command stops alone,
        // and keeps its lock.
        if signal == Signal::TSTP && self.job.shares_group() {
            let _ = kill_process(getpid(), Signal::STOP);
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
    fn ended(&mut self, status: ExitStatus) -> u8 {
        while let Some(at) = self.kill_at
            && self.job.has_remains()
        {
            match Instant::now() < at {
                true => std::thread::sleep(LOOK_EVERY),
                false => self.kill(),
            }
        }
        code_of(status)
    }
}
