//! How an acquire goes on: until when it tries, what it does after an attempt that failed, and what its
//! end means. Told the time; touches nothing.

use std::time::{Duration, Instant};

use crate::error::{Error, Status};
use crate::keeper::Stopped;
use crate::options::{MAX_SPAN, Wait};

/// Between two attempts at a server that cannot be used: doubles from the first to the last.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// One acquire's way through its attempts.
pub(crate) struct Pursuit {
    once: bool,
    started: Instant,
    deadline: Option<Instant>,
    /// When the present attempt began.
    begun: Instant,
    pause: Duration,
    /// How the attempt before failed.
    before: Option<Error>,
}

/// What follows a failed attempt.
#[derive(Debug)]
pub(crate) enum Next {
    /// Another one, not before then.
    Retry(Instant),
    /// Nothing: this is what the acquire has come to.
    End(Error),
}

impl Pursuit {
    /// Begins. A single attempt is bounded by `patience`: enough to connect, and to hear or to give up
    /// those who do not answer.
    pub(crate) fn new(wait: Wait, patience: Duration, now: Instant) -> Self {
        let (once, span) = match wait {
            Wait::Once => (true, Some(patience)),
            Wait::For(Duration::ZERO) => (true, Some(patience)),
            Wait::For(span) => (false, Some(span)),
            Wait::Forever | Wait::Default => (false, None),
        };
        let deadline = span.map(|span| now + span.min(MAX_SPAN));
        Self { once, started: now, deadline, begun: now, pause: BACKOFF.0, before: None }
    }

    /// Whether there is to be one attempt only.
    pub(crate) fn is_once(&self) -> bool {
        self.once
    }

    /// When the time is up, if ever.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The earlier of a point in time and the deadline.
    pub(crate) fn bounded(&self, at: Instant) -> Instant {
        self.deadline.map_or(at, |deadline| deadline.min(at))
    }

    /// Whether the time is up.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// An attempt begins.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.begun = now;
    }

    /// It has failed. `at_once`: there is a reason to try again at once, another address or a connection
    /// that was merely stale.
    pub(crate) fn failed(&mut self, error: Error, at_once: bool, now: Instant) -> Next {
        // Of an attempt that the deadline cut short, silence says nothing: what came before does.
        let brief = now.saturating_duration_since(self.begun) * 2
            < now.saturating_duration_since(self.started);
        if error.status() == Status::Unresponsive && brief && self.is_overdue(now) {
            return Next::End(self.before.take().unwrap_or(error));
        }
        if !is_passing(error.status()) || (self.once && !at_once) {
            return Next::End(error);
        }
        self.before = Some(error);
        if at_once {
            return Next::Retry(now);
        }
        let rested = now + self.pause;
        self.pause = (self.pause * 2).min(BACKOFF.1);
        Next::Retry(rested)
    }

    /// The time came while it rested: what the last attempt failed of is what the acquire fails of.
    pub(crate) fn spent(&mut self) -> Error {
        let none = || Error::new(Status::Timeout, "the time is up");
        self.before.take().unwrap_or_else(none)
    }

    /// Why an attempt came to nothing that was stopped: because its time was up, or because somebody
    /// comes first (`queued`) and it is the only one. `ahead` tells how many waiters do, if known,
    /// or else the rule for what the server refuses to do about those who do not answer.
    pub(crate) fn overdue(
        &self,
        name: &str,
        queued: bool,
        stopped: Stopped,
        ahead: std::result::Result<usize, Option<&'static str>>,
        now: Instant,
    ) -> Error {
        let waited = now.saturating_duration_since(self.started).as_millis();
        if queued {
            return Error::new(Status::Locked, format!("lock {name:?} is held by somebody else"));
        }
        if stopped == Stopped::Joining {
            let text = format!("the server has not answered for {waited} ms");
            return Error::new(Status::Unresponsive, text);
        }
        let status = if self.once { Status::Locked } else { Status::Timeout };
        let who = match ahead {
            Err(None) => "some members of the channel do not answer".to_owned(),
            // By an ACL mostly, or the command was renamed.
            Err(Some(rule)) => format!(
                "some members of the channel do not answer, and the server refuses \
                 what the rule {rule} allows"
            ),
            Ok(0) => "somebody else holds it, nobody else waits before us".to_owned(),
            Ok(n) => format!("somebody else holds it, {n} wait before us"),
        };
        Error::new(status, format!("lock {name:?} not acquired in {waited} ms: {who}"))
    }
}

/// Whether time may mend it.
pub(crate) fn is_passing(status: Status) -> bool {
    use Status::*;
    matches!(status, Refused | Unreachable | Unresponsive | Server | Disconnected)
}

/// Whether another address, or a fresh connection, may do better.
pub(crate) fn worth_another(status: Status) -> bool {
    use Status::*;
    matches!(status, Refused | Unreachable | Unresponsive | Disconnected)
}
