//! A lock: a channel, its options, and at most one acquire at a time.

use std::time::Duration;

use crate::error::Result;
use crate::options::Wait;
use crate::protocol::Mode;

/// Why a held lock was lost. The numbers are part of the ABI and are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum LossReason {
    /// The connection ended: killed, server gone, network gone.
    Disconnected = 1,
    /// The server took the subscription away and kept the connection.
    Unsubscribed = 2,
    /// The server answered in a way that no sound server does.
    Protocol = 3,
    /// A health check missed its deadline.
    Unresponsive = 4,
    /// The keep-alive thread has died; nobody answers for the lock any more.
    Internal = 5,
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
#[derive(Debug)]
pub struct Lock {}

impl Lock {
    /// Acquires in the mode of the options, waiting as told.
    ///
    /// # Errors
    /// `Active` if this object is being acquired or held already, `Timeout`, `Locked` (one attempt
    /// only), `Cancelled`, or what kept the server from being reached.
    pub fn acquire(&self, wait: Wait) -> Result<()> {
        let _ = wait;
        todo!()
    }

    /// As [`acquire`](Self::acquire), in the given mode.
    pub fn acquire_mode(&self, mode: Mode, wait: Wait) -> Result<()> {
        let _ = (mode, wait);
        todo!()
    }

    /// Releases: the unsubscribe is written, and not waited for.
    ///
    /// # Errors
    /// `NotHeld`; `Lost` if it was lost before, once: the lock is then free to be acquired again.
    pub fn release(&self) -> Result<()> {
        todo!()
    }

    /// Releases and waits until the server has confirmed it, or `timeout` has passed (`Timeout`;
    /// the release is under way all the same).
    pub fn release_wait(&self, timeout: Duration) -> Result<()> {
        let _ = timeout;
        todo!()
    }

    /// Makes an acquire of this lock that is under way in another thread end with `Cancelled`.
    /// Does nothing if there is none.
    pub fn cancel(&self) {
        todo!()
    }

    /// Whether the lock is held, as far as this process knows. Never blocks.
    pub fn is_held(&self) -> bool {
        todo!()
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        todo!()
    }

    /// The id of the acquire under way or held: 32 hex digits.
    pub fn holder_id(&self) -> Option<String> {
        todo!()
    }

    /// The name of its connection, as `CLIENT LIST` shows it.
    pub fn client_name(&self) -> Option<String> {
        todo!()
    }

    /// Sets what is called when the lock is lost: once a loss, on the dispatch thread, with no lock
    /// of this library held. Replaces the one before, which is not called any more after this
    /// returns, unless this is called from within it.
    pub fn on_lost(&self, callback: Option<Box<dyn FnMut(&Loss) + Send>>) {
        let _ = callback;
        todo!()
    }
}
