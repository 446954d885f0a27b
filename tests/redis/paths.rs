//! Paths to the server that are slow, or go one way only; and logins that are taken back or allow too
//! little, which an acquire that could wait for long is told at once.

use std::time::Instant;

use portalock::{Status, Wait};

use crate::proxy::{Delay, Proxy};
use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, SOON, failure, lone_lock, ms, together, wait};

/// Up to 300 ms each way.
const SLOW: Delay = Delay { least: ms(0), most: ms(300) };

#[test]
fn waiters_over_slow_paths_are_served_in_the_order_of_arrival() {
    let server = Server::start();
    let proxies = [SLOW; 3].map(|delay| Proxy::delaying(server.port(), delay));
    let holder = lone_lock(&server.url(), "slow");
    holder.acquire(wait(5_000)).unwrap();
    let mut waiters = Vec::new();
    for (number, proxy) in proxies.iter().enumerate() {
        let mut waiter = Worker::spawn(&proxy.url(), "slow");
        waiter.tell("x 60000");
        assert!(wait_until(LONG, || server.members("slow") == 2 + number as u64));
        waiters.push(waiter);
    }
    // Until the last has heard of the others.
    std::thread::sleep(ms(1_500));
    holder.release().unwrap();
    for waiter in &mut waiters {
        waiter.await_line("got x", LONG);
        waiter.expect("r", "released");
    }
}

/// It cannot hear the pings, and is not to be ended since its own still show that it lives. It finds out
/// by itself that it is owed an answer for longer than it may take to connect.
fn one_that_hears_nothing_is_in_the_way_for_a_bounded_time() {
    let server = Server::start();
    let proxy = Proxy::before(server.port());
    let holder = lone_lock(&server.url(), "half");
    holder.acquire(wait(5_000)).unwrap();
    let mut waiters = [proxy.url(), server.url()]
        .map(|url| Worker::spawn_with(&url, "half", &["connect_ms=1000"]));
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.tell("x 60000");
        assert!(wait_until(LONG, || server.members("half") == 2 + number as u64));
    }
    std::thread::sleep(ms(100));
    proxy.swallow_answers();
    holder.release().unwrap();
    let took = waiters[1].await_line("got x", LONG);
    println!("next after {took:?}");
    assert!(took < ms(1_000 + 4_000), "{took:?}");
    assert!(waiters[0].is_silent(ms(100)));
}

/// The connection of a waiter goes silent, and all new ones work: it comes back on its own, and its
/// former self, which the server knows no end of, is in nobody's way for long.
fn one_whose_connection_goes_silent_comes_back_over_a_new_one() {
    let server = Server::start();
    let proxy = Proxy::before(server.port());
    let holder = lone_lock(&server.url(), "half");
    holder.acquire(wait(5_000)).unwrap();
    let mut waiter = Worker::spawn_with(&proxy.url(), "half", &["connect_ms=1000"]);
    waiter.tell("x 30000");
    assert!(wait_until(LONG, || server.members("half") == 2));
    std::thread::sleep(ms(100));
    proxy.forsake();
    // The holder, the former self and the new one.
    assert!(wait_until(ms(3_000), || server.members("half") == 3));
    assert!(waiter.is_silent(ms(300)), "the lock is held");
    holder.release().unwrap();
    let took = waiter.await_line("got x", LONG);
    println!("granted after {took:?}");
    assert!(took < ms(4_000), "{took:?}");
}

#[test]
fn a_waiter_that_hears_nothing_any_more_finds_out_and_blocks_nobody_for_long() {
    together(&[
        one_that_hears_nothing_is_in_the_way_for_a_bounded_time,
        one_whose_connection_goes_silent_comes_back_over_a_new_one,
    ]);
}

/// What no waiting can mend ends an acquire that could wait for long.
fn assert_ends_at_once(url: &str, expected: Status) {
    let lock = lone_lock(url, "jobs");
    for wait in [wait(15_000), Wait::Forever, Wait::Once] {
        let begun = Instant::now();
        let error = failure(lock.acquire(wait));
        println!("{:?} after {:?}: {error}", error.status(), begun.elapsed());
        assert_eq!(error.status(), expected, "{error}");
        assert!(!error.is_retryable());
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    }
}

#[test]
fn a_permission_that_is_missing_ends_an_acquire_at_once() {
    let server = Server::start();
    for (user, rules) in [
        ("mute", "&* +@all -publish"),
        ("deaf", "&* +@all -subscribe"),
        ("elsewhere", "resetchannels &others* +@all"),
    ] {
        let words = format!("ACL SETUSER {user} on >pw ~* {rules}");
        server.run::<()>(&words.split(' ').collect::<Vec<_>>());
        let url = format!("redis://{user}:pw@127.0.0.1:{}", server.port());
        if user != "mute" {
            assert_ends_at_once(&url, Status::Denied);
            continue;
        }
        // A free lock takes no message; to wait for one that is held does.
        let holder = lone_lock(&server.url(), "jobs");
        holder.acquire(wait(5_000)).unwrap();
        assert_ends_at_once(&url, Status::Denied);
    }
}

/// The server ends the connections of a user that is deleted; the next login says why.
#[test]
fn a_login_that_is_taken_back_ends_an_acquire_that_waits() {
    let server = Server::start();
    server.run::<()>(&["ACL", "SETUSER", "fired", "on", ">pw", "~*", "&*", "+@all"]);
    let holder = lone_lock(&server.url(), "jobs");
    holder.acquire(wait(5_000)).unwrap();
    let url = format!("redis://fired:pw@127.0.0.1:{}", server.port());
    let lock = lone_lock(&url, "jobs");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| failure(lock.acquire(wait(20_000))));
        assert!(wait_until(LONG, || server.members("jobs") == 2));
        let begun = Instant::now();
        server.run::<()>(&["ACL", "DELUSER", "fired"]);
        let error = waiting.join().unwrap();
        assert_eq!(error.status(), Status::Auth, "{error}");
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    });
    assert!(holder.is_held());
}
