//! Locks in a cluster: three masters with a replica each, all on loopback.

#[path = "../support/mod.rs"]
mod support;

mod basics;
mod c;
mod change;
mod exclusion;

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::support::worker::Worker;
use portalock::{Client, ClientOptions, Lock, LockOptions, Loss, Wait};

/// Longer than a change takes, on a machine that is busy.
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

/// What the callback of a lock is told, and when.
fn watch(lock: &Lock) -> Receiver<(Instant, Loss)> {
    let (sender, receiver) = channel();
    lock.on_lost(Some(Box::new(move |loss| {
        let _ = sender.send((Instant::now(), loss.clone()));
    })));
    receiver
}
