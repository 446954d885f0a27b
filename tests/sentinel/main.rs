//! Locks at a master that sentinels name: three sentinels, a master and a replica, all on loopback.

#[path = "../support/mod.rs"]
mod support;

mod c;
mod exclusion;
mod failover;
mod finding;

use std::time::Duration;

use portalock::Wait;

use support::locks::{client, lock, lone_lock, watch};

/// Longer than a failover takes, on a machine that is busy.
const LONG: Duration = Duration::from_secs(40);

/// Where the tests' worker processes begin; see [`support::worker`].
#[test]
fn worker_entry() {
    support::worker::serve();
}

fn wait(span: Duration) -> Wait {
    Wait::For(span)
}
