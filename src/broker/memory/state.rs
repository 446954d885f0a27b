//! Who is connected to a broker, and what it knows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis_protocol::resp3::types::OwnedFrame as Frame;

use super::super::socket::OwnSocket;
use super::resp;

/// Undelivered bytes beyond which a session is ended: Redis's own limit for subscribers.
const MAX_BACKLOG: usize = 32 * 1024 * 1024;

/// One connection.
pub(super) struct Session {
    end: OwnSocket,
    pub(super) name: Vec<u8>,
    pub(super) channels: BTreeSet<Vec<u8>>,
    /// What came and is no whole command yet.
    heard: Vec<u8>,
    /// What is to be delivered.
    out: Vec<u8>,
    /// That there is something. Set before the socket is tried: who then empties the socket sees it.
    behind: Arc<AtomicBool>,
}

/// What a broker knows.
#[derive(Default)]
pub(super) struct State {
    last: u64,
    pub(super) sessions: BTreeMap<u64, Session>,
    /// The subscribers of each channel that has any.
    pub(super) channels: HashMap<Vec<u8>, BTreeSet<u64>>,
    pub(super) counters: HashMap<Vec<u8>, i64>,
    /// Those for whom something was written.
    touched: BTreeSet<u64>,
}

impl State {
    pub(super) fn enter(&mut self, end: OwnSocket, behind: Arc<AtomicBool>) -> u64 {
        self.last += 1;
        let (name, channels) = (Vec::new(), BTreeSet::new());
        let session = Session { end, name, channels, heard: Vec::new(), out: Vec::new(), behind };
        self.sessions.insert(self.last, session);
        self.last
    }

    /// Executes what a session says; `false` if it is over.
    pub(super) fn hear(&mut self, id: u64, bytes: &[u8]) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else {
            return false;
        };
        session.heard.extend_from_slice(bytes);
        let heard = std::mem::take(&mut session.heard);
        let mut at = 0;
        while self.sessions.contains_key(&id) {
            match resp::read_command(&heard[at..]) {
                Ok(Some((words, length))) => {
                    at += length;
                    self.execute(id, &words);
                }
                Ok(None) => break,
                Err(()) => self.remove(id),
            }
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            session.heard = heard[at..].to_vec();
        }
        for touched in std::mem::take(&mut self.touched) {
            self.deliver(touched);
        }
        true
    }

    /// Writes something for a session.
    pub(super) fn write(&mut self, id: u64, frame: &Frame) {
        if let Some(session) = self.sessions.get_mut(&id) {
            resp::write(&mut session.out, frame);
            self.touched.insert(id);
        }
    }

    /// Sends as much as a session's socket takes; never waits.
    pub(super) fn deliver(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.behind.store(true, Ordering::SeqCst);
        match session.send() {
            Ok(()) if session.out.is_empty() => session.behind.store(false, Ordering::SeqCst),
            Ok(()) if session.out.len() <= MAX_BACKLOG => {}
            _ => self.remove(id),
        }
    }

    /// Ends a session: its subscriptions are gone at once.
    pub(super) fn remove(&mut self, id: u64) {
        let Some(session) = self.sessions.remove(&id) else {
            return;
        };
        for channel in &session.channels {
            self.unlist(id, channel);
        }
        let _ = session.end.shutdown(Shutdown::Both);
    }

    pub(super) fn unlist(&mut self, id: u64, channel: &[u8]) {
        let Some(subscribers) = self.channels.get_mut(channel) else {
            return;
        };
        subscribers.remove(&id);
        if subscribers.is_empty() {
            self.channels.remove(channel);
        }
    }
}

impl Session {
    pub(super) fn is_subscribed(&self) -> bool {
        !self.channels.is_empty()
    }

    fn send(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.out.len() {
            match self.end.send_with_flags(&self.out[sent..], libc::MSG_NOSIGNAL) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.drain(..sent);
        Ok(())
    }
}
