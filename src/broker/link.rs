//! One connection, read in stream order.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use redis::{PushKind, Value};

use super::commands::{Commands, Side};
use super::endpoint::{Dialect, Endpoint, Node};
use super::lane::{Lane, Second};
use super::reply::{self, Answer, Expect, Refusal};
use super::tls;
use crate::error::{Error, Status};
use crate::protocol::Names;

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
    /// All of it with RESP3, and with RESP2 what has to do with channels.
    main: Lane<T>,
    /// The rest, with RESP2.
    second: Option<Box<Second<T>>>,
    logged_in: bool,
    /// The server has to be a master.
    wants_master: bool,
    /// Where it is noted that the server speaks RESP2 only.
    dialect: Arc<Dialect>,
    /// The node of a cluster that it is.
    node: Option<Node>,
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
    /// Logs in, as soon as the connection stands: with RESP3, or by two transports with RESP2.
    pub(crate) fn new((main, second): (T, Option<T>), endpoint: &Endpoint, now: Instant) -> Self {
        let mut link = Self {
            main: Lane::new(main),
            second: second.map(|second| Box::new(Second::new(second))),
            logged_in: false,
            wants_master: endpoint.wants_master(),
            dialect: endpoint.dialect().clone(),
            node: endpoint.node().cloned(),
            expected: VecDeque::new(),
            asked: VecDeque::new(),
            heard_of: now,
            answered_to: None,
            receivers: 0,
            owed_since: None,
            checks: 0,
        };
        let mut login = Commands::default();
        match link.second {
            None => login.login(endpoint),
            Some(_) => login.login_twice(endpoint),
        }
        link.queue(login, now, None);
        link
    }

    /// Adds somebody's commands to what is to be written; the connection's own are nobody's.
    pub(crate) fn queue(&mut self, mut commands: Commands, now: Instant, owner: Option<&Owner>) {
        if self.second.is_some() && commands.checks > 0 {
            // What comes back by the other transport says nothing of what we follow: this does.
            commands.alive_again();
        }
        if self.expected.is_empty() && !commands.asked.is_empty() {
            self.owed_since = Some(now);
        }
        if !commands.asked.is_empty() {
            let (left, owner) = (commands.asked.len(), owner.cloned());
            self.asked.push_back(Batch { at: now, left, owner });
        }
        self.checks += commands.checks;
        self.expected.extend(commands.asked.iter().map(|asked| asked.expect));
        match &mut self.second {
            None => self.main.out.append(&mut commands.bytes),
            Some(second) => second.ask(&commands, &mut self.main),
        }
    }

    /// Writes as much as the connection takes.
    pub(crate) fn flush(&mut self, now: Instant) -> Result<(), LinkError> {
        let mut outcome = self.main.flush()?;
        if let (Some(second), Ok(())) = (&mut self.second, &outcome) {
            outcome = second.lane.flush()?;
        }
        outcome.map_err(|error| self.last_words(error, now))
    }

    /// Why the server does not listen any more: it may have said so before it closed.
    fn last_words(&mut self, error: io::Error, now: Instant) -> LinkError {
        self.look_again();
        loop {
            match self.next_frame(now) {
                Ok(Some(_)) => {}
                Ok(None) | Err(LinkError::Closed(_)) => return LinkError::Closed(Some(error)),
                Err(reason) => return reason,
            }
        }
    }

    /// Whether there is something left to write, by the first transport and by the second.
    pub(crate) fn wants_write(&self) -> [bool; 2] {
        let second = self.second.as_ref().is_some_and(|second| second.lane.wants_write());
        [self.main.wants_write(), second]
    }

    /// Whether connecting and logging in are done.
    pub(crate) fn is_logged_in(&self) -> bool {
        self.logged_in
    }

    /// Whether the connection stands at all.
    pub(crate) fn is_connected(&self) -> bool {
        self.transports().all(Transport::is_connected)
    }

    /// Whether everything asked has been answered.
    pub(crate) fn is_quiet(&self) -> bool {
        self.expected.is_empty()
            && self.main.out.is_empty()
            && self.second.as_ref().is_none_or(|second| second.is_quiet())
    }

    /// When the oldest unanswered command was sent.
    pub(crate) fn owed_since(&self) -> Option<Instant> {
        self.owed_since
    }

    /// The next thing that the server has said, if it is here already.
    pub(crate) fn next_frame(&mut self, now: Instant) -> Result<Option<Frame>, LinkError> {
        while let Some(value) = self.main.next_value(!self.logged_in)? {
            let frame = match &self.second {
                None => self.interpret(value, now)?,
                Some(_) => self.interpret_resp2(value, now)?,
            };
            if let Some(frame) = frame {
                return Ok(Some(frame));
            }
        }
        let Some(second) = &mut self.second else {
            return Ok(None);
        };
        match second.lane.next_value(!self.logged_in)? {
            Some(value) => self.reply_by(Side::Rest, value, now).map(Some),
            None => Ok(None),
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

    /// The same, where it comes as an array that begins with what it is.
    fn interpret_resp2(&mut self, value: Value, now: Instant) -> Result<Option<Frame>, LinkError> {
        let Value::Array(items) = value else {
            return self.reply_by(Side::Channels, value, now).map(Some);
        };
        let mut items = items.into_iter();
        let Some(Value::BulkString(kind)) = items.next() else {
            return Err(LinkError::Garbage(!self.logged_in));
        };
        match kind.as_slice() {
            b"message" | b"smessage" => Ok(message(items.collect())),
            b"subscribe" | b"ssubscribe" => self.confirm(true, now),
            b"unsubscribe" | b"sunsubscribe" => self.confirm(false, now),
            b"pong" => self.reply_by(Side::Channels, Value::Okay, now).map(Some),
            _ => Ok(None),
        }
    }

    /// Takes a reply that has come by one of two transports, where that is the one that owes it.
    fn reply_by(&mut self, side: Side, value: Value, now: Instant) -> Result<Frame, LinkError> {
        let owes = self.second.as_ref().and_then(|second| second.side());
        match value {
            // A refusal to let anybody in comes before anything was asked.
            Value::ServerError(_) if !self.logged_in => self.reply(value, now),
            _ if owes != Some(side) => Err(LinkError::Garbage(!self.logged_in)),
            _ => self.reply(value, now),
        }
    }

    fn reply(&mut self, value: Value, now: Instant) -> Result<Frame, LinkError> {
        let Some(expect) = self.expected.pop_front() else {
            return Err(LinkError::Garbage(!self.logged_in));
        };
        if let (Some(node), Value::ServerError(error)) = (&self.node, &value)
            && expect != Expect::Favour
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
        // By the other transport nothing is learnt of what has come by the one that follows channels.
        let in_stream = self.second.as_ref().is_none_or(|s| s.side() == Some(Side::Channels));
        if let Some(second) = &mut self.second {
            second.answered(&mut self.main);
        }
        if let Some(batch) = self.asked.front_mut() {
            if in_stream {
                self.heard_of = batch.at;
            }
            batch.left -= 1;
            if batch.left == 0 {
                self.answered_to = self.asked.pop_front().and_then(|batch| batch.owner);
            } else {
                self.answered_to.clone_from(&batch.owner);
            }
        }
        if expect == Expect::Hello && reply::knows_resp2_only(value) && self.dialect.learn_resp2() {
            log::info!("the server speaks RESP2 only: two connections in the place of each one");
        }
        let tells_role = matches!(expect, Expect::Hello | Expect::Role);
        if self.wants_master && tells_role && reply::is_of_replica(value) {
            return Err(LinkError::Refused(not_the_master()));
        }
        let answer = reply::read(expect, value, &mut self.receivers, self.node.is_some());
        self.logged_in |= !expect.is_of_login();
        match answer {
            Ok(answer) => Ok(Frame::Answer(answer)),
            Err(Refusal::Error(error)) => Err(LinkError::Refused(error)),
            Err(Refusal::Nonsense) => Err(LinkError::Garbage(!self.logged_in)),
        }
    }

    /// Has the next read look whether there is more, or the end, although the last one took all there was.
    pub(crate) fn look_again(&mut self) {
        self.main.dry = false;
        if let Some(second) = &mut self.second {
            second.lane.dry = false;
        }
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

    /// What carries the bytes: one, or two.
    pub(crate) fn transports(&self) -> impl Iterator<Item = &T> {
        let second = self.second.iter().map(|second| &second.lane.transport);
        std::iter::once(&self.main.transport).chain(second)
    }

    /// Ends the connection at once.
    pub(crate) fn close(&mut self) {
        self.main.transport.close();
        if let Some(second) = &mut self.second {
            second.lane.transport.close();
        }
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
