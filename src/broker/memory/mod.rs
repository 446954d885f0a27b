//! Brokers that live in this process, for tests that need no server.
//!
//! A guest hands its commands over and they are executed at once, under the broker's mutex, by the
//! guest's own thread. What comes back goes through a socket pair, so that all that waits for a server
//! waits for this one in the same way.

mod commands;
mod resp;
mod state;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use state::State;

use super::socket::OwnSocket;
use crate::error::Result;
use crate::fork::{Generation, PerProcess};

/// A broker for each name. They live as long as the process: a fencing counter never goes back.
static BROKERS: PerProcess<Mutex<HashMap<String, Memory>>> = PerProcess::new();

/// A broker of this process.
#[derive(Clone)]
pub(crate) struct Memory {
    name: Arc<str>,
    state: Arc<Mutex<State>>,
}

/// Somebody who is connected to one; to drop it ends the connection.
pub(crate) struct Guest {
    memory: Memory,
    id: u64,
    behind: Arc<AtomicBool>,
    generation: Generation,
}

impl Memory {
    /// The one of this name.
    pub(super) fn named(name: &str) -> Result<Self> {
        let (brokers, _) = BROKERS.get_or_make(|_| true, || Ok(Mutex::default()))?;
        let new = || Self { name: name.into(), state: Arc::default() };
        Ok(locked(brokers).entry(name.to_owned()).or_insert_with(new).clone())
    }

    /// Connects somebody, by the broker's end of a socket pair.
    pub(super) fn enter(&self, end: OwnSocket) -> Guest {
        let behind = Arc::default();
        let id = locked(&self.state).enter(end, Arc::clone(&behind));
        Guest { memory: self.clone(), id, behind, generation: Generation::now() }
    }
}

impl Guest {
    /// Executes commands. All of the bytes are taken: what is no whole command waits for its rest.
    pub(super) fn say(&self, bytes: &[u8]) -> io::Result<usize> {
        match locked(&self.memory.state).hear(self.id, bytes) {
            true => Ok(bytes.len()),
            false => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// There may be room again for what had none.
    pub(super) fn has_read(&self) {
        if self.behind.load(Ordering::SeqCst) {
            locked(&self.memory.state).deliver(self.id);
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // In a child another thread may have had the mutex when the parent forked.
        if self.generation.is_ours() {
            locked(&self.memory.state).remove(self.id);
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory://{}", self.name)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for Memory {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }
}

impl Eq for Memory {}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
