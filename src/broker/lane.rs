//! One socket's worth of a connection, and whose turn it is where there are two.

use std::collections::VecDeque;
use std::io::{self, Read};

use redis::{Parser, Value};

use super::commands::{Asked, Commands, Side};
use super::link::{LinkError, Transport};

/// Unwritten bytes beyond which a connection is given up: the server has not read for a long time.
const MAX_BACKLOG: usize = 8 * 1024 * 1024;

/// What goes over one socket.
pub(super) struct Lane<T> {
    pub(super) transport: T,
    pub(super) out: Vec<u8>,
    parser: Parser,
    /// The last read took all there was: the next is saved.
    pub(super) dry: bool,
}

impl<T: Transport> Lane<T> {
    pub(super) fn new(transport: T) -> Self {
        Self { transport, out: Vec::new(), parser: Parser::new(), dry: false }
    }

    /// Writes as much as the socket takes; the inner error is one of a socket that stood.
    pub(super) fn flush(&mut self) -> Result<io::Result<()>, LinkError> {
        if !self.transport.is_connected() {
            self.transport.finish_connect().map_err(LinkError::Connect)?;
        }
        if !self.transport.is_connected() {
            return Ok(Ok(()));
        }
        if let Err(error) = self.write().and_then(|()| self.transport.push()) {
            return Ok(Err(error));
        }
        if self.out.len() > MAX_BACKLOG {
            let error = io::Error::other("the server has stopped reading");
            return Err(LinkError::Closed(Some(error)));
        }
        Ok(Ok(()))
    }

    fn write(&mut self) -> io::Result<()> {
        let mut written = 0;
        let outcome = loop {
            if written == self.out.len() {
                break Ok(());
            }
            match self.transport.send(&self.out[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.out.drain(..written);
        outcome
    }

    pub(super) fn wants_write(&self) -> bool {
        let blocked = self.transport.is_connected() && !self.out.is_empty();
        blocked || self.transport.wants_write()
    }

    /// The next value, if it is here already; `early` if nothing sensible has come before.
    pub(super) fn next_value(&mut self, early: bool) -> Result<Option<Value>, LinkError> {
        if !self.transport.is_connected() {
            return Ok(None);
        }
        let mut tap = Tap { transport: &mut self.transport, dry: &mut self.dry, end: None };
        match (self.parser.parse_value(&mut tap), tap.end) {
            (Ok(value), _) => Ok(Some(value)),
            (Err(_), Some(End::Dry)) => {
                self.dry = false;
                Ok(None)
            }
            (Err(_), Some(End::Closed)) => Err(LinkError::Closed(None)),
            (Err(_), Some(End::Failed(error))) => Err(LinkError::Closed(Some(error))),
            (Err(_), None) => Err(LinkError::Garbage(early)),
        }
    }
}

/// Reads a transport for the parser, which is never shown an end of file: it would take
/// half a reply for a broken one.
struct Tap<'a, T> {
    transport: &'a mut T,
    dry: &'a mut bool,
    end: Option<End>,
}

enum End {
    Dry,
    Closed,
    Failed(io::Error),
}

impl<T: Transport> Read for Tap<'_, T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if *self.dry {
                self.end = Some(End::Dry);
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let end = match self.transport.receive(buffer) {
                Ok(0) => End::Closed,
                Ok(count) => {
                    *self.dry = count < buffer.len();
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => End::Dry,
                Err(error) => End::Failed(error),
            };
            self.end = Some(end);
            return Err(io::ErrorKind::WouldBlock.into());
        }
    }
}

/// The second socket of a connection to a server that speaks RESP2 only, where one that follows channels may
/// do nothing else; and what keeps the two in step: a command is sent only when all that were asked for before
/// it on the other socket are answered. So the server executes them in the order in which they were asked for,
/// as it does on one socket. What is not kept is the order of what comes back: messages and answers pass each
/// other, which the protocol's explorer looks into (`two_streams`).
pub(super) struct Second<T> {
    pub(super) lane: Lane<T>,
    turns: VecDeque<Turn>,
}

/// Commands for one of the two, in a row.
struct Turn {
    side: Side,
    unsent: Vec<u8>,
    owed: usize,
}

impl<T: Transport> Second<T> {
    pub(super) fn new(transport: T) -> Self {
        Self { lane: Lane::new(transport), turns: VecDeque::new() }
    }

    /// Adds commands, and lets those go whose turn it is.
    pub(super) fn ask(&mut self, commands: &Commands, main: &mut Lane<T>) {
        let mut from = 0;
        for Asked { side, end, .. } in &commands.asked {
            self.add(*side, &commands.bytes[from..*end]);
            from = *end;
        }
        self.release(main);
    }

    fn add(&mut self, side: Side, command: &[u8]) {
        match self.turns.back_mut().filter(|turn| turn.side == side) {
            Some(turn) => {
                turn.unsent.extend_from_slice(command);
                turn.owed += 1;
            }
            None => self.turns.push_back(Turn { side, unsent: command.to_vec(), owed: 1 }),
        }
    }

    /// Lets the commands go whose turn it is; `main` is the other lane.
    fn release(&mut self, main: &mut Lane<T>) {
        if let Some(turn) = self.turns.front_mut() {
            let lane = if turn.side == Side::Channels { main } else { &mut self.lane };
            lane.out.append(&mut turn.unsent);
        }
    }

    /// Who is to answer next.
    pub(super) fn side(&self) -> Option<Side> {
        self.turns.front().map(|turn| turn.side)
    }

    /// One is answered.
    pub(super) fn answered(&mut self, main: &mut Lane<T>) {
        let Some(turn) = self.turns.front_mut() else {
            return;
        };
        turn.owed -= 1;
        if turn.owed == 0 {
            self.turns.pop_front();
            self.release(main);
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.turns.is_empty() && self.lane.out.is_empty()
    }
}
