//! Larger runs, as far as time and memory go: `./dev soak`.
//!
//! `PORTALOCK_MODEL_SECONDS` bounds each case, `PORTALOCK_MODEL_STATES` its states (about 100 bytes
//! each). A case that is cut short has still found no fault among the states that it visited.

use std::env;
use std::time::Duration;

use crate::case::Case;
use crate::explore::{Bounds, explore_within};

fn setting(name: &str, otherwise: u64) -> u64 {
    let Ok(value) = env::var(name) else { return otherwise };
    value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}"))
}

fn survives(case: Case) {
    let bounds = Bounds {
        states: setting("PORTALOCK_MODEL_STATES", 40_000_000) as usize,
        time: Duration::from_secs(setting("PORTALOCK_MODEL_SECONDS", 60)),
    };
    let outcome = explore_within(&case, bounds);
    assert!(outcome.violation.is_none(), "{}", outcome.trace);
    assert!(outcome.states > 1_000, "{}: only {} states", case.name, outcome.states);
}

#[test]
#[ignore = "long: ./dev soak"]
fn four_members() {
    for members in [["W", "W", "W", "W"], ["W", "R", "W", "R"], ["R", "R", "W", "W"]] {
        survives(Case::new(&members));
        survives(Case::new(&members).one_pipeline().crashes(1));
        survives(Case::new(&members).one_pipeline().timeouts(1));
        survives(Case::new(&members).crashes(1).timeouts(1));
    }
}

#[test]
#[ignore = "long: ./dev soak"]
fn three_members_two_rounds() {
    for members in [["WW", "WW", "WW"], ["WR", "RW", "WW"], ["RR", "WW", "RW"]] {
        survives(Case::new(&members).crashes(1));
        survives(Case::new(&members).timeouts(1).reversed());
        survives(Case::new(&members).crashes(1).timeouts(1).premature(1));
    }
}

#[test]
#[ignore = "long: ./dev soak"]
fn three_members_more_mishaps() {
    for members in [["W", "W", "W"], ["W", "R", "W"], ["R", "W", "R"], ["R", "R", "W"]] {
        survives(Case::new(&members).crashes(1).timeouts(1).premature(1));
        survives(Case::new(&members).crashes(2).timeouts(1).premature(2));
        survives(Case::new(&members).crashes(1).timeouts(1).premature(1).patterns(1));
        survives(Case::new(&members).crashes(1).timeouts(1).reaped());
        survives(Case::new(&members).crashes(1).two_streams());
        survives(Case::new(&members).patterns(1).two_streams());
    }
}

#[test]
#[ignore = "long: ./dev soak"]
fn fresh_connections() {
    survives(Case::new(&["WW", "WW"]).overlap());
    survives(Case::new(&["WW", "RW"]).overlap().crashes(1).timeouts(1));
    survives(Case::new(&["WWW", "WWW"]).overlap());
    survives(Case::new(&["WW", "W", "W"]).overlap());
}

#[test]
#[ignore = "long: ./dev soak"]
fn every_order_without_the_reduction() {
    survives(Case::new(&["W", "W", "W"]).unreduced());
    survives(Case::new(&["W", "R", "W"]).crashes(1).unreduced());
    survives(Case::new(&["R", "W", "R"]).crashes(1).timeouts(1).one_pipeline().unreduced());
    survives(Case::new(&["WW", "WW"]).crashes(1).timeouts(1).unreduced());
    survives(Case::new(&["WW", "W"]).overlap().crashes(1).unreduced());
}

/// The fault that needs three members and a whole graph to show.
#[test]
#[cfg(feature = "mutants")]
#[ignore = "long: ./dev soak"]
fn count_preserving_churn_without_the_reduction() {
    let case = Case::new(&["W", "W", "W"]).crashes(1).one_pipeline();
    let mutant = portalock::protocol::Mutant::AskOnlyWhenFewer;
    let outcome = crate::explore::explore(&case.unreduced().mutant(mutant));
    assert_eq!(outcome.property(), Some(crate::steps::Property::Progress));
}

/// Each with its pipelines step by step.
#[test]
#[ignore = "long: ./dev soak"]
fn two_of_ours_and_a_stranger() {
    use crate::foreign::Version::{V41, V44};
    use portalock::protocol::Mode::{Exclusive, Shared};
    for ours in [["W", "W"], ["W", "R"], ["R", "W"], ["R", "R"]] {
        for wants in [Exclusive, Shared] {
            for rank in 0..=2 {
                survives(Case::new(&ours).stranger(V44, wants, rank));
                survives(Case::new(&ours).one_pipeline().crashes(1).stranger(V44, wants, rank));
                survives(Case::new(&ours).one_pipeline().timeouts(1).stranger(V44, wants, rank));
            }
            survives(Case::new(&ours).stranger(V41, wants, 1).safety_only());
        }
    }
}
