//! What to do about a member that is counted and does not answer (section 2, "Reaping").
//!
//! The first ping that is not answered in full is followed by a roll call: the connections that bear
//! a member's name are listed, and in the same breath all are pinged again. Whoever is on that list,
//! was counted, and has said nothing for `unavailable` is ended; whoever came later is on no list.

use super::{Bears, Contender, Output, Phase, Suspect};
use crate::protocol::Time;
use crate::protocol::id::MemberId;
use crate::protocol::probe::{Open, Probe, Trial};

impl Contender {
    /// The patience with the present ping has run out.
    pub(super) fn run_out(&mut self, now: Time) {
        let Probe::Open(open) = &mut self.probe else {
            return;
        };
        let heard_server = open.echoed && open.expected.is_some();
        if !heard_server || open.roll.is_none() || self.overslept(now) {
            return self.call_roll(now);
        }
        // A server that was itself stuck has not passed the answers on: hear from it first.
        if let Probe::Open(open) = &mut self.probe {
            open.trial = Trial::Counting;
        }
        self.count();
    }

    /// A prober that was stopped must not judge: those it asked may have been stopped with it.
    fn overslept(&self, now: Time) -> bool {
        let Probe::Open(open) = &self.probe else {
            return false;
        };
        let late = now.saturating_sub(open.at.saturating_add(open.patience));
        late > self.timing.unavailable / 4
    }

    fn call_roll(&mut self, now: Time) {
        self.outputs.push_back(Output::Roll);
        self.send_ping(now, self.timing.unavailable, true);
    }

    pub(super) fn counted_open(&mut self, now: Time, missing: bool, trial: Trial, explained: bool) {
        match trial {
            Trial::None if missing => self.ask(now),
            Trial::Counting if !explained => self.call_roll(now),
            Trial::Counting => {
                if let Probe::Open(open) = &mut self.probe {
                    open.trial = Trial::Listing;
                }
                self.outputs.push_back(Output::Roll);
            }
            _ => {}
        }
    }

    pub(super) fn rolled(&mut self, now: Time, roll: Option<Vec<Suspect>>) {
        let Probe::Open(open) = &mut self.probe else {
            return;
        };
        if self.phase != Phase::Waiting {
            return;
        }
        if open.trial != Trial::Listing {
            // A list taken before an earlier ping will do: whoever is on it was here even longer.
            let first = open.is_roll_call && open.roll.is_none();
            if first {
                open.roll = roll;
            }
            return;
        }
        let silent: Vec<_> = open.silent_on(&roll.unwrap_or_default()).collect();
        let kills = silent.into_iter().filter(|suspect| !self.is_known_alive(suspect));
        let kills: Vec<_> = kills.map(Output::Kill).collect();
        self.outputs.extend(kills);
        self.call_roll(now);
    }

    fn is_known_alive(&self, suspect: &Suspect) -> bool {
        match suspect.bears {
            Bears::Member(id) => id == self.id || self.roster.knows(&MemberId::Hex(id)),
            Bears::Legacy => false,
            Bears::Link(link) => self.link == Some(link),
        }
    }
}

impl Open {
    /// Those on both lists who have not answered.
    fn silent_on<'a>(&'a self, roll: &'a [Suspect]) -> impl Iterator<Item = Suspect> + 'a {
        let listed = self.roll.as_deref().unwrap_or_default();
        let old_one_answered = self.answered.iter().any(|id| matches!(id, MemberId::Legacy(_)));
        let answered = move |suspect: &Suspect| match suspect.bears {
            Bears::Member(id) => self.answered.binary_search(&MemberId::Hex(id)).is_ok(),
            Bears::Legacy => old_one_answered,
            Bears::Link(link) => self.links.contains(&link),
        };
        roll.iter().copied().filter(|s| listed.contains(s)).filter(move |s| !answered(s))
    }
}
