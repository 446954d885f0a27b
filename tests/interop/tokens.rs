//! One counter for all: tokens rise over processes, crashes and versions.

use crate::LONG;
use crate::peers::Version;
use crate::support::Server;
use crate::support::worker::Worker;

const NAME: &str = "fenced";

fn token(worker: &mut Worker) -> u64 {
    worker.tell("token");
    let said = worker.line(LONG).unwrap_or_default();
    said.strip_prefix("token ").and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{said:?}"))
}

#[test]
fn tokens_rise_over_languages_and_crashes() {
    let server = Server::start();
    let ours = || Worker::spawn_with(&server.tcp_url(), NAME, &["fencing=1"]);
    let theirs = || Version::V4_4_2.spawn(&server, NAME);
    let mut last = 0;
    for dies in [false, true, false, true] {
        for mut worker in [ours(), theirs(), ours()] {
            worker.expect("x 20000", "got x");
            let token = token(&mut worker);
            assert!(token > last, "{token} after {last}");
            last = token;
            match dies {
                true => worker.kill(),
                false => worker.expect("r", "released"),
            }
        }
    }
}

#[test]
fn tokens_rise_while_both_kinds_wait_for_each_other() {
    let server = Server::start();
    let mut workers = [
        Worker::spawn_with(&server.tcp_url(), NAME, &["fencing=1"]),
        Version::V4_4_2.spawn(&server, NAME),
    ];
    let mut last = 0;
    workers[0].expect("x 20000", "got x");
    for round in 0..8 {
        let (holder, waiter) = (round % 2, (round + 1) % 2);
        let drawn = token(&mut workers[holder]);
        assert!(drawn > last, "{drawn} after {last}");
        last = drawn;
        workers[waiter].tell("x 20000");
        std::thread::sleep(crate::ms(400));
        workers[holder].expect("r", "released");
        workers[waiter].await_line("got x", LONG * 2);
    }
}
