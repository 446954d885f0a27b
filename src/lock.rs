//! A lock: a channel, its options, and at most one acquire at a time.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::acquire::Acquire;
use crate::callback::{AcquiredCallback, LostCallback};
use crate::client;
use crate::error::{Error, Result, Status};
use crate::options::{LockOptions, Wait};
use crate::protocol::{Mode, Names};
use crate::standing::Shared;

/// Why a held lock was lost. The numbers are part of the ABI and are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum LossReason {
    /// The connection ended: killed, server gone, network gone.
    Disconnected = 1,
    /// The server took the subscription away and kept the connection.
    Unsubscribed = 2,
    /// The server answered in a way that no sound server does, or refused to let us answer.
    Protocol = 3,
    /// The server does not answer.
    Unresponsive = 4,
    /// The keep-alive thread has died; nobody answers for the lock any more.
    Internal = 5,
    /// Its server is not the master any more, or not known to be: sentinels name another, or none.
    Demoted = 6,
}

/// The loss of a held lock.
#[derive(Clone, Debug)]
pub struct Loss {
    /// Why.
    pub reason: LossReason,
    /// What happened, in one line.
    pub message: String,
}

/// One lock. Safe to use from any thread; dropping it releases what it holds.
pub struct Lock {
    shared: Arc<Shared>,
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("name", &self.name()).field("held", &self.is_held()).finish()
    }
}

impl Lock {
    pub(crate) fn new(
        client: Arc<client::Shared>,
        names: Arc<Names>,
        options: LockOptions,
    ) -> Self {
        Self { shared: Arc::new(Shared::new(client, names, options)) }
    }

    /// Acquires in the mode of the options, waiting as told.
    ///
    /// # Errors
    /// `Active` if this object is being acquired or held already, `Timeout`, `Locked` (one attempt
    /// only), `Cancelled`, or what kept the server from being used.
    pub fn acquire(&self, wait: Wait) -> Result<()> {
        self.acquire_mode(self.shared.options.mode, wait)
    }

    /// As [`acquire`](Self::acquire), in the given mode.
    pub fn acquire_mode(&self, mode: Mode, wait: Wait) -> Result<()> {
        self.shared.generation().check()?;
        Acquire::begin(&self.shared, mode, wait)?.run()
    }

    /// One attempt: `acquire(Wait::Once)`.
    pub fn try_acquire(&self) -> Result<()> {
        self.acquire(Wait::Once)
    }

    /// As [`acquire_mode`](Self::acquire_mode), and returns at once. The keep-alive thread does the
    /// work, and what comes of it is told to `done`, on the dispatch thread, or, without one, to the
    /// client's event queue.
    ///
    /// # Errors
    /// `Active`; `Invalid` if there is neither a callback nor an event queue
    /// ([`Client::event_descriptor`](crate::Client::event_descriptor)); `Internal`. `done` is not called
    /// then.
    pub fn start_acquire(
        &self,
        mode: Option<Mode>,
        wait: Wait,
        done: Option<AcquiredCallback>,
    ) -> Result<()> {
        self.begin(mode, wait, done.is_some())?.start(done)
    }

    /// As [`start_acquire`](Self::start_acquire) without a callback, but the calling thread asks the server
    /// itself first, and waits for the answer, for 3 ms at the most. `true`: the lock is held. `false`: it is
    /// under way, and the client's event queue will tell of its end. So a lock that is free costs no change
    /// of threads, and one that is not is waited for elsewhere.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), if it has failed within that time; `Invalid` if there is no event queue.
    /// Nothing else is told of it then.
    pub fn begin_acquire(&self, mode: Option<Mode>, wait: Wait) -> Result<bool> {
        self.begin(mode, wait, false)?.start_here()
    }

    fn begin(&self, mode: Option<Mode>, wait: Wait, called_back: bool) -> Result<Acquire> {
        self.shared.generation().check()?;
        if !called_back && !self.shared.client.keeps_events() {
            let text = "nobody would hear of the outcome: neither a callback nor an event queue";
            return Err(Error::new(Status::Invalid, text));
        }
        let mode = mode.unwrap_or(self.shared.options.mode);
        Acquire::begin(&self.shared, mode, wait)
    }

    /// Ends the use of the lock: releases what it holds, cancels an acquire that is under way, and lets
    /// no other begin (`Invalid`). Its callbacks are not called any more, nor are there events of it:
    /// waits for one that is being called just now, unless this is called from within one. Dropping
    /// the lock does the same.
    pub fn close(&self) {
        if self.shared.generation().is_ours() {
            self.shared.close();
        }
    }

    /// One attempt, with other readers.
    pub fn try_acquire_shared(&self) -> Result<()> {
        self.acquire_mode(Mode::Shared, Wait::Once)
    }

    /// Releases: the unsubscribe is written, and not waited for.
    ///
    /// # Errors
    /// `NotHeld`; `Lost` if it was lost before, once: the lock is then free to be acquired again.
    pub fn release(&self) -> Result<()> {
        self.shared.generation().check()?;
        self.shared.release()
    }

    /// Releases and waits until the server has confirmed it, or `timeout` has passed (`Timeout`;
    /// the release is under way all the same).
    pub fn release_wait(&self, timeout: Duration) -> Result<()> {
        self.release()?;
        self.shared.await_departure(Instant::now() + timeout.min(crate::options::MAX_SPAN))
    }

    /// Makes an acquire of this lock that is under way in another thread end with `Cancelled`.
    /// Does nothing if there is none.
    pub fn cancel(&self) {
        if self.shared.generation().is_ours() {
            self.shared.cancel();
        }
    }

    /// Whether the lock is held, as far as this process knows. Never blocks.
    pub fn is_held(&self) -> bool {
        self.shared.is_held() && self.shared.generation().is_ours()
    }

    /// Makes sure that the lock is still held: has a message sent that has to come back within `timeout`.
    ///
    /// # Errors
    /// `Timeout` if it does not: the lock may be lost, and is not given up for that. `Lost`, as often as
    /// it is asked until the lock is released; `NotHeld`.
    pub fn verify(&self, timeout: Duration) -> Result<()> {
        self.shared.generation().check()?;
        self.shared.verify(Instant::now() + timeout.min(crate::options::MAX_SPAN))
    }

    /// How long ago the lock was last known good: when the latest of those commands was sent that the
    /// server has answered on the lock's connection. `None` if it is not held. Never blocks, and makes
    /// no system call.
    pub fn verified_age(&self) -> Option<Duration> {
        self.shared.verified_age().filter(|_| self.shared.generation().is_ours())
    }

    /// Sets a number of the application's own, zero at first, that the lock's events bear.
    pub fn set_tag(&self, tag: usize) {
        self.shared.set_tag(tag);
    }

    /// The fencing token of the exclusive grant that is held, if the options have `fencing` set: higher
    /// than that of every grant before.
    pub fn fencing_token(&self) -> Option<u64> {
        self.shared.generation().check().ok()?;
        self.shared.fencing_token()
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        self.shared.names.channel()
    }

    /// `Forked` if a parent of this process made the lock.
    ///
    /// # Errors
    /// `Forked`.
    pub fn check_process(&self) -> Result<()> {
        self.shared.generation().check()
    }

    /// The id of the acquire under way or held: 32 hex digits.
    pub fn holder_id(&self) -> Option<String> {
        self.shared.generation().check().ok()?;
        self.shared.id().map(|id| id.to_string())
    }

    /// The name of its connection, as `CLIENT LIST` shows it.
    pub fn client_name(&self) -> Option<String> {
        self.shared.generation().check().ok()?;
        self.shared.client_name()
    }

    /// Sets what is called when the lock is lost: once a loss, on the dispatch thread, with no lock
    /// of this library held. Replaces the one before, which is not called any more after this
    /// returns, unless this is called from within it.
    pub fn on_lost(&self, callback: Option<LostCallback>) {
        if self.shared.generation().is_ours() {
            self.shared.lost.set(callback);
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.close();
    }
}
