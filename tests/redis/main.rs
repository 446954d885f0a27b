//! The safe API against a real redis-server: each test starts one of its own.

#[path = "../support/mod.rs"]
mod support;

mod acl;
mod calls;
mod capture;
mod choosing;
mod clocks;
mod commands;
mod concepts;
mod crash;
mod dice;
mod doctor;
mod exclusion;
mod fencing;
mod garbage;
mod health;
mod interrupts;
mod loss;
mod memory;
mod names;
mod onlookers;
mod partition;
mod paths;
mod pauses;
mod proxy;
mod readers;
mod reaping;
mod recovery;
mod resources;
mod resp2;
mod rollout;
mod settings;
mod shared;
mod sleepers;
mod started;
mod stats;
mod storm;
mod timeouts;
#[cfg(feature = "tls")]
mod tls;
mod trouble;
mod unusable;
mod verify;
mod wire;

use std::time::Duration;

use portalock::{Error, Result, Status, Wait};

use support::locks::{client, lock, lone_lock};

/// Longer than anything takes that works.
const LONG: Duration = Duration::from_secs(20);
/// How long a test waits for what comes "at once" before it calls that a failure.
const SOON: Duration = Duration::from_secs(1);

/// Where the tests' worker processes begin; see [`support::worker`].
#[test]
fn worker_entry() {
    support::worker::serve();
}

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn wait(count: u64) -> Wait {
    Wait::For(ms(count))
}

/// Runs what sleeps most of the time, each with a server of its own.
fn together(cases: &[fn()]) {
    std::thread::scope(|scope| cases.iter().for_each(|case| drop(scope.spawn(case))));
}

fn failure<T>(result: Result<T>) -> Error {
    match result {
        Ok(_) => panic!("it worked"),
        Err(error) => error,
    }
}

fn status<T>(result: Result<T>) -> Status {
    failure(result).status()
}
