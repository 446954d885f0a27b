//! One state of everything.

use portalock::protocol::Phase;

use crate::book::{Actor, Book, DEAD, GONE, UNSTARTED};
use crate::case::{Case, MAX_ACQUIRES};
use crate::foreign::{At, Foreign};
use crate::message::Queue;

/// A set of acquires.
pub type Set = u8;

pub fn just(who: u8) -> Set {
    1 << who
}

/// One acquire and its connection. A round that reuses the connection of the one before is a round
/// on a fresh one that joins after the other's last command (see `Case::overlap`).
#[derive(Clone, Copy, Default)]
pub struct Acquire {
    pub actor: Actor,
    /// As the node sees it.
    pub subscribed: bool,
    /// The response channel that is subscribed belongs to an older ping than the present one.
    pub reply_stale: bool,
    /// Ghost: it has left the channel before now, and whoever has heard of it before owes it nothing.
    pub has_left: bool,
    /// Ghost: the node has run the present ping.
    pub pinged: bool,
    /// Ghost: who was subscribed when the node ran the present ping, still is, and has not been
    /// heard. Everybody, oneself included, until the ping is run. Kept while the probe is open.
    pub owed: Set,
    /// Ghost: who was told `waiting`, has a lower id, cannot hold beside us, and is neither served
    /// nor gone. Kept while we wait.
    pub promised: Set,
    /// What the process has not read.
    pub inbox: Queue,
    /// Likewise, where replies have a stream of their own.
    pub replies: Queue,
    /// What the node has not run.
    pub commands: Queue,
}

#[derive(Clone, Copy, Default)]
pub struct World {
    pub crashes: u8,
    pub timeouts: u8,
    pub premature: u8,
    pub noise: u8,
    pub acquires: [Acquire; MAX_ACQUIRES],
    pub foreign: Foreign,
}

impl Acquire {
    pub fn has_read_all(&self) -> bool {
        self.inbox.is_empty() && self.replies.is_empty()
    }
}

impl World {
    pub fn new(case: &Case) -> Self {
        let Case { crashes, timeouts, premature, noise, .. } = *case;
        Self { crashes, timeouts, premature, noise, ..Self::default() }
    }

    pub fn at(&self, who: u8) -> &Acquire {
        &self.acquires[usize::from(who)]
    }

    pub fn at_mut(&mut self, who: u8) -> &mut Acquire {
        &mut self.acquires[usize::from(who)]
    }

    pub fn subscribers(&self, case: &Case) -> Set {
        let ours: Set = case.acquires().filter(|who| self.at(*who).subscribed).map(just).sum();
        let theirs = if self.foreign.subscribed { just(case.stranger_number()) } else { 0 };
        ours | theirs
    }

    /// Nothing is on its way to or from anybody who lives.
    pub fn is_quiet(&self, case: &Case) -> bool {
        (case.stranger.is_none() || self.foreign.is_quiet())
            && case
                .acquires()
                .map(|who| self.at(who))
                .all(|a| a.actor == DEAD || (a.has_read_all() && a.commands.is_empty()))
    }

    /// Everybody who lives has been served, or has given up, in each of its rounds.
    pub fn is_done(&self, case: &Case) -> bool {
        (case.stranger.is_none() || self.foreign.at == At::Done)
            && case.acquires().all(|who| matches!(self.at(who).actor, GONE | DEAD))
    }

    /// The process lives and its acquire is under way.
    pub fn is_active(&self, who: u8) -> bool {
        !matches!(self.at(who).actor, UNSTARTED | GONE | DEAD)
    }

    pub fn phase(&self, book: &Book, who: u8) -> Phase {
        book.facts(self.at(who).actor).phase
    }

    /// The state as bytes, the same for the same state.
    pub fn encode(&self, case: &Case, bytes: &mut Vec<u8>) {
        bytes.push(self.crashes | self.timeouts << 2 | self.premature << 4 | self.noise << 6);
        for who in case.acquires() {
            let acquire = self.at(who);
            let flags = u8::from(acquire.subscribed) | u8::from(acquire.reply_stale) << 1;
            let flags = flags | u8::from(acquire.pinged) << 2 | u8::from(acquire.has_left) << 3;
            debug_assert!(acquire.actor < 1 << 24);
            bytes.extend_from_slice(&acquire.actor.to_le_bytes()[..3]);
            bytes.extend_from_slice(&[flags, acquire.owed, acquire.promised]);
            for queue in [&acquire.inbox, &acquire.replies, &acquire.commands] {
                bytes.push(queue.packed().len() as u8);
                bytes.extend(queue.packed().iter().flat_map(|bits| bits.to_le_bytes()));
            }
        }
        if case.stranger.is_some() {
            self.foreign.encode(bytes);
        }
    }

    /// Reads a state off the front of `bytes`.
    pub fn decode(case: &Case, bytes: &mut &[u8]) -> Self {
        let mut world = Self::default();
        let budgets = take(bytes);
        world.crashes = budgets & 3;
        world.timeouts = budgets >> 2 & 3;
        world.premature = budgets >> 4 & 3;
        world.noise = budgets >> 6;
        for who in case.acquires() {
            let acquire = world.at_mut(who);
            acquire.actor = u32::from_le_bytes([take(bytes), take(bytes), take(bytes), 0]);
            let flags = take(bytes);
            acquire.subscribed = flags & 1 != 0;
            acquire.reply_stale = flags & 2 != 0;
            acquire.pinged = flags & 4 != 0;
            acquire.has_left = flags & 8 != 0;
            acquire.owed = take(bytes);
            acquire.promised = take(bytes);
            for queue in [&mut acquire.inbox, &mut acquire.replies, &mut acquire.commands] {
                for _ in 0..take(bytes) {
                    queue.push_packed(u16::from_le_bytes([take(bytes), take(bytes)]));
                }
            }
        }
        if case.stranger.is_some() {
            world.foreign = Foreign::decode(|| take(bytes));
        }
        world
    }
}

fn take(bytes: &mut &[u8]) -> u8 {
    let (first, rest) = bytes.split_first().expect("a whole state");
    *bytes = rest;
    *first
}
