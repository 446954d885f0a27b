//! What to explore.

use portalock::protocol::{Bears, HolderId, LinkId, Mode, Mutant};

use crate::foreign::{Stranger, Version};
use crate::steps::Property;

/// The most acquires in one case: a set of them fits into a byte, with room.
pub const MAX_ACQUIRES: usize = 6;

/// One acquire of one member.
#[derive(Clone, Copy)]
pub struct Plan {
    pub member: u8,
    /// The acquire of the same member that comes before.
    pub after: Option<u8>,
    pub wants: Mode,
    pub id: HolderId,
}

/// Members, mishaps and habits.
#[derive(Clone)]
pub struct Case {
    pub name: String,
    pub plans: Vec<Plan>,
    /// Processes that may be gone without a word.
    pub crashes: u8,
    /// Waiters that may give up.
    pub timeouts: u8,
    /// Timers that may fire while messages are still on their way.
    pub premature: u8,
    /// Pieces of garbage that somebody may publish, and pings that somebody may publish again.
    pub noise: u8,
    /// Subscribers by pattern: they receive pings and never answer.
    pub patterns: u8,
    /// The node runs a pipeline in one go.
    pub one_pipeline: bool,
    /// The acknowledgement of a ping comes before its echo.
    pub reply_first: bool,
    /// The next round may join while the leave of the one before is under way.
    pub overlap: bool,
    /// The node will not run exact pings.
    pub refuses_exact: bool,
    /// No timer ever fires: what is left must do.
    pub timerless: bool,
    /// Explore only what the reduction of [`crate::steps`] leaves over.
    pub reduced: bool,
    /// Whether everybody has to get there.
    pub live: bool,
    /// The node notices no crash by itself: the silent have to be reaped.
    pub reaped: bool,
    /// The members' acquires live on a link each, whose name does not tell theirs.
    pub linked: bool,
    /// Replies and pushes come by two connections, and pass each other (RESP2).
    pub two_streams: bool,
    /// A member that knows nothing of the queue.
    pub stranger: Option<Stranger>,
    /// Compare contenders that count as one.
    pub audited: bool,
    /// Look for nothing else.
    pub only: Option<Property>,
    pub mutant: Option<Mutant>,
}

impl Case {
    /// One string for each member, one letter for each of its rounds, `W`rite or `R`ead. Ids rise
    /// by round and within a round by member. As every member may start at any moment, each order
    /// of joining is explored: with `WWR` the reader has the highest id, and joins at any time.
    pub fn new(members: &[&str]) -> Self {
        let rounds = members.iter().map(|m| m.len()).max().unwrap_or(0);
        let mut plans: Vec<Plan> = Vec::new();
        for round in 0..rounds {
            for (member, modes) in members.iter().enumerate() {
                let Some(letter) = modes.as_bytes().get(round) else { continue };
                let member = member as u8;
                let after = plans.iter().rposition(|p| p.member == member).map(|at| at as u8);
                let wants = if *letter == b'W' { Mode::Exclusive } else { Mode::Shared };
                let id = HolderId((plans.len() as u128 + 1) << 64);
                plans.push(Plan { member, after, wants, id });
            }
        }
        assert!(plans.len() <= MAX_ACQUIRES);
        Self {
            name: members.join(" "),
            plans,
            crashes: 0,
            timeouts: 0,
            premature: 0,
            noise: 0,
            patterns: 0,
            one_pipeline: false,
            reply_first: false,
            overlap: false,
            refuses_exact: false,
            timerless: false,
            reduced: true,
            live: true,
            reaped: false,
            linked: false,
            two_streams: false,
            stranger: None,
            audited: false,
            only: None,
            mutant: None,
        }
    }

    fn named(mut self, what: &str) -> Self {
        self.name += ", ";
        self.name += what;
        self
    }

    /// Gives the acquires the ids of these ranks.
    pub fn ids(mut self, ranks: &[u8]) -> Self {
        assert_eq!(ranks.len(), self.plans.len());
        for (plan, rank) in self.plans.iter_mut().zip(ranks) {
            plan.id = HolderId((u128::from(*rank) + 1) << 64);
        }
        self.named(&format!("ids {ranks:?}"))
    }

    /// Ids fall where they would have risen: later rounds come first.
    pub fn reversed(self) -> Self {
        let ranks: Vec<u8> = (0..self.plans.len() as u8).rev().collect();
        self.ids(&ranks)
    }

    pub fn crashes(self, crashes: u8) -> Self {
        Self { crashes, ..self.named(&format!("{crashes} crash")) }
    }

    pub fn timeouts(self, timeouts: u8) -> Self {
        Self { timeouts, ..self.named(&format!("{timeouts} timeout")) }
    }

    pub fn premature(self, premature: u8) -> Self {
        Self { premature, ..self.named(&format!("{premature} premature")) }
    }

    pub fn noise(self, noise: u8) -> Self {
        Self { noise, ..self.named(&format!("{noise} noise")) }
    }

    pub fn patterns(self, patterns: u8) -> Self {
        Self { patterns, ..self.named(&format!("{patterns} pattern")) }
    }

    pub fn one_pipeline(self) -> Self {
        Self { one_pipeline: true, ..self.named("one pipeline") }
    }

    pub fn reply_first(self) -> Self {
        Self { reply_first: true, ..self.named("reply first") }
    }

    pub fn overlap(self) -> Self {
        Self { overlap: true, ..self.named("overlap") }
    }

    pub fn refuses_exact(self) -> Self {
        Self { refuses_exact: true, ..self.named("exact refused") }
    }

    pub fn timerless(self) -> Self {
        Self { timerless: true, ..self.named("timerless") }
    }

    pub fn unreduced(self) -> Self {
        Self { reduced: false, ..self.named("unreduced") }
    }

    /// Only what must never happen is looked for, not whether all get there.
    pub fn safety_only(self) -> Self {
        Self { live: false, ..self.named("safety only") }
    }

    pub fn reaped(self) -> Self {
        Self { reaped: true, ..self.named("reaped") }
    }

    pub fn linked(self) -> Self {
        Self { linked: true, ..self.named("linked") }
    }

    pub fn two_streams(self) -> Self {
        Self { two_streams: true, ..self.named("two streams") }
    }

    /// Beside a portalocker whose id has this rank: 0 is below all of ours, 1 above the first…
    pub fn stranger(self, version: Version, wants: Mode, rank: u8) -> Self {
        let id = HolderId((u128::from(rank) << 64) + (1 << 63));
        let stranger = Some(Stranger { version, wants, id });
        Self { stranger, ..self.named(&format!("{version:?} {wants:?} of rank {rank}")) }
    }

    pub fn audited(self) -> Self {
        Self { audited: true, ..self.named("audited") }
    }

    /// Looks for this alone: a fault that breaks one property early may break a worse one later.
    #[cfg(feature = "mutants")]
    pub fn only(self, property: Property) -> Self {
        let live = property == Property::Progress;
        Self { only: Some(property), live, ..self.named(&format!("only {property:?}")) }
    }

    pub fn watches(&self, property: Property) -> bool {
        match self.only {
            Some(only) => only == property,
            // Garbage may pass for somebody's answer; what comes of that is what counts.
            None => property != Property::Heard || self.noise == 0,
        }
    }

    #[cfg(feature = "mutants")]
    pub fn mutant(self, mutant: Mutant) -> Self {
        Self { mutant: Some(mutant), ..self.named(&format!("{mutant:?}")) }
    }

    pub fn plan(&self, who: u8) -> &Plan {
        &self.plans[usize::from(who)]
    }

    pub fn acquires(&self) -> impl Iterator<Item = u8> + use<> {
        0..self.plans.len() as u8
    }

    /// The link that an acquire lives on.
    pub fn link(&self, who: u8) -> Option<LinkId> {
        self.linked.then(|| LinkId(u128::from(self.plan(who).member)))
    }

    /// What the connection of an acquire is known by.
    pub fn bears(&self, who: u8) -> Bears {
        self.link(who).map_or(Bears::Member(self.plan(who).id), Bears::Link)
    }

    /// The number of the connection of an acquire: on a link that of the member's first.
    pub fn connection(&self, who: u8) -> u8 {
        let first = self.plans.iter().position(|p| p.member == self.plan(who).member);
        first.filter(|_| self.linked).map_or(who, |first| first as u8)
    }

    /// Whose id this is.
    pub fn who_is(&self, id: HolderId) -> u8 {
        match self.plans.iter().position(|p| p.id == id) {
            Some(at) => at as u8,
            None => self.stranger_number(),
        }
    }

    /// Whether `first` and `second` cannot hold together.
    pub fn conflict(&self, first: u8, second: u8) -> bool {
        !self.plan(first).wants.admits(self.plan(second).wants)
    }
}
