//! Connections that listen to everything: they are counted among a ping's receivers, and must not be
//! waited for.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use portalock::Status;

use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, lone_lock, ms, status, wait};

/// Follows the server until the value is dropped.
struct Onlooker(UnixStream);

impl Onlooker {
    fn new(server: &Server, command: &str) -> Self {
        let mut stream = UnixStream::connect(server.socket()).unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut answer = [0; 1];
        stream.read_exact(&mut answer).unwrap();
        let mut reader = stream.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while matches!(reader.read(&mut buffer), Ok(1..)) {}
        });
        Self(stream)
    }
}

impl Drop for Onlooker {
    fn drop(&mut self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

#[test]
fn nobody_is_hindered_by_those_who_listen() {
    for command in ["PSUBSCRIBE *", "MONITOR"] {
        let server = Server::start();
        let _onlooker = Onlooker::new(&server, command);
        take_turns(&server, command);
        survive_a_kill(&server, command);
    }
}

#[test]
fn nobody_is_hindered_by_a_crowd_that_comes_and_goes() {
    let server = Server::start();
    let _all = Onlooker::new(&server, "PSUBSCRIBE *");
    let _some = Onlooker::new(&server, "PSUBSCRIBE jobs* other*");
    let _monitor = Onlooker::new(&server, "MONITOR");
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                let _short = Onlooker::new(&server, "PSUBSCRIBE *");
                std::thread::sleep(ms(3));
            }
        });
        let outcome = std::panic::catch_unwind(|| take_turns(&server, "a crowd"));
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        outcome.unwrap();
    });
}

#[test]
fn the_status_stays_right_while_somebody_listens() {
    let server = Server::start();
    let _onlooker = Onlooker::new(&server, "PSUBSCRIBE *");
    let (holder, other) = (lone_lock(&server.url(), "jobs"), lone_lock(&server.url(), "jobs"));
    holder.try_acquire().unwrap();
    let begun = Instant::now();
    assert_eq!(status(other.try_acquire()), Status::Locked);
    assert!(begun.elapsed() < ms(500), "{:?}", begun.elapsed());
    assert_eq!(status(other.acquire(wait(100))), Status::Timeout);
    holder.release().unwrap();
    other.acquire(wait(5_000)).unwrap();
}

/// Four threads share fifty turns each, one at a time.
fn take_turns(server: &Server, what: &str) {
    let begun = Instant::now();
    let inside = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let lock = lone_lock(&server.url(), "jobs");
                for _ in 0..50 {
                    lock.acquire(wait(20_000)).unwrap();
                    let before = inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    assert_eq!(before, 0, "two hold the lock");
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    lock.release().unwrap();
                }
            });
        }
    });
    println!("{what}: 200 turns in {:?}", begun.elapsed());
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
}

fn survive_a_kill(server: &Server, what: &str) {
    let mut holder = Worker::spawn(&server.url(), "kills");
    holder.expect("x 5000", "got x");
    let mut next = Worker::spawn(&server.url(), "kills");
    next.tell("x 10000");
    assert!(wait_until(LONG, || server.members("kills") == 2));
    std::thread::sleep(ms(100));
    holder.kill();
    let took = next.await_line("got x", LONG);
    println!("{what}: next after {took:?}");
    assert!(took < ms(250), "{took:?}");
}
