//! Mutual exclusion while the master changes again and again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use portalock::LockOptions;

use crate::failover::OVERLAP;
use crate::support::sentinel::Estate;
use crate::{client, wait, watch};

/// From when to when somebody held, as far as it knew itself.
#[derive(Clone, Copy, Debug)]
struct Hold {
    from: Instant,
    to: Instant,
    token: u64,
    lost: bool,
}

/// How long each holds: long enough that most changes meet a holder.
const SPAN: Duration = Duration::from_millis(300);

fn work(url: &str, over: &AtomicBool, holds: &Mutex<Vec<Hold>>) {
    let mut options = LockOptions::new();
    options.fencing(true);
    let lock = client(url).lock("jobs", options).unwrap();
    let losses = watch(&lock);
    while !over.load(Ordering::Relaxed) {
        if lock.acquire(wait(Duration::from_secs(2))).is_err() {
            continue;
        }
        let (from, token) = (Instant::now(), lock.fencing_token());
        let lost = losses.recv_timeout(SPAN).ok();
        // A token is not told any more when the lock is lost that early.
        let to = lost.as_ref().map_or_else(Instant::now, |(at, _)| *at);
        let lost = lock.release().is_err() || lost.is_some();
        let hold = Hold { from, to, token: token.unwrap_or(0), lost };
        holds.lock().unwrap().push(hold);
        while losses.try_recv().is_ok() {}
    }
}

/// Changes the master in each of the ways in which it can go on living.
fn disturb(estate: &Estate) -> Vec<(Instant, Instant)> {
    let (one, other) = (&estate.servers[0], &estate.servers[1]);
    let mut changes = Vec::new();
    let mut change = |what: &dyn Fn()| {
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
    change(&|| {
        estate.await_replicas();
        estate.hand_over();
        estate.await_master(one);
    });
    changes
}

#[test]
fn two_hold_for_no_longer_than_is_documented() {
    let estate = Estate::start();
    let (over, holds) = (AtomicBool::new(false), Mutex::default());
    let changes = thread::scope(|scope| {
        let url = estate.url();
        for _ in 0..4 {
            let (over, holds, url) = (&over, &holds, url.clone());
            scope.spawn(move || work(&url, over, holds));
        }
        thread::sleep(Duration::from_secs(1));
        let changes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| disturb(&estate)));
        over.store(true, Ordering::Relaxed);
        changes.unwrap()
    });
    judge(holds.into_inner().unwrap(), &changes);
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
    assert!(holds.len() > 10 && lost > 0, "nothing was tried");
    assert!(holds.iter().any(|hold| hold.from > after && !hold.lost), "nobody holds after all");
}
