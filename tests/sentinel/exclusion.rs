//! Mutual exclusion while the master changes again and again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use portalock::LockOptions;

use crate::failover::OVERLAP;
use crate::support::sentinel::Estate;
use crate::support::wait_until;
use crate::{LONG, client, wait, watch};

/// From when to when somebody held, as far as it knew itself.
#[derive(Clone, Copy, Debug)]
struct Hold {
    from: Instant,
    to: Instant,
    token: u64,
    lost: bool,
}

/// How long most hold, and how long those do that a change of the master is to meet.
const SPANS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(20));

/// What those at work are told, and tell.
#[derive(Default)]
struct Book {
    over: AtomicBool,
    /// The next one is to hold long.
    long: AtomicBool,
    holds: Mutex<Vec<Hold>>,
}

fn work(url: &str, book: &Book) {
    let mut options = LockOptions::new();
    options.fencing(true);
    let lock = client(url).lock("jobs", options).unwrap();
    let losses = watch(&lock);
    while !book.over.load(Ordering::Relaxed) {
        if lock.acquire(wait(Duration::from_secs(2))).is_err() {
            continue;
        }
        let (from, token) = (Instant::now(), lock.fencing_token());
        let span = if book.long.swap(false, Ordering::Relaxed) { SPANS.1 } else { SPANS.0 };
        let lost = losses.recv_timeout(span).ok();
        // A token is not told any more when the lock is lost that early.
        let to = lost.as_ref().map_or_else(Instant::now, |(at, _)| *at);
        let lost = lock.release().is_err() || lost.is_some();
        let hold = Hold { from, to, token: token.unwrap_or(0), lost };
        book.holds.lock().unwrap().push(hold);
        while losses.try_recv().is_ok() {}
    }
}

/// Changes the master in each of the ways in which it can go on living.
fn disturb(estate: &Estate, book: &Book) -> Vec<(Instant, Instant)> {
    let (one, other) = (&estate.servers[0], &estate.servers[1]);
    let mut changes = Vec::new();
    let mut change = |what: &dyn Fn()| {
        book.long.store(true, Ordering::Relaxed);
        assert!(wait_until(LONG, || !book.long.load(Ordering::Relaxed)), "nobody holds");
        let begun = Instant::now();
        what();
        changes.push((begun, Instant::now()));
        thread::sleep(OVERLAP + Duration::from_secs(1));
    };
    change(&|| {
        one.stop();
        estate.await_master(other);
        one.cont();
    });
    estate.await_replicas();
    change(&|| {
        estate.hand_over();
        estate.await_master(one);
    });
    changes
}

#[test]
fn two_hold_for_no_longer_than_is_documented() {
    let estate = Estate::start();
    let (url, book) = (estate.url(), Book::default());
    let changes = thread::scope(|scope| {
        let (url, book) = (&url, &book);
        for _ in 0..4 {
            scope.spawn(move || work(url, book));
        }
        thread::sleep(Duration::from_millis(500));
        let changes = catch_unwind(AssertUnwindSafe(|| disturb(&estate, book)));
        book.over.store(true, Ordering::Relaxed);
        changes.unwrap()
    });
    judge(book.holds.into_inner().unwrap(), &changes);
}

fn judge(mut holds: Vec<Hold>, changes: &[(Instant, Instant)]) {
    holds.sort_by_key(|hold| hold.from);
    let lost = holds.iter().filter(|hold| hold.lost).count();
    let (mut overlaps, mut longest, mut unfenced) = (0, Duration::ZERO, 0);
    for (at, hold) in holds.iter().enumerate() {
        for later in holds[at + 1..].iter().take_while(|later| later.from < hold.to) {
            let overlap = hold.to.min(later.to) - later.from;
            let of_change = |change: &&(Instant, Instant)| {
                later.from >= change.0 && later.from <= change.1 + OVERLAP
            };
            assert!(changes.iter().any(|change| of_change(&change)), "{hold:?} {later:?}");
            assert!(overlap <= OVERLAP, "{hold:?} {later:?}");
            overlaps += 1;
            longest = longest.max(overlap);
            unfenced += usize::from(later.token <= hold.token);
        }
    }
    println!(
        "{} holds, {lost} lost, {overlaps} overlaps, the longest of {longest:?}, {unfenced} of them \
         that fencing does not tell",
        holds.len()
    );
    let after = changes[changes.len() - 1].1 + OVERLAP;
    assert!(holds.len() > 10 && lost >= changes.len(), "nothing was tried");
    assert!(holds.iter().any(|hold| hold.from > after && !hold.lost), "nobody holds after all");
}
