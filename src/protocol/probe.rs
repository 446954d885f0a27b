//! One ping and its answers.

use super::Time;
use super::id::MemberId;

/// Where the latest ping stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// No ping was sent yet.
    Unasked,
    /// Answers are missing, or may be.
    Open(Open),
    /// Everybody counted at the ping has answered.
    Resolved {
        /// Since when.
        at: Time,
    },
}

/// A ping that is not resolved yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Open {
    /// When it was sent.
    pub(super) at: Time,
    /// How long to wait for answers before asking again.
    pub(super) patience: Time,
    /// Whether it came back to us on the lock channel: from there on the roster is kept.
    pub(super) echoed: bool,
    /// How many others have to answer, once the server has said so.
    pub(super) expected: Option<u64>,
    /// Who has answered, sorted.
    pub(super) answered: Vec<MemberId>,
}

impl Open {
    pub(super) fn new(at: Time, patience: Time) -> Self {
        Self { at, patience, echoed: false, expected: None, answered: Vec::new() }
    }

    /// Counts an answer; the same member counts once.
    pub(super) fn heard(&mut self, id: MemberId) {
        if let Err(at) = self.answered.binary_search(&id) {
            self.answered.insert(at, id);
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        let heard = self.answered.len() as u64;
        self.echoed && self.expected.is_some_and(|expected| heard >= expected)
    }
}
