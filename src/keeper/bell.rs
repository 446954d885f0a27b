//! Wakes a thread that sleeps on a socket of its own.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::broker::{OwnSocket, Sockets, await_any};

/// One thread's, for one wait: no descriptors are kept for threads that may never wait again.
pub(crate) struct Bell {
    /// What is written to the one can be read from the other.
    rope: OwnSocket,
    clapper: OwnSocket,
    /// Somebody sleeps, or is about to: to ring costs a system call.
    sleeps: AtomicBool,
}

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        let (rope, clapper) = OwnSocket::pair()?;
        rope.set_nonblocking(true)?;
        clapper.set_nonblocking(true)?;
        Ok(Self { rope, clapper, sleeps: AtomicBool::new(false) })
    }

    /// From here on it rings. Whoever is about to sleep looks once more after this whether to.
    pub(super) fn listen(&self) {
        self.sleeps.store(true, Ordering::SeqCst);
    }

    /// Sleeps until it rings, or one of the sockets can be read (or written, if wanted), or until then. May
    /// wake early, by a ring that was for what is over.
    pub(super) fn sleep(&self, sockets: &Sockets, write: [bool; 2], until: Option<Instant>) {
        let span = until.map(|until| until.saturating_duration_since(Instant::now()));
        let rang = await_any(sockets, write, Some(&self.clapper), span);
        self.sleeps.store(false, Ordering::SeqCst);
        if rang {
            let _ = self.clapper.recv(&mut [std::mem::MaybeUninit::uninit(); 64]);
        }
    }

    /// Wakes the thread, if it sleeps.
    pub(crate) fn ring(&self) {
        if self.sleeps.swap(false, Ordering::SeqCst) {
            // There is room for it: at most one is on its way.
            let _ = self.rope.send_with_flags(&[1], libc::MSG_NOSIGNAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_ring_wakes_who_sleeps_and_is_not_kept() {
        let bell = Arc::new(Bell::new().unwrap());
        let (_peer, socket) = OwnSocket::pair().unwrap();
        let sockets = Sockets::one(socket);
        let sleep = |span: u64| {
            let begun = Instant::now();
            bell.sleep(&sockets, [false; 2], Some(begun + Duration::from_millis(span)));
            begun.elapsed()
        };
        bell.ring();
        assert!(sleep(20) >= Duration::from_millis(20), "nobody had listened");
        bell.listen();
        let other = bell.clone();
        let ringer = std::thread::spawn(move || other.ring());
        assert!(sleep(20_000) < Duration::from_secs(10));
        ringer.join().unwrap();
        bell.listen();
        assert!(sleep(20) >= Duration::from_millis(20), "it rang before");
    }
}
