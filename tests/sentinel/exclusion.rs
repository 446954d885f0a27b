//! Mutual exclusion while the master changes again and again.

use std::time::Duration;

use portalock::LockOptions;

use crate::failover::OVERLAP;
use crate::support::overlap::Trial;
use crate::support::sentinel::Estate;

#[test]
fn two_hold_for_no_longer_than_is_documented() {
    let estate = Estate::start();
    let (one, other) = (&estate.servers[0], &estate.servers[1]);
    let mut options = LockOptions::new();
    options.fencing(true);
    let trial = Trial {
        url: &estate.url(),
        name: "jobs",
        options,
        held: Duration::from_millis(100),
        overlap: OVERLAP,
        rest: Duration::from_secs(1),
    };
    // In each of the ways in which the old master can go on living.
    let stands_still = || {
        one.stop();
        estate.await_master(other);
        one.cont();
    };
    let is_handed_over = || {
        estate.hand_over();
        estate.await_master(one);
    };
    let (holds, changes) = trial.run(&[&stands_still, &is_handed_over], || estate.await_replicas());
    trial.judge(&holds, &changes);
}
