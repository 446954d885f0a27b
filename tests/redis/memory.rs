//! Brokers in memory: what needs no server.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Instant;

use portalock::{Client, ClientOptions, Lock, LockOptions, Mode, State, Status, Wait};

use crate::support::wait_until;
use crate::{LONG, SOON, client, lock, lone_lock, ms, status, wait};

/// How many hold and how many wait.
fn census(url: &str, name: &str) -> (usize, usize) {
    let found = client(url).holders(name, LONG).unwrap();
    let held = found.iter().filter(|holder| holder.state == State::Held).count();
    (held, found.len() - held)
}

fn shared(url: &str) -> Client {
    let mut options = ClientOptions::new();
    options.shared_connection(true);
    Client::new(url, options).unwrap()
}

#[test]
fn a_lock_is_acquired_released_and_acquired_again() {
    let client = client("memory://again");
    assert!(client.ping(LONG).unwrap() < LONG);
    let lock = lock(&client, "job");
    for _ in 0..100 {
        lock.acquire(wait(5_000)).unwrap();
        lock.verify(LONG).unwrap();
        lock.release_wait(LONG).unwrap();
    }
    let stats = client.stats().unwrap();
    assert_eq!((stats.acquires, stats.held, stats.losses), (100, 0, 0));
    assert_eq!(census("memory://again", "job"), (0, 0));
}

#[test]
fn clients_of_one_name_see_each_other_and_those_of_others_do_not() {
    let holder = lone_lock("memory://one", "job");
    holder.acquire(wait(5_000)).unwrap();
    assert_eq!(status(lone_lock("memory://one", "job").try_acquire()), Status::Locked);
    lone_lock("memory://one", "other job").try_acquire().unwrap();
    lone_lock("memory://two", "job").try_acquire().unwrap();
    // Case and escapes are part of the name.
    lone_lock("memory://One", "job").try_acquire().unwrap();
    assert_eq!(status(lone_lock("memory://%6fne", "job").try_acquire()), Status::Locked);
}

fn come_in_order(locks: &[Lock], waiting: impl Fn() -> usize) {
    let order = Mutex::new(Vec::new());
    locks[0].acquire(wait(5_000)).unwrap();
    std::thread::scope(|scope| {
        for (number, lock) in locks.iter().enumerate().skip(1) {
            let order = &order;
            scope.spawn(move || {
                lock.acquire(Wait::For(LONG)).unwrap();
                order.lock().unwrap().push(number);
                lock.release().unwrap();
            });
            assert!(wait_until(LONG, || waiting() == number));
        }
        locks[0].release().unwrap();
    });
    assert_eq!(*order.lock().unwrap(), (1..locks.len()).collect::<Vec<_>>());
}

#[test]
fn waiters_come_in_their_order() {
    let url = "memory://order";
    let locks: Vec<_> = (0..5).map(|_| lone_lock(url, "queue")).collect();
    come_in_order(&locks, || census(url, "queue").1);
}

#[test]
fn waiters_on_one_connection_come_in_their_order() {
    let client = shared("memory://shared");
    let locks: Vec<_> = (0..5).map(|_| lock(&client, "queue")).collect();
    // They are one member of the channel, and line up behind it.
    come_in_order(&locks, || client.stats().unwrap().waiting as usize);
    assert_eq!(client.stats().unwrap().connections, 1);
}

#[test]
fn readers_share_and_keep_a_writer_out() {
    let locks: Vec<_> = (0..3).map(|_| lone_lock("memory://readers", "job")).collect();
    for reader in &locks[..2] {
        reader.acquire_mode(Mode::Shared, wait(5_000)).unwrap();
    }
    assert_eq!(status(locks[2].try_acquire()), Status::Locked);
    locks[0].release().unwrap();
    assert_eq!(status(locks[2].try_acquire()), Status::Locked);
    locks[1].release().unwrap();
    locks[2].acquire(wait(5_000)).unwrap();
    assert_eq!(status(locks[0].try_acquire_shared()), Status::Locked);
}

#[test]
fn a_wait_ends_by_its_timeout_or_by_a_cancel() {
    let holder = lone_lock("memory://waits", "job");
    holder.acquire(wait(5_000)).unwrap();
    let waiter = lone_lock("memory://waits", "job");
    let begun = Instant::now();
    assert_eq!(status(waiter.acquire(wait(200))), Status::Timeout);
    assert!((ms(200)..LONG).contains(&begun.elapsed()));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.acquire(Wait::Forever));
        assert!(wait_until(LONG, || census("memory://waits", "job") == (1, 1)));
        waiter.cancel();
        assert_eq!(status(waiting.join().unwrap()), Status::Cancelled);
    });
    assert!(wait_until(SOON, || census("memory://waits", "job") == (1, 0)));
}

#[test]
fn tokens_rise_over_clients() {
    let mut options = LockOptions::new();
    options.fencing(true);
    for expected in 1..=5 {
        let lock = client("memory://fenced").lock("job", options.clone()).unwrap();
        lock.acquire(wait(5_000)).unwrap();
        assert_eq!(lock.fencing_token(), Some(expected));
        lock.release_wait(LONG).unwrap();
    }
}

#[test]
fn who_answers_is_not_reaped() {
    let holder = lone_lock("memory://reaped", "job");
    holder.acquire(wait(5_000)).unwrap();
    let reaped = client("memory://reaped").reap_silent("job", LONG).unwrap();
    assert_eq!((reaped.alive, reaped.killed), (1, 0));
    assert!(holder.is_held());
}

#[test]
fn the_doctor_says_that_it_is_no_redis() {
    let findings = client("memory://ill").examine(Some("job"), LONG).unwrap();
    let server = findings.iter().find(|finding| finding.subject == "server").unwrap();
    assert!(server.found.starts_with("memory "), "{server:?}");
    assert!(findings.iter().any(|finding| finding.subject == "rights"), "{findings:?}");
}

/// Threads with connections of their own, and some that share one.
#[test]
fn a_storm_of_threads_is_never_in_twice() {
    let url = "memory://storm";
    let together = shared(url);
    let mut locks: Vec<_> = (0..4).map(|_| lone_lock(url, "job")).collect();
    locks.extend((0..4).map(|_| lock(&together, "job")));
    let (inside, entered) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for lock in &locks {
            scope.spawn(|| {
                for _ in 0..50 {
                    lock.acquire(Wait::For(LONG)).unwrap();
                    assert_eq!(inside.fetch_add(1, SeqCst), 0);
                    std::thread::yield_now();
                    assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                    entered.fetch_add(1, SeqCst);
                    lock.release().unwrap();
                }
            });
        }
    });
    assert_eq!(entered.load(SeqCst), 400);
}
