//! A path to the server that has gone silent: nothing is refused, nothing comes back.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use portalock::{Lock, LockOptions, LossReason, Status, Wait};

use crate::proxy::Proxy;
use crate::support::{Server, wait_until};
use crate::{SOON, client, ms};

fn checked(url: &str, interval: u64) -> Lock {
    let mut options = LockOptions::new();
    options.health_check_interval(ms(interval)).unwrap();
    client(url).lock("health", options).unwrap()
}

/// Within the interval and the deadline, whatever the interval.
fn is_reported(interval: u64) {
    let server = Server::start();
    let proxy = Proxy::before(server.port());
    let lock = checked(&proxy.url(), interval);
    let (sender, losses) = channel();
    lock.on_lost(Some(Box::new(move |loss| sender.send((loss.reason, Instant::now())).unwrap())));
    lock.acquire(Wait::Default).unwrap();
    std::thread::sleep(ms(interval * 2));
    assert!(lock.is_held());
    proxy.fall_silent();
    let begun = Instant::now();
    let (reason, told) = losses.recv_timeout(Duration::from_secs(10)).unwrap();
    let deadline = interval.min(1_000);
    let took = told - begun;
    assert_eq!(reason, LossReason::Unresponsive);
    assert!(took < ms(interval + deadline + 500), "{took:?} with {interval} ms");
    assert!(!lock.is_held());
    assert_eq!(lock.release().unwrap_err().status(), Status::Lost);
}

#[test]
fn a_partition_is_reported_at_200_ms() {
    is_reported(200);
}

#[test]
fn a_partition_is_reported_at_1500_ms() {
    is_reported(1_500);
}

#[test]
fn checks_come_as_often_as_told_and_disturb_nobody() {
    let server = Server::start();
    let lock = checked(&server.url(), 100);
    lock.acquire(Wait::Default).unwrap();
    let published = |server: &Server| *server.command_counts().get("publish").unwrap_or(&0);
    let before = published(&server);
    std::thread::sleep(ms(2_000));
    let checks = published(&server) - before;
    assert!((10..=21).contains(&checks), "{checks} checks in 2 s");
    assert!(lock.is_held());
    let never = checked(&server.url(), 0);
    lock.release().unwrap();
    never.acquire(Wait::Default).unwrap();
    let before = published(&server);
    std::thread::sleep(ms(500));
    assert_eq!(published(&server), before);
}

/// A holder that was itself stopped finds the answer waiting, and loses nothing.
#[test]
fn a_server_that_pauses_for_less_than_the_deadline_costs_nobody_the_lock() {
    let server = Server::start();
    let lock = checked(&server.url(), 300);
    lock.acquire(Wait::Default).unwrap();
    for _ in 0..5 {
        server.stop();
        std::thread::sleep(ms(100));
        server.cont();
        std::thread::sleep(ms(250));
    }
    assert!(lock.is_held());
    lock.release().unwrap();
    assert!(wait_until(SOON, || server.members("health") == 0));
}
