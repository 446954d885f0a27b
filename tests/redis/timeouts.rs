//! Waiting no longer than told, and leaving nothing behind.

use std::time::{Duration, Instant};

use portalock::{Client, ClientOptions, LockOptions, Status};

use crate::support::{Server, wait_until};
use crate::{LONG, SOON, lone_lock, ms, status, wait};

const SPAN: u64 = 300;
const SLACK: u64 = 150;

fn assert_in_time(took: Duration) {
    assert!(took >= ms(SPAN) && took <= ms(SPAN + SLACK), "{took:?}");
}

/// Nobody is left on the channel, nor in the list of connections, but the holder.
fn assert_alone(server: &Server, holder: &portalock::Lock) {
    assert!(wait_until(SOON, || server.members("jobs") == 1), "{}", server.members("jobs"));
    let named = || {
        let clients = server.clients();
        let names =
            clients.iter().filter_map(|line| line.split(' ').find(|f| f.starts_with("name=")));
        names.filter(|name| *name != "name=").map(str::to_owned).collect::<Vec<_>>()
    };
    let only = [format!("name={}", holder.client_name().unwrap())];
    assert!(wait_until(SOON, || named() == only), "{:?}", named());
}

#[test]
fn a_timeout_comes_in_time_and_leaves_nobody_behind() {
    let server = Server::start();
    let holder = lone_lock(&server.url(), "jobs");
    holder.acquire(wait(5_000)).unwrap();
    let waiter = lone_lock(&server.url(), "jobs");
    for _ in 0..3 {
        let begun = Instant::now();
        assert_eq!(status(waiter.acquire(wait(SPAN))), Status::Timeout);
        assert_in_time(begun.elapsed());
        assert_alone(&server, &holder);
    }
    assert!(holder.is_held());
}

#[test]
fn a_timeout_comes_in_time_although_the_server_stops_meanwhile() {
    let server = Server::start();
    let holder = lone_lock(&server.url(), "jobs");
    holder.acquire(wait(5_000)).unwrap();
    let waiter = lone_lock(&server.url(), "jobs");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let begun = Instant::now();
            let status = status(waiter.acquire(wait(SPAN)));
            (status, begun.elapsed())
        });
        assert!(wait_until(LONG, || server.members("jobs") == 2));
        std::thread::sleep(ms(50));
        server.stop();
        let outcome = waiting.join();
        server.cont();
        let (status, took) = outcome.unwrap();
        assert_eq!(status, Status::Timeout);
        assert_in_time(took);
    });
    assert_alone(&server, &holder);
    assert!(holder.is_held());
}

#[test]
fn an_acquire_that_begins_while_the_server_is_stopped_ends_in_time() {
    let server = Server::start();
    let holder = lone_lock(&server.url(), "jobs");
    holder.acquire(wait(5_000)).unwrap();
    for url in [server.url(), server.tcp_url()] {
        let waiter = lone_lock(&url, "jobs");
        server.stop();
        let begun = Instant::now();
        let outcome = waiter.acquire(wait(SPAN));
        let took = begun.elapsed();
        server.cont();
        assert_eq!(status(outcome), Status::Unresponsive);
        assert_in_time(took);
        assert_alone(&server, &holder);
    }
}

#[test]
fn a_warm_connection_to_a_stopped_server_ends_in_time_too() {
    let server = Server::start();
    let lock = lone_lock(&server.url(), "jobs");
    lock.acquire(wait(5_000)).unwrap();
    lock.release_wait(LONG).unwrap();
    server.stop();
    let begun = Instant::now();
    let outcome = lock.acquire(wait(SPAN));
    let took = begun.elapsed();
    server.cont();
    assert_eq!(status(outcome), Status::Unresponsive);
    assert_in_time(took);
    lock.acquire(wait(5_000)).unwrap();
}

#[test]
fn a_lock_that_gives_up_on_a_connection_that_another_has_just_left() {
    let server = Server::start();
    let client = crate::client(&server.url());
    let (before, after) = (crate::lock(&client, "jobs"), crate::lock(&client, "jobs"));
    before.acquire(wait(5_000)).unwrap();
    server.stop();
    before.release().unwrap();
    let outcome = after.acquire(wait(SPAN));
    server.cont();
    assert_eq!(status(outcome), Status::Unresponsive);
    assert!(wait_until(SOON, || server.members("jobs") == 0), "{:?}", server.clients());
    std::thread::sleep(ms(50));
    assert!(!after.is_held());
    assert_eq!(server.members("jobs"), 0);
    after.acquire(wait(5_000)).unwrap();
}

#[test]
fn many_waiters_time_out_together() {
    let server = Server::start();
    let holder = lone_lock(&server.url(), "jobs");
    holder.acquire(wait(5_000)).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let waiter = lone_lock(&server.url(), "jobs");
                let begun = Instant::now();
                assert_eq!(status(waiter.acquire(wait(SPAN))), Status::Timeout);
                assert_in_time(begun.elapsed());
            });
        }
    });
    assert_alone(&server, &holder);
}

#[test]
fn a_single_attempt_is_bounded_as_well() {
    let server = Server::start();
    let mut options = ClientOptions::new();
    options.connect_timeout(ms(200)).unwrap();
    let client = Client::new(&server.url(), options).unwrap();
    let mut options = LockOptions::new();
    options.unavailable_timeout(ms(100)).unwrap();
    let lock = client.lock("jobs", options).unwrap();
    server.stop();
    let begun = Instant::now();
    let outcome = lock.try_acquire();
    let took = begun.elapsed();
    server.cont();
    assert_eq!(status(outcome), Status::Unresponsive);
    assert!(took < SOON, "{took:?}");
}
