//! What becomes of locks when their slot is served elsewhere.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use portalock::{Lock, LockOptions, Loss, LossReason, Status};

use crate::support::cluster::{Cluster, is_up};
use crate::support::wait_until;
use crate::support::worker::Worker;
use crate::{LONG, client, fenced_lock, lone_lock, token_of, wait, watch};

/// A fenced lock, what its callback is told, its token, and somebody who waits for it.
fn held_and_waited_for(
    cluster: &Cluster,
    home: usize,
    name: &str,
) -> (Lock, Receiver<(Instant, Loss)>, u64, Worker) {
    let holder = fenced_lock(&cluster.url(), name);
    let losses = watch(&holder);
    holder.acquire(wait(LONG)).unwrap();
    let token = holder.fencing_token().unwrap();
    let mut waiter = Worker::spawn_with(&cluster.url(), name, &["fencing=1"]);
    waiter.tell("x 40000");
    assert!(wait_until(LONG, || cluster.members(home, name) == 2));
    (holder, losses, token, waiter)
}

#[test]
fn a_slot_that_is_moved_under_a_held_lock() {
    let cluster = Cluster::start();
    let name = cluster.name_at(0, "jobs");
    let (holder, losses, first, mut waiter) = held_and_waited_for(&cluster, 0, &name);

    cluster.begin_move(&name, 0, 1);
    assert!(holder.is_held(), "the slot is still where it was");
    holder.verify(LONG).unwrap();
    cluster.end_move(&name, 0, 1);
    let moved = Instant::now();
    let (at, loss) = losses.recv_timeout(LONG).expect("the holder was not told");
    println!("lost {:?} after the move: {}", at.saturating_duration_since(moved), loss.message);
    assert!(matches!(loss.reason, LossReason::Unsubscribed | LossReason::Demoted), "{loss:?}");
    assert_eq!(holder.release().unwrap_err().status(), Status::Lost);
    waiter.await_line("got x", LONG);
    println!("the waiter holds {:?} after the move", moved.elapsed());
    let next = token_of(&mut waiter);
    assert!(next > first, "the counter was left behind: {next} after {first}");
    assert_eq!((cluster.members(0, &name), cluster.members(1, &name)), (0, 1));
    waiter.expect("r", "released");
    // The client that has lost it finds the way by itself.
    holder.acquire(wait(LONG)).unwrap();
    assert!(holder.fencing_token().unwrap() > next);
    assert_eq!(cluster.members(1, &name), 1);
}

/// The write that is asked for with each check is refused while the key is at the other node already, and
/// that says nothing against the master.
#[test]
fn a_move_that_stays_half_done() {
    let cluster = Cluster::start();
    let name = cluster.name_at(2, "jobs");
    let mut options = LockOptions::new();
    options.fencing(true).health_check_interval(Duration::from_millis(200)).unwrap();
    let lock = client(&cluster.url()).lock(&name, options).unwrap();
    let losses = watch(&lock);
    lock.acquire(wait(LONG)).unwrap();
    let first = lock.fencing_token().unwrap();
    cluster.begin_move(&name, 2, 0);
    let error = losses.recv_timeout(Duration::from_secs(1));
    assert!(error.is_err() && lock.is_held(), "{error:?}");
    lock.release_wait(LONG).unwrap();
    // One that needs no token can be had, and one that does waits for the end of the move.
    let plain = lone_lock(&cluster.url(), &name);
    plain.try_acquire().unwrap();
    plain.release_wait(LONG).unwrap();
    let error = lock.acquire(wait(Duration::from_millis(500))).unwrap_err();
    assert_eq!(error.status(), Status::Server, "{error}");
    assert!(error.message().contains("ASK"), "{error}");
    cluster.end_move(&name, 2, 0);
    lock.acquire(wait(LONG)).unwrap();
    assert!(lock.fencing_token().unwrap() > first);
    assert_eq!(cluster.members(0, &name), 1);
}

#[test]
fn a_master_that_is_handed_over_alive() {
    let cluster = Cluster::start();
    let name = cluster.name_at(1, "jobs");
    let (holder, losses, first, mut waiter) = held_and_waited_for(&cluster, 1, &name);
    let begun = Instant::now();
    cluster.nodes[4].run::<String>(&["CLUSTER", "FAILOVER"]);
    let (at, loss) = losses.recv_timeout(LONG).expect("the holder was not told");
    println!("lost after {:?}: {:?}, {}", at - begun, loss.reason, loss.message);
    assert_eq!(holder.release().unwrap_err().status(), Status::Lost);
    waiter.await_line("got x", LONG);
    println!("the waiter holds after {:?}", begun.elapsed());
    // It was handed over alive, with all it had.
    assert!(token_of(&mut waiter) > first);
    assert_eq!((cluster.members(1, &name), cluster.members(4, &name)), (0, 1));

    // What is a replica now serves subscriptions of its slots, too: nobody takes it for the master.
    let other = lone_lock(&cluster.url_of(&[1]), &name);
    assert_eq!(other.try_acquire().unwrap_err().status(), Status::Locked);
    assert_eq!(client(&cluster.url_of(&[1])).holders(&name, LONG).unwrap().len(), 1);
}

#[test]
fn a_master_that_is_killed() {
    let mut cluster = Cluster::start();
    let name = cluster.name_at(0, "jobs");
    let holder = fenced_lock(&cluster.url(), &name);
    let losses = watch(&holder);
    holder.acquire(wait(LONG)).unwrap();
    let mut waiter = Worker::spawn(&cluster.url(), &name);
    waiter.tell("x 40000");
    assert!(wait_until(LONG, || cluster.members(0, &name) == 2));
    let killed = Instant::now();
    cluster.nodes[0].kill();
    let (at, loss) = losses.recv_timeout(LONG).unwrap();
    println!("lost after {:?}: {}", at - killed, loss.message);
    assert_eq!(loss.reason, LossReason::Disconnected);
    waiter.await_line("got x", LONG);
    println!("the waiter holds after {:?}", killed.elapsed());
    cluster.await_master(3, &[1, 2, 3, 4, 5]);
    assert_eq!(cluster.members(3, &name), 1);

    // What was the master comes back and is made a replica; its own list of nodes is out of date at first.
    cluster.nodes[0].restart();
    let other = lone_lock(&cluster.url_of(&[0, 1]), &name);
    assert_eq!(other.try_acquire().unwrap_err().status(), Status::Locked);
    waiter.expect("r", "released");
    holder.acquire(wait(LONG)).unwrap();
    assert_eq!(cluster.members(3, &name), 1);
}

/// All others stand still, which is for this one as if it were cut off from them: its holder is not cut off
/// from it, and its channels work.
#[test]
fn a_master_that_sees_too_few_others() {
    let cluster = Cluster::start();
    let name = cluster.name_at(0, "jobs");
    let every = Duration::from_millis(500);
    let mut options = LockOptions::new();
    options.health_check_interval(every).unwrap();
    let holder = client(&cluster.url()).lock(&name, options).unwrap();
    let losses = watch(&holder);
    holder.acquire(wait(LONG)).unwrap();
    let unchecked = {
        let mut options = LockOptions::new();
        options.health_check_interval(Duration::ZERO).unwrap();
        client(&cluster.url()).lock(&cluster.name_at(0, "unchecked"), options).unwrap()
    };
    unchecked.acquire(wait(LONG)).unwrap();

    (1..6).for_each(|at| cluster.nodes[at].stop());
    let node = &cluster.nodes[0];
    assert!(wait_until(LONG, || !is_up(node)), "it does not miss the others");
    let down = Instant::now();
    let (at, loss) = losses.recv_timeout(LONG).expect("a cut-off master keeps its holder");
    let after = at.saturating_duration_since(down);
    println!("lost {after:?} after it was down: {}", loss.message);
    assert_eq!(loss.reason, LossReason::Demoted);
    assert!(loss.message.contains("does not see the cluster stand"), "{}", loss.message);
    // An interval and what it may take to answer, which is the shorter of it and the deadline.
    assert!(after < every * 2 + Duration::from_secs(1), "{after:?}");
    assert!(unchecked.is_held(), "who does not ask is not told");
    unchecked.verify(LONG).unwrap_err();
    assert!(wait_until(LONG, || !unchecked.is_held()), "asked, it is told too");

    // Nobody gets a lock there meanwhile.
    let error = holder.acquire(wait(Duration::from_secs(1))).unwrap_err();
    assert!(error.is_retryable(), "{error}");
    (1..6).for_each(|at| cluster.nodes[at].cont());
    holder.acquire(wait(LONG)).unwrap();
    assert!(holder.is_held());
}

/// What the node says of its own accord when the slot leaves meets what is being asked there. Whatever comes of
/// that, no acquire fails of it.
#[test]
fn a_slot_that_comes_and_goes_under_many_acquires() {
    let cluster = Cluster::start();
    let name = cluster.name_at(0, "jobs");
    let over = AtomicBool::new(false);
    let work = || {
        let lock = lone_lock(&cluster.url(), &name);
        let mut rounds = 0;
        while !over.load(Ordering::Relaxed) {
            lock.acquire(wait(LONG)).unwrap();
            // The next acquire goes by the same connection, behind a leave that is not confirmed.
            let released = lock.release();
            assert!(released.is_ok() || !lock.is_held());
            rounds += 1;
        }
        rounds
    };
    let rounds: Vec<u32> = thread::scope(|scope| {
        let at_work: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        let moves = catch_unwind(AssertUnwindSafe(|| {
            for turn in 0..30 {
                let (from, to) = (turn % 2, (turn + 1) % 2);
                cluster.move_slot(&name, from, to);
                thread::sleep(Duration::from_millis(50));
            }
        }));
        over.store(true, Ordering::Relaxed);
        let rounds = at_work.into_iter().map(|work| work.join().unwrap()).collect();
        moves.unwrap();
        rounds
    });
    println!("{rounds:?} rounds");
    assert!(rounds.iter().sum::<u32>() > 100, "nothing was tried");
}
