//! One at a time, and in the order of arrival.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, lone_lock, ms, wait};

const PROCESSES: usize = 8;
const SECTIONS_EACH: usize = 250;

#[test]
fn eight_processes_never_meet_in_two_thousand_sections() {
    let server = Server::start();
    let mut workers: Vec<_> =
        (0..PROCESSES).map(|_| Worker::spawn(&server.url(), "jobs")).collect();
    let begun = Instant::now();
    for worker in &mut workers {
        worker.tell(&format!("sections {SECTIONS_EACH} {}", server.dir().display()));
    }
    for worker in &workers {
        worker.await_line("done", LONG * 3);
    }
    println!("{} sections took {:?}", PROCESSES * SECTIONS_EACH, begun.elapsed());
    let served = read_journal(&server.dir().join("journal"));
    assert_eq!(served.len(), PROCESSES);
    assert!(served.values().all(|count| *count == SECTIONS_EACH), "{served:?}");
}

/// How many sections each process went through; panics where two of them overlap.
fn read_journal(path: &Path) -> BTreeMap<String, usize> {
    let journal = std::fs::read_to_string(path).unwrap();
    let mut served = BTreeMap::new();
    let mut inside = None;
    for (number, line) in journal.lines().enumerate() {
        let (what, pid) = line.split_once(' ').unwrap();
        match (what, inside.take()) {
            ("enter", None) => inside = Some(pid),
            ("leave", Some(holder)) if holder == pid => {
                *served.entry(pid.to_owned()).or_default() += 1;
            }
            (_, holder) => panic!("line {number}: {line:?} while {holder:?} was inside"),
        }
    }
    assert_eq!(inside, None);
    served
}

/// Lets 20 ms pass, and more on a machine so busy that whoever was to arrive meanwhile has not.
fn await_arrival(server: &Server, number: usize) {
    std::thread::sleep(ms(20));
    assert!(
        wait_until(LONG, || server.members("jobs") == 2 + number as u64),
        "{number} has not come"
    );
}

#[test]
fn twenty_processes_are_served_in_the_order_of_arrival() {
    let server = Server::start();
    let holder = lone_lock(&server.url(), "jobs");
    let path = server.dir().join("turns");
    let mut workers: Vec<_> = (0..20).map(|_| Worker::spawn(&server.url(), "jobs")).collect();
    for worker in &mut workers {
        worker.expect("hello", "hello"); // up and running, so that the orders below are obeyed at once
    }
    holder.acquire(wait(5_000)).unwrap();
    for (number, worker) in workers.iter_mut().enumerate() {
        worker.tell(&format!("turn {number} {}", path.display()));
        await_arrival(&server, number);
    }
    holder.release().unwrap();
    for worker in &workers {
        worker.await_line("done", LONG);
    }
    let turns = std::fs::read_to_string(path).unwrap();
    let turns: Vec<usize> = turns.lines().map(|line| line.parse().unwrap()).collect();
    let in_place = turns.iter().enumerate().filter(|(place, number)| place == *number).count();
    assert_eq!(turns.len(), 20);
    assert!(in_place >= 19, "{turns:?}");
}

#[test]
fn twenty_threads_with_one_client_are_served_in_the_order_of_arrival() {
    let server = Server::start();
    let client = crate::client(&server.url());
    let holder = crate::lock(&client, "jobs");
    holder.acquire(wait(5_000)).unwrap();
    let turns = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for number in 0..20 {
            let (client, turns) = (&client, &turns);
            scope.spawn(move || {
                let lock = crate::lock(client, "jobs");
                lock.acquire(wait(20_000)).unwrap();
                turns.lock().unwrap().push(number);
                lock.release().unwrap();
            });
            await_arrival(&server, number);
        }
        holder.release().unwrap();
    });
    let turns = turns.into_inner().unwrap();
    let in_place = turns.iter().enumerate().filter(|(place, number)| place == *number).count();
    assert_eq!(turns.len(), 20);
    assert!(in_place >= 19, "{turns:?}");
}

#[test]
fn a_waiter_in_the_middle_that_gives_up_holds_nobody_up() {
    let server = Server::start();
    let holder = lone_lock(&server.url(), "jobs");
    holder.acquire(wait(5_000)).unwrap();
    let mut first = Worker::spawn(&server.url(), "jobs");
    let mut second = Worker::spawn(&server.url(), "jobs");
    first.tell("x 300");
    assert!(wait_until(LONG, || server.members("jobs") == 2));
    second.tell("x 10000");
    assert!(wait_until(LONG, || server.members("jobs") == 3));
    first.await_line("Timeout", LONG);
    holder.release().unwrap();
    let waited = second.await_line("got x", LONG);
    assert!(waited < ms(250), "{waited:?}");
}
