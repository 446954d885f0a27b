//! Whether a held lock is still held, and since when that is not known.

use std::time::Instant;

use portalock::{LockOptions, Status, Wait};

use crate::support::{Server, wait_until};
use crate::{LONG, client, ms, status};

/// A lock that nobody checks unless it is told to.
fn unchecked(url: &str) -> portalock::Lock {
    let mut options = LockOptions::new();
    options.health_check_interval(ms(0)).unwrap();
    client(url).lock("jobs", options).unwrap()
}

#[test]
fn a_held_lock_is_verified_and_its_age_begins_anew() {
    let server = Server::start();
    let lock = unchecked(&server.url());
    assert_eq!(lock.verified_age(), None);
    lock.acquire(Wait::Default).unwrap();
    assert!(lock.verified_age().unwrap() < ms(500));
    std::thread::sleep(ms(700));
    assert!(lock.verified_age().unwrap() >= ms(700));
    lock.verify(LONG).unwrap();
    assert!(lock.verified_age().unwrap() < ms(500));
    lock.release().unwrap();
    assert_eq!((lock.verified_age(), status(lock.verify(LONG))), (None, Status::NotHeld));
}

#[test]
fn health_checks_keep_the_age_low() {
    let server = Server::start();
    let mut options = LockOptions::new();
    options.health_check_interval(ms(100)).unwrap();
    let lock = client(&server.url()).lock("jobs", options).unwrap();
    lock.acquire(Wait::Default).unwrap();
    std::thread::sleep(ms(1500));
    assert!(lock.verified_age().unwrap() < ms(1000), "{:?}", lock.verified_age());
}

#[test]
fn a_server_that_does_not_answer_verifies_nothing_and_costs_nobody_the_lock() {
    let server = Server::start();
    let lock = unchecked(&server.url());
    lock.acquire(Wait::Default).unwrap();
    server.stop();
    let begun = Instant::now();
    assert_eq!(status(lock.verify(ms(200))), Status::Timeout);
    assert!(begun.elapsed() >= ms(200) && begun.elapsed() < ms(1200));
    assert!(lock.verified_age().unwrap() >= ms(200) && lock.is_held());
    server.cont();
    lock.verify(LONG).unwrap();
    assert!(lock.is_held());
}

#[test]
fn a_late_answer_verifies_nothing_that_was_asked_after_it() {
    let server = Server::start();
    let lock = unchecked(&server.url());
    lock.acquire(Wait::Default).unwrap();
    server.stop();
    for _ in 0..20 {
        assert_eq!(status(lock.verify(ms(5))), Status::Timeout);
    }
    server.cont();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| lock.verify(LONG))).collect();
        all.into_iter().for_each(|one| one.join().unwrap().unwrap());
    });
}

#[test]
fn a_lost_lock_says_so_until_it_is_released() {
    let server = Server::start();
    let lock = unchecked(&server.url());
    lock.acquire(Wait::Default).unwrap();
    server.kill_client(&lock.client_name().unwrap());
    assert!(wait_until(LONG, || !lock.is_held()));
    assert_eq!(lock.verified_age(), None);
    assert_eq!(status(lock.verify(LONG)), Status::Lost);
    assert_eq!(status(lock.verify(LONG)), Status::Lost);
    assert_eq!(status(lock.release()), Status::Lost);
    assert_eq!(status(lock.verify(LONG)), Status::NotHeld);
}

#[test]
fn a_loss_ends_a_verification() {
    let server = Server::start();
    let lock = unchecked(&server.url());
    lock.acquire(Wait::Default).unwrap();
    server.stop();
    std::thread::scope(|scope| {
        let verify = scope.spawn(|| lock.verify(LONG));
        std::thread::sleep(ms(50));
        crate::support::signal(server.pid(), libc::SIGKILL);
        assert_eq!(status(verify.join().unwrap()), Status::Lost);
    });
}
