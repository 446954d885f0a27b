//! What one member knows of the others, in the order of the server's stream.

use super::id::MemberId;
use super::message::{ForeignStanding, Mode, Standing, State};

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

    /// Whether anybody in here has to be waited for by a member `me` that wants `mode`.
    pub(super) fn blocks(&self, me: &MemberId, mode: Mode) -> bool {
        self.entries.iter().any(|(id, standing)| stands_before(id, standing, me, mode))
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
fn stands_before(id: &MemberId, standing: &Standing, me: &MemberId, mode: Mode) -> bool {
    match *standing {
        Standing::Queue { wants, .. } if wants.admits(mode) => false,
        Standing::Queue { state, .. } => match state {
            State::Held => true,
            State::Waiting => id < me,
            State::Leaving => false,
        },
        Standing::Foreign(foreign) => match foreign {
            ForeignStanding::Exclusive => true,
            ForeignStanding::Shared => mode == Mode::Exclusive,
            ForeignStanding::Pending { elected } => elected != Some(false) || id < me,
        },
    }
}
