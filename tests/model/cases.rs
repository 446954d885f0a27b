//! Explored with every run of the tests.

use crate::case::Case;
use crate::explore::explore;

/// Explores it all, wants no fault, and at least so many states.
pub fn holds(case: Case, states: usize) {
    let outcome = explore(&case);
    assert!(outcome.violation.is_none(), "{}", outcome.trace);
    assert!(outcome.complete);
    assert!(outcome.states >= states, "{}: only {} states", case.name, outcome.states);
}


#[test]
fn reduction_changes_no_verdict() {
    for case in [
        Case::new(&["W", "W"]).crashes(1).timeouts(1).premature(1),
        Case::new(&["WR", "W"]).crashes(1).timeouts(1).premature(0).overlap(),
        Case::new(&["W", "W", "R"]).premature(0),
        Case::new(&["W", "W", "W"]).one_pipeline().timeouts(1),
        Case::new(&["W", "W"]).patterns(1).premature(2),
    ] {
        holds(case.clone(), 10);
        holds(case.unreduced(), 10);
    }
}

#[test]
fn trial() {
    for case in [
    Case::new(&["WW", "WW"]).crashes(1).timeouts(1).premature(1),
    Case::new(&["WW", "WW"]).reversed().crashes(1).timeouts(1).premature(1),
    Case::new(&["WW", "WW"]).overlap().crashes(1).timeouts(1).premature(1),
    Case::new(&["WW", "RW"]).overlap().crashes(1).timeouts(1).premature(2),
    Case::new(&["W", "W", "W"]).crashes(1),
    Case::new(&["W", "W", "W"]).timeouts(1),
    Case::new(&["W", "W", "W"]).premature(1),
    Case::new(&["W", "W", "W"]).crashes(1).timeouts(1),
    Case::new(&["W", "W", "W"]).crashes(1).premature(1),
    Case::new(&["W", "W", "W"]).crashes(1).one_pipeline().timeouts(1).premature(1),
    Case::new(&["W", "W", "W"]).patterns(1),
    Case::new(&["W", "W"]).patterns(1).timeouts(1).crashes(1),
    Case::new(&["W", "W"]).patterns(1).timeouts(1).crashes(1).premature(1).reply_first(),
    Case::new(&["W", "W", "R"]).crashes(1),
    Case::new(&["W", "R", "R"]).crashes(1),
    Case::new(&["R", "R", "R"]).crashes(1),
    Case::new(&["W", "W", "W"]).timerless(),
    Case::new(&["W", "W", "W"]).timeouts(2).timerless(),
    Case::new(&["WW", "WW"]).overlap().timeouts(2).timerless(),
    Case::new(&["WWW", "WWW"]).overlap(),
    Case::new(&["WWW", "WWW"]).crashes(1).overlap(),
    Case::new(&["WW", "WW", "W"]),
    ] {
        let o = crate::explore::explore_within(&case, crate::explore::Bounds{states: 40_000_000, time: std::time::Duration::from_secs(12)}); if o.violation.is_some() { eprintln!("{}", o.trace); }
    }
}
