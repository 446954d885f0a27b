//! One ping and its answers.

use std::hash::{Hash, Hasher};

use super::Time;
use super::contender::Suspect;
use super::id::{LinkId, MemberId};

/// Where the latest ping stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// No ping was sent yet.
    Unasked,
    /// Answers are missing, or may be. Boxed: whoever holds has none, and there may be many of those.
    Open(Box<Open>),
    /// Everybody counted at the ping has answered.
    Resolved {
        /// Since when.
        at: Time,
    },
}

/// A ping that is not resolved yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Open {
    /// When it was sent; for a roll call, when it came back to us, once it has.
    pub(super) at: Time,
    /// How long to wait for answers before asking again.
    pub(super) patience: Time,
    /// Whether it came back to us on the lock channel: from there on the roster is kept.
    pub(super) echoed: bool,
    /// How many others have to answer, once the server has said so.
    pub(super) expected: Option<u64>,
    /// How many members the server counted.
    pub(super) members: u64,
    /// Who has answered, sorted.
    pub(super) answered: Vec<MemberId>,
    /// Who has said since the echo that it has left, sorted: no count needs to explain that.
    pub(super) left: Vec<MemberId>,
    /// Who has pinged since the echo of a roll call, sorted: those of them who came later have not to answer.
    pub(super) asked: Vec<MemberId>,
    /// The links that were heard from since the ping was sent, by an answer or a ping of their own.
    pub(super) links: Vec<LinkId>,
    /// Whether those who stay silent this time are to be judged.
    pub(super) is_roll_call: bool,
    /// Who was on the channel by the names of the connections, just before the ping: only a roll call
    /// lists them.
    pub(super) roll: Option<Vec<Suspect>>,
    /// How far the judgement of the silent has come.
    pub(super) trial: Trial,
}

/// The judgement of those who stay silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Trial {
    /// There is none yet.
    None,
    /// The patience has run out; the server is asked whether the count is what it should be by now.
    Counting,
    /// It is; the server is asked who is still there.
    Listing,
}

impl Open {
    pub(super) fn new(at: Time, patience: Time, is_roll_call: bool) -> Self {
        Self {
            at,
            patience,
            echoed: false,
            expected: None,
            members: 0,
            answered: Vec::new(),
            left: Vec::new(),
            asked: Vec::new(),
            links: Vec::new(),
            is_roll_call,
            roll: None,
            trial: Trial::None,
        }
    }

    /// Counts an answer; the same member counts once.
    pub(super) fn heard(&mut self, id: MemberId) {
        if let Err(at) = self.answered.binary_search(&id) {
            self.answered.insert(at, id);
        }
    }

    /// Takes note of a link that gives a sign of life.
    pub(super) fn heard_link(&mut self, link: LinkId) {
        if let Err(at) = self.links.binary_search(&link) {
            self.links.insert(at, link);
        }
    }

    /// Takes note of a leave.
    pub(super) fn left(&mut self, id: MemberId) {
        if let Err(at) = self.left.binary_search(&id) {
            self.left.insert(at, id);
        }
    }

    /// Takes note of somebody who pings, and may have come after the ping.
    pub(super) fn pinged_by(&mut self, id: MemberId) {
        if self.echoed
            && self.is_roll_call
            && let Err(at) = self.asked.binary_search(&id)
        {
            self.asked.insert(at, id);
        }
    }

    /// Whether those who have told that they came or left explain a new count. If not, somebody may be
    /// there who has not heard the ping.
    pub(super) fn explains(&self, members: u64) -> bool {
        let later = |id: &&MemberId| self.answered.binary_search(id).is_err();
        let came = self.asked.iter().filter(later).count() as u64;
        members + self.left.len() as u64 == self.members + came
    }

    /// Whether somebody has gone without a word, by a new count.
    pub(super) fn misses_somebody(&self, members: u64) -> bool {
        members + (self.left.len() as u64) < self.members
    }

    pub(super) fn is_complete(&self) -> bool {
        let heard = self.answered.len() as u64;
        self.echoed && self.expected.is_some_and(|expected| heard >= expected)
    }
}

/// Times are left out: see the contender.
impl Hash for Probe {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        match self {
            Probe::Unasked => 0u8.hash(hasher),
            Probe::Open(open) => {
                (1u8, open.echoed, open.expected, open.members, &open.answered).hash(hasher);
                (&open.left, &open.asked, &open.links).hash(hasher);
                (open.is_roll_call, &open.roll, open.trial).hash(hasher);
            }
            Probe::Resolved { .. } => 2u8.hash(hasher),
        }
    }
}
