//! A network that loses everything both ways, and says nothing: a holder behind it is told in time.

use std::time::{Duration, Instant};

use crate::proxy::Proxy;
use crate::support::netns::Cable;
use crate::support::worker::Worker;
use crate::support::{Server, skip, wait_until};
use crate::{LONG, SOON, lone_lock, ms, together, wait};

const INTERVALS: [u64; 3] = [200, 500, 2_000];
/// For machines that do other things as well.
const MARGIN: u64 = 700;

/// A check begins within the interval, and has to be back within the interval or the unavailable
/// timeout of 1 s, whichever is shorter.
fn bound(interval: u64) -> Duration {
    ms(interval + interval.min(1_000) + MARGIN)
}

/// Holders of different intervals, each of a lock of its own.
fn holders(spawn: impl Fn(&str, u64) -> Worker) -> Vec<(u64, Worker)> {
    let mut holders = Vec::new();
    for interval in INTERVALS {
        let mut holder = spawn(&name(interval), interval);
        holder.expect("x", "got x");
        holders.push((interval, holder));
    }
    holders
}

fn health(interval: u64) -> String {
    format!("health_ms={interval}")
}

fn name(interval: u64) -> String {
    format!("every {interval}")
}

/// All of them are told in time, after everything has gone silent at `since`.
fn assert_told(holders: &mut [(u64, Worker)], since: Instant) {
    for (interval, holder) in holders {
        let left = (bound(*interval) + LONG).saturating_sub(since.elapsed());
        holder.await_line("lost", left);
        let took = since.elapsed();
        println!("every {interval} ms: told after {took:?}");
        assert!(took < bound(*interval), "{took:?} at {interval} ms");
        holder.expect("why", "Unresponsive");
        holder.expect("r", "Lost");
    }
}

#[test]
fn whichever_way_goes_silent_the_holder_is_told_in_time() {
    let server = Server::start();
    let silences = [Proxy::swallow_requests, Proxy::swallow_answers, Proxy::fall_silent];
    let paths = silences.map(|silence| (silence, Proxy::before(server.port())));
    let mut all = Vec::new();
    for (number, (_, proxy)) in paths.iter().enumerate() {
        all.extend(holders(|name, interval| {
            let name = format!("{name}, path {number}");
            Worker::spawn_with(&proxy.url(), &name, &[&health(interval)])
        }));
    }
    // In the order in which they are to be told.
    all.sort_by_key(|(interval, _)| *interval);
    std::thread::sleep(ms(1_000));
    let since = Instant::now();
    for (silence, proxy) in &paths {
        silence(proxy);
    }
    assert_told(&mut all, since);
}

/// With an interval well below the unavailable timeout, the loss is known before anybody else can have
/// passed the silent holder over.
#[test]
fn a_holder_that_checks_often_is_told_before_the_next_one_gets_the_lock() {
    let server = Server::start();
    let proxy = Proxy::before(server.port());
    let mut holder = Worker::spawn_with(&proxy.url(), "jobs", &["health_ms=200"]);
    holder.expect("x", "got x");
    let next = lone_lock(&server.url(), "jobs");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            next.acquire(wait(15_000)).unwrap();
            Instant::now()
        });
        assert!(wait_until(LONG, || server.members("jobs") == 2));
        std::thread::sleep(ms(300));
        proxy.fall_silent();
        let since = Instant::now();
        holder.await_line("lost", LONG);
        let told = Instant::now();
        let granted = waiting.join().unwrap();
        println!("told after {:?}, granted after {:?}", told - since, granted - since);
        assert!(told < granted);
        assert!(granted - since < ms(6_000));
    });
    assert!(next.is_held());
}

#[test]
fn a_silence_that_is_shorter_than_the_deadline_costs_nobody_the_lock() {
    let server = Server::start();
    let proxy = Proxy::before(server.port());
    let mut holder = Worker::spawn_with(&proxy.url(), "jobs", &["health_ms=2000"]);
    holder.expect("x", "got x");
    let mut waiter = Worker::spawn(&proxy.url(), "jobs");
    waiter.tell("x 30000");
    assert!(wait_until(LONG, || server.members("jobs") == 2));
    for _ in 0..4 {
        proxy.hold();
        std::thread::sleep(ms(500));
        proxy.resume();
        std::thread::sleep(ms(300));
    }
    assert!(waiter.is_silent(ms(100)));
    holder.expect("r", "released");
    waiter.await_line("got x", SOON);
}

#[test]
fn a_waiter_behind_a_silent_path_gives_up_in_time_and_holds_up_nobody_for_long() {
    let server = Server::start();
    let proxy = Proxy::before(server.port());
    let holder = lone_lock(&server.url(), "jobs");
    holder.acquire(wait(5_000)).unwrap();
    let mut cut_off = Worker::spawn(&proxy.url(), "jobs");
    cut_off.expect("ready", "ready");
    let begun = Instant::now();
    cut_off.tell("x 4500");
    assert!(wait_until(LONG, || server.members("jobs") == 2));
    let mut next = Worker::spawn(&server.url(), "jobs");
    next.tell("x 30000");
    assert!(wait_until(LONG, || server.members("jobs") == 3));
    std::thread::sleep(ms(100));
    proxy.fall_silent();
    holder.release().unwrap();
    let passed = next.await_line("got x", LONG);
    assert!(passed < ms(6_000), "{passed:?}");
    let said = cut_off.line(LONG).unwrap();
    println!("cut off: {said} after {:?}, passed over after {passed:?}", begun.elapsed());
    assert!(["Timeout", "Unresponsive"].contains(&&*said), "{said}");
    assert!(begun.elapsed() < ms(4_500 + MARGIN), "{:?}", begun.elapsed());
}

/// A server at one end of a cable, workers at the other. `None`, and a word about it, if there can
/// be no such thing here.
fn far_apart() -> Option<(Server, Cable)> {
    match Cable::new() {
        Ok(cable) => {
            let bind = format!("127.0.0.1 {}", Cable::server_address());
            let settings = [("bind", &*bind), ("protected-mode", "no")];
            Some((Server::under(&cable.at_near(), &settings), cable))
        }
        Err(why) => {
            skip(&format!("no network namespaces: {why}"));
            None
        }
    }
}

fn far_worker(server: &Server, cable: &Cable, name: &str, interval: u64) -> Worker {
    let url = format!("redis://{}:{}", Cable::server_address(), server.port());
    Worker::spawn_under(&cable.at_far(), &url, name, &[&health(interval)], &[])
}

#[test]
fn lost_packets_are_reported_in_time_and_all_is_well_when_they_come_again() {
    let Some((server, cable)) = far_apart() else { return };
    let mut holders = holders(|name, interval| far_worker(&server, &cable, name, interval));
    std::thread::sleep(ms(1_000));
    cable.cut();
    let since = Instant::now();
    assert_told(&mut holders, since);
    // Nobody has told the server; whoever comes over another path has to find out.
    let near = lone_lock(&server.url(), &name(200));
    near.acquire(wait(10_000)).unwrap();
    let (_, cut_off) = &mut holders[0];
    let begun = Instant::now();
    cut_off.expect("x 1000", "Unresponsive");
    assert!(begun.elapsed() < ms(1_000 + MARGIN), "{:?}", begun.elapsed());
    cut_off.tell("x 30000");
    std::thread::sleep(ms(300));
    cable.mend();
    for (interval, holder) in &mut holders[1..] {
        holder.expect("x 15000", "got x");
        assert_eq!(server.members(&name(*interval)), 1, "what was lost is off the channel");
    }
    let (_, back) = &mut holders[0];
    assert!(back.is_silent(ms(500)), "the lock is held at the other end");
    near.release().unwrap();
    back.await_line("got x", LONG);
}

#[test]
fn a_cable_that_is_mended_in_time_costs_nobody_the_lock_or_their_place() {
    together(&[short_cuts_cost_nobody_the_lock, waiters_keep_their_order]);
}

fn short_cuts_cost_nobody_the_lock() {
    let Some((server, cable)) = far_apart() else { return };
    let mut holder = far_worker(&server, &cable, "jobs", 2_000);
    holder.expect("x", "got x");
    let mut waiter = far_worker(&server, &cable, "jobs", 2_000);
    waiter.tell("x 60000");
    assert!(wait_until(LONG, || server.members("jobs") == 2));
    // What is lost is sent again after 200 ms, 400 ms more, and so on: shorter than that.
    for _ in 0..4 {
        cable.cut();
        std::thread::sleep(ms(150));
        cable.mend();
        std::thread::sleep(ms(600));
    }
    assert!(waiter.is_silent(ms(100)));
    holder.expect("r", "released");
    waiter.await_line("got x", LONG);
}

fn waiters_keep_their_order() {
    let Some((server, cable)) = far_apart() else { return };
    let holder = lone_lock(&server.url(), "jobs");
    holder.acquire(wait(5_000)).unwrap();
    let mut waiters = Vec::new();
    for number in 0..3 {
        let mut waiter = far_worker(&server, &cable, "jobs", 2_000);
        waiter.tell("x 60000");
        assert!(wait_until(LONG, || server.members("jobs") == 2 + number));
        waiters.push(waiter);
    }
    std::thread::sleep(ms(200));
    cable.cut();
    std::thread::sleep(ms(1_200));
    cable.mend();
    assert!(waiters[0].is_silent(ms(1_500)), "the lock is held");
    holder.release().unwrap();
    for waiter in &mut waiters {
        waiter.await_line("got x", LONG);
        waiter.expect("r", "released");
    }
}
