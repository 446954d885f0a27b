//! Explored with every run of the tests.

use crate::case::Case;
use crate::explore::explore;
use crate::steps::Property;

/// Explores it all, wants no fault, and at least so many states.
pub fn holds(case: Case, states: usize) {
    let outcome = explore(&case);
    assert!(outcome.violation.is_none(), "{}", outcome.trace);
    assert!(outcome.complete);
    assert!(outcome.states >= states, "{}: only {} states", case.name, outcome.states);
}

/// Letters in the order of ids; the order of joining is always any. One reader is in everybody's
/// way and everybody in its: wherever it stands, the states are the same as with a third writer.
const THREE: [[&str; 3]; 6] = [
    ["W", "W", "W"],
    ["W", "W", "R"],
    ["W", "R", "R"],
    ["R", "W", "R"],
    ["R", "R", "W"],
    ["R", "R", "R"],
];

#[test]
fn two_members_two_rounds() {
    for members in [["WW", "WW"], ["WR", "RW"], ["WW", "RR"]] {
        let case = || Case::new(&members).crashes(1).timeouts(1).premature(1);
        holds(case(), 100_000);
        holds(case().reversed(), 100_000);
        holds(case().ids(&[0, 3, 2, 1]), 100_000);
        holds(case().one_pipeline(), 20_000);
        holds(case().premature(2), 300_000);
    }
}

#[test]
fn two_members_three_rounds() {
    for members in [["WWW", "WWW"], ["WRW", "RWR"]] {
        let case = || Case::new(&members).crashes(1).timeouts(2).premature(1);
        holds(case(), 700_000);
        holds(case().reversed(), 700_000);
    }
}

#[test]
fn next_round_on_a_fresh_connection() {
    holds(Case::new(&["WW", "WW"]).overlap(), 70_000);
    holds(Case::new(&["WW", "W"]).overlap().crashes(1).timeouts(1), 100_000);
    holds(Case::new(&["WR", "W"]).overlap().crashes(1).premature(1), 100_000);
    holds(Case::new(&["WW", "W"]).overlap().reversed().timeouts(1).premature(1), 300_000);
}

#[test]
fn three_members_one_crash() {
    for members in THREE {
        holds(Case::new(&members).crashes(1).premature(1), 1_500_000);
    }
}

#[test]
fn three_members_one_timeout() {
    // Every mix once; in which place the one that differs stands, the crashes above have shown.
    for members in [["W", "W", "W"], ["W", "W", "R"], ["R", "R", "W"], ["R", "R", "R"]] {
        holds(Case::new(&members).timeouts(1).premature(1), 1_500_000);
    }
}

#[test]
fn three_members_crash_and_timeout() {
    holds(Case::new(&["W", "W", "W"]).crashes(1).timeouts(1), 1_000_000);
    holds(Case::new(&["W", "R", "W"]).crashes(1).timeouts(1), 1_000_000);
    for members in THREE {
        holds(Case::new(&members).crashes(1).timeouts(1).premature(1).one_pipeline(), 300_000);
    }
}

#[test]
fn three_members_two_rounds() {
    holds(Case::new(&["WW", "WW", "WW"]), 500_000);
    holds(Case::new(&["WR", "RW", "WW"]).reversed(), 500_000);
}

#[test]
fn four_members() {
    holds(Case::new(&["W", "W", "W", "W"]).crashes(1).one_pipeline(), 1_800_000);
}

/// Without mishaps a hand-over costs the flight of an event, and no timer.
#[test]
fn no_timer_is_needed_in_good_order() {
    for members in THREE {
        holds(Case::new(&members).timeouts(2).timerless(), 400_000);
    }
    holds(Case::new(&["WW", "WR"]).timeouts(1).timerless(), 5_000);
    holds(Case::new(&["WW", "W"]).overlap().timeouts(1).timerless(), 30_000);
}

/// Pattern subscribers receive pings and never answer: an exact count has to tell.
#[test]
fn pattern_subscribers() {
    holds(Case::new(&["W", "W", "W"]).patterns(1), 200_000);
    holds(Case::new(&["W", "W", "R"]).patterns(1).reply_first(), 200_000);
    holds(Case::new(&["WW", "WW"]).patterns(2).crashes(1).timeouts(1).premature(1), 200_000);
}

/// Where the node will not count exactly, nobody can tell a pattern from a member that is silent:
/// waiters wait on. That is the safe half of a bad choice, and one subscriber is not in the way.
#[test]
fn pattern_subscribers_and_no_exact_count() {
    let case = || Case::new(&["W", "W", "W"]).refuses_exact();
    holds(case().patterns(1).safety_only(), 600_000);
    holds(case().timeouts(1).crashes(1), 1_200_000);
    let stuck = explore(&Case::new(&["W", "W"]).refuses_exact().patterns(1));
    assert_eq!(stuck.property(), Some(Property::Progress), "better than was known");
}

/// The node notices no crash: those who wait find out who is silent.
#[test]
fn half_open_connections() {
    holds(Case::new(&["W", "W"]).crashes(1).reaped(), 700);
    holds(Case::new(&["W", "R", "W"]).crashes(1).reaped(), 140_000);
    holds(Case::new(&["WW", "WW"]).crashes(1).timeouts(1).premature(1).reaped(), 80_000);
}

/// Many members on one connection, whose name tells none of them: each has one channel in common with the
/// others here, and its rounds follow each other on that connection.
#[test]
fn members_on_links() {
    holds(Case::new(&["W", "W"]).linked().crashes(1).reaped(), 700);
    holds(Case::new(&["W", "R", "W"]).linked().crashes(1).reaped(), 140_000);
    holds(Case::new(&["WW", "WW"]).linked().crashes(1).timeouts(1).premature(1).reaped(), 80_000);
    holds(Case::new(&["WW", "W"]).linked().overlap().crashes(1).reaped(), 10_000);
    holds(Case::new(&["WR", "W"]).linked().overlap().crashes(1).timeouts(1).premature(1), 100_000);
    holds(Case::new(&["WW", "WW"]).linked().overlap(), 70_000);
}

/// Whoever may publish may say anything, at any moment, and may say again what others have said.
#[test]
fn noise_on_the_channels() {
    for members in [["W", "W"], ["W", "R"], ["R", "W"]] {
        holds(Case::new(&members).crashes(1).timeouts(1).noise(1), 50_000);
        holds(Case::new(&members).premature(1).noise(2), 50_000);
        holds(Case::new(&members).noise(3), 50_000);
    }
    holds(Case::new(&["WW", "W"]).overlap().noise(1), 50_000);
    holds(Case::new(&["W", "W"]).linked().noise(1), 5_000);
    holds(Case::new(&["W", "W"]).two_streams().noise(1), 10_000);
    holds(Case::new(&["W", "W", "W"]).one_pipeline().noise(1), 50_000);
}

/// RESP2: replies and pushes pass each other.
#[test]
fn two_streams() {
    holds(Case::new(&["W", "W"]).two_streams().crashes(1).timeouts(1).premature(1), 60_000);
    holds(Case::new(&["W", "R"]).two_streams().crashes(1).timeouts(1).premature(2), 400_000);
    holds(Case::new(&["WW", "WW"]).two_streams().crashes(1), 25_000);
    holds(Case::new(&["W", "W", "W"]).two_streams(), 1_000_000);
    holds(Case::new(&["R", "W", "R"]).two_streams(), 1_000_000);
}

/// Leaving times and ping numbers out of a contender's hash leaves out nothing that matters.
#[test]
fn contenders_that_count_as_one_behave_alike() {
    holds(Case::new(&["W", "W"]).crashes(1).timeouts(1).premature(1).audited(), 10_000);
    holds(Case::new(&["W", "R", "R"]).patterns(1).audited(), 100_000);
    holds(Case::new(&["W", "W"]).two_streams().premature(1).refuses_exact().audited(), 1_000);
}

#[test]
fn reduction_changes_no_verdict() {
    for case in [
        Case::new(&["W", "W"]).crashes(1).timeouts(1).premature(1),
        Case::new(&["W", "R"]).crashes(2).timeouts(2),
        Case::new(&["WR", "W"]).overlap(),
        Case::new(&["W", "W", "R"]),
        Case::new(&["WW", "WW"]).timeouts(1).one_pipeline(),
        Case::new(&["W", "W"]).patterns(1).premature(2),
        Case::new(&["W", "W"]).two_streams().crashes(1),
    ] {
        holds(case.clone(), 100);
        holds(case.unreduced(), 1_000);
    }
}
