//! Pings, their answers and counts, and when to ask again.

use super::{Contender, Mutant, Output, Phase, Timer};
use crate::protocol::Time;
use crate::protocol::id::{LinkId, MemberId, ReplyTo};
use crate::protocol::message::{Count, Ping, Record, Standing, State};
use crate::protocol::probe::{Open, Probe, Trial};

/// At rest, so many times as long between two counts: longer than between two pings of the first in
/// line with the usual timing, to which everybody behind it says a word.
const COUNTS_AT_REST: u32 = 75;

impl Contender {
    /// When this timer is due, if it is armed.
    pub fn due(&self, timer: Timer) -> Option<Time> {
        match self.phase {
            Phase::Waiting => self.due_waiting(timer),
            Phase::Aside => match timer {
                Timer::Count if !self.counting => Some(self.next_count()),
                Timer::Rejoin => Some(self.aside_at.saturating_add(self.jittered())),
                _ => None,
            },
            Phase::Held => self.due_held(timer),
            _ => None,
        }
    }

    fn due_waiting(&self, timer: Timer) -> Option<Time> {
        match (&self.probe, timer) {
            (Probe::Open(_), Timer::AskAgain) if self.is_mutant(Mutant::AskOnlyWhenFewer) => None,
            (Probe::Open(open), Timer::AskAgain) if open.trial == Trial::None => {
                Some(open.at.saturating_add(open.patience))
            }
            (Probe::Open(open), Timer::Count) if !self.counting && open.expected.is_some() => {
                // Whatever the place in line: who goes and comes back unseen might be taken for silent.
                Some(self.counted_at.max(open.at).saturating_add(self.timing.count_every))
            }
            (Probe::Resolved { .. }, Timer::Count) if !self.counting => Some(self.next_count()),
            (Probe::Resolved { at }, Timer::Recheck) => {
                if self.is_mutant(Mutant::NeverRecheck) {
                    return None;
                }
                let since = self.checked_at.max(*at);
                Some(since.saturating_add(self.timing.unavailable.saturating_mul(self.place())))
            }
            _ => None,
        }
    }

    /// The first in line counts steadily. Whoever is behind does so the more seldom the longer nobody
    /// has left: there is a place to be missed only when somebody leaves, and whoever is ahead looks
    /// after the rest. At rest an answer to somebody's ping is as good as a count.
    fn next_count(&self) -> Time {
        let gap = self.timing.count_every.saturating_mul(self.place());
        if self.place() == 1 {
            return self.counted_at.saturating_add(gap);
        }
        let rest = self.timing.count_every.saturating_mul(COUNTS_AT_REST);
        let calm = self.counted_at.saturating_sub(self.stirred_at) / 2;
        match calm < rest {
            true => self.counted_at.saturating_add(gap.max(calm)),
            false => self.counted_at.max(self.said_at).saturating_add(gap.max(rest)),
        }
    }

    /// Twice the check interval, give or take a half, so that those who met once do not always meet
    /// again. An empty channel is noticed at once; to come back to one that is not would spoil the
    /// probe of whoever is there.
    fn jittered(&self) -> Time {
        self.timing.check_interval + self.timing.check_interval / 32_768 * self.share()
    }

    /// A number below 65,536 that differs from member to member and from ping to ping. No random
    /// source is needed: the ids are random.
    pub(super) fn share(&self) -> u32 {
        let seed = self.reply_to(self.number.wrapping_mul(0x9e37_79b9));
        let mixed = (seed ^ (seed >> 64)).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        (mixed >> 112) as u32
    }

    pub(super) fn timer(&mut self, now: Time, timer: Timer) {
        if self.due(timer).is_none() {
            return;
        }
        match timer {
            Timer::AskAgain => self.run_out(now),
            Timer::Count => self.count(),
            Timer::Recheck => self.ask(now),
            Timer::Rejoin => self.join(),
            Timer::Health => self.check_health(now),
            Timer::Overdue => self.unhealthy(),
        }
    }

    pub(super) fn count(&mut self) {
        if !self.counting {
            self.counting = true;
            self.outputs.push_back(Output::Count);
        }
    }

    /// Sends a ping; what the one before may still bring no longer counts.
    pub(super) fn ask(&mut self, now: Time) {
        // A far server must not be asked again before it could have answered once: `now` was zero
        // when the join was sent.
        let far = if self.probe == Probe::Unasked { now.saturating_mul(4) } else { Time::ZERO };
        let patience = self.timing.ask_again.max(far).min(self.timing.unavailable);
        self.send_ping(now, patience, false);
    }

    pub(super) fn send_ping(&mut self, now: Time, patience: Time, is_roll_call: bool) {
        let subscribe = self.probe != Probe::Unasked;
        if subscribe {
            self.number += 1;
        }
        self.stale = false;
        self.probe = Probe::Open(Box::new(Open::new(now, patience, is_roll_call)));
        let (number, exact) = (self.number, self.want_exact);
        self.outputs.push_back(Output::Ask { number, exact, subscribe });
    }

    /// Rule 2: whoever is on the channel from here on will answer; what was known before may be gone.
    pub(super) fn echoed(&mut self, now: Time, ping: &Ping) {
        if ping.reply_to != ReplyTo::Token(self.reply_to(self.number)) {
            return;
        }
        if self.phase != Phase::Waiting {
            return;
        }
        let keep = self.is_mutant(Mutant::KeepGhosts);
        let again = self.is_mutant(Mutant::TakeSecondEcho);
        let Probe::Open(open) = &mut self.probe else {
            return;
        };
        if open.echoed && !again {
            // Somebody has sent it again, and whoever came meanwhile is going to answer, uncounted.
            return self.ask(now);
        }
        open.echoed = true;
        if open.is_roll_call {
            // They cannot have heard it sooner, however long the server was stuck with it.
            open.at = now;
        }
        self.stale = false;
        if !keep {
            self.roster.clear();
        }
    }

    pub(super) fn answered(&mut self, number: u32, record: Record) {
        if number != self.number && !self.is_mutant(Mutant::TakeOldPongs) {
            return;
        }
        if self.phase != Phase::Waiting {
            return;
        }
        let early = self.is_mutant(Mutant::TakeEarlyPongs) || self.is_mutant(Mutant::TakeOldPongs);
        if let Probe::Open(open) = &mut self.probe {
            if !open.echoed && !early {
                // Nobody has heard the ping yet: this answers something else, and must stand for nobody.
                return;
            }
            open.heard(record.id.clone());
        }
        self.note_link(record.link);
        match record.standing {
            Standing::Queue { state: State::Leaving, .. } => self.left(record.id),
            standing => self.roster.note(record.id, standing),
        }
    }

    /// Who lives on a link is not known by its name: that it speaks shows that the link is alive.
    pub(super) fn note_link(&mut self, link: Option<LinkId>) {
        if let (Probe::Open(open), Some(link)) = (&mut self.probe, link) {
            open.heard_link(link);
        }
    }

    pub(super) fn left(&mut self, id: MemberId) {
        self.roster.remove(&id);
        if let Probe::Open(open) = &mut self.probe
            && open.echoed
        {
            open.left(id);
        }
    }

    pub(super) fn asked(&mut self, now: Time, number: u32, count: Count) {
        let current = number == self.number || self.is_mutant(Mutant::TakeOldCount);
        let trust_members = self.is_mutant(Mutant::ExpectMembers);
        let Probe::Open(open) = &mut self.probe else {
            return;
        };
        if self.phase != Phase::Waiting || !current {
            return;
        }
        let (receivers, members) = match count {
            Count::Exact(members) => (members, members),
            Count::Beside { members, .. } if trust_members => (members, members),
            Count::Beside { receivers, members } => (receivers, members),
        };
        let Some(others) = receivers.checked_sub(1) else {
            return self.broken("subscribed, yet the server delivered our ping to nobody");
        };
        open.expected = Some(others);
        open.members = members;
        let unclear = members < receivers && !open.is_complete();
        if unclear && !self.want_exact && !self.exact_refused {
            // Pattern subscribers, or somebody left in between: only an exact count can tell.
            self.want_exact = true;
            self.ask(now);
        }
    }

    pub(super) fn exact_refused(&mut self, now: Time, number: u32) {
        self.exact_refused = true;
        self.want_exact = false;
        if number == self.number && self.phase == Phase::Waiting {
            self.ask(now);
        }
    }

    pub(super) fn counted(&mut self, now: Time, members: u64) {
        self.counting = false;
        self.counted_at = now;
        match (&self.probe, self.phase) {
            (_, Phase::Aside) if members == 0 => self.join(),
            (_, Phase::Waiting) if members == 0 => {
                self.broken("subscribed, yet the server counts no subscriber");
            }
            (Probe::Open(open), Phase::Waiting) => {
                let (trial, explained) = (open.trial, open.explains(members));
                let missing = open.misses_somebody(members);
                self.counted_open(now, missing, trial, explained);
            }
            (Probe::Resolved { .. }, Phase::Waiting) if members < self.roster.len() as u64 + 1 => {
                self.ask(now);
            }
            _ => {}
        }
    }

    /// Takes the answers in: `true` once everybody has answered.
    pub(super) fn look(&mut self, now: Time) -> bool {
        let Probe::Open(open) = &self.probe else {
            return self.is_resolved();
        };
        if !open.is_complete() {
            return self.is_mutant(Mutant::PromoteUnresolved);
        }
        self.probe = Probe::Resolved { at: now };
        self.counted_at = now;
        self.stirred_at = now;
        true
    }
}
