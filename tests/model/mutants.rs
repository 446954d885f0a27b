//! A checker that never failed has proved nothing: each known fault, in the smallest case that shows
//! it, and by the property that it breaks.

use portalock::protocol::Mutant;

use crate::case::Case;
use crate::explore::explore;
use crate::steps::Property;

/// Both ways of exploring find it.
fn breaks(property: Property, mutant: Mutant, case: Case) {
    breaks_reduced(property, mutant, case.clone());
    breaks_reduced(property, mutant, case.unreduced());
}

fn breaks_reduced(property: Property, mutant: Mutant, case: Case) {
    let outcome = explore(&case.mutant(mutant).only(property));
    assert_eq!(outcome.property(), Some(property), "{mutant:?} was not caught");
    assert!(outcome.trace.lines().count() > 2, "a fault without a trace");
}

#[test]
fn promote_unresolved() {
    breaks(Property::Exclusion, Mutant::PromoteUnresolved, Case::new(&["W", "W"]));
}

#[test]
fn forget_asker() {
    let case = || Case::new(&["WW", "W"]).overlap();
    breaks(Property::Promise, Mutant::ForgetAsker, case());
    breaks(Property::Exclusion, Mutant::ForgetAsker, case());
}

#[test]
fn ping_overwrites_pong() {
    let case = || Case::new(&["WW", "W"]).overlap();
    breaks(Property::Promise, Mutant::PingOverwritesPong, case());
    breaks(Property::Exclusion, Mutant::PingOverwritesPong, case());
}

#[test]
fn keep_ghosts() {
    breaks(Property::Progress, Mutant::KeepGhosts, Case::new(&["W", "W"]).crashes(1));
}

/// One is gone before it answers, another joins: the count stays the same for ever.
#[test]
fn ask_only_when_fewer() {
    let case = Case::new(&["W", "W", "W"]).crashes(1);
    breaks_reduced(Property::Progress, Mutant::AskOnlyWhenFewer, case);
}

/// The count falls by itself where the node notices a crash. Where it does not, somebody has to ask,
/// to find out who is silent.
#[test]
fn never_recheck() {
    breaks(Property::Progress, Mutant::NeverRecheck, Case::new(&["W", "W"]).crashes(1).reaped());
}

#[test]
fn take_old_count() {
    let case = Case::new(&["WW", "W"]).crashes(1).premature(1);
    breaks(Property::Heard, Mutant::TakeOldCount, case);
    let case = Case::new(&["W", "W", "W"]).premature(1);
    breaks_reduced(Property::Exclusion, Mutant::TakeOldCount, case);
}

#[test]
fn expect_members() {
    let case = || Case::new(&["WW", "W"]).overlap();
    breaks(Property::Heard, Mutant::ExpectMembers, case());
    breaks_reduced(Property::Exclusion, Mutant::ExpectMembers, case());
}

/// No danger, and nobody is stuck for good: the next ping puts it right. But it takes a timer to
/// send one, and nobody's time should pass because somebody has left in good order.
#[test]
fn leave_in_silence() {
    breaks(Property::Progress, Mutant::LeaveInSilence, Case::new(&["W", "W"]).timerless());
}

#[test]
fn take_old_pongs() {
    let case = || Case::new(&["W", "W"]).premature(1);
    breaks(Property::Heard, Mutant::TakeOldPongs, case());
    breaks(Property::Exclusion, Mutant::TakeOldPongs, case());
}

/// The answer stands for a member that has not answered, and the echo takes it from the roster again.
#[test]
fn take_early_pongs() {
    breaks(Property::Exclusion, Mutant::TakeEarlyPongs, Case::new(&["W", "W"]).noise(1));
}

/// Who answered before the second echo is forgotten, and still counts as heard.
#[test]
fn take_second_echo() {
    breaks(Property::Exclusion, Mutant::TakeSecondEcho, Case::new(&["W", "W"]).noise(1));
}

/// Harmless in one stream: a ping that is followed by a count of one came from somebody who is gone.
/// With two streams the count may be older than the ping.
#[test]
fn alone_despite_ping() {
    let case = || Case::new(&["W", "W"]);
    breaks(Property::Promise, Mutant::AloneDespitePing, case().two_streams());
    breaks(Property::Exclusion, Mutant::AloneDespitePing, case().two_streams());
    let harmless = explore(&case().crashes(1).timeouts(1).mutant(Mutant::AloneDespitePing));
    assert!(harmless.violation.is_none(), "{}", harmless.trace);
}

#[test]
fn readers_barge() {
    breaks(Property::Promise, Mutant::ReadersBarge, Case::new(&["W", "R"]));
    breaks(Property::Exclusion, Mutant::ReadersBarge, Case::new(&["W", "R"]));
}
