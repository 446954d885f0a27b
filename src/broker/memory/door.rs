//! The way in for the tests: they want to look at a broker, as they do at a server, by commands of their own.

use std::io::{self, Read};
use std::net::Shutdown;

use super::{Guest, Memory};
use crate::broker::socket::OwnSocket;

/// A connection to a broker of this process, for bytes.
pub struct Door {
    guest: Guest,
    socket: OwnSocket,
}

impl Door {
    /// Connects to the broker of this name.
    pub fn open(name: &str) -> io::Result<Self> {
        let (guest, socket) = Memory::named(name).map_err(io::Error::other)?.enter()?;
        Ok(Self { guest, socket })
    }

    /// Hands commands over.
    pub fn say(&self, bytes: &[u8]) -> io::Result<()> {
        self.guest.say(bytes).map(drop)
    }

    /// Waits for what comes back; 0 at its end.
    pub fn hear(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut socket: &socket2::Socket = &self.socket;
        let count = socket.read(buffer)?;
        self.guest.has_read();
        Ok(count)
    }

    /// Has whoever waits for something hear the end.
    pub fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}
