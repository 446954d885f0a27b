//! Waits for the lock, and shows on a terminal what it waits for.

use std::time::{Duration, Instant};

use portalock::{Client, Error, Lock, Status, Wait};
use rustix::process::Signal;

use super::job::NAME_VARIABLE;
use super::live::Live;
use super::stop_here;
use crate::arguments::Run;
use crate::failure::Failure;
use crate::news::{Inbox, News, Notice};
use crate::output::{quote, say};
use crate::voice;

/// How long the server has to answer, when it is in doubt whether it is there at all.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);
/// An attempt that has not failed for so long has reached the server: it would have been given up.
const REACHED: Duration = Duration::from_secs(6);

/// What came of the waiting.
pub enum Entry {
    /// The lock is held.
    Held,
    /// It is not, and this is the exit status.
    GivenUp(u8),
}

/// Waits as the arguments say.
pub fn enter(
    client: &Client,
    lock: &Lock,
    inbox: &Inbox,
    arguments: &Run,
) -> Result<Entry, Failure> {
    announce(arguments);
    lock.start_acquire(None, patience(arguments), None)?;
    let live = Live::begin(client, lock, inbox, arguments);
    let waiting = Waiting {
        client,
        lock,
        arguments,
        live,
        begun: Instant::now(),
        was_reached: false,
        signal: None,
        failure: None,
    };
    waiting.until_it_ends(inbox)
}

fn patience(arguments: &Run) -> Wait {
    match arguments.limit() {
        None => Wait::Forever,
        Some(Duration::ZERO) => Wait::Once,
        Some(span) => Wait::For(span),
    }
}

fn announce(arguments: &Run) {
    let name = quote(&arguments.name);
    if arguments.verbose {
        let mode = if arguments.shared { "shared" } else { "exclusive" };
        say(&format!("acquiring {name}, {mode}"));
    }
    let outer = std::env::var(NAME_VARIABLE);
    if outer.is_ok_and(|outer| outer == arguments.name) {
        say(&format!("this runs under {name} already: it may be waiting for its own end"));
    }
}

struct Waiting<'a> {
    client: &'a Client,
    lock: &'a Lock,
    arguments: &'a Run,
    live: Live<'a>,
    begun: Instant,
    /// Whether the server was there once.
    was_reached: bool,
    /// What has ended the waiting.
    signal: Option<Notice>,
    /// Why it was given up.
    failure: Option<Error>,
}

impl Waiting<'_> {
    fn until_it_ends(mut self, inbox: &Inbox) -> Result<Entry, Failure> {
        loop {
            match inbox.next(self.live.next_drawing()) {
                Some(News::Acquired(outcome)) => {
                    self.live.end();
                    return self.entry(outcome);
                }
                Some(News::Signal(notice)) => self.heed(notice),
                Some(News::Trouble(error)) => self.doubt(error),
                Some(News::Members(members)) => self.live.take(members),
                Some(News::Lost(_)) => {}
                None => self.live.draw(),
            }
        }
    }

    fn entry(self, outcome: Result<(), Error>) -> Result<Entry, Failure> {
        if let Some(signal) = self.signal {
            // It may have been granted in the same moment.
            let _ = self.lock.release();
            return Ok(Entry::GivenUp(signal.code()));
        }
        let Err(error) = outcome else {
            return Ok(Entry::Held);
        };
        let error = self.failure.unwrap_or(error);
        if !matches!(error.status(), Status::Locked | Status::Timeout) {
            return Err(error.into());
        }
        if self.arguments.verbose {
            say(error.message());
        }
        Ok(Entry::GivenUp(self.arguments.conflict_exit_code))
    }

    fn heed(&mut self, notice: Notice) {
        match notice.signal {
            _ if notice.is_end() => {
                self.signal.get_or_insert(notice);
                self.lock.cancel();
            }
            Signal::TSTP => {
                self.live.erase();
                voice::settle();
                stop_here();
            }
            Signal::CONT | Signal::WINCH => self.live.draw(),
            _ => {}
        }
    }

    /// The server may be away for a moment, and is waited for then. One that was never there is no
    /// reason to wait, unless it was said for how long.
    fn doubt(&mut self, error: Error) {
        self.was_reached |=
            error.status() == Status::Disconnected || self.begun.elapsed() > REACHED;
        let Some(left) = self.left() else {
            return;
        };
        // One of several addresses may be dead: that is no trouble.
        let Err(trouble) = self.client.ping(left.min(SIGN_OF_LIFE)) else {
            self.was_reached = true;
            return;
        };
        if !self.was_reached && self.arguments.limit().is_none() {
            self.failure = Some(trouble);
            self.lock.cancel();
            return;
        }
        if self.left().is_none() {
            return;
        }
        self.live.erase();
        say(&format!("{}; trying on", error.message()));
    }

    /// For how long it is still waited; `None` if for no longer.
    fn left(&self) -> Option<Duration> {
        let Some(limit) = self.arguments.limit() else {
            return Some(Duration::MAX);
        };
        limit.checked_sub(self.begun.elapsed()).filter(|left| !left.is_zero())
    }
}
