//! Names of all kinds.

use portalock::{LockOptions, Status};

use crate::support::{Server, wait_until};
use crate::{LONG, SOON, client, lock, lone_lock, status, wait};

/// None of these may be taken for another, nor for a pattern.
const ODD: &[&str] = &[
    "a",
    "ab",
    "a b",
    " a",
    "a ",
    "a%20b",
    "a%b",
    "100%",
    "Łódź",
    "鍵",
    "🔒 lock",
    "é",
    "e\u{301}",
    "{jobs}:1",
    "{}",
    "{\"message\":\"ping\"}",
    "a*",
    "a?",
    "a[bc]",
    "*",
    "a\\*",
    "quote\"d",
    "it's",
    "line\nbreak",
    "car\rriage",
    "tab\there",
    "bell\u{7}",
    "del\u{7f}",
    "a-lock",
    "a-lock-b",
    "a-lock-",
    "-lock-",
    "-",
    "a~b",
];

#[test]
fn each_of_them_is_a_lock_of_its_own() {
    let server = Server::start();
    let client = client(&server.url());
    let held: Vec<_> = ODD.iter().map(|name| lock(&client, name)).collect();
    for lock in &held {
        lock.try_acquire().unwrap_or_else(|error| panic!("{:?}: {error}", lock.name()));
    }
    for (lock, name) in held.iter().zip(ODD) {
        assert_eq!(lock.name(), *name);
        assert_eq!(server.members(name), 1, "{name:?}");
        let other = lone_lock(&server.url(), name);
        assert_eq!(status(other.try_acquire()), Status::Locked, "{name:?}");
    }
    for lock in &held {
        assert!(lock.is_held(), "{:?}", lock.name());
        lock.release_wait(LONG).unwrap();
    }
}

#[test]
fn each_of_them_is_handed_over_and_bears_the_name_it_says() {
    let server = Server::start();
    for name in ODD {
        let (holder, next) = (lone_lock(&server.url(), name), lone_lock(&server.url(), name));
        holder.acquire(wait(5_000)).unwrap();
        let bears = format!(" name={} ", holder.client_name().unwrap());
        assert!(server.clients().iter().any(|line| line.contains(&bears)), "{name:?}");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| next.acquire(wait(10_000)));
            assert!(wait_until(LONG, || server.members(name) == 2), "{name:?}");
            holder.release().unwrap();
            waiting.join().unwrap().unwrap_or_else(|error| panic!("{name:?}: {error}"));
        });
        let found = client(&server.url()).holders(name, SOON).unwrap();
        let ids: Vec<_> = found.into_iter().map(|holder| holder.id).collect();
        assert_eq!(ids, [next.holder_id().unwrap()], "{name:?}");
    }
}

#[test]
fn the_longest_name_works_and_a_longer_one_is_refused() {
    let server = Server::start();
    let client = client(&server.url());
    for name in ["x".repeat(1024), "é".repeat(512)] {
        let lock = lock(&client, &name);
        lock.acquire(wait(5_000)).unwrap();
        assert_eq!(server.members(&name), 1);
        lock.release_wait(LONG).unwrap();
    }
    for name in [String::new(), "x".repeat(1025), "a\0b".into(), "a-lock-events".into()] {
        assert_eq!(status(client.lock(&name, LockOptions::new())), Status::Invalid, "{name:?}");
    }
}
