//! What travels between a member and the node, sixteen bits each.
//!
//! Ping numbers grow without bound. All that a contender ever does with one is to compare it with
//! its present number, so the model keeps just that: `stale` says that `who` has asked again since.
//! Two different stale numbers count as one, which can at most deliver an answer to a response
//! channel that was already given up: one more stale answer.

use portalock::protocol::State;

use crate::world::Set;

/// Commands, then deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Subscribes to the lock, events and first response channel.
    Subscribe,
    /// `NUMSUB` at the end of the join pipeline.
    CountJoin,
    /// Subscribes to the response channel of a further ping and gives up that of the one before.
    SubscribeReply,
    /// Publishes a ping.
    Publish,
    /// `NUMSUB` beside a ping; `n` is what the ping's `PUBLISH` returned.
    CountAsk,
    /// Counts and publishes a ping in one atomic step.
    PublishExact,
    /// `NUMSUB` on its own.
    Count,
    /// Publishes an answer to `who`; `n` is the sender's [`State`].
    Answer,
    /// Unsubscribes from everything.
    Unsubscribe,
    /// Publishes the `left` event.
    PublishLeft,
    /// Lists the members by the names of their connections.
    Roll,
    /// Ends the connection of `who`.
    Kill,

    /// Subscribed, and `n` members on the channel.
    Joined,
    /// A ping of `who`.
    Ping,
    /// An answer from `who`, which is in state `n`.
    Pong,
    /// What is no answer, on the response channel of our ping.
    Garbage,
    /// Our ping was received by `n`, and `m` were members a moment later.
    Asked,
    /// Our ping was received by exactly `n` members.
    AskedExact,
    /// The node refuses exact pings.
    Refused,
    /// `n` members.
    Counted,
    /// A set of members is there.
    Rolled,
    /// `who` has left.
    Left,
    /// The unsubscribe is confirmed.
    Unsubscribed,
}

const KINDS: [Kind; 23] = [
    Kind::Subscribe,
    Kind::CountJoin,
    Kind::SubscribeReply,
    Kind::Publish,
    Kind::CountAsk,
    Kind::PublishExact,
    Kind::Count,
    Kind::Answer,
    Kind::Unsubscribe,
    Kind::PublishLeft,
    Kind::Roll,
    Kind::Kill,
    Kind::Joined,
    Kind::Ping,
    Kind::Pong,
    Kind::Garbage,
    Kind::Asked,
    Kind::AskedExact,
    Kind::Refused,
    Kind::Counted,
    Kind::Rolled,
    Kind::Left,
    Kind::Unsubscribed,
];

pub const DELIVERIES: [Kind; 11] = [
    Kind::Joined,
    Kind::Ping,
    Kind::Pong,
    Kind::Garbage,
    Kind::Asked,
    Kind::AskedExact,
    Kind::Refused,
    Kind::Counted,
    Kind::Rolled,
    Kind::Left,
    Kind::Unsubscribed,
];

impl Kind {
    /// An answer of the node to a command, not somebody's publish or a change of subscription.
    pub fn is_reply(self) -> bool {
        matches!(
            self,
            Self::Joined
                | Self::Asked
                | Self::AskedExact
                | Self::Refused
                | Self::Counted
                | Self::Rolled
        )
    }

    /// A command that such an answer comes of.
    pub fn wants_reply(self) -> bool {
        matches!(
            self,
            Self::CountJoin | Self::CountAsk | Self::PublishExact | Self::Count | Self::Roll
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: Kind,
    /// The acquire that the message is about.
    pub who: u8,
    pub stale: bool,
    /// A count or a state.
    pub n: u8,
    /// A second count.
    pub m: u8,
}

impl Message {
    pub fn new(kind: Kind, who: u8) -> Self {
        Self { kind, who, stale: false, n: 0, m: 0 }
    }

    pub fn count(self, n: u8) -> Self {
        Self { n, ..self }
    }

    pub fn beside(self, m: u8) -> Self {
        Self { m, ..self }
    }

    /// With a set of acquires, in the place of the two counts.
    pub fn listing(self, set: Set) -> Self {
        Self { n: set & 15, m: set >> 4, ..self }
    }

    pub fn set(&self) -> Set {
        self.n | self.m << 4
    }

    pub fn stale(self, stale: bool) -> Self {
        Self { stale, ..self }
    }

    pub fn state(&self) -> State {
        [State::Waiting, State::Held, State::Leaving][usize::from(self.n)]
    }

    pub fn pack(self) -> u16 {
        debug_assert!(self.who < 8 && self.n < 16 && self.m < 8);
        (self.kind as u16)
            | u16::from(self.who) << 5
            | u16::from(self.stale) << 8
            | u16::from(self.n) << 9
            | u16::from(self.m) << 13
    }

    pub fn unpack(bits: u16) -> Self {
        let field = |from: u16, width: u16| (bits >> from & ((1 << width) - 1)) as u8;
        Self {
            kind: KINDS[usize::from(field(0, 5))],
            who: field(5, 3),
            stale: field(8, 1) == 1,
            n: field(9, 4),
            m: field(13, 3),
        }
    }
}

/// The `n` of an answer in this state.
pub fn state_code(state: State) -> u8 {
    match state {
        State::Waiting => 0,
        State::Held => 1,
        State::Leaving => 2,
    }
}

const ROOM: usize = 22;

/// First in, first out, without a heap.
#[derive(Clone, Copy, Default)]
pub struct Queue {
    len: u8,
    items: [u16; ROOM],
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }

    pub fn push(&mut self, message: Message) {
        self.push_packed(message.pack());
    }

    pub fn push_packed(&mut self, bits: u16) {
        assert!(usize::from(self.len) < ROOM, "a queue of the model is full: give it more room");
        self.items[usize::from(self.len)] = bits;
        self.len += 1;
    }

    pub fn pop(&mut self) -> Option<Message> {
        let first = self.peek()?;
        let len = usize::from(self.len);
        self.items.copy_within(1..len, 0);
        self.len -= 1;
        Some(first)
    }

    pub fn peek(&self) -> Option<Message> {
        self.packed().first().copied().map(Message::unpack)
    }

    pub fn packed(&self) -> &[u16] {
        &self.items[..usize::from(self.len)]
    }

    pub fn each_mut(&mut self, mut change: impl FnMut(&mut Message)) {
        for bits in &mut self.items[..usize::from(self.len)] {
            let mut message = Message::unpack(*bits);
            change(&mut message);
            *bits = message.pack();
        }
    }
}

#[test]
fn packs_and_unpacks() {
    for (code, kind) in KINDS.into_iter().enumerate() {
        assert_eq!(kind as usize, code);
        let message = Message { kind, who: 7, stale: true, n: 15, m: 7 };
        assert_eq!(Message::unpack(message.pack()), message);
        let message = Message::new(kind, 0);
        assert_eq!(Message::unpack(message.pack()), message);
    }
}
