//! On one channel with the real portalocker, in each version that behaves in a way of its own.

#[path = "../support/mod.rs"]
mod support;

mod cells;
mod peers;
mod storm;
mod tokens;
mod traffic;
mod users;
mod view;

use std::time::Duration;

/// Where the tests' worker processes begin; see [`support::worker`].
#[test]
fn worker_entry() {
    support::worker::serve();
}

/// Longer than anything takes that works: portalocker retries every quarter of a second.
const LONG: Duration = Duration::from_secs(10);

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}
