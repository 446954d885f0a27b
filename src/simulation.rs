//! The inside of the library for the simulator (`tests/sim`): the very code that runs in production, from
//! the acquire's attempts down to the bytes, over transports and clocks of the simulator's own. No part of
//! the library's interface.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::broker::Endpoint;
pub use crate::broker::{Door, Transport};
use crate::error::{Error, Result};
use crate::keeper::{Berth, Landlord, Stopped, Tenant, Verdict, lock};
use crate::lock::Loss;
use crate::options::{ClientOptions, Wait};
use crate::protocol::{Contender, LinkId, Names, Phase, Stop, wire};
use crate::pursuit::{Next, Pursuit, worth_another};

/// What an acquire was told.
#[derive(Debug)]
pub enum Told {
    /// The lock is held, with this fencing token.
    Granted(Option<u64>),
    /// So many waiters come first.
    Queued(usize),
    /// The attempt has failed.
    Failed(Error),
    /// The lock is lost.
    Lost(Loss),
    /// The server has confirmed the leave, or the connection is gone.
    Departed,
    /// Anything else, in words.
    Other(String),
}

#[derive(Default)]
struct Ears(Mutex<Vec<(u64, Told)>>);

impl Landlord for Ears {
    fn hear(&self, ticket: u64, verdict: Verdict) {
        let told = match verdict {
            Verdict::Granted { token, .. } => Told::Granted(token),
            Verdict::Queued(ahead) => Told::Queued(ahead),
            Verdict::Failed(error) => Told::Failed(error),
            Verdict::Lost(loss) => Told::Lost(loss),
            Verdict::Departed => Told::Departed,
            other => Told::Other(format!("{other:?}")),
        };
        lock(&self.0).push((ticket, told));
    }

    fn verified(&self, _at: Instant) {}
}

/// What became of whom [`Station::stop`] was to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was joining.
    Joining,
    /// It was waiting.
    Waiting,
    /// It held.
    Held,
    /// It had ended before.
    Before,
}

/// A connection with those who live on it.
pub struct Station<P> {
    berth: Berth<P>,
    ears: Arc<Ears>,
    /// Which lock each ticket is of.
    names: HashMap<u64, Arc<Names>>,
}

impl<P: Transport> Station<P> {
    /// A connection that was begun. `answer_timeout` is that of the client's options.
    ///
    /// # Errors
    /// If the URL is none.
    pub fn new(pipe: P, url: &str, answer_timeout: Duration, now: Instant) -> Result<Self> {
        let endpoint = Arc::new(Endpoint::parse(url, &ClientOptions::new())?);
        let berth = Berth::new((pipe, None), &endpoint, answer_timeout, now);
        Ok(Self { berth, ears: Arc::default(), names: HashMap::new() })
    }

    /// Makes it a connection that all locks of a client share.
    #[must_use]
    pub fn shared(self, id: LinkId, now: Instant) -> Self {
        Self { berth: self.berth.shared(id, now), ..self }
    }

    /// Moves an acquire in and lets it join.
    ///
    /// # Errors
    /// If the connection is of no use any more.
    pub fn move_in(
        &mut self,
        contender: Contender,
        names: Arc<Names>,
        fencing: bool,
        ticket: u64,
        now: Instant,
    ) -> Result<()> {
        let disclosure = wire::Disclosure::default();
        let ears = self.ears.clone();
        self.names.insert(ticket, names.clone());
        let tenant = Tenant::new(contender, names, disclosure, ears, ticket, now);
        self.berth.move_in(if fencing { tenant.fenced() } else { tenant }, now)
    }

    /// What the keep-alive thread does when the socket or a timer wakes it.
    pub fn visit(&mut self, now: Instant) {
        self.berth.visit(now, || now);
        drop(self.berth.take_gone());
    }

    /// Has an acquire leave.
    pub fn stop(&mut self, ticket: u64, stop: Stop, now: Instant) -> Ended {
        let Some(names) = self.names.get(&ticket) else {
            return Ended::Before;
        };
        match self.berth.stop(names, ticket, stop, now) {
            Stopped::Joining => Ended::Joining,
            Stopped::Waiting => Ended::Waiting,
            Stopped::Held => Ended::Held,
            Stopped::Ended => Ended::Before,
        }
    }

    /// Ends a connection on which nobody lives.
    pub fn close(&mut self) {
        self.berth.close();
    }

    /// What was told since this was last called, with the tickets it was told to.
    pub fn told(&mut self) -> Vec<(u64, Told)> {
        std::mem::take(&mut lock(&self.ears.0))
    }

    /// When the next timer is due.
    pub fn next_timer(&self) -> Option<Instant> {
        self.berth.next_timer()
    }

    /// Whether something waits to be written.
    pub fn wants_write(&self) -> bool {
        self.berth.wants_write()[0]
    }

    /// Whether nobody lives here and nothing is owed.
    pub fn is_idle(&self) -> bool {
        self.berth.is_idle()
    }

    /// Whether the connection has not ended.
    pub fn stands(&self) -> bool {
        self.berth.stands()
    }

    /// The phase of an acquire that lives here.
    pub fn phase_of(&self, ticket: u64) -> Option<Phase> {
        self.berth.phase_of(self.names.get(&ticket)?, ticket)
    }
}

/// How an acquire goes on; as the library's own `Pursuit`.
pub struct Plan(Pursuit);

/// What follows a failed attempt.
#[derive(Debug)]
pub enum Step {
    /// Another attempt, not before then.
    Retry(Instant),
    /// Nothing: this is what the acquire has come to.
    End(Error),
}

impl Plan {
    /// Begins; a single attempt is bounded by `patience`.
    pub fn new(wait: Wait, patience: Duration, now: Instant) -> Self {
        Self(Pursuit::new(wait, patience, now))
    }

    /// Whether there is to be one attempt only, which ends as soon as somebody comes first.
    pub fn is_once(&self) -> bool {
        self.0.is_once()
    }

    /// When the time is up, if ever.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }

    /// Whether it is up.
    pub fn is_overdue(&self, now: Instant) -> bool {
        self.0.is_overdue(now)
    }

    /// An attempt begins.
    pub fn begin(&mut self, now: Instant) {
        self.0.begin(now);
    }

    /// It has failed; `stale` if it was made on a connection of the pool.
    pub fn failed(&mut self, error: Error, stale: bool, now: Instant) -> Step {
        let at_once = stale && worth_another(error.status());
        match self.0.failed(error, at_once, now) {
            Next::Retry(at) => Step::Retry(at),
            Next::End(error) => Step::End(error),
        }
    }

    /// The error if the time came between two attempts.
    pub fn spent(&mut self) -> Error {
        self.0.spent()
    }
}
