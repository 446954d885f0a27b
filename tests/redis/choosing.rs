//! What `docs/timeouts.md` says of spans: its arithmetic, and what it promises of the options.

use std::ops::Range;
use std::time::{Duration, Instant};

use portalock::{Client, ClientOptions, Lock, LockOptions, Status, Wait};

use crate::proxy::{Delay, Proxy};
use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, client, failure, ms, status, wait};

const PAGE: &str = include_str!("../../docs/timeouts.md");
/// What a busy machine adds.
const SLACK: Duration = ms(2_000);

fn patient(url: &str, unavailable: u64) -> Lock {
    let mut options = LockOptions::new();
    options.unavailable_timeout(ms(unavailable)).unwrap();
    Client::new(url, ClientOptions::new()).unwrap().lock("jobs", options).unwrap()
}

#[test]
fn the_worked_numbers_are_settings_that_come_to_what_is_said() {
    let mut rows = 0;
    for line in PAGE.lines().filter(|line| line.starts_with("| ")) {
        let cells = line.trim_matches(['|', ' ']).split(" | ").skip(1);
        let Ok(numbers) = cells.map(str::parse::<i64>).collect::<Result<Vec<_>, _>>() else {
            continue;
        };
        let [timeout, unavailable, interval, connect, told, first, passed] = numbers[..] else {
            panic!("{line}");
        };
        let span = |number: i64| ms(number.try_into().unwrap());
        let mut options = LockOptions::new();
        options.unavailable_timeout(span(unavailable)).unwrap();
        options.health_check_interval(span(interval)).unwrap();
        let wait = if timeout < 0 { Wait::Forever } else { Wait::For(span(timeout)) };
        options.timeout(wait).unwrap();
        ClientOptions::new().connect_timeout(span(connect)).unwrap();
        assert_eq!(told, interval + interval.min(unavailable), "{line}");
        assert_eq!(first, unavailable + 50, "{line}");
        assert_eq!(passed, 2 * unavailable + 50, "{line}");
        assert!(timeout <= 0 || timeout >= passed, "{line}");
        assert_eq!(interval * 2 <= unavailable, told < first, "{line}");
        rows += 1;
    }
    assert_eq!(rows, 8);
}

/// How long a holder that has stopped is in the way of somebody who comes then, or waits already.
fn passes_within(unavailable: u64, waits_already: bool, bounds: Range<Duration>) {
    let server = Server::start();
    let mut holder = Worker::spawn(&server.url(), "jobs");
    let options = format!("unavailable_ms={unavailable}");
    let mut waiter = Worker::spawn_with(&server.url(), "jobs", &[&options]);
    holder.expect("x", "got x");
    if waits_already {
        waiter.tell("x 20000");
        assert!(wait_until(LONG, || server.members("jobs") == 2));
        std::thread::sleep(ms(300));
    }
    holder.stop();
    let begun = Instant::now();
    if !waits_already {
        // One attempt is enough.
        waiter.tell("try");
    }
    waiter.await_line("got x", LONG);
    let took = begun.elapsed();
    assert!(bounds.contains(&took), "{unavailable} ms: {took:?}");
}

#[test]
fn a_holder_that_stands_still_is_passed_when_it_is_said() {
    for unavailable in [200, 1_000] {
        let least = ms(unavailable);
        passes_within(unavailable, false, least..least + SLACK);
        passes_within(unavailable, true, least..least * 2 + SLACK);
    }
}

/// Where the interval is no more than half as long as a member may be silent.
#[test]
fn a_holder_that_is_merely_cut_off_knows_before_the_next_is_in() {
    let server = Server::start();
    for phase in [0, 80, 160, 240] {
        let proxy = Proxy::before(server.port());
        let mut holder = Worker::spawn_with(&proxy.url(), "jobs", &["health_ms=250"]);
        let next = patient(&server.url(), 1_000);
        holder.expect("x", "got x");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| next.acquire(wait(20_000)).map(|()| Instant::now()));
            assert!(wait_until(LONG, || server.members("jobs") == 2));
            std::thread::sleep(ms(300 + phase));
            proxy.fall_silent();
            holder.await_line("lost", LONG);
            let told = Instant::now();
            let passed = waiting.join().unwrap().unwrap();
            assert!(told < passed, "{:?} too late", told - passed);
        });
    }
}

#[test]
fn a_round_trip_that_takes_longer_than_a_member_may_be_silent_leaves_a_waiter_in_doubt() {
    for (unavailable, word) in [(100, "do not answer"), (1_000, "somebody else holds it")] {
        let server = Server::start();
        let delay = Delay { least: ms(100), most: ms(100) };
        let proxies = [delay; 2].map(|delay| Proxy::delaying(server.port(), delay));
        // A health check would find out at some time that no message is back in 100 ms.
        let unchecked = |proxy: &Proxy| {
            let mut options = LockOptions::new();
            options.unavailable_timeout(ms(unavailable)).unwrap();
            options.health_check_interval(Duration::ZERO).unwrap();
            client(&proxy.url()).lock("jobs", options).unwrap()
        };
        let [holder, waiter] = proxies.each_ref().map(unchecked);
        holder.acquire(wait(10_000)).unwrap();
        let error = failure(waiter.acquire(wait(3_000)));
        assert!(error.message().contains(word), "{unavailable} ms: {error}");
        assert!(holder.is_held(), "{unavailable} ms");
    }
}

/// Whoever waits for no answer has nothing to miss.
#[test]
fn a_holder_that_is_owed_an_answer_for_too_long_has_lost_its_lock() {
    let server = Server::with(&[("enable-debug-command", "yes")]);
    let mut options = ClientOptions::new();
    options.connect_timeout(ms(500)).unwrap();
    let client = Client::new(&server.url(), options).unwrap();
    let unchecked = |name: &str| {
        let mut options = LockOptions::new();
        options.health_check_interval(Duration::ZERO).unwrap();
        let lock = client.lock(name, options).unwrap();
        lock.acquire(wait(5_000)).unwrap();
        lock
    };
    let [asks, sleeps] = ["asks", "sleeps"].map(unchecked);
    std::thread::scope(|scope| {
        scope.spawn(|| server.run::<()>(&["DEBUG", "SLEEP", "3"]));
        std::thread::sleep(ms(300));
        assert_eq!(status(asks.verify(ms(100))), Status::Timeout);
        assert!(asks.is_held());
        assert!(wait_until(LONG, || !asks.is_held()));
        assert_eq!(status(asks.release()), Status::Lost);
    });
    sleeps.verify(LONG).unwrap();
}
