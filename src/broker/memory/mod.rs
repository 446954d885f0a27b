//! Brokers that live in this process, for tests that need no server.
//!
//! A guest hands its commands over and they are executed at once, under the broker's mutex, by the
//! guest's own thread. What comes back goes through a socket pair, so that all that waits for a server
//! waits for this one in the same way.

mod commands;
#[cfg(feature = "simulation")]
mod door;
mod known;
mod resp;
mod state;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

#[cfg(feature = "simulation")]
pub use door::Door;
use state::State;

use super::socket::OwnSocket;
use crate::error::{Error, Result, Status};
use crate::fork::{Generation, PerProcess};
use crate::mutex::lock;

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
    /// The one of this name. Refused in a child of a process that has it.
    pub(super) fn named(name: &str) -> Result<Self> {
        if known::is_of_a_parent(name) {
            let text = format!(
                "memory://{name} is in a parent of this process, and keeps nobody out in another"
            );
            return Err(Error::new(Status::Forked, text));
        }
        let (brokers, _) = BROKERS.get_or_make(|_| true, || Ok(Mutex::default()))?;
        let new = || {
            known::add(name);
            Self { name: name.into(), state: Arc::default() }
        };
        Ok(lock(brokers).entry(name.to_owned()).or_insert_with(new).clone())
    }

    /// Connects somebody, who reads what comes back from the socket.
    pub(super) fn enter(&self) -> io::Result<(Guest, OwnSocket)> {
        let (near, far) = OwnSocket::pair()?;
        far.set_nonblocking(true)?;
        let behind = Arc::default();
        let id = lock(&self.state).enter(far, Arc::clone(&behind));
        let guest = Guest { memory: self.clone(), id, behind, generation: Generation::now() };
        Ok((guest, near))
    }
}

impl Guest {
    /// Executes commands. All of the bytes are taken: what is no whole command waits for its rest.
    pub(super) fn say(&self, bytes: &[u8]) -> io::Result<usize> {
        match lock(&self.memory.state).hear(self.id, bytes) {
            true => Ok(bytes.len()),
            false => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// There may be room again for what had none.
    pub(super) fn has_read(&self) {
        if self.behind.load(Ordering::SeqCst) {
            lock(&self.memory.state).deliver(self.id);
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // In a child another thread may have had the mutex when the parent forked.
        if self.generation.is_ours() {
            lock(&self.memory.state).remove(self.id);
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

#[cfg(test)]
mod tests {
    use std::io::Read;

    use redis::cmd;

    use super::*;

    fn enter(memory: &Memory) -> (Guest, OwnSocket) {
        let (guest, near) = memory.enter().unwrap();
        near.set_nonblocking(true).unwrap();
        (guest, near)
    }

    /// What there is to read, until nothing more comes; `true` if that is the end.
    fn read(guest: &Guest, socket: &OwnSocket) -> (Vec<u8>, bool) {
        let (mut all, mut buffer) = (Vec::new(), vec![0; 4096]);
        let mut socket: &socket2::Socket = socket;
        loop {
            let outcome = socket.read(&mut buffer);
            guest.has_read();
            match outcome {
                Ok(0) => return (all, true),
                Ok(count) => all.extend(&buffer[..count]),
                Err(_) => return (all, false),
            }
        }
    }

    fn publish(guest: &Guest, payload: &[u8]) {
        let publish = cmd("PUBLISH").arg("c").arg(payload).get_packed_command();
        guest.say(&publish).unwrap();
    }

    #[test]
    fn what_a_slow_reader_has_no_room_for_comes_later_and_whole() {
        let memory = Memory::named("slow").unwrap();
        let ((slow, end), (quick, _other)) = (enter(&memory), enter(&memory));
        slow.say(&cmd("SUBSCRIBE").arg("c").get_packed_command()).unwrap();
        read(&slow, &end);
        (0..40).for_each(|number| publish(&quick, &vec![number; 50_000]));
        assert!(slow.behind.load(Ordering::SeqCst));
        let (came, over) = read(&slow, &end);
        let head = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$50000\r\n";
        let expected: Vec<u8> = (0..40)
            .flat_map(|number| [&head[..], &vec![number; 50_000], b"\r\n"].concat())
            .collect();
        assert!(came == expected && !over, "{} of {}", came.len(), expected.len());
        assert!(!slow.behind.load(Ordering::SeqCst));
    }

    #[test]
    fn one_that_never_reads_is_ended_and_blocks_nobody() {
        let memory = Memory::named("never").unwrap();
        let ((stuck, _end), (quick, other)) = (enter(&memory), enter(&memory));
        stuck.say(&cmd("SUBSCRIBE").arg("c").get_packed_command()).unwrap();
        (0..40).for_each(|_| publish(&quick, &vec![0; 1 << 20]));
        assert!(stuck.say(&cmd("PING").get_packed_command()).is_err());
        read(&quick, &other);
        publish(&quick, b"more");
        assert_eq!(read(&quick, &other).0, b":0\r\n");
    }

    #[test]
    fn one_that_is_killed_reads_the_end_and_is_counted_no_more() {
        let memory = Memory::named("killed").unwrap();
        let ((victim, end), (killer, other)) = (enter(&memory), enter(&memory));
        victim.say(&cmd("SUBSCRIBE").arg("c").get_packed_command()).unwrap();
        let kill = cmd("CLIENT").arg("KILL").arg("ID").arg(victim.id).to_owned();
        killer.say(&kill.to_owned().arg("TYPE").arg("pubsub").get_packed_command()).unwrap();
        publish(&killer, b"");
        assert_eq!(read(&killer, &other).0, b":1\r\n:0\r\n");
        assert!(read(&victim, &end).1);
    }
}
