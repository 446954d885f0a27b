//! Clients and locks as the tests make them.

use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use portalock::{Client, ClientOptions, Lock, LockOptions, Loss};

pub fn client(url: &str) -> Client {
    Client::new(url, ClientOptions::new()).unwrap()
}

pub fn lock(client: &Client, name: &str) -> Lock {
    client.lock(name, LockOptions::new()).unwrap()
}

/// A lock with a client, and so a connection, of its own.
pub fn lone_lock(url: &str, name: &str) -> Lock {
    lock(&client(url), name)
}

/// What the callback of a lock is told, and when.
pub fn watch(lock: &Lock) -> Receiver<(Instant, Loss)> {
    let (sender, receiver) = channel();
    lock.on_lost(Some(Box::new(move |loss| {
        let _ = sender.send((Instant::now(), loss.clone()));
    })));
    receiver
}
