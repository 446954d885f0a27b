//! What members tell each other, freed from its form on the wire.

use super::id::{HolderId, LinkId, MemberId, ReplyTo};

/// How a lock is wanted or held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// With other readers.
    Shared,
    /// Alone.
    Exclusive,
}

impl Mode {
    /// Whether two members may hold at the same time.
    pub fn admits(self, other: Mode) -> bool {
        self == Mode::Shared && other == Mode::Shared
    }
}

/// Where a queue member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Wants the lock and has promised to give way to every asker with a lower id.
    Waiting,
    /// Owns the lock.
    Held,
    /// Has written its unsubscribe and answers only because it was counted.
    Leaving,
}

/// A ping on the lock channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ping {
    /// Where the answer goes.
    pub reply_to: ReplyTo,
    /// Who asks.
    pub asker: Asker,
}

/// Who sent a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asker {
    /// A member of the queue.
    Member {
        /// Its id.
        id: HolderId,
        /// What it wants.
        wants: Mode,
        /// The link that it lives on, if others do too.
        link: Option<LinkId>,
    },
    /// Somebody who knows the queue and only looks.
    Observer,
    /// Somebody who knows nothing of the queue and may be about to take the lock.
    Stranger,
}

/// Our own answer to a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// Where we stand.
    pub state: State,
    /// What we hold, or held until now; `None` reads as pending to foreign members.
    pub holds: Option<Mode>,
    /// Whether a foreign asker is to defer to us; `None` leaves it unsaid.
    pub elected: Option<bool>,
}

/// Somebody's answer to our ping.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Who answered.
    pub id: MemberId,
    /// The link that it lives on, if others do too.
    pub link: Option<LinkId>,
    /// How it stands.
    pub standing: Standing,
}

/// How a member stands, by what it told us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// A member of the queue.
    Queue {
        /// What it wants or holds.
        wants: Mode,
        /// Where it stands.
        state: State,
    },
    /// A member that knows nothing of the queue.
    Foreign(ForeignStanding),
}

/// What a foreign member says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForeignStanding {
    /// Holds alone, or sent something that is no record and has to be taken for that.
    Exclusive,
    /// Holds with other readers.
    Shared,
    /// Wants to hold alone.
    Pending {
        /// Whether it won its election; versions before 4.2 do not say.
        elected: Option<bool>,
    },
}

/// A message on the events channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// This member has unsubscribed.
    Left(HolderId),
}

/// What the server said of those who received a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Count {
    /// The subscribers of the lock channel at the very instant of the ping.
    Exact(u64),
    /// Two commands side by side: what `PUBLISH` returned, pattern subscribers included, and what
    /// `PUBSUB NUMSUB` said some moment later.
    Beside {
        /// Connections that received the ping.
        receivers: u64,
        /// Subscribers of the lock channel a moment later.
        members: u64,
    },
}
