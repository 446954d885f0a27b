//! What one member knows of the others, in the order of the server's stream.

use super::id::MemberId;
use super::message::{ForeignStanding, Mode, Standing, State};

/// Whether somebody has to be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// Nobody.
    No,
    /// Somebody who lets us stay meanwhile.
    Yes,
    /// A foreign writer, which our presence keeps from holding: it is to be waited for elsewhere.
    ByStranger,
}

/// The known others, sorted by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Roster {
    entries: Vec<(MemberId, Standing)>,
}

impl Roster {
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Records a member. A queue member's standing only ever advances, from waiting to held: its id
    /// is drawn for one acquire, so whatever says less than is known already is older.
    pub(super) fn note(&mut self, id: MemberId, standing: Standing) {
        match self.entries.binary_search_by(|(known, _)| known.cmp(&id)) {
            Ok(at) if is_held(&self.entries[at].1) => {}
            Ok(at) => self.entries[at].1 = standing,
            Err(at) => self.entries.insert(at, (id, standing)),
        }
    }

    /// As [`note`](Self::note), whatever is known already: a fault, kept for the explorer.
    pub(super) fn overwrite(&mut self, id: MemberId, standing: Standing) {
        self.remove(&id);
        self.note(id, standing);
    }

    pub(super) fn remove(&mut self, id: &MemberId) {
        self.entries.retain(|(known, _)| known != id);
    }

    /// Whether a member of the queue is known to hold.
    pub(super) fn has_queue_holder(&self) -> bool {
        self.entries.iter().any(|(_, standing)| is_held(standing))
    }

    /// Whether this member was heard of.
    pub(super) fn knows(&self, id: &MemberId) -> bool {
        self.entries.binary_search_by(|(known, _)| known.cmp(id)).is_ok()
    }

    /// Whether a member `me` that wants `mode` has to wait, and for whom.
    pub(super) fn blocked(&self, me: &MemberId, mode: Mode) -> Blocked {
        let mut blocked = Blocked::No;
        for (id, standing) in &self.entries {
            match stands_before(id, standing, me, mode) {
                Blocked::No => {}
                Blocked::ByStranger => return Blocked::ByStranger,
                Blocked::Yes => blocked = Blocked::Yes,
            }
        }
        blocked
    }

    /// Whether anybody in here holds in this mode.
    pub(super) fn holds(&self, mode: Mode) -> bool {
        let held = Standing::Queue { wants: mode, state: State::Held };
        self.entries.iter().any(|(_, standing)| *standing == held)
    }

    /// How many have to be served before `me`, holders not counted.
    pub(super) fn waiters_ahead(&self, me: &MemberId) -> usize {
        let ahead = |(id, standing): &&(MemberId, Standing)| match standing {
            Standing::Queue { state, .. } => *state == State::Waiting && id < me,
            Standing::Foreign(ForeignStanding::Pending { .. }) => id < me,
            Standing::Foreign(_) => false,
        };
        self.entries.iter().filter(ahead).count()
    }
}

fn is_held(standing: &Standing) -> bool {
    matches!(standing, Standing::Queue { state: State::Held, .. })
}

/// Rule 4 for queue members, rule 7 for foreign ones.
fn stands_before(id: &MemberId, standing: &Standing, me: &MemberId, mode: Mode) -> Blocked {
    let (before, blocked) = match *standing {
        Standing::Queue { wants, .. } if wants.admits(mode) => (false, Blocked::No),
        Standing::Queue { state: State::Held, .. } => (true, Blocked::Yes),
        Standing::Queue { state: State::Waiting, .. } => (id < me, Blocked::Yes),
        Standing::Queue { state: State::Leaving, .. } => (false, Blocked::No),
        // A reader asks nobody again: to wait where it can see us keeps new readers out.
        Standing::Foreign(ForeignStanding::Shared) => (mode == Mode::Exclusive, Blocked::Yes),
        Standing::Foreign(ForeignStanding::Exclusive) => (true, Blocked::ByStranger),
        Standing::Foreign(ForeignStanding::Pending { elected }) => {
            (elected != Some(false) || id < me, Blocked::ByStranger)
        }
    };
    if before { blocked } else { Blocked::No }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::HolderId;

    const ME: u128 = 5;

    fn hex(id: u128) -> MemberId {
        MemberId::Hex(HolderId(id))
    }

    fn queue(wants: Mode, state: State) -> Standing {
        Standing::Queue { wants, state }
    }

    fn with(id: u128, standing: Standing) -> Roster {
        let mut roster = Roster::default();
        roster.note(hex(id), standing);
        roster
    }

    fn blocks(id: u128, standing: Standing, mode: Mode) -> bool {
        must_wait(&with(id, standing), mode)
    }

    fn must_wait(roster: &Roster, mode: Mode) -> bool {
        roster.blocked(&hex(ME), mode) != Blocked::No
    }

    #[test]
    fn nobody_is_in_the_way_of_an_empty_roster() {
        let roster = Roster::default();
        assert!(!must_wait(&roster, Mode::Exclusive));
        assert_eq!((roster.len(), roster.waiters_ahead(&hex(ME))), (0, 0));
    }

    #[test]
    fn holders_block_whatever_their_id() {
        for id in [1, 9] {
            let held = |wants| queue(wants, State::Held);
            assert!(blocks(id, held(Mode::Exclusive), Mode::Exclusive));
            assert!(blocks(id, held(Mode::Exclusive), Mode::Shared));
            assert!(blocks(id, held(Mode::Shared), Mode::Exclusive));
            assert!(!blocks(id, held(Mode::Shared), Mode::Shared));
        }
    }

    #[test]
    fn waiters_block_by_id_and_readers_do_not_block_readers() {
        let waits = |wants| queue(wants, State::Waiting);
        for (wants, mode) in [
            (Mode::Exclusive, Mode::Exclusive),
            (Mode::Exclusive, Mode::Shared),
            (Mode::Shared, Mode::Exclusive),
        ] {
            assert!(blocks(1, waits(wants), mode));
            assert!(!blocks(9, waits(wants), mode));
        }
        assert!(!blocks(1, waits(Mode::Shared), Mode::Shared));
    }

    #[test]
    fn leavers_block_nobody() {
        assert!(!blocks(1, queue(Mode::Exclusive, State::Leaving), Mode::Exclusive));
    }

    #[test]
    fn foreign_members_block_as_rule_7_says() {
        let blocked = |id, foreign| {
            [Mode::Exclusive, Mode::Shared].map(|mode| blocks(id, Standing::Foreign(foreign), mode))
        };
        for id in [1, 9] {
            assert_eq!(blocked(id, ForeignStanding::Exclusive), [true, true]);
            assert_eq!(blocked(id, ForeignStanding::Shared), [true, false]);
            let pending = |elected| ForeignStanding::Pending { elected };
            assert_eq!(blocked(id, pending(Some(true))), [true, true]);
            assert_eq!(blocked(id, pending(None)), [true, true]);
            assert_eq!(blocked(id, pending(Some(false))), [id < ME; 2]);
        }
    }

    #[test]
    fn a_standing_only_advances() {
        let waits = queue(Mode::Exclusive, State::Waiting);
        let held = queue(Mode::Exclusive, State::Held);
        let mut roster = with(9, waits);
        roster.note(hex(9), held);
        assert!(must_wait(&roster, Mode::Exclusive));
        roster.note(hex(9), waits);
        assert!(must_wait(&roster, Mode::Exclusive), "a late word of waiting is older");
        assert_eq!(roster.len(), 1);
    }

    #[test]
    fn a_foreign_standing_is_replaced() {
        let pending = Standing::Foreign(ForeignStanding::Pending { elected: Some(false) });
        let mut roster = with(9, Standing::Foreign(ForeignStanding::Exclusive));
        roster.note(hex(9), pending);
        assert!(!must_wait(&roster, Mode::Exclusive), "its id serves many attempts");
    }

    #[test]
    fn counts_the_waiters_ahead_alone() {
        let mut roster = Roster::default();
        roster.note(hex(1), queue(Mode::Exclusive, State::Held));
        roster.note(hex(2), queue(Mode::Shared, State::Waiting));
        roster.note(hex(3), queue(Mode::Exclusive, State::Waiting));
        roster.note(hex(7), queue(Mode::Exclusive, State::Waiting));
        roster.note(
            MemberId::parse("0"),
            Standing::Foreign(ForeignStanding::Pending { elected: None }),
        );
        roster.note(MemberId::Legacy(0), Standing::Foreign(ForeignStanding::Exclusive));
        assert_eq!((roster.len(), roster.waiters_ahead(&hex(ME))), (6, 3));
        roster.remove(&hex(2));
        roster.remove(&hex(2));
        assert_eq!((roster.len(), roster.waiters_ahead(&hex(ME))), (5, 2));
        roster.clear();
        assert_eq!(roster.len(), 0);
    }

    #[test]
    fn ids_of_any_form_sort_as_they_are_written() {
        let mut ids = [
            MemberId::parse("zoe"),
            hex(u128::MAX),
            MemberId::Legacy(1),
            hex(0),
            MemberId::parse("0"),
        ];
        ids.sort();
        let written: Vec<String> = ids.iter().map(ToString::to_string).collect();
        assert!(written.is_sorted(), "{written:?}");
        let mut roster = Roster::default();
        let exclusive = Standing::Foreign(ForeignStanding::Exclusive);
        ids.iter().rev().for_each(|id| roster.note(id.clone(), exclusive));
        assert_eq!(roster.len(), ids.len());
        ids.iter().for_each(|id| roster.remove(id));
        assert_eq!(roster.len(), 0, "each is found again");
    }
}
