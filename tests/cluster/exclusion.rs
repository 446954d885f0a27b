//! Mutual exclusion while the slot's master changes again and again.

use std::time::Duration;

use portalock::LockOptions;

use crate::support::cluster::Cluster;
use crate::support::overlap::{Change, Hold, Trial};

/// Between the health checks; what they may take is as long.
const EVERY: Duration = Duration::from_millis(500);
/// How long a lock may outlive its master: an interval and the deadline, and as much again for this machine.
const OVERLAP: Duration = Duration::from_secs(2);

#[test]
fn two_hold_for_no_longer_than_is_documented() {
    let cluster = Cluster::start();
    let name = cluster.name_at(0, "jobs}");
    let mut options = LockOptions::new();
    options.fencing(true).health_check_interval(EVERY).unwrap();
    let trial = Trial {
        url: &cluster.url(),
        name: &name,
        options,
        held: Duration::from_millis(60),
        overlap: OVERLAP,
        rest: Duration::from_millis(300),
    };
    // In each of the ways in which that can be done.
    let is_handed_over = || {
        cluster.nodes[3].run::<String>(&["CLUSTER", "FAILOVER"]);
        cluster.await_master(3, &[0, 1, 2, 3, 4, 5]);
    };
    let slot_is_moved = || cluster.move_slot(&name, 3, 1);
    let stands_still = || {
        cluster.nodes[1].stop();
        cluster.await_master(4, &[0, 2, 3, 4, 5]);
        cluster.nodes[1].cont();
    };
    let (holds, changes) = trial.run(&[&is_handed_over, &slot_is_moved, &stands_still], || ());
    trial.judge(&holds, &changes);
    // Nothing of what the old master had is lost but with the last.
    judge_tokens(&holds, &changes[2..]);
}

/// Whoever comes later has the higher token, but for one change: a replica that takes over without having
/// heard of the last grants counts on from before them.
fn judge_tokens(holds: &[Hold], forgetful: &[Change]) {
    let mut highest = 0;
    let mut forgetful = forgetful.iter().peekable();
    for hold in holds {
        while forgetful.next_if(|change| change.from <= hold.from).is_some() {
            println!("{highest} was the highest before a change that may forget grants");
            highest = 0;
        }
        if let Some(token) = hold.token {
            assert!(token > highest, "{hold:?} after {highest}");
            highest = token;
        }
    }
    println!("{highest} was the highest in the end");
}
