//! Locks at a master that sentinels name: three sentinels, a master and a replica, all on loopback.

#[path = "../support/mod.rs"]
mod support;

mod c;
mod exclusion;
mod failover;
mod finding;

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use portalock::{Client, ClientOptions, Lock, LockOptions, Loss, Wait};

/// Longer than a failover takes, on a machine that is busy.
const LONG: Duration = Duration::from_secs(40);

/// Where the tests' worker processes begin; see [`support::worker`].
#[test]
fn worker_entry() {
    support::worker::serve();
}

fn client(url: &str) -> Client {
    Client::new(url, ClientOptions::new()).unwrap()
}

fn lock(client: &Client, name: &str) -> Lock {
    client.lock(name, LockOptions::new()).unwrap()
}

fn lone_lock(url: &str, name: &str) -> Lock {
    lock(&client(url), name)
}

fn wait(span: Duration) -> Wait {
    Wait::For(span)
}

/// What the callback of a lock is told, and when.
fn watch(lock: &Lock) -> Receiver<(Instant, Loss)> {
    let (sender, receiver) = channel();
    lock.on_lost(Some(Box::new(move |loss| {
        let _ = sender.send((Instant::now(), loss.clone()));
    })));
    receiver
}
