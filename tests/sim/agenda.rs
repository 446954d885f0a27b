//! What is going to happen, by virtual time: whatever is put down for the same moment happens in the
//! order in which it was put down.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::faults::Relief;

/// Microseconds since the beginning of the run.
pub type Moment = u64;

pub const MS: Moment = 1_000;
pub const SECOND: Moment = 1_000 * MS;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// Something may have come to the server on this connection.
    Up(usize),
    /// Something may have come to the client on this connection.
    Down(usize),
    /// The client's system gives a connection up, if it is cut off since then.
    GiveUp { conn: usize, since: Moment },
    /// The keep-alive thread looks at a line.
    Visit { host: usize, life: u32, line: usize },
    /// Likewise, because a timer is due that was set for then.
    Ring { host: usize, life: u32, line: usize, due: Moment },
    /// The application's thread goes on.
    Act { host: usize, life: u32, actor: usize },
    /// Somebody cancels this acquire.
    Cancel { host: usize, life: u32, actor: usize, serial: u64 },
    /// Something goes wrong.
    Mishap,
    /// Something is mended.
    Relief(Relief),
    /// A holder whose connection was of no use from `since` on must know.
    LossKnown { actor: usize, serial: u64, since: Moment, paused: Moment },
    /// Those who wait must not have waited too long.
    Look,
    /// An acquire must have ended.
    TimeUp { actor: usize, serial: u64, paused: Moment },
}

#[derive(Default)]
pub struct Agenda {
    heap: BinaryHeap<Reverse<(Moment, u64, Event)>>,
    count: u64,
}

impl Agenda {
    pub fn put(&mut self, at: Moment, event: Event) {
        self.count += 1;
        self.heap.push(Reverse((at, self.count, event)));
    }

    pub fn next(&mut self) -> Option<(Moment, Event)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
