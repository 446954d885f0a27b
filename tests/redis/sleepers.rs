//! Whoever sleeps in a queue of several: what becomes of the others, and of its place.

use std::time::{Duration, Instant};

use portalock::State;

use crate::proxy::{Delay, Proxy};
use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, SOON, client, ms, together};

/// Until a silent one is passed over: the unavailable timeout of 1 s, a ping before it, a rest of those
/// further behind, and slack.
const REAPED: Duration = Duration::from_secs(6);

/// A holder and so many who wait behind it, in this order.
struct Queue {
    server: Server,
    holder: Worker,
    waiters: Vec<Worker>,
}

impl Queue {
    fn new(waiters: u64) -> Self {
        Self::with(waiters, &[])
    }

    fn with(count: u64, options: &[&str]) -> Self {
        let server = Server::start();
        let mut holder = Worker::spawn_with(&server.url(), "jobs", options);
        holder.expect("x", "got x");
        let mut waiters = Vec::new();
        for number in 0..count {
            let mut waiter = Worker::spawn_with(&server.url(), "jobs", options);
            waiter.tell("x 60000");
            assert!(wait_until(LONG, || server.members("jobs") == 2 + number));
            waiters.push(waiter);
        }
        std::thread::sleep(ms(100));
        Self { server, holder, waiters }
    }

    /// Until this one holds the lock, and these wait behind it.
    fn await_order(&self, order: &[usize]) {
        let client = client(&self.server.url());
        let wanted: Vec<_> = order.iter().map(|number| self.waiters[*number].pid()).collect();
        let mut found = Vec::new();
        let came = wait_until(LONG, || {
            let holders = client.holders("jobs", ms(2_000)).unwrap_or_default();
            found = holders.iter().map(|holder| holder.pid.unwrap_or(0) as i32).collect();
            found == wanted && holders[0].state == State::Held
        });
        assert!(came, "{found:?} instead of {wanted:?}");
    }

    /// Serves those who wait, in this order.
    fn serve(&mut self, order: &[usize]) {
        for number in order {
            let waiter = &mut self.waiters[*number];
            waiter.await_line("got x", LONG);
            waiter.expect("r", "released");
        }
        assert!(wait_until(SOON, || self.server.members("jobs") == 0));
    }
}

fn pause(worker: &Worker, span: u64) {
    worker.stop();
    std::thread::sleep(ms(span));
    worker.cont();
}

/// About as long as the patience of those who wait: it may go either way, but not both.
#[test]
fn a_holder_that_pauses_for_a_second_keeps_the_lock_or_is_told() {
    let mut queue = Queue::new(1);
    pause(&queue.holder, 1_000);
    let taken = queue.waiters[0].line(ms(700));
    println!("taken over: {taken:?}");
    if taken.is_some() {
        queue.holder.await_line("lost", SOON);
        queue.holder.expect("r", "Lost");
        queue.waiters[0].expect("r", "released");
    } else {
        queue.holder.expect("r", "released");
        queue.serve(&[0]);
    }
}

/// While the lock is held, nobody has a reason to end one in the midst of the queue.
#[test]
fn a_waiter_in_the_midst_that_pauses_for_a_second_delays_nobody() {
    let mut queue = Queue::new(3);
    pause(&queue.waiters[1], 1_000);
    queue.holder.expect("r", "released");
    let begun = Instant::now();
    queue.serve(&[0, 1, 2]);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

/// Its connection was ended while it slept. Before the end of the stream, its socket holds the
/// release of the one before it, which was its turn then.
fn oversleep(options: &[&str]) {
    let mut queue = Queue::with(3, options);
    queue.waiters[0].stop();
    queue.holder.expect("r", "released");
    let took = queue.waiters[1].await_line("got x", LONG);
    println!("passed over after {took:?}");
    assert!(took < REAPED, "{took:?}");
    queue.waiters[0].cont();
    // It keeps the time of its arrival, and so comes before all who arrived after it.
    queue.await_order(&[1, 0, 2]);
    let said = queue.waiters[0].line(ms(100));
    assert_eq!(said, None, "although another holds the lock");
    queue.waiters[1].expect("r", "released");
    queue.serve(&[0, 2]);
}

#[test]
fn a_waiter_that_was_passed_over_is_granted_nothing_that_it_slept_through_and_has_its_place_again()
{
    together(&[|| oversleep(&[]), || oversleep(&["fencing=1"])]);
}

#[test]
fn several_who_sleep_are_passed_over_and_the_others_keep_their_order() {
    let mut queue = Queue::new(4);
    for sleeper in [&queue.holder, &queue.waiters[0], &queue.waiters[2]] {
        sleeper.stop();
    }
    let took = queue.waiters[1].await_line("got x", LONG);
    println!("passed over after {took:?}");
    assert!(took < REAPED, "{took:?}");
    queue.waiters[1].expect("r", "released");
    queue.waiters[3].await_line("got x", REAPED);
    queue.holder.cont();
    queue.holder.await_line("lost", SOON);
    // Its turn is over: it comes last.
    queue.holder.tell("x 20000");
    std::thread::sleep(ms(200));
    queue.waiters[3].expect("r", "released");
    queue.holder.await_line("got x", REAPED);
}

fn a_pause_within_the_deadline_disturbs_nobody() {
    let mut queue = Queue::with(2, &["health_ms=2000"]);
    let since = Instant::now();
    for span in [100, 600, 100, 600] {
        queue.server.stop();
        std::thread::sleep(ms(span));
        queue.server.cont();
        std::thread::sleep(ms(900));
    }
    assert!(since.elapsed() > ms(4_000), "a check or two must have come and gone");
    assert!(queue.waiters[0].is_silent(ms(100)));
    queue.holder.expect("r", "released");
    queue.serve(&[0, 1]);
}

fn a_longer_one_is_reported_meanwhile() {
    let mut queue = Queue::with(3, &["health_ms=500"]);
    queue.server.stop();
    let told = queue.holder.await_line("lost", LONG);
    // The interval, the deadline, and slack.
    assert!(told < ms(500 + 500 + 700), "{told:?}");
    queue.holder.expect("why", "Unresponsive");
    queue.holder.expect("r", "Lost");
    std::thread::sleep(ms(3_000).saturating_sub(told));
    queue.server.cont();
    queue.serve(&[0, 1, 2]);
    queue.holder.expect("x", "got x");
}

/// Longer than it may take to be answered: those who wait have given their connections up, and whoever
/// has a new one first may find the lock free before the others are back.
fn a_very_long_one_is_outlasted_by_all() {
    let mut queue = Queue::with(3, &["health_ms=500", "connect_ms=1000"]);
    queue.server.stop();
    queue.holder.await_line("lost", LONG);
    std::thread::sleep(ms(3_500));
    queue.server.cont();
    while !queue.waiters.is_empty() {
        let mut next = None;
        wait_until(LONG, || {
            next = queue.waiters.iter().position(|waiter| waiter.line(ms(0)).is_some());
            next.is_some()
        });
        let mut next = queue.waiters.remove(next.expect("those who are left are stuck"));
        next.expect("r", "released");
    }
}

#[test]
fn a_server_that_pauses_for_long_is_reported_to_the_holder_and_outlasted_by_those_who_wait() {
    together(&[
        a_pause_within_the_deadline_disturbs_nobody,
        a_longer_one_is_reported_meanwhile,
        a_very_long_one_is_outlasted_by_all,
    ]);
}

/// It asks through a path that takes 300 ms there and back, so that it is sure to sleep while the
/// answers are under way.
fn ask_and_sleep(order: &str, span: u64, answers: &[&str]) {
    let server = Server::start();
    let proxy = Proxy::delaying(server.port(), Delay { least: ms(150), most: ms(150) });
    let mut holder = Worker::spawn(&server.url(), "asked");
    holder.expect("x", "got x");
    let mut asker = Worker::spawn(&proxy.url(), "asked");
    asker.expect("ready", "ready");
    let pings = || {
        let counts = server.command_counts();
        ["publish", "eval"].iter().filter_map(|name| counts.get(*name)).sum::<u64>()
    };
    let before = pings();
    asker.tell(order);
    assert!(wait_until(LONG, || pings() > before));
    pause(&asker, span);
    let said = asker.line(LONG).unwrap();
    println!("{order:?} with {span} ms of sleep: {said}");
    assert!(answers.contains(&&*said), "{said}");
    assert_eq!(server.members("asked"), 1);
    holder.expect("r", "released");
}

/// The true answer, or that there is none: never that nobody is there.
const TRUE: [&str; 3] = ["holders 1, waiters 0", "Unclear", "Unresponsive"];
const SPARED: [&str; 3] = ["alive 1, killed 0", "Unclear", "Unresponsive"];

#[test]
fn one_who_asks_and_sleeps_meanwhile_neither_takes_a_holder_for_nobody_nor_ends_it() {
    together(&[
        || ask_and_sleep("holders 1500", 100, &TRUE),
        || ask_and_sleep("holders 1500", 2_000, &TRUE),
        || ask_and_sleep("reap 1500", 100, &SPARED),
        || ask_and_sleep("reap 1500", 2_000, &SPARED),
    ]);
}
