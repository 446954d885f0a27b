//! A lock that is lost while it is held.

use std::sync::mpsc::channel;
use std::time::Instant;

use portalock::{Lock, Loss, LossReason, Status};

use crate::support::locks::watch;
use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, SOON, client, failure, lock, lone_lock, ms, status, wait};

/// Takes a held lock away and looks at what its holder sees of that.
fn lose(what: &str, lock: &Lock, take_away: impl FnOnce()) -> Loss {
    let losses = watch(lock);
    assert!(lock.is_held());
    let since = Instant::now();
    take_away();
    let (at, loss) = losses.recv_timeout(LONG).expect("nobody said that the lock was lost");
    let took = at.saturating_duration_since(since);
    println!("{what}: told after {took:?}: {:?}, {}", loss.reason, loss.message);
    assert!(took < SOON, "{took:?}");
    assert!(!lock.is_held());
    let error = failure(lock.release());
    assert_eq!(error.status(), Status::Lost);
    assert!(error.is_retryable());
    assert_eq!(status(lock.release()), Status::NotHeld, "a loss is told once");
    assert!(losses.recv_timeout(ms(100)).is_err(), "the callback was called twice");
    loss
}

#[test]
fn a_connection_that_is_killed() {
    let server = Server::start();
    for url in [server.url(), server.tcp_url()] {
        let lock = lone_lock(&url, "jobs");
        lock.acquire(wait(5_000)).unwrap();
        let name = lock.client_name().unwrap();
        let loss = lose("CLIENT KILL", &lock, || assert!(server.kill_client(&name)));
        assert_eq!(loss.reason, LossReason::Disconnected);
        assert_eq!((lock.holder_id(), lock.client_name()), (None, None));
        lock.acquire(wait(5_000)).unwrap();
        assert_ne!(lock.client_name().unwrap(), name);
        lock.release_wait(LONG).unwrap();
    }
}

#[test]
fn a_server_that_shuts_down() {
    let mut server = Server::start();
    let lock = lone_lock(&server.url(), "jobs");
    lock.acquire(wait(5_000)).unwrap();
    let mut admin = server.connection();
    let loss = lose("SHUTDOWN NOSAVE", &lock, || {
        let _ = redis::cmd("SHUTDOWN").arg("NOSAVE").query::<()>(&mut admin);
    });
    assert_eq!(loss.reason, LossReason::Disconnected);
    let down = status(lock.acquire(wait(200)));
    assert!(matches!(down, Status::Unreachable | Status::Refused), "{down:?}");
    server.restart();
    lock.acquire(wait(5_000)).unwrap();
    lock.release_wait(LONG).unwrap();
}

#[test]
fn a_server_that_crashes_and_comes_back() {
    let mut server = Server::start();
    let (unix, tcp) = (lone_lock(&server.url(), "jobs"), lone_lock(&server.tcp_url(), "other"));
    unix.acquire(wait(5_000)).unwrap();
    tcp.acquire(wait(5_000)).unwrap();
    let over_tcp = watch(&tcp);
    lose("server killed", &unix, || server.kill());
    assert!(over_tcp.recv_timeout(SOON).is_ok());
    server.restart();
    for lock in [&unix, &tcp] {
        lock.acquire(wait(5_000)).unwrap();
        lock.release_wait(LONG).unwrap();
    }
}

#[test]
fn waiters_outlast_a_server_that_is_restarted() {
    let mut server = Server::start();
    let holder = lone_lock(&server.url(), "jobs");
    holder.acquire(wait(5_000)).unwrap();
    let mut waiters: Vec<_> = (0..3).map(|_| Worker::spawn(&server.url(), "jobs")).collect();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.tell("x 20000");
        assert!(wait_until(LONG, || server.members("jobs") == 2 + number as u64));
    }
    std::thread::sleep(ms(100));
    let restarted = Instant::now();
    server.restart();
    // Which of them comes first is open, as each reconnects when it may. One by one they must.
    for served in 0..3 {
        let mut next = None;
        wait_until(LONG, || {
            next = waiters.iter().position(|waiter| waiter.line(ms(0)).is_some());
            next.is_some()
        });
        let mut next = waiters.remove(next.unwrap_or_else(|| panic!("{served} served, no more")));
        next.expect("r", "released");
    }
    println!("all served {:?} after the restart began", restarted.elapsed());
}

#[test]
fn a_lost_lock_can_be_acquired_without_asking_for_the_loss() {
    let server = Server::start();
    let lock = lone_lock(&server.url(), "jobs");
    let losses = watch(&lock);
    lock.acquire(wait(5_000)).unwrap();
    assert!(server.kill_client(&lock.client_name().unwrap()));
    losses.recv_timeout(LONG).unwrap();
    lock.acquire(wait(5_000)).unwrap();
    assert!(lock.is_held());
    lock.release().unwrap();
}

#[test]
fn every_loss_is_told_and_nobody_elses() {
    let server = Server::start();
    let client = client(&server.url());
    let (lost, kept) = (lock(&client, "jobs"), lock(&client, "other"));
    let (lost_told, kept_told) = (watch(&lost), watch(&kept));
    kept.acquire(wait(5_000)).unwrap();
    for _ in 0..5 {
        lost.acquire(wait(5_000)).unwrap();
        assert!(server.kill_client(&lost.client_name().unwrap()));
        lost_told.recv_timeout(LONG).unwrap();
        assert_eq!(status(lost.release()), Status::Lost);
    }
    assert!(lost_told.try_recv().is_err());
    assert!(kept_told.try_recv().is_err());
    assert!(kept.is_held());
}

#[test]
fn the_next_in_line_gets_a_lock_that_was_taken_away() {
    let server = Server::start();
    let (holder, next) = (lone_lock(&server.url(), "jobs"), lone_lock(&server.url(), "jobs"));
    holder.acquire(wait(5_000)).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| next.acquire(wait(10_000)));
        assert!(wait_until(LONG, || server.members("jobs") == 2));
        lose("CLIENT KILL", &holder, || {
            assert!(server.kill_client(&holder.client_name().unwrap()));
        });
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(status(holder.try_acquire()), Status::Locked);
}

#[test]
fn a_callback_may_use_the_lock_that_was_lost() {
    let server = Server::start();
    let lock = std::sync::Arc::new(lone_lock(&server.url(), "jobs"));
    let (sender, receiver) = channel();
    let inner = std::sync::Arc::downgrade(&lock);
    lock.on_lost(Some(Box::new(move |_| {
        let lock = inner.upgrade().unwrap();
        let released = status(lock.release());
        let again = lock.acquire(wait(5_000));
        sender.send((released, again)).unwrap();
    })));
    lock.acquire(wait(5_000)).unwrap();
    assert!(server.kill_client(&lock.client_name().unwrap()));
    let (released, again) = receiver.recv_timeout(LONG).unwrap();
    assert_eq!(released, Status::Lost);
    again.unwrap();
    assert!(lock.is_held());
    lock.on_lost(None);
}

#[test]
fn a_callback_that_was_taken_back_is_not_called() {
    let server = Server::start();
    let lock = lone_lock(&server.url(), "jobs");
    let losses = watch(&lock);
    lock.acquire(wait(5_000)).unwrap();
    lock.on_lost(None);
    assert!(server.kill_client(&lock.client_name().unwrap()));
    assert!(wait_until(SOON, || !lock.is_held()));
    assert!(losses.recv_timeout(ms(100)).is_err());
    assert_eq!(status(lock.release()), Status::Lost);
}
