//! Threads, connections and descriptors.

use std::collections::BTreeSet;

use portalock::{Client, ClientOptions, Lock};

use crate::support::{Server, wait_until};
use crate::{LONG, SOON, client, lock, wait};

/// The field of a line of `CLIENT LIST`.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let value = line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_default()
}

/// The library's connections: their ids, and the names they bear now.
fn connections(server: &Server) -> Vec<(u64, String)> {
    let clients = server.clients();
    let ours = clients.iter().filter(|line| field(line, "resp") == "3" || line.contains("-lock-"));
    ours.map(|line| (field(line, "id").parse().unwrap(), field(line, "name").to_owned())).collect()
}

fn threads(named: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with(named)).count()
}

#[test]
fn a_hundred_locks_are_kept_by_one_thread() {
    let server = Server::start();
    let client = client(&server.url());
    let locks: Vec<Lock> = (0..100).map(|n| lock(&client, &format!("job-{n}"))).collect();
    for lock in &locks {
        lock.acquire(wait(5_000)).unwrap();
    }
    assert!(locks.iter().all(Lock::is_held));
    assert_eq!(threads("portalock-keep"), 1);
    assert!(threads("portalock-") <= 2, "a thread too many");
    assert_eq!(connections(&server).len(), 100);
    for lock in &locks {
        lock.release().unwrap();
    }
    // Eight connections stay for later.
    assert!(wait_until(SOON, || connections(&server).len() == 8));
    drop(locks);
    drop(client);
    assert!(wait_until(SOON, || connections(&server).is_empty()));
}

#[test]
fn a_released_connection_is_used_again_without_its_name() {
    let server = Server::start();
    let client = client(&server.url());
    let mut seen = BTreeSet::new();
    for name in ["jobs", "jobs", "other", "jobs"] {
        let lock = lock(&client, name);
        lock.acquire(wait(5_000)).unwrap();
        let [(id, bears)] = connections(&server).try_into().unwrap();
        assert_eq!(bears, lock.client_name().unwrap());
        seen.insert(id);
        lock.release_wait(LONG).unwrap();
        let cleared = || connections(&server) == [(id, String::new())];
        assert!(wait_until(SOON, cleared), "{:?}", connections(&server));
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[test]
fn a_waiter_that_has_given_up_leaves_its_connection_to_the_next() {
    let server = Server::start();
    let holder = crate::lone_lock(&server.url(), "jobs");
    holder.acquire(wait(5_000)).unwrap();
    let client = client(&server.url());
    for _ in 0..5 {
        let waiter = lock(&client, "jobs");
        assert!(waiter.acquire(wait(50)).is_err());
        assert!(waiter.try_acquire().is_err());
    }
    assert!(wait_until(SOON, || server.members("jobs") == 1));
    assert_eq!(connections(&server).len(), 2);
}

#[test]
fn a_connection_that_went_stale_in_the_pool_is_not_noticed() {
    let mut server = Server::start();
    let client = client(&server.url());
    for _ in 0..3 {
        let lock = lock(&client, "jobs");
        lock.acquire(wait(5_000)).unwrap();
        lock.release_wait(LONG).unwrap();
        server.restart();
    }
    let lock = lock(&client, "jobs");
    lock.try_acquire().unwrap(); // one attempt is enough: the warm connection is tried on top of it
    assert!(lock.is_held());
}

#[test]
fn a_pooled_connection_that_the_server_ends_is_replaced_and_not_noticed() {
    let server = Server::start();
    let client = client(&server.url());
    let jobs = lock(&client, "jobs");
    jobs.on_lost(Some(Box::new(|loss| panic!("lost: {loss:?}"))));
    for _ in 0..5 {
        jobs.try_acquire().unwrap();
        jobs.release_wait(LONG).unwrap();
        assert!(wait_until(SOON, || connections(&server).iter().all(|(_, name)| name.is_empty())));
        let [(id, _)] = connections(&server).try_into().unwrap();
        assert_eq!(server.run::<u64>(&["CLIENT", "KILL", "ID", &id.to_string()]), 1);
    }
    // Also where all that are warm have gone cold.
    let locks: Vec<Lock> = (0..8).map(|n| lock(&client, &format!("job-{n}"))).collect();
    locks.iter().for_each(|lock| lock.try_acquire().unwrap());
    locks.iter().for_each(|lock| lock.release_wait(LONG).unwrap());
    server.run::<u64>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    jobs.try_acquire().unwrap();
    assert!(jobs.is_held());
}

#[test]
fn the_pool_keeps_no_more_than_told() {
    let server = Server::start();
    for size in [0, 2] {
        let mut options = ClientOptions::new();
        options.pool_size(size).unwrap();
        let client = Client::new(&server.url(), options).unwrap();
        let locks: Vec<Lock> = (0..4).map(|n| lock(&client, &format!("job-{n}"))).collect();
        for lock in &locks {
            lock.acquire(wait(5_000)).unwrap();
        }
        assert_eq!(connections(&server).len(), 4);
        for lock in &locks {
            lock.release_wait(LONG).unwrap();
        }
        let settled = wait_until(SOON, || connections(&server).len() == size);
        assert!(settled, "{size}: {:?}", connections(&server));
    }
}

#[test]
fn a_thousand_uses_leave_no_descriptor_behind() {
    let server = Server::start();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let round = || {
        let client = client(&server.url());
        let (a, b) = (lock(&client, "jobs"), lock(&client, "jobs"));
        for _ in 0..5 {
            a.acquire(wait(5_000)).unwrap();
            assert!(b.try_acquire().is_err());
            a.release().unwrap();
        }
    };
    round();
    wait_until(SOON, || connections(&server).is_empty());
    let before = descriptors();
    for _ in 0..200 {
        round();
    }
    // Other tests may run beside this one in the same process: a leak would be hundreds.
    assert!(wait_until(SOON, || descriptors() < before + 50), "{} {before}", descriptors());
    assert!(wait_until(SOON, || connections(&server).is_empty()));
}
