//! What the lock is: the rules of the queue and their form on the wire.
//!
//! Nothing in here touches a socket, a clock, a thread or a random source. A [`Contender`] is told
//! what happened and when ([`Input`]), and says what to do about it ([`Output`]) and when it wants
//! to be woken ([`Contender::next_timer`]). The same code runs in production, under the exhaustive
//! explorer (`tests/model`) and in the unit tests.

mod contender;
mod id;
mod message;
mod mutant;
mod names;
mod probe;
mod roster;
pub mod wire;

pub use contender::{Bears, Contender, Input, Output, Phase, Stop, Suspect, Timer, Timing};
pub use id::{HolderId, LinkId, MemberId, ReplyTo};
pub use message::{
    Answer, Asker, Count, Event, ForeignStanding, Mode, Ping, Record, Standing, State,
};
pub use mutant::Mutant;
pub use names::{MAX_NAME_BYTES, NameError, Names};

/// A point in time, as the span since any one fixed moment of the process's monotonic clock.
pub type Time = std::time::Duration;
