//! Real processes, a real server, and all that can happen to them, with a fencing resource as the judge.
//!
//!   PORTALOCK_CHAOS_SECONDS  how long faults are injected (20 unless set)
//!   PORTALOCK_SEED           what happens when; the order of what comes of it is the machine's
//!
//! * [`worker`]: the processes. Each takes the lock, enters, writes, and leaves, over and over.
//! * [`judge`]: who is inside, and whether another one may be.
//! * [`faults`]: what is done to processes, connections, paths and the server.
//! * [`proxy`]: a path to the server that can be cut, or fall silent.

#[path = "../redis/dice.rs"]
mod dice;
#[path = "../support/mod.rs"]
mod support;

mod faults;
mod judge;
mod proxy;
mod worker;

use std::sync::Arc;
use std::time::{Duration, Instant};

use faults::Chaos;
use judge::Judge;
use support::wait_until;

/// Where the processes begin.
#[test]
fn worker_entry() {
    worker::serve();
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn nobody_meets_a_holder_that_could_have_been_told() {
    let seconds = number("PORTALOCK_CHAOS_SECONDS", 20);
    let judge = Arc::new(Judge::default());
    let mut chaos = Chaos::start(&judge);
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        chaos.injure();
    }
    let calm = chaos.calm_down();
    judge.expect_more();
    let served = wait_until(Duration::from_secs(60), || judge.is_everybody_served_again());
    let report = judge.report();
    println!("{seconds} s of chaos, then calm: {calm}\n{report}");
    assert!(served, "not everybody is served again: {report}");
    chaos.end();
    assert_eq!(report.unexcused, 0, "two inside: {report}");
    assert!(report.sections > seconds, "hardly anybody is served: {report}");
}
