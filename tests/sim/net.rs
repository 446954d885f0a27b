//! Connections: a lane each way, in which what was sent first arrives first, and the client's end.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use portalock::simulation::Transport;

use crate::agenda::Moment;

/// What the system takes from a client that the server has not got yet.
pub const SEND_BUFFER: usize = 64 * 1024;
/// What is on the way to a client, or has not been read there; the rest waits with the server.
pub const WINDOW: usize = 8 * 1024;
/// What may wait with the server before it closes the connection.
pub const OUTPUT_LIMIT: usize = 32 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    Syn,
    Accepted,
    Refused,
    Data(Vec<u8>),
    /// No more will come.
    Fin,
    /// The connection is no more.
    Reset,
}

#[derive(Default)]
pub struct Lane {
    queue: VecDeque<(Moment, Packet)>,
    last: Moment,
    bytes: usize,
}

impl Lane {
    /// Sends; says when it will be there.
    pub fn push(&mut self, at: Moment, packet: Packet) -> Moment {
        self.last = self.last.max(at);
        self.bytes += size(&packet);
        self.queue.push_back((self.last, packet));
        self.last
    }

    /// What has arrived.
    pub fn pop(&mut self, now: Moment) -> Option<Packet> {
        let (at, _) = self.queue.front()?;
        if *at > now {
            return None;
        }
        let (_, packet) = self.queue.pop_front()?;
        self.bytes -= size(&packet);
        Some(packet)
    }

    /// Loses all but the first so many.
    pub fn truncate(&mut self, keep: usize) {
        self.queue.truncate(keep);
        self.bytes = self.queue.iter().map(|(_, packet)| size(packet)).sum();
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn size(packet: &Packet) -> usize {
    match packet {
        Packet::Data(bytes) => bytes.len(),
        _ => 0,
    }
}

pub struct Conn {
    pub host: usize,
    pub life: u32,
    pub line: usize,
    pub up: Lane,
    pub down: Lane,
    pub socket: Rc<RefCell<Socket>>,
    /// The client has sent its last.
    pub finished: bool,
    /// How long its system believes in it when nothing comes.
    pub patience: Moment,
}

/// How a connection ended, as its client finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Refused,
    Closed,
    Reset,
    TimedOut,
}

/// The client's end.
#[derive(Default)]
pub struct Socket {
    pub connected: bool,
    pub inbox: VecDeque<u8>,
    pub ended: Option<End>,
    /// The end was read.
    pub told: bool,
    pub outbox: Vec<u8>,
    /// How much more it takes.
    pub room: usize,
    /// It did not take all.
    pub choked: bool,
    pub closed: bool,
}

impl Socket {
    /// Whether a poll would say that there is something to read.
    pub fn is_readable(&self) -> bool {
        !self.closed && (!self.inbox.is_empty() || (self.ended.is_some() && !self.told))
    }

    fn failure(&self) -> Option<io::Error> {
        let kind = match self.ended? {
            End::Refused => io::ErrorKind::ConnectionRefused,
            End::Reset => io::ErrorKind::ConnectionReset,
            End::TimedOut => io::ErrorKind::TimedOut,
            End::Closed => return None,
        };
        Some(kind.into())
    }
}

/// What the library holds of it.
pub struct Plug(pub Rc<RefCell<Socket>>);

impl Transport for Plug {
    fn is_connected(&self) -> bool {
        self.0.borrow().connected
    }

    fn finish_connect(&mut self) -> io::Result<()> {
        match self.0.borrow().failure() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut socket = self.0.borrow_mut();
        if let Some(error) = socket.failure() {
            return Err(error);
        }
        let count = bytes.len().min(socket.room);
        socket.room -= count;
        socket.outbox.extend(&bytes[..count]);
        if count == 0 {
            socket.choked = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(count)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut socket = self.0.borrow_mut();
        let count = buffer.len().min(socket.inbox.len());
        if count > 0 {
            for (to, from) in buffer.iter_mut().zip(socket.inbox.drain(..count)) {
                *to = from;
            }
            return Ok(count);
        }
        match (socket.ended, socket.failure()) {
            (None, _) => Err(io::ErrorKind::WouldBlock.into()),
            (Some(_), failure) => {
                socket.told = true;
                failure.map_or(Ok(0), Err)
            }
        }
    }

    fn close(&mut self) {
        self.0.borrow_mut().closed = true;
    }
}

impl Conn {
    pub fn new(host: usize, life: u32, line: usize, socket: Rc<RefCell<Socket>>) -> Self {
        let (up, down) = (Lane::default(), Lane::default());
        Self { host, life, line, up, down, socket, finished: false, patience: Moment::MAX / 4 }
    }

    /// Nobody's.
    pub fn none() -> Self {
        Self { finished: true, ..Self::new(usize::MAX, 0, 0, Rc::default()) }
    }
}
