//! Locks in a cluster: three masters with a replica each, all on loopback.

#[path = "../support/mod.rs"]
mod support;

mod basics;
mod c;
mod change;
mod exclusion;

use std::time::Duration;

use portalock::{Lock, LockOptions, Wait};

use support::locks::{client, lock, lone_lock, watch};
use support::worker::Worker;

/// Longer than a change takes, on a machine that is busy.
const LONG: Duration = Duration::from_secs(40);

/// Where the tests' worker processes begin; see [`support::worker`].
#[test]
fn worker_entry() {
    support::worker::serve();
}

fn fenced_lock(url: &str, name: &str) -> Lock {
    let mut options = LockOptions::new();
    options.fencing(true);
    client(url).lock(name, options).unwrap()
}

fn wait(span: Duration) -> Wait {
    Wait::For(span)
}

/// The fencing token of a worker that holds.
fn token_of(worker: &mut Worker) -> u64 {
    worker.tell("token");
    let said = worker.line(LONG).expect("it says nothing");
    said.strip_prefix("token ").and_then(|token| token.parse().ok()).expect("no token")
}
