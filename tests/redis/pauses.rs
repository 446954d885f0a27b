//! Processes and servers that stand still for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use portalock::Wait;

use crate::proxy::{Delay, Proxy};
use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, lone_lock, ms, wait};

/// A holder and two waiters, in that order, that do not give each other up for some time.
fn queue(server: &Server) -> [Worker; 3] {
    let mut workers = [(); 3].map(|()| {
        let patient = "unavailable_ms=5000";
        Worker::spawn_with(&server.url(), "jobs", &[patient])
    });
    workers[0].expect("x 5000", "got x");
    for (number, worker) in workers.iter_mut().enumerate().skip(1) {
        worker.tell("x 60000");
        assert!(wait_until(LONG, || server.members("jobs") == number as u64 + 1));
        std::thread::sleep(ms(100));
    }
    workers
}

/// Each gets it in its turn, and nobody before.
fn is_served_in_order(workers: &mut [Worker; 3]) {
    for number in 0..3 {
        assert!(workers[number..].iter().all(|worker| worker.is_silent(ms(20))));
        workers[number].expect("r", "released");
        if let Some(next) = workers.get(number + 1) {
            next.await_line("got x", LONG);
        }
    }
}

#[test]
fn a_pause_of_anybody_costs_nobody_the_lock_or_the_place() {
    for pause in [100, 1_000] {
        for who in 0..3 {
            let server = Server::start();
            let mut workers = queue(&server);
            workers[who].stop();
            std::thread::sleep(ms(pause));
            workers[who].cont();
            is_served_in_order(&mut workers);
        }
    }
}

#[test]
fn a_pause_of_everybody_costs_nobody_the_lock_or_the_place() {
    let server = Server::start();
    let mut workers = queue(&server);
    workers.iter().for_each(Worker::stop);
    std::thread::sleep(ms(7_000));
    workers.iter().for_each(Worker::cont);
    is_served_in_order(&mut workers);
}

#[test]
fn a_pause_of_the_server_costs_nobody_the_lock_or_the_place() {
    for pause in [100, 1_000, 10_000] {
        let server = Server::start();
        // Checked every 10 s, with 1 s to come back: longer than the shorter two.
        let mut workers = match pause {
            10_000 => {
                let mut workers =
                    [(); 3].map(|()| Worker::spawn_with(&server.url(), "jobs", &["health_ms=0"]));
                workers[0].expect("x 5000", "got x");
                workers[1].tell("x 60000");
                assert!(wait_until(LONG, || server.members("jobs") == 2));
                std::thread::sleep(ms(100));
                workers[2].tell("x 60000");
                assert!(wait_until(LONG, || server.members("jobs") == 3));
                std::thread::sleep(ms(100));
                workers
            }
            _ => queue(&server),
        };
        server.stop();
        std::thread::sleep(ms(pause));
        server.cont();
        is_served_in_order(&mut workers);
    }
}

#[test]
fn a_holder_that_sleeps_for_ten_seconds_is_followed_and_told() {
    let server = Server::start();
    let mut holder = Worker::spawn(&server.url(), "jobs");
    holder.expect("x 5000", "got x");
    let mut next = Worker::spawn(&server.url(), "jobs");
    next.tell("x 60000");
    assert!(wait_until(LONG, || server.members("jobs") == 2));
    holder.stop();
    let took = next.await_line("got x", LONG);
    assert!(took < ms(6_000), "{took:?}");
    std::thread::sleep(ms(10_000).saturating_sub(took));
    holder.cont();
    holder.await_line("lost", LONG);
    holder.expect("r", "Lost");
    next.expect("r", "released");
}

#[test]
fn a_waiter_that_sleeps_is_passed_over_and_queues_anew() {
    let server = Server::start();
    let holder = lone_lock(&server.url(), "jobs");
    holder.acquire(Wait::Default).unwrap();
    let mut asleep = Worker::spawn(&server.url(), "jobs");
    asleep.tell("x 60000");
    assert!(wait_until(LONG, || server.members("jobs") == 2));
    std::thread::sleep(ms(100));
    asleep.stop();
    let next = lone_lock(&server.url(), "jobs");
    std::thread::scope(|scope| {
        let acquire = scope.spawn(|| next.acquire(wait(20_000)));
        assert!(wait_until(LONG, || server.members("jobs") == 3));
        holder.release().unwrap();
        acquire.join().unwrap().unwrap();
    });
    asleep.cont();
    assert_eq!(asleep.line(ms(300)), None, "while {:?} of another", next.is_held());
    next.release().unwrap();
    asleep.await_line("got x", LONG);
}

/// As before, with a way that stands still instead of a process, and the end of the connection a while after
/// the event that would have promoted it: by then it has asked anew itself, and trusts no event.
#[test]
fn news_that_were_held_up_promote_nobody() {
    for late in [Delay::NONE, Delay { least: ms(0), most: ms(50) }] {
        let server = Server::start();
        let proxy = Proxy::delaying(server.port(), late);
        let holder = lone_lock(&server.url(), "jobs");
        holder.acquire(Wait::Default).unwrap();
        let (far, next) = (lone_lock(&proxy.url(), "jobs"), lone_lock(&server.url(), "jobs"));
        let lost = Arc::new(AtomicBool::new(false));
        let told = lost.clone();
        far.on_lost(Some(Box::new(move |_| told.store(true, Ordering::SeqCst))));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| far.acquire(wait(20_000)));
            assert!(wait_until(LONG, || server.members("jobs") == 2));
            std::thread::sleep(ms(200));
            proxy.hold();
            let acquire = scope.spawn(|| next.acquire(wait(20_000)));
            assert!(wait_until(LONG, || server.members("jobs") == 3));
            holder.release().unwrap();
            acquire.join().unwrap().unwrap();
            proxy.resume();
            assert!(!wait_until(ms(400), || far.is_held()), "two hold it");
            assert!(next.is_held() && !lost.load(Ordering::SeqCst));
            next.release().unwrap();
            waiting.join().unwrap().unwrap();
        });
    }
}

/// It was alone when its subscription was answered, and read the answer long after.
#[test]
fn a_process_that_sleeps_while_it_joins_does_not_believe_that_it_is_alone() {
    for pause in [1_500, 3_000] {
        let server = Server::start();
        let mut asleep = Worker::spawn(&server.url(), "jobs");
        asleep.expect("x 5000", "got x");
        asleep.expect("r", "released");
        server.stop();
        asleep.tell("x 20000");
        std::thread::sleep(ms(50));
        asleep.stop();
        server.cont();
        assert!(wait_until(LONG, || server.members("jobs") == 1));
        let next = lone_lock(&server.url(), "jobs");
        next.acquire(wait(20_000)).unwrap();
        std::thread::sleep(ms(pause));
        asleep.cont();
        assert_eq!(
            asleep.line(ms(400)),
            None,
            "after {pause} ms, while {} of another",
            next.is_held()
        );
        next.release().unwrap();
        asleep.await_line("got x", LONG);
    }
}

#[test]
fn somebody_who_asks_and_falls_asleep_is_in_nobodys_way() {
    let server = Server::start();
    let (first, second) = (lone_lock(&server.url(), "jobs"), lone_lock(&server.url(), "jobs"));
    first.acquire(Wait::Default).unwrap();
    let mut asker = Worker::spawn(&server.url(), "jobs");
    asker.tell("holders 10");
    asker.stop();
    std::thread::sleep(ms(200));
    std::thread::scope(|scope| {
        let acquire = scope.spawn(|| second.acquire(wait(10_000)));
        assert!(wait_until(LONG, || server.members("jobs") == 2));
        first.release().unwrap();
        acquire.join().unwrap().unwrap();
    });
    asker.cont();
    let said = asker.line(LONG).unwrap_or_default();
    assert!(said.starts_with("holders") || said == "Unclear", "{said}");
    assert!(second.is_held());
}
