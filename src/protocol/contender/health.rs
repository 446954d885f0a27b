//! Whether a held lock is still held (section 5).
//!
//! A message to the holder's own response channel has to come back: it passes through all that an
//! answer to a ping would, and wakes nobody else.

use super::{Contender, Output, Phase, Timer};
use crate::protocol::Time;

/// How a held lock's checks stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Health {
    /// The number of the latest check.
    number: u32,
    /// When the next one is due.
    next: Time,
    /// When the one that is under way has to be back.
    overdue: Option<Time>,
    /// The number of the latest verification.
    verify: u32,
}

/// Tells the messages of verifications, which nothing is overdue of, from those of the checks.
const VERIFIES: u32 = 1 << 31;

impl Contender {
    /// The first check comes after an eighth of an interval to a whole one, another time for each lock:
    /// many locks that were taken together are not checked together.
    pub(super) fn start_health(&mut self, now: Time) {
        let least = self.timing.health_every / 8;
        let spread = (self.timing.health_every - least) / 65_536 * self.share();
        self.health.next = now.saturating_add(least + spread);
    }

    pub(super) fn due_held(&self, timer: Timer) -> Option<Time> {
        match timer {
            Timer::Overdue => self.health.overdue,
            Timer::Health
                if self.health.overdue.is_none() && !self.timing.health_every.is_zero() =>
            {
                Some(self.health.next)
            }
            _ => None,
        }
    }

    pub(super) fn check_health(&mut self, now: Time) {
        let limit = self.timing.health_every.min(self.timing.unavailable);
        self.health.number = self.health.number.wrapping_add(1) & !VERIFIES;
        self.health.overdue = Some(now.saturating_add(limit));
        self.health.next = now.saturating_add(self.timing.health_every);
        self.outputs.push_back(Output::CheckHealth { number: self.health.number });
    }

    pub(super) fn healthy(&mut self, number: u32) {
        if self.phase != Phase::Held {
            return;
        }
        if number == self.health.number {
            self.health.overdue = None;
        } else if number == self.health.verify {
            self.outputs.push_back(Output::Verified);
        }
    }

    pub(super) fn verify(&mut self) {
        if self.phase == Phase::Held {
            self.health.verify = self.health.verify.wrapping_add(1) | VERIFIES;
            self.outputs.push_back(Output::Verify { number: self.health.verify });
        }
    }

    pub(super) fn unhealthy(&mut self) {
        self.phase = Phase::Gone;
        self.outputs.push_back(Output::Unhealthy);
    }
}
