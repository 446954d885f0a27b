//! What becomes of locks when the master is another.

use std::thread;
use std::time::{Duration, Instant};

use portalock::{Client, ClientOptions, LossReason, Status};

use crate::support::sentinel::{DOWN_AFTER, Estate};
use crate::support::wait_until;
use crate::support::worker::Worker;
use crate::{LONG, client, lock, lone_lock, wait, watch};

/// How long a lock at the old master may outlive the change, where sentinels can be asked: a question
/// each second, half a second for its answer, and as much again for this machine.
pub const OVERLAP: Duration = Duration::from_secs(3);

#[test]
fn a_master_that_is_killed() {
    let mut estate = Estate::start();
    let holder = lone_lock(&estate.url(), "jobs");
    let losses = watch(&holder);
    holder.acquire(wait(LONG)).unwrap();
    let mut waiter = Worker::spawn(&estate.url(), "jobs");
    waiter.tell("x 40000");
    assert!(wait_until(LONG, || estate.servers[0].members("jobs") == 2));

    let killed = Instant::now();
    estate.servers[0].kill();
    let (at, loss) = losses.recv_timeout(LONG).unwrap();
    println!("lost after {:?}: {:?}, {}", at - killed, loss.reason, loss.message);
    assert_eq!(loss.reason, LossReason::Disconnected);
    assert_eq!(holder.release().unwrap_err().status(), Status::Lost);
    // It begins while there is no master at all.
    let late = lone_lock(&estate.url(), "late");
    late.acquire(wait(LONG)).unwrap();
    println!("a lock at the new master after {:?}", killed.elapsed());
    assert!(waiter.line(LONG).is_some(), "the waiter did not find the new master");
    estate.await_master(&estate.servers[1]);
    assert_eq!(estate.servers[1].members("jobs"), 1);
    assert_eq!(client(&estate.url()).holders("jobs", LONG).unwrap().len(), 1);

    // What was the master comes back, is made a replica, and nobody takes it for the master.
    estate.servers[0].restart();
    let other = lone_lock(&estate.url(), "jobs");
    assert_eq!(other.try_acquire().unwrap_err().status(), Status::Locked);
}

#[test]
fn a_master_that_stands_still_and_comes_back() {
    let estate = Estate::start();
    let holder = lone_lock(&estate.url(), "jobs");
    let losses = watch(&holder);
    holder.acquire(wait(LONG)).unwrap();
    estate.servers[0].stop();
    let stopped = Instant::now();
    let next = lone_lock(&estate.url(), "jobs");
    next.acquire(wait(LONG)).unwrap();
    let granted = Instant::now();
    println!("the next holder after {:?}", granted - stopped);
    assert_eq!(estate.servers[1].members("jobs"), 1);
    // Health checks come every 10 s: it is the sentinels that told.
    let (at, loss) = losses.recv_timeout(OVERLAP).expect("the old holder was not told");
    println!("lost {:?} after the change: {}", at.saturating_duration_since(granted), loss.message);
    assert_eq!(loss.reason, LossReason::Demoted);
    assert!(loss.message.contains(&estate.servers[1].port().to_string()), "{}", loss.message);
    estate.servers[0].cont();
    thread::sleep(Duration::from_millis(500));
    assert!(!holder.is_held() && next.is_held());
    assert_eq!(holder.try_acquire().unwrap_err().status(), Status::Locked);
}

#[test]
fn a_master_that_is_handed_over_alive() {
    let estate = Estate::start();
    let mut options = ClientOptions::new();
    options.shared_connection(true);
    let many = Client::new(&estate.url(), options).unwrap();
    let holders = [lone_lock(&estate.url(), "one"), lock(&many, "two"), lock(&many, "three")];
    for holder in &holders {
        holder.acquire(wait(LONG)).unwrap();
    }
    estate.hand_over();
    estate.await_master(&estate.servers[1]);
    let changed = Instant::now();
    for holder in &holders {
        assert!(wait_until(OVERLAP, || !holder.is_held()), "carried over");
        assert_eq!(holder.release().unwrap_err().status(), Status::Lost);
        holder.acquire(wait(LONG)).unwrap();
        assert_eq!(estate.servers[1].members(holder.name()), 1);
    }
    println!("all are held anew {:?} after the change", changed.elapsed());
}

#[test]
fn sentinels_that_are_cut_off_are_not_believed() {
    let mut estate = Estate::start();
    let holder = lone_lock(&estate.url(), "jobs");
    let losses = watch(&holder);
    holder.acquire(wait(LONG)).unwrap();
    let careless = lone_lock(&format!("{}?sentinel_majority=ignored", estate.url()), "careless");
    careless.acquire(wait(LONG)).unwrap();
    // One sentinel of three stays with the master, as in the smaller part of a partition.
    estate.sentinels[0].kill();
    thread::sleep(Duration::from_secs(1));
    assert!(holder.is_held(), "two of three are a majority");
    estate.sentinels[1].kill();
    let cut_off = Instant::now();
    let (at, loss) = losses.recv_timeout(LONG).expect("nobody doubts the master");
    println!("lost after {:?}: {}", at - cut_off, loss.message);
    assert_eq!(loss.reason, LossReason::Demoted);
    assert!(loss.message.contains("majority"), "{}", loss.message);
    assert!(at - cut_off < DOWN_AFTER + OVERLAP * 2, "{:?}", at - cut_off);
    let error = holder.acquire(wait(Duration::from_millis(300))).unwrap_err();
    assert_eq!(error.status(), Status::Unreachable);
    assert!(error.message().contains("majority"), "{error}");

    // With none left, the same after the time that they give the master, and at least two seconds.
    estate.sentinels[0].start();
    estate.sentinels[1].start();
    holder.acquire(wait(LONG)).unwrap();
    estate.sentinels.iter_mut().for_each(|sentinel| sentinel.kill());
    let (_, loss) = losses.recv_timeout(LONG).expect("nobody misses the sentinels");
    assert_eq!(loss.reason, LossReason::Demoted);
    assert!(loss.message.contains("confirmed"), "{}", loss.message);
    assert!(careless.is_held(), "whoever is told to ignore that ignores it");
    careless.release_wait(LONG).unwrap();
}

/// The sentinels and the replica are locked out of the master, which is for them as if the network were
/// gone; the holder is not, and all is well where it is.
#[test]
fn a_master_that_is_cut_off_from_the_sentinels_and_not_from_its_holder() {
    let settings = [
        ("requirepass", "master-pw"),
        ("masterauth", "master-pw"),
        ("user", "holder on >held ~* &* +@all"),
    ];
    let estate = Estate::with(&settings, "");
    let url = estate.url().replace("//", "//holder:held@");
    let holder = lone_lock(&url, "jobs");
    let losses = watch(&holder);
    holder.acquire(wait(LONG)).unwrap();
    let old = &estate.servers[0];
    let mut admin = old.connection();
    redis::cmd("CONFIG").arg(&["SET", "requirepass", "other-pw"]).exec(&mut admin).unwrap();
    redis::cmd("CLIENT")
        .arg(&["KILL", "USER", "default", "SKIPME", "yes"])
        .exec(&mut admin)
        .unwrap();

    let next = lone_lock(&url, "jobs");
    assert!(holder.is_held(), "nobody has locked the holder out");
    // At the old master it would wait in vain: the holder is there, and answers.
    next.acquire(wait(LONG)).unwrap();
    let granted = Instant::now();
    let (at, loss) = losses.recv_timeout(OVERLAP).expect("the old holder was not told");
    println!(
        "lost {:?} after the next grant: {}",
        at.saturating_duration_since(granted),
        loss.message
    );
    assert_eq!(loss.reason, LossReason::Demoted);
    let role: Vec<redis::Value> = redis::cmd("ROLE").query(&mut admin).unwrap();
    assert_eq!(
        role[0],
        redis::Value::BulkString(b"master".to_vec()),
        "the old one has not heard of it"
    );
    assert!(next.is_held() && !holder.is_held());
}
