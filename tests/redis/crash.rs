//! Processes that die without a word.

use std::time::{Duration, Instant};

use portalock::{Client, State};

use crate::dice::Dice;
use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, client, lone_lock, ms, wait};

const KILLS: usize = 200;
const CROWD: usize = 5;
/// From the death of a holder to the next.
const LIMIT: Duration = ms(250);
/// If the one who would have noticed dies with it. Those behind look every 1.5 s when at rest.
const LIMIT_OF_TWO: Duration = ms(2_500);

/// Processes that all want one lock, and whoever asks about them.
struct Crowd<'a> {
    server: &'a Server,
    client: Client,
    workers: Vec<Worker>,
}

impl<'a> Crowd<'a> {
    fn new(server: &'a Server) -> Self {
        let mut crowd = Self { server, client: client(&server.url()), workers: Vec::new() };
        crowd.fill();
        crowd
    }

    /// Brings the crowd back to its size and waits until everybody has their place; tells their
    /// process ids, the holder's first, then the waiters' in their order.
    fn fill(&mut self) -> Vec<i32> {
        while self.workers.len() < CROWD {
            let mut worker = Worker::spawn(&self.server.url(), "jobs");
            worker.tell("x 60000");
            self.workers.push(worker);
        }
        let mut found = Vec::new();
        let settled = wait_until(LONG, || {
            found = self.client.holders("jobs", ms(1_000)).unwrap_or_default();
            let held = found.iter().filter(|holder| holder.state == State::Held).count();
            let waiting = found.iter().filter(|holder| holder.state == State::Waiting).count();
            held == 1 && waiting == CROWD - 1
        });
        assert!(settled, "{found:#?}");
        found.iter().map(|holder| holder.pid.unwrap() as i32).collect()
    }

    /// Kills one of them, and does not wait for anything.
    fn kill(&mut self, pid: i32) {
        let place = self.workers.iter().position(|worker| worker.pid() == pid).unwrap();
        self.workers.swap_remove(place).kill();
    }

    /// Waits until somebody holds the lock; tells who, and how long that took.
    fn await_holder(&self, since: Instant) -> (i32, Duration) {
        let mut next = None;
        wait_until(LONG, || {
            let mut told = self.workers.iter().filter(|worker| {
                worker.line(Duration::ZERO).is_some_and(|line| {
                    assert_eq!(line, "got x");
                    true
                })
            });
            next = told.next().map(Worker::pid);
            assert!(told.next().is_none(), "two of them hold the lock");
            next.is_some()
        });
        (next.expect("everybody is stuck"), since.elapsed())
    }
}

#[test]
fn two_hundred_kills_leave_nobody_stuck() {
    let server = Server::start();
    let mut dice = Dice::new();
    let mut crowd = Crowd::new(&server);
    let (first, _) = crowd.await_holder(Instant::now());
    assert_eq!(crowd.fill()[0], first);
    let (mut killed, mut longest, mut sum, mut handed_over) =
        (0, Duration::ZERO, Duration::ZERO, 0);
    while killed < KILLS {
        let queue = crowd.fill();
        // The holder, a waiter, or the holder and the one who is about to notice.
        let mut victims = match dice.below(4) {
            0 | 1 => vec![0],
            2 => vec![1 + dice.below(CROWD - 1)],
            _ => vec![0, 1],
        };
        victims.truncate(KILLS - killed);
        let since = Instant::now();
        for victim in &victims {
            crowd.kill(queue[*victim]);
        }
        killed += victims.len();
        if victims[0] != 0 {
            continue;
        }
        let heir = queue[victims.len()];
        let (next, took) = crowd.await_holder(since);
        assert_eq!(next, heir, "out of turn after {victims:?} of {queue:?} were killed");
        let limit = if victims.len() == 1 { LIMIT } else { LIMIT_OF_TWO };
        assert!(took < limit, "{took:?} after {victims:?} were killed");
        (longest, sum, handed_over) = (longest.max(took), sum + took, handed_over + 1);
    }
    let mean = sum / handed_over;
    println!(
        "{killed} killed, {handed_over} holders among them: next after {mean:?}, at most {longest:?}"
    );
}

#[test]
fn a_killed_holder_is_followed_by_the_first_in_line() {
    let server = Server::start();
    let mut holder = Worker::spawn(&server.url(), "jobs");
    holder.expect("x 5000", "got x");
    let next = lone_lock(&server.url(), "jobs");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            next.acquire(wait(10_000)).unwrap();
            Instant::now()
        });
        assert!(wait_until(LONG, || server.members("jobs") == 2));
        std::thread::sleep(ms(100));
        let since = Instant::now();
        holder.kill();
        let took = waiter.join().unwrap() - since;
        println!("next after {took:?}");
        assert!(took < LIMIT, "{took:?}");
    });
}

#[test]
fn a_queue_at_rest_notices_that_its_holder_and_its_first_are_gone() {
    let server = Server::start();
    let mut holder = Worker::spawn(&server.url(), "jobs");
    holder.expect("x 5000", "got x");
    let mut behind = Vec::new();
    for members in 2..=4 {
        let mut worker = Worker::spawn(&server.url(), "jobs");
        worker.tell("x 60000");
        assert!(wait_until(LONG, || server.members("jobs") == members));
        std::thread::sleep(ms(50));
        behind.push(worker);
    }
    // Longer than those behind the first take to come to rest.
    std::thread::sleep(ms(5_000));
    holder.kill();
    behind[0].kill();
    let took = behind[1].await_line("got x", LONG);
    println!("next after {took:?}");
    assert!(took < LIMIT_OF_TWO, "{took:?}");
    assert!(behind[2].is_silent(ms(100)));
}

#[test]
fn a_stopped_holder_keeps_the_lock_until_it_is_given_up_for_dead() {
    let server = Server::start();
    let mut holder = Worker::spawn(&server.url(), "jobs");
    holder.expect("x 5000", "got x");
    holder.stop();
    let next = lone_lock(&server.url(), "jobs");
    let begun = Instant::now();
    next.acquire(wait(15_000)).unwrap();
    let took = begun.elapsed();
    // The unavailable timeout is 1 s: not before it, and not long after it.
    println!("next after {took:?}");
    assert!(took >= ms(900) && took < ms(4_000), "{took:?}");
    holder.cont();
    holder.await_line("lost", LONG);
    holder.expect("r", "Lost");
    holder.expect("r", "NotHeld");
}

#[test]
fn a_stopped_waiter_does_not_block_those_behind_it_for_ever() {
    let server = Server::start();
    let holder = lone_lock(&server.url(), "jobs");
    holder.acquire(wait(5_000)).unwrap();
    let mut asleep = Worker::spawn(&server.url(), "jobs");
    asleep.tell("x 60000");
    assert!(wait_until(LONG, || server.members("jobs") == 2));
    std::thread::sleep(ms(100));
    asleep.stop();
    let mut next = Worker::spawn(&server.url(), "jobs");
    next.tell("x 20000");
    assert!(wait_until(LONG, || server.members("jobs") == 3));
    holder.release().unwrap();
    let took = next.await_line("got x", LONG);
    println!("next after {took:?}");
    assert!(took < ms(5_000), "{took:?}");
}
