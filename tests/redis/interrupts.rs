//! An acquire that somebody else ends: wherever it is at that moment, it ends at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use portalock::{Client, ClientOptions, Lock, LockOptions, Mode, Status, Wait};

use crate::support::{Server, wait_until};
use crate::unusable::{serve, swallow};
use crate::{LONG, SOON, lone_lock, ms, status, wait};

/// From the call that ends an acquire to its return.
const AT_ONCE: Duration = ms(250);

/// Begins an acquire, ends it some time after it is `under_way`, and tells how it ended.
fn end(lock: &Lock, under_way: impl Fn() -> bool, pause: u64, how: impl Fn(&Lock)) -> Status {
    std::thread::scope(|scope| {
        let acquire = scope.spawn(|| (status(lock.acquire(Wait::Forever)), Instant::now()));
        assert!(wait_until(LONG, under_way), "the acquire does not get under way");
        std::thread::sleep(ms(pause));
        let since = Instant::now();
        how(lock);
        let (status, at) = acquire.join().unwrap();
        let took = at.saturating_duration_since(since);
        println!("  {status:?} after {took:?}");
        assert!(took < AT_ONCE, "{took:?}");
        status
    })
}

/// What an acquire can be busy with that may take for ever, and whether it is by now.
fn troubles() -> Vec<(&'static str, String)> {
    vec![
        ("a server that never answers", serve(swallow)),
        ("a server that closes at once", serve(drop)),
        ("a missing socket", "unix:///nowhere/redis.sock".into()),
        // TEST-NET-1 (RFC 5737): no answer, or none but that there is no route.
        ("an address that leads nowhere", "redis://192.0.2.1".into()),
        ("a host that does not exist", "redis://no.invalid".into()),
    ]
}

#[test]
fn a_cancel_ends_it_whatever_it_is_busy_with() {
    for (what, url) in troubles() {
        println!("{what}:");
        let lock = lone_lock(&url, "jobs");
        for pause in [0, 5, 100] {
            let ended = end(&lock, || lock.holder_id().is_some(), pause, Lock::cancel);
            assert_eq!(ended, Status::Cancelled, "{what}");
        }
        // What was cancelled does not spoil the next one.
        assert_ne!(status(lock.acquire(wait(100))), Status::Cancelled, "{what}");
    }
}

#[test]
fn a_close_ends_it_whatever_it_is_busy_with() {
    for (what, url) in troubles() {
        println!("{what}:");
        let lock = lone_lock(&url, "jobs");
        let ended = end(&lock, || lock.holder_id().is_some(), 20, Lock::close);
        assert_eq!(ended, Status::Cancelled, "{what}");
        assert_eq!(status(lock.acquire(wait(100))), Status::Invalid, "{what}");
    }
}

#[test]
fn a_close_ends_a_wait_and_leaves_nobody_behind() {
    let server = Server::start();
    let (holder, waiter) = (lone_lock(&server.url(), "jobs"), lone_lock(&server.url(), "jobs"));
    holder.acquire(wait(5_000)).unwrap();
    let ended = end(&waiter, || server.members("jobs") == 2, 20, Lock::close);
    assert_eq!(ended, Status::Cancelled);
    assert!(wait_until(SOON, || server.members("jobs") == 1));
    assert_eq!(status(waiter.try_acquire()), Status::Invalid);
    waiter.close(); // once more does no harm
    assert!(holder.is_held());
    holder.close();
    assert!(!holder.is_held());
    assert_eq!(status(holder.release()), Status::NotHeld);
    assert!(wait_until(SOON, || server.members("jobs") == 0));
}

/// Cancels, closes and grants that meet: whoever was told that it holds does hold, whoever was told
/// that it does not has left.
#[test]
fn a_cancel_and_a_grant_that_meet_agree() {
    let server = Server::start();
    let client = crate::client(&server.url());
    let (mut granted, mut cancelled) = (0, 0);
    for round in 0..200 {
        let holder = crate::lock(&client, "jobs");
        holder.acquire(wait(5_000)).unwrap();
        let waiter = crate::lock(&client, "jobs");
        std::thread::scope(|scope| {
            let acquire = scope.spawn(|| waiter.acquire(Wait::Forever));
            assert!(wait_until(LONG, || server.members("jobs") == 2));
            let end = || if round % 2 == 0 { waiter.cancel() } else { waiter.close() };
            if round % 8 < 2 {
                end();
            }
            holder.release().unwrap();
            std::thread::sleep(Duration::from_micros(round * 5));
            end();
            match acquire.join().unwrap() {
                Ok(()) => granted += 1,
                Err(error) => {
                    assert_eq!(error.status(), Status::Cancelled, "{error}");
                    assert!(!waiter.is_held());
                    cancelled += 1;
                }
            }
        });
        drop(waiter);
        assert!(wait_until(SOON, || server.members("jobs") == 0), "{:?}", server.clients());
    }
    println!("{granted} granted, {cancelled} cancelled");
}

/// A grant is the acquire's, whatever another thread does with the lock before the one that acquires
/// it has woken up: releases it, loses it and hears of that, acquires it anew.
#[test]
fn a_grant_that_another_thread_takes_away_is_a_grant_all_the_same() {
    let server = Server::start();
    let client = crate::client(&server.url());
    let mut connection = server.connection();
    for round in 0..300 {
        let (holder, shared) = (crate::lock(&client, "jobs"), crate::lock(&client, "jobs"));
        holder.acquire(wait(5_000)).unwrap();
        std::thread::scope(|scope| {
            let acquire = scope.spawn(|| shared.acquire(Wait::Forever));
            assert!(wait_until(LONG, || server.members("jobs") == 2));
            let id: u64 = id_of(&server, &shared.client_name().unwrap());
            holder.release().unwrap();
            while !shared.is_held() {
                std::hint::spin_loop();
            }
            if round % 2 == 0 {
                shared.release().unwrap();
            } else {
                let mut kill = redis::cmd("CLIENT");
                kill.arg("KILL").arg("ID").arg(id).query::<u64>(&mut connection).unwrap();
                assert!(wait_until(LONG, || !shared.is_held()));
            }
            if round % 4 < 2 {
                shared.acquire(wait(5_000)).unwrap();
            }
            acquire.join().unwrap().unwrap();
            if round % 4 < 2 {
                assert!(shared.is_held());
                shared.release_wait(LONG).unwrap();
            }
        });
    }
}

/// The server's number for the connection that bears this name.
fn id_of(server: &Server, name: &str) -> u64 {
    let clients = server.clients();
    let line = clients.iter().find(|line| line.contains(&format!(" name={name} "))).unwrap();
    line.split(' ').find_map(|field| field.strip_prefix("id=")).unwrap().parse().unwrap()
}

#[test]
fn an_option_makes_every_acquire_a_single_attempt() {
    let server = Server::start();
    let client = crate::client(&server.url());
    let holder = crate::lock(&client, "jobs");
    holder.acquire(wait(5_000)).unwrap();
    let mut options = LockOptions::new();
    options.fail_when_locked(true);
    let other = client.lock("jobs", options).unwrap();
    for wait in [Wait::Default, Wait::Once, wait(10_000), Wait::Forever] {
        let begun = Instant::now();
        assert_eq!(status(other.acquire(wait)), Status::Locked, "{wait:?}");
        assert_eq!(status(other.acquire_mode(Mode::Shared, wait)), Status::Locked, "{wait:?}");
        assert!(begun.elapsed() < SOON, "{wait:?}: {:?}", begun.elapsed());
    }
    holder.release_wait(LONG).unwrap();
    other.acquire(Wait::Forever).unwrap();
}

/// The last one who knows a lock may be the thread that acquires it.
#[test]
fn a_lock_that_is_given_away_while_it_is_acquired() {
    let server = Server::start();
    let holder = lone_lock(&server.url(), "jobs");
    holder.acquire(wait(5_000)).unwrap();
    let mut options = ClientOptions::new();
    options.pool_size(0).unwrap();
    let client = Client::new(&server.url(), options).unwrap();
    let waiter = Arc::new(crate::lock(&client, "jobs"));
    drop(client);
    let own = waiter.clone();
    let acquire = std::thread::spawn(move || own.acquire(wait(10_000)).map(|()| own.is_held()));
    assert!(wait_until(LONG, || server.members("jobs") == 2));
    drop(waiter);
    holder.release().unwrap();
    assert_eq!(acquire.join().unwrap(), Ok(true));
    assert!(wait_until(SOON, || server.members("jobs") == 0));
    drop(holder);
    let ours = |line: &String| line.contains(" resp=3") || line.contains("-lock-");
    assert!(wait_until(SOON, || !server.clients().iter().any(ours)), "{:?}", server.clients());
}
