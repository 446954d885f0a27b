//! Mutual exclusion while the slot's master changes again and again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use portalock::LockOptions;

use crate::support::cluster::Cluster;
use crate::support::wait_until;
use crate::{LONG, client, wait, watch};

/// Between the health checks; what they may take is as long.
const EVERY: Duration = Duration::from_millis(500);
/// How long a lock may outlive its master: an interval and the deadline, and as much again for this machine.
const OVERLAP: Duration = Duration::from_secs(2);
/// How long most hold, and how long those do that a change of the master is to meet.
const SPANS: (Duration, Duration) = (Duration::from_millis(60), Duration::from_secs(20));

/// From when to when somebody held, as far as it knew itself.
#[derive(Clone, Copy, Debug)]
struct Hold {
    from: Instant,
    to: Instant,
    token: Option<u64>,
    lost: bool,
}

/// A change of the master: from when to when.
#[derive(Clone, Copy, Debug)]
struct Change {
    from: Instant,
    to: Instant,
    /// Nothing of what the old master had is lost.
    clean: bool,
}

/// What those at work are told, and tell.
#[derive(Default)]
struct Book {
    over: AtomicBool,
    /// The next one is to hold long.
    long: AtomicBool,
    holds: Mutex<Vec<Hold>>,
}

fn work(url: &str, name: &str, book: &Book) {
    let mut options = LockOptions::new();
    options.fencing(true).health_check_interval(EVERY).unwrap();
    let lock = client(url).lock(name, options).unwrap();
    let losses = watch(&lock);
    while !book.over.load(Ordering::Relaxed) {
        if lock.acquire(wait(Duration::from_secs(2))).is_err() {
            continue;
        }
        let (from, token) = (Instant::now(), lock.fencing_token());
        let span = if book.long.swap(false, Ordering::Relaxed) { SPANS.1 } else { SPANS.0 };
        let loss = losses.recv_timeout(span).ok();
        let to = loss.as_ref().map_or_else(Instant::now, |(at, _)| *at);
        let lost = lock.release().is_err() || loss.is_some();
        // A token is not told any more when the lock is lost that early.
        book.holds.lock().unwrap().push(Hold { from, to, token, lost });
        while losses.try_recv().is_ok() {}
    }
}

/// Changes the master of the slot in each of the ways in which that can be done.
fn disturb(cluster: &Cluster, name: &str, book: &Book) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut change = |clean: bool, what: &dyn Fn()| {
        book.long.store(true, Ordering::Relaxed);
        assert!(wait_until(LONG, || !book.long.load(Ordering::Relaxed)), "nobody holds");
        let from = Instant::now();
        what();
        changes.push(Change { from, to: Instant::now(), clean });
        thread::sleep(OVERLAP + Duration::from_millis(300));
    };
    let all = [0, 1, 2, 3, 4, 5];
    change(true, &|| {
        cluster.nodes[3].run::<String>(&["CLUSTER", "FAILOVER"]);
        cluster.await_master(3, &all);
    });
    change(true, &|| cluster.move_slot(name, 3, 1));
    change(false, &|| {
        cluster.nodes[1].stop();
        cluster.await_master(4, &[0, 2, 3, 4, 5]);
        cluster.nodes[1].cont();
    });
    changes
}

#[test]
fn two_hold_for_no_longer_than_is_documented() {
    let cluster = Cluster::start();
    let name = cluster.name_at(0, "jobs}");
    let (url, book) = (cluster.url(), Book::default());
    let changes = thread::scope(|scope| {
        let (url, name, book) = (&url, &name, &book);
        for _ in 0..4 {
            scope.spawn(move || work(url, name, book));
        }
        thread::sleep(Duration::from_millis(500));
        let changes = catch_unwind(AssertUnwindSafe(|| disturb(&cluster, name, book)));
        book.over.store(true, Ordering::Relaxed);
        changes.unwrap()
    });
    let mut holds = book.holds.into_inner().unwrap();
    holds.sort_by_key(|hold| hold.from);
    judge_overlaps(&holds, &changes);
    judge_tokens(&holds, &changes);
}

fn judge_overlaps(holds: &[Hold], changes: &[Change]) {
    let lost = holds.iter().filter(|hold| hold.lost).count();
    let (mut overlaps, mut longest) = (0, Duration::ZERO);
    for (at, hold) in holds.iter().enumerate() {
        for later in holds[at + 1..].iter().take_while(|later| later.from < hold.to) {
            let overlap = hold.to.min(later.to) - later.from;
            let is_of =
                |change: &Change| later.from >= change.from && later.from <= change.to + OVERLAP;
            assert!(changes.iter().any(is_of), "{hold:?} {later:?}");
            assert!(overlap <= OVERLAP, "{hold:?} {later:?}");
            overlaps += 1;
            longest = longest.max(overlap);
        }
    }
    println!("{} holds, {lost} lost, {overlaps} overlaps, the longest of {longest:?}", holds.len());
    let after = changes[changes.len() - 1].to + OVERLAP;
    assert!(holds.len() > 10 && lost >= changes.len(), "nothing was tried");
    assert!(holds.iter().any(|hold| hold.from > after && !hold.lost), "nobody holds after all");
}

/// Whoever comes later has the higher token, but for one change: a replica that takes over without having
/// heard of the last grants counts on from before them.
fn judge_tokens(holds: &[Hold], changes: &[Change]) {
    let mut highest = 0;
    let mut dirty = changes.iter().filter(|change| !change.clean).peekable();
    for hold in holds {
        while dirty.next_if(|change| change.from <= hold.from).is_some() {
            println!("{highest} was the highest before a change that may forget grants");
            highest = 0;
        }
        if let Some(token) = hold.token {
            assert!(token > highest, "{hold:?} after {highest}");
            highest = token;
        }
    }
    println!("{highest} was the highest in the end");
}
