//! One connection, read in stream order.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Instant;

use redis::{Parser, PushKind, Value};

use super::commands::Commands;
use super::endpoint::{Endpoint, Node};
use super::reply::{self, Answer, Expect, Refusal};
use super::tls;
use crate::error::{Error, Status};
use crate::protocol::Names;

/// Unwritten bytes beyond which a connection is given up: the server has not read for a long time.
const MAX_BACKLOG: usize = 8 * 1024 * 1024;

/// One thing that the server said.
#[derive(Debug)]
pub(crate) enum Frame {
    /// What a reply says.
    Answer(Answer),
    /// A message on a channel.
    Message {
        /// The channel.
        channel: Vec<u8>,
        /// Its payload.
        payload: Vec<u8>,
    },
    /// The server took a subscription away.
    TakenAway,
}

/// Why a connection is of no use any more.
#[derive(Debug)]
pub(crate) enum LinkError {
    /// It could not be made.
    Connect(io::Error),
    /// It ended.
    Closed(Option<io::Error>),
    /// What came is no RESP; `true` if nothing sensible came before.
    Garbage(bool),
    /// The server refused a command that has to work.
    Refused(Error),
    /// It is not, or not known to be, the master of what this is about.
    Demoted(Error),
}

impl LinkError {
    /// In words that name the server, which had answered a login or had not.
    pub(crate) fn describe(&self, endpoint: &Endpoint, logged_in: bool) -> Error {
        if let Self::Connect(error) | Self::Closed(Some(error)) = self
            && let Some(why) = tls::objection(error)
        {
            return Error::new(Status::Tls, format!("cannot use {endpoint}: {why}"));
        }
        let hint = if logged_in { "" } else { endpoint.tls_hint() };
        match self {
            Self::Connect(error) => {
                let text = format!("cannot connect to {endpoint}: {error}");
                Error::new(connect_status(error), text)
            }
            Self::Closed(None) => {
                let text = format!("{endpoint} closed the connection{hint}");
                Error::new(Status::Disconnected, text)
            }
            Self::Closed(Some(error)) => {
                let text = format!("the connection to {endpoint} ended: {error}{hint}");
                Error::new(Status::Disconnected, text)
            }
            Self::Refused(error) | Self::Demoted(error) => error.clone(),
            Self::Garbage(true) => {
                Error::new(Status::NotRedis, format!("{endpoint} is no Redis server{hint}"))
            }
            Self::Garbage(false) => {
                let text = format!("{endpoint} sent what is no answer");
                Error::new(Status::NotRedis, text)
            }
        }
    }
}

fn connect_status(error: &io::Error) -> Status {
    use io::ErrorKind::*;
    match error.kind() {
        ConnectionRefused => Status::Refused,
        TimedOut | WouldBlock => Status::Unresponsive,
        ConnectionReset | ConnectionAborted | BrokenPipe => Status::Disconnected,
        _ => Status::Unreachable,
    }
}

/// What carries the bytes. Nothing in here waits: what cannot be done now is `WouldBlock`.
pub trait Transport {
    /// Whether the connection stands, as far as was found out.
    fn is_connected(&self) -> bool;
    /// Finds out whether it stands by now.
    fn finish_connect(&mut self) -> io::Result<()>;
    /// Whether the socket has to take something before it goes on, apart from what [`send`](Self::send)
    /// did not take.
    fn wants_write(&self) -> bool {
        !self.is_connected()
    }
    /// Writes what was taken and is not written yet, as far as that can be done now.
    fn push(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// Takes some of the bytes and says how many.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Reads some bytes and says how many: none if the peer has closed.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    /// Ends the connection at once.
    fn close(&mut self);
}

/// Whose commands those are that were asked for at once: which of those who live on the connection, by
/// a number that no other has, and by the channel under which it is found.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    /// The channel.
    pub(crate) names: Arc<Names>,
    /// The number.
    pub(crate) serial: u64,
}

/// Commands that were asked for at once and are not all answered.
struct Batch {
    at: Instant,
    left: usize,
    owner: Option<Owner>,
}

/// One connection to a server.
pub(crate) struct Link<T> {
    transport: T,
    logged_in: bool,
    /// The server has to be a master.
    wants_master: bool,
    /// The node of a cluster that it is.
    node: Option<Node>,
    out: Vec<u8>,
    parser: Parser,
    /// See [`Tap`].
    dry: bool,
    expected: VecDeque<Expect>,
    /// When those were asked for, how many of them at once, and by whom.
    asked: VecDeque<Batch>,
    /// When the command was asked for that was answered last, and by whom.
    heard_of: Instant,
    answered_to: Option<Owner>,
    receivers: u64,
    /// Since when the server owes the reply at the head.
    owed_since: Option<Instant>,
    /// Health checks that were asked for and not told of.
    checks: u64,
}

impl<T> fmt::Debug for Link<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("expected", &self.expected).finish_non_exhaustive()
    }
}

impl<T: Transport> Link<T> {
    /// Logs in, as soon as the connection stands.
    pub(crate) fn new(transport: T, endpoint: &Endpoint, now: Instant) -> Self {
        let mut link = Self {
            transport,
            logged_in: false,
            wants_master: endpoint.wants_master(),
            node: endpoint.node().cloned(),
            out: Vec::new(),
            parser: Parser::new(),
            dry: false,
            expected: VecDeque::new(),
            asked: VecDeque::new(),
            heard_of: now,
            answered_to: None,
            receivers: 0,
            owed_since: None,
            checks: 0,
        };
        let mut login = Commands::default();
        login.login(endpoint);
        link.queue(login, now, None);
        link
    }

    /// Adds somebody's commands to what is to be written; the connection's own are nobody's.
    pub(crate) fn queue(&mut self, mut commands: Commands, now: Instant, owner: Option<&Owner>) {
        if self.expected.is_empty() && !commands.expected.is_empty() {
            self.owed_since = Some(now);
        }
        if !commands.expected.is_empty() {
            let (left, owner) = (commands.expected.len(), owner.cloned());
            self.asked.push_back(Batch { at: now, left, owner });
        }
        self.checks += commands.checks;
        self.out.append(&mut commands.bytes);
        self.expected.append(&mut commands.expected);
    }

    /// Writes as much as the connection takes.
    pub(crate) fn flush(&mut self, now: Instant) -> Result<(), LinkError> {
        if !self.transport.is_connected() {
            self.transport.finish_connect().map_err(LinkError::Connect)?;
        }
        let mut written = 0;
        while self.transport.is_connected() && written < self.out.len() {
            match self.transport.send(&self.out[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.last_words(error, now)),
            }
        }
        self.out.drain(..written);
        if self.transport.is_connected()
            && let Err(error) = self.transport.push()
        {
            return Err(self.last_words(error, now));
        }
        if self.out.len() > MAX_BACKLOG {
            let error = io::Error::other("the server has stopped reading");
            return Err(LinkError::Closed(Some(error)));
        }
        Ok(())
    }

    /// Why the server does not listen any more: it may have said so before it closed.
    fn last_words(&mut self, error: io::Error, now: Instant) -> LinkError {
        self.dry = false;
        loop {
            match self.next_frame(now) {
                Ok(Some(_)) => {}
                Ok(None) | Err(LinkError::Closed(_)) => return LinkError::Closed(Some(error)),
                Err(reason) => return reason,
            }
        }
    }

    /// Whether there is something left to write.
    pub(crate) fn wants_write(&self) -> bool {
        let blocked = self.transport.is_connected() && !self.out.is_empty();
        blocked || self.transport.wants_write()
    }

    /// Whether connecting and logging in are done.
    pub(crate) fn is_logged_in(&self) -> bool {
        self.logged_in
    }

    /// Whether the connection stands at all.
    pub(crate) fn is_connected(&self) -> bool {
        self.transport.is_connected()
    }

    /// Whether everything asked has been answered.
    pub(crate) fn is_quiet(&self) -> bool {
        self.expected.is_empty() && self.out.is_empty()
    }

    /// When the oldest unanswered command was sent.
    pub(crate) fn owed_since(&self) -> Option<Instant> {
        self.owed_since
    }

    /// The next thing that the server has said, if it is here already.
    pub(crate) fn next_frame(&mut self, now: Instant) -> Result<Option<Frame>, LinkError> {
        if !self.transport.is_connected() {
            return Ok(None);
        }
        loop {
            let mut tap = Tap { transport: &mut self.transport, dry: &mut self.dry, end: None };
            let value = match self.parser.parse_value(&mut tap) {
                Ok(value) => value,
                Err(_) => match tap.end {
                    Some(End::Dry) => {
                        self.dry = false;
                        return Ok(None);
                    }
                    Some(End::Closed) => return Err(LinkError::Closed(None)),
                    Some(End::Failed(error)) => return Err(LinkError::Closed(Some(error))),
                    None => return Err(LinkError::Garbage(!self.logged_in)),
                },
            };
            if let Some(frame) = self.interpret(value, now)? {
                return Ok(Some(frame));
            }
        }
    }

    fn interpret(&mut self, value: Value, now: Instant) -> Result<Option<Frame>, LinkError> {
        let Value::Push { kind, data } = value else {
            return self.reply(value, now).map(Some);
        };
        match kind {
            PushKind::Message | PushKind::SMessage => Ok(message(data)),
            PushKind::Subscribe | PushKind::SSubscribe => self.confirm(true, now),
            PushKind::Unsubscribe | PushKind::SUnsubscribe => self.confirm(false, now),
            _ => Ok(None),
        }
    }

    fn reply(&mut self, value: Value, now: Instant) -> Result<Frame, LinkError> {
        let Some(expect) = self.expected.pop_front() else {
            return Err(LinkError::Garbage(!self.logged_in));
        };
        if let (Some(node), Value::ServerError(error)) = (&self.node, &value)
            && let Some(why) = node.objection(error)
        {
            return Err(LinkError::Demoted(why));
        }
        let by_push =
            matches!(expect, Expect::Subscribed(_) | Expect::Dropped(_) | Expect::Left(_));
        if by_push && !matches!(value, Value::ServerError(_)) {
            return Err(LinkError::Garbage(false));
        }
        self.answered(expect, &value, now)
    }

    /// A `SUBSCRIBE` is answered by a push for each channel.
    fn confirm(&mut self, subscribed: bool, now: Instant) -> Result<Option<Frame>, LinkError> {
        let rest = match (self.expected.front_mut(), subscribed) {
            (Some(Expect::Subscribed(rest)), true) => rest,
            (Some(Expect::Dropped(rest) | Expect::Left(rest)), false) => rest,
            (_, false) => return Ok(Some(Frame::TakenAway)),
            (_, true) => return Err(LinkError::Garbage(false)),
        };
        *rest -= 1;
        if *rest > 0 {
            return Ok(None);
        }
        let expect = self.expected.pop_front().unwrap_or(Expect::Courtesy);
        self.answered(expect, &Value::Nil, now).map(Some)
    }

    fn answered(
        &mut self,
        expect: Expect,
        value: &Value,
        now: Instant,
    ) -> Result<Frame, LinkError> {
        self.owed_since = (!self.expected.is_empty()).then_some(now);
        if let Some(batch) = self.asked.front_mut() {
            self.heard_of = batch.at;
            batch.left -= 1;
            if batch.left == 0 {
                self.answered_to = self.asked.pop_front().and_then(|batch| batch.owner);
            } else {
                self.answered_to.clone_from(&batch.owner);
            }
        }
        if self.wants_master && expect == Expect::Hello && reply::is_of_replica(value) {
            return Err(LinkError::Refused(not_the_master()));
        }
        let answer = reply::read(expect, value, &mut self.receivers, self.node.is_some());
        self.logged_in |= !matches!(expect, Expect::Hello | Expect::Login);
        match answer {
            Ok(answer) => Ok(Frame::Answer(answer)),
            Err(Refusal::Error(error)) => Err(LinkError::Refused(error)),
            Err(Refusal::Nonsense) => Err(LinkError::Garbage(!self.logged_in)),
        }
    }

    /// Has the next read look whether there is more, or the end, although the last one took all there was.
    pub(crate) fn look_again(&mut self) {
        self.dry = false;
    }

    /// When the latest of those commands was asked for that were answered: the server was there, and
    /// had us subscribed, at that time or later.
    pub(crate) fn heard_of(&self) -> Instant {
        self.heard_of
    }

    /// Whose command it was that was answered last.
    pub(crate) fn answered_to(&self) -> Option<&Owner> {
        self.answered_to.as_ref()
    }

    /// How many health checks were asked for since this was last called.
    pub(crate) fn take_checks(&mut self) -> u64 {
        std::mem::take(&mut self.checks)
    }

    /// What carries the bytes.
    pub(crate) fn transport(&self) -> &T {
        &self.transport
    }

    /// Ends the connection at once.
    pub(crate) fn close(&mut self) {
        self.transport.close();
    }
}

/// Time mends it: the sentinels are about to agree on another, or have not heard yet.
fn not_the_master() -> Error {
    let text = "the server that the sentinels name is a replica: there is no master at present";
    Error::new(Status::Server, text)
}

fn message(data: Vec<Value>) -> Option<Frame> {
    let mut data = data.into_iter();
    match (data.next(), data.next()) {
        (Some(Value::BulkString(channel)), Some(Value::BulkString(payload))) => {
            Some(Frame::Message { channel, payload })
        }
        _ => None,
    }
}

/// Reads a transport for the parser, which is never shown an end of file: it would take
/// half a reply for a broken one.
struct Tap<'a, T> {
    transport: &'a mut T,
    /// The last read took all there was: the next is saved.
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
