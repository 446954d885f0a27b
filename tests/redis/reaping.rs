//! Those who are counted and do not answer.

use std::sync::Mutex;
use std::time::Instant;

use portalock::{Client, ClientOptions, Wait};

use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, SOON, lone_lock, ms, wait};

#[test]
fn a_stopped_holder_is_passed_over_and_told_so_when_it_wakes() {
    let server = Server::start();
    let mut holder = Worker::spawn(&server.url(), "reaped");
    holder.expect("x", "got x");
    holder.stop();
    let lock = lone_lock(&server.url(), "reaped");
    let begun = Instant::now();
    lock.acquire(Wait::For(LONG)).unwrap();
    let took = begun.elapsed();
    assert!((ms(900)..ms(4_000)).contains(&took), "{took:?}");
    holder.cont();
    holder.await_line("lost", LONG);
    holder.expect("r", "Lost");
    assert!(lock.is_held());
}

#[test]
fn one_that_is_stopped_for_less_than_the_timeout_keeps_its_lock() {
    let server = Server::start();
    let mut holder = Worker::spawn(&server.url(), "spared");
    holder.expect("x", "got x");
    let lock = lone_lock(&server.url(), "spared");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| lock.acquire(wait(4_000)));
        for _ in 0..4 {
            holder.stop();
            std::thread::sleep(ms(500));
            holder.cont();
            std::thread::sleep(ms(400));
        }
        assert!(waiting.join().unwrap().is_err());
    });
    holder.expect("r", "released");
}

/// It finds its own deadline long past, and everybody's answer in its socket.
#[test]
fn a_waiter_that_was_itself_stopped_ends_nobody() {
    let server = Server::start();
    let mut holder = Worker::spawn(&server.url(), "patient");
    let mut waiter = Worker::spawn(&server.url(), "patient");
    holder.expect("x", "got x");
    for pause in [100, 1_200, 3_000] {
        waiter.tell("x 9000");
        assert!(wait_until(SOON, || server.members("patient") == 2));
        std::thread::sleep(ms(pause / 10));
        waiter.stop();
        std::thread::sleep(ms(pause));
        waiter.cont();
        assert!(waiter.is_silent(ms(500)));
        holder.expect("r", "released");
        waiter.await_line("got x", LONG);
        waiter.expect("r", "released");
        holder.expect("x", "got x");
    }
    holder.expect("r", "released");
}

#[test]
fn neighbours_with_longer_names_are_left_alone() {
    let server = Server::start();
    let mut silent = Worker::spawn(&server.url(), "a");
    silent.expect("x", "got x");
    let neighbours = ["a-lock", "a-lock-b", "a-lock-0123456789abcdef0123456789abcdef", "a b"];
    let mut stopped = Vec::new();
    for name in neighbours {
        let mut neighbour = Worker::spawn(&server.url(), name);
        neighbour.expect("x", "got x");
        neighbour.stop();
        stopped.push(neighbour);
    }
    silent.stop();
    let lock = lone_lock(&server.url(), "a");
    lock.acquire(Wait::For(LONG)).unwrap();
    for (name, neighbour) in neighbours.into_iter().zip(&mut stopped) {
        assert_eq!(server.members(name), 1, "{name}");
        neighbour.cont();
        neighbour.expect("r", "released");
    }
}

#[test]
fn a_look_tells_the_silent_from_nobody_and_a_reap_ends_them() {
    let server = Server::start();
    let client = Client::new(&server.url(), ClientOptions::new()).unwrap();
    let mut holder = Worker::spawn(&server.url(), "looked at");
    holder.expect("x", "got x");
    let reaped = client.reap_silent("looked at", ms(800)).unwrap();
    assert_eq!((reaped.alive, reaped.killed), (1, 0));
    holder.stop();
    std::thread::sleep(ms(50));
    let error = client.holders("looked at", ms(400)).unwrap_err();
    assert_eq!(error.status(), portalock::Status::Unclear);
    assert_eq!(server.members("looked at"), 1, "a look changes nothing");
    let reaped = client.reap_silent("looked at", ms(800)).unwrap();
    assert_eq!((reaped.alive, reaped.killed), (0, 1));
    assert_eq!(client.holders("looked at", LONG).unwrap(), []);
}

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Ear;

impl log::Log for Ear {
    fn enabled(&self, _: &log::Metadata) -> bool {
        true
    }

    fn log(&self, record: &log::Record) {
        SAID.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

/// Whoever may not end connections waits on, and says so once.
#[test]
fn a_user_that_may_not_end_anybody_waits_and_says_so_once() {
    log::set_logger(&Ear).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let server = Server::start();
    // To end somebody takes both: a look at who is there, and the end itself.
    for (user, denied) in [("meek", "-client|kill"), ("blind", "-client|list")] {
        let rules = format!("ACL SETUSER {user} on >pw ~* &* +@all {denied}");
        server.run::<()>(&rules.split(' ').collect::<Vec<_>>());
        let mut holder = Worker::spawn(&server.url(), user);
        holder.expect("x", "got x");
        holder.stop();
        let url = format!("redis://{user}:pw@127.0.0.1:{}", server.port());
        assert!(lone_lock(&url, user).acquire(wait(4_500)).is_err());
        assert_eq!(server.members(user), 1);
        holder.cont();
        holder.expect("r", "released");
    }
    let said = SAID.lock().unwrap();
    let refusals = said.iter().filter(|line| line.contains("the server refuses")).count();
    assert_eq!(refusals, 1, "{said:?}");
}
