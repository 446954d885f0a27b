//! Ours and a portalocker on one channel.

use portalock::protocol::Mode;

use crate::case::Case;
use crate::cases::holds;
use crate::foreign::Version::{V41, V44};

const MODES: [Mode; 2] = [Mode::Exclusive, Mode::Shared];

/// Nobody ever holds beside another, and all get there.
#[test]
fn with_4_4_all_are_safe_and_all_are_served() {
    let case = |ours, wants, rank| Case::new(ours).one_pipeline().stranger(V44, wants, rank);
    holds(case(&["W", "W"], Mode::Exclusive, 0), 7_000_000);
    holds(case(&["W", "W"], Mode::Shared, 1), 900_000);
    holds(case(&["R", "R"], Mode::Shared, 1), 100_000);
}

/// It may never be elected while others come and go; it must never hold beside another. Its id plays no
/// part: whoever does not say whether it is elected is always waited for.
#[test]
fn with_4_1_all_are_safe() {
    let case = |ours, wants| Case::new(ours).one_pipeline().stranger(V41, wants, 1).safety_only();
    holds(case(&["W", "W"], Mode::Exclusive), 500_000);
    holds(case(&["W", "R"], Mode::Exclusive), 500_000);
    holds(case(&["W", "W"], Mode::Shared), 100_000);
    holds(case(&["R", "R"], Mode::Exclusive), 500_000);
}

/// With mishaps, and every command of a pipeline on its own.
#[test]
fn alone_with_a_stranger() {
    for version in [V41, V44] {
        for wants in MODES {
            for rank in 0..=1 {
                for ours in ["W", "R"] {
                    let case = || Case::new(&[ours]).stranger(version, wants, rank);
                    holds(case().crashes(1).timeouts(1).premature(1), 30_000);
                    holds(case().premature(2).safety_only(), 30_000);
                }
            }
        }
    }
}

#[cfg(feature = "mutants")]
mod mutants {
    use portalock::protocol::Mutant;

    use super::*;
    use crate::explore::explore;
    use crate::steps::Property;

    fn breaks(mutant: Mutant, case: Case) {
        let outcome = explore(&case.mutant(mutant).only(Property::Exclusion));
        assert_eq!(outcome.property(), Some(Property::Exclusion), "{mutant:?} was not caught");
    }

    /// A stranger counts those who are there, and one of ours comes, answers and goes in the place of
    /// the holder, which has not answered yet.
    #[test]
    fn pending_to_strangers() {
        let case = |version| Case::new(&["W", "W"]).stranger(version, Mode::Exclusive, 0);
        breaks(Mutant::PendingToStrangers, case(V41));
    }
}
