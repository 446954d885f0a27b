//! What goes into a [`Contender`](super::Contender) and what comes out.

use crate::protocol::message::{Answer, Count, Event, Ping, Record};
use crate::protocol::{HolderId, LinkId, ReplyTo, Time};

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The join pipeline is through: subscribed, and so many members are on the channel, we included.
    Joined {
        /// Subscribers of the lock channel.
        members: u64,
    },
    /// A ping on the lock channel, our own included.
    Ping(Ping),
    /// An answer on the response channel of our ping `number`.
    Pong {
        /// Which of our pings it answers.
        number: u32,
        /// The answer.
        record: Record,
    },
    /// A message on the events channel.
    Event(Event),
    /// The server has executed our ping `number`.
    Asked {
        /// Which of our pings.
        number: u32,
        /// Who received it.
        count: Count,
    },
    /// The server will not run the exact form of our ping `number`, and has not sent it.
    ExactRefused {
        /// Which of our pings.
        number: u32,
    },
    /// The answer to [`Output::Roll`]: who is on the lock channel by the names of their connections.
    /// `None` if the server will not say.
    Rolled(Option<Vec<Suspect>>),
    /// The message of health check `number` has come back.
    Healthy {
        /// Which check.
        number: u32,
    },
    /// The answer to [`Output::Count`].
    Counted {
        /// Subscribers of the lock channel.
        members: u64,
    },
    /// A timer that was armed is due.
    Timer(Timer),
    /// Make sure that a held lock is still held: [`Output::Verified`] is to follow.
    Verify,
    /// Leave: release a held lock, or give up waiting for it.
    Stop(Stop),
    /// The server has confirmed that the lock channel is unsubscribed.
    Unsubscribed,
}

/// Why a member leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stop {
    /// The holder is done.
    Release,
    /// The waiter has waited long enough.
    Timeout,
    /// The waiter was told to give up.
    Cancel,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// In one pipeline: name the connection, subscribe to the lock channel, the events channel and
    /// the response channel of ping `number`, ask for the number of subscribers.
    Join {
        /// Which of our pings comes next.
        number: u32,
    },
    /// Publish a ping and learn who received it.
    Ask {
        /// Which of our pings. Each has a response channel of its own
        /// ([`Contender::reply_to`](super::Contender::reply_to)).
        number: u32,
        /// Count and publish in one atomic step ([`Count::Exact`]).
        exact: bool,
        /// Subscribe to the response channel first, in the same pipeline, and give up that of the
        /// ping before. Otherwise the join has done so.
        subscribe: bool,
    },
    /// Ask for the members of the lock channel by the names of their connections.
    Roll,
    /// End this connection of somebody who is counted and does not answer.
    Kill(Suspect),
    /// Ask for the number of subscribers of the lock channel.
    Count,
    /// Answer a ping.
    Pong {
        /// Where to.
        to: ReplyTo,
        /// What.
        answer: Answer,
    },
    /// The lock is held from now on.
    Granted,
    /// The probe is resolved and others come first: there is something to wait for.
    Queued {
        /// How many waiters come first, holders not counted.
        ahead: usize,
    },
    /// Send a message to our own response channel, to see whether it comes back.
    CheckHealth {
        /// Which check.
        number: u32,
    },
    /// As [`CheckHealth`](Output::CheckHealth), because of [`Input::Verify`].
    Verify {
        /// Which check.
        number: u32,
    },
    /// What the latest [`Verify`](Output::Verify) sent has come back.
    Verified,
    /// The health check's message has not come back in time: the lock is lost.
    Unhealthy,
    /// In one pipeline: unsubscribe from everything, publish the `left` event, clear the name.
    Leave,
    /// The connection is nobody's again.
    Gone,
    /// The server's answers make no sense for a subscribed member, or the subscription was taken
    /// away: the connection must not be trusted any more. If the lock was held, it is lost.
    Broken(&'static str),
}

/// The stages of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The join pipeline is under way.
    Joining,
    /// On the channel, without the lock.
    Waiting,
    /// The leave pipeline is under way, for a foreign member's sake: we shall be back.
    SteppingAside,
    /// Off the channel, to come back.
    Aside,
    /// On the channel, with the lock.
    Held,
    /// The leave pipeline is under way.
    Leaving,
    /// No longer on the channel.
    Gone,
}

/// What a contender may be waiting for besides messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// An answer is overdue: ask again.
    AskAgain,
    /// Look whether somebody has gone without a word.
    Count,
    /// Make sure that those ahead still answer.
    Recheck,
    /// Come back to the channel.
    Rejoin,
    /// Check the health of a held lock.
    Health,
    /// The health check is overdue.
    Overdue,
}

/// A connection with a member of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Suspect {
    /// The server's number for the connection.
    pub client: u64,
    /// What it is known by.
    pub bears: Bears,
}

/// What a connection is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bears {
    /// The name of one member.
    Member(HolderId),
    /// The one name that all members of portalocker 3.2.0 and older share.
    Legacy,
    /// The name of a link, and it follows that link's mark for this channel.
    Link(LinkId),
}

/// How long is long. See sections 4.6 and 4.7 of `docs/protocol.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// Between two counts, for the first in line; the k-th counts k times as seldom.
    pub count_every: Time,
    /// How long the first ping waits for its answers.
    pub ask_again: Time,
    /// How long the next ones wait, and how long a member may be silent before it is taken for dead.
    pub unavailable: Time,
    /// How long to stay off the channel for a foreign member's sake: once to three times this.
    pub check_interval: Time,
    /// Between two health checks of a held lock; zero for none.
    pub health_every: Time,
}
