//! What each call answers.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use portalock::{LockOptions, Status, Wait};

use crate::support::{Server, wait_until};
use crate::{LONG, SOON, client, failure, lock, lone_lock, ms, status, wait};

#[test]
fn acquire_and_release_and_again() {
    let server = Server::start();
    let lock = lone_lock(&server.url(), "jobs");
    assert_eq!(status(lock.release()), Status::NotHeld);
    for _ in 0..3 {
        lock.acquire(wait(5_000)).unwrap();
        assert!(lock.is_held());
        assert_eq!(server.members("jobs"), 1);
        lock.release().unwrap();
        assert!(!lock.is_held());
        assert_eq!(status(lock.release()), Status::NotHeld);
    }
    lock.acquire(wait(5_000)).unwrap();
    lock.release_wait(LONG).unwrap();
    assert_eq!(server.members("jobs"), 0);
}

#[test]
fn it_works_over_tcp_and_with_a_password_and_another_database() {
    let server = Server::with(&[("requirepass", "s3cret/ü")]);
    let url = format!("redis://:s3cret%2F%C3%BC@127.0.0.1:{}/3", server.port());
    let lock = lone_lock(&url, "jobs");
    lock.acquire(wait(5_000)).unwrap();
    assert!(server.clients().iter().any(|line| {
        line.contains(&format!("name={} ", lock.client_name().unwrap())) && line.contains(" db=3 ")
    }));
    lock.release_wait(LONG).unwrap();
}

#[test]
fn a_holder_can_be_seen() {
    let server = Server::start();
    let lock = lone_lock(&server.url(), "jobs");
    assert_eq!((lock.holder_id(), lock.client_name()), (None, None));
    lock.acquire(wait(5_000)).unwrap();
    let id = lock.holder_id().unwrap();
    let name = lock.client_name().unwrap();
    assert_eq!(name, format!("jobs-lock-{id}"));
    assert!(server.clients().iter().any(|line| line.contains(&format!(" name={name} "))));
    lock.release_wait(LONG).unwrap();
    assert_eq!((lock.holder_id(), lock.client_name()), (None, None));
}

#[test]
fn one_attempt_answers_locked_at_once() {
    let server = Server::start();
    let holder = lone_lock(&server.url(), "jobs");
    let other = lone_lock(&server.url(), "jobs");
    other.try_acquire().unwrap();
    other.release_wait(LONG).unwrap();
    holder.acquire(wait(5_000)).unwrap();
    for _ in 0..3 {
        let begun = Instant::now();
        assert_eq!(status(other.try_acquire()), Status::Locked);
        assert_eq!(status(other.acquire(Wait::Once)), Status::Locked);
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    }
    assert!(wait_until(SOON, || server.members("jobs") == 1));
    holder.release_wait(LONG).unwrap();
    other.try_acquire().unwrap();
}

#[test]
fn a_lock_is_not_reentrant() {
    let server = Server::start();
    let holder = lone_lock(&server.url(), "jobs");
    holder.acquire(wait(5_000)).unwrap();
    for wait in [Wait::Default, Wait::Once, wait(300), Wait::Forever] {
        assert_eq!(status(holder.acquire(wait)), Status::Active);
    }
    assert!(holder.is_held());
    let waiter = lone_lock(&server.url(), "jobs");
    std::thread::scope(|scope| {
        scope.spawn(|| waiter.acquire(wait(10_000)).unwrap());
        assert!(wait_until(LONG, || server.members("jobs") == 2));
        assert_eq!(status(waiter.acquire(Wait::Once)), Status::Active);
        assert_eq!(status(waiter.release()), Status::NotHeld);
        holder.release().unwrap();
    });
    assert!(waiter.is_held());
}

#[test]
fn a_wait_can_be_cancelled_from_another_thread() {
    let server = Server::start();
    let holder = lone_lock(&server.url(), "jobs");
    holder.acquire(wait(5_000)).unwrap();
    let waiter = lone_lock(&server.url(), "jobs");
    waiter.cancel(); // nothing is under way: nothing happens, and the next acquire is not spoilt
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        let waiting = &waiter;
        scope.spawn(move || {
            let error = failure(waiting.acquire(Wait::Forever));
            sender.send((error.status(), Instant::now())).unwrap();
        });
        assert!(wait_until(LONG, || server.members("jobs") == 2));
        let cancelled = Instant::now();
        waiter.cancel();
        let (status, at) = receiver.recv_timeout(LONG).unwrap();
        assert_eq!(status, Status::Cancelled);
        assert!(at - cancelled < ms(200), "{:?}", at - cancelled);
    });
    assert!(wait_until(SOON, || server.members("jobs") == 1));
    holder.release_wait(LONG).unwrap();
    waiter.acquire(wait(5_000)).unwrap();
    waiter.cancel(); // a lock that is held stays held
    assert!(waiter.is_held());
    waiter.release().unwrap();
}

#[test]
fn a_lock_that_is_dropped_while_held_is_free_at_once() {
    let server = Server::start();
    let holder = lone_lock(&server.url(), "jobs");
    let waiter = lone_lock(&server.url(), "jobs");
    holder.acquire(wait(5_000)).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            waiter.acquire(wait(10_000)).unwrap();
            Instant::now()
        });
        assert!(wait_until(LONG, || server.members("jobs") == 2));
        std::thread::sleep(ms(100));
        let dropped = Instant::now();
        drop(holder);
        let took = waiting.join().unwrap().saturating_duration_since(dropped);
        println!("next after {took:?}");
        assert!(took < ms(250), "{took:?}");
    });
}

#[test]
fn a_client_that_is_dropped_leaves_its_locks_alone() {
    let server = Server::start();
    let client = client(&server.url());
    let held = lock(&client, "jobs");
    held.acquire(wait(5_000)).unwrap();
    drop(client);
    assert!(held.is_held());
    assert_eq!(server.members("jobs"), 1);
    held.release_wait(LONG).unwrap();
}

#[test]
fn a_lock_and_its_client_may_go_together() {
    let server = Server::start();
    for _ in 0..20 {
        lone_lock(&server.url(), "jobs").acquire(wait(5_000)).unwrap();
    }
    assert!(wait_until(SOON, || server.members("jobs") == 0));
    // The thread that keeps locks must have come through that.
    let (holder, other) = (lone_lock(&server.url(), "jobs"), lone_lock(&server.url(), "jobs"));
    holder.acquire(wait(5_000)).unwrap();
    assert_eq!(status(other.acquire(wait(100))), Status::Timeout);
}

#[test]
fn two_locks_of_one_process_exclude_each_other() {
    let server = Server::start();
    let client = client(&server.url());
    let (a, b) = (lock(&client, "jobs"), lock(&client, "jobs"));
    a.acquire(wait(5_000)).unwrap();
    assert_eq!(status(b.acquire(wait(200))), Status::Timeout);
    a.release().unwrap();
    b.acquire(wait(5_000)).unwrap();
    assert_eq!(status(a.try_acquire()), Status::Locked);
}

#[test]
fn the_options_give_the_default_timeout() {
    let server = Server::start();
    let client = client(&server.url());
    let holder = lock(&client, "jobs");
    holder.acquire(wait(5_000)).unwrap();
    let mut options = LockOptions::new();
    options.timeout(wait(200)).unwrap();
    let waiter = client.lock("jobs", options).unwrap();
    let begun = Instant::now();
    assert_eq!(status(waiter.acquire(Wait::Default)), Status::Timeout);
    let took = begun.elapsed();
    assert!(took >= ms(200) && took < ms(350), "{took:?}");
}

#[test]
fn a_ping_tells_the_round_trip_time() {
    let server = Server::start();
    let time = client(&server.url()).ping(LONG).unwrap();
    assert!(time > Duration::ZERO && time < SOON, "{time:?}");
}
