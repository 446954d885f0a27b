//! Some who hold by turns while the server that they hold at changes, and for how long two of them do at once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use portalock::{LockOptions, Wait};

use super::locks::{client, watch};
use super::wait_until;

/// How long somebody may wait until the next one holds long.
const LONG: Duration = Duration::from_secs(40);
/// How long those hold that a change is to meet.
const HELD_LONG: Duration = Duration::from_secs(20);

/// What is tried.
pub struct Trial<'a> {
    pub url: &'a str,
    pub name: &'a str,
    pub options: LockOptions,
    /// How long most hold.
    pub held: Duration,
    /// How long a lock may outlive its server.
    pub overlap: Duration,
    /// How long nothing happens after a change, besides that.
    pub rest: Duration,
}

/// From when to when somebody held, as far as it knew itself.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    pub from: Instant,
    pub to: Instant,
    pub token: Option<u64>,
    pub lost: bool,
}

/// A change: from when to when.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub from: Instant,
    pub to: Instant,
}

/// What those at work are told, and tell.
#[derive(Default)]
struct Book {
    over: AtomicBool,
    /// The next one is to hold long.
    long: AtomicBool,
    holds: Mutex<Vec<Hold>>,
}

impl Trial<'_> {
    /// Lets four hold by turns during these changes, after each of which it is waited for that all has settled.
    /// The holds in their order, and when the changes were.
    pub fn run(&self, changes: &[&dyn Fn()], settle: impl Fn()) -> (Vec<Hold>, Vec<Change>) {
        let book = Book::default();
        let made = thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| self.work(&book));
            }
            thread::sleep(Duration::from_millis(500));
            let one = |change: &&dyn Fn()| {
                let made = self.disturb(&book, change);
                settle();
                made
            };
            let all = || changes.iter().map(one).collect();
            let made = catch_unwind(AssertUnwindSafe(all));
            book.over.store(true, Ordering::Relaxed);
            made.unwrap()
        });
        let mut holds = book.holds.into_inner().unwrap();
        holds.sort_by_key(|hold| hold.from);
        (holds, made)
    }

    fn work(&self, book: &Book) {
        let lock = client(self.url).lock(self.name, self.options.clone()).unwrap();
        let losses = watch(&lock);
        while !book.over.load(Ordering::Relaxed) {
            if lock.acquire(Wait::For(Duration::from_secs(2))).is_err() {
                continue;
            }
            // A token is not told any more when the lock is lost that early.
            let (from, token) = (Instant::now(), lock.fencing_token());
            let long = book.long.swap(false, Ordering::Relaxed);
            let loss = losses.recv_timeout(if long { HELD_LONG } else { self.held }).ok();
            let to = loss.as_ref().map_or_else(Instant::now, |(at, _)| *at);
            let lost = lock.release().is_err() || loss.is_some();
            book.holds.lock().unwrap().push(Hold { from, to, token, lost });
            while losses.try_recv().is_ok() {}
        }
    }

    fn disturb(&self, book: &Book, change: &dyn Fn()) -> Change {
        book.long.store(true, Ordering::Relaxed);
        assert!(wait_until(LONG, || !book.long.load(Ordering::Relaxed)), "nobody holds");
        let from = Instant::now();
        change();
        let to = Instant::now();
        thread::sleep(self.overlap + self.rest);
        Change { from, to }
    }

    /// Two hold only where there was a change, and no longer than they may; and all goes on after it.
    pub fn judge(&self, holds: &[Hold], changes: &[Change]) {
        let lost = holds.iter().filter(|hold| hold.lost).count();
        let (mut overlaps, mut longest, mut unfenced) = (0, Duration::ZERO, 0);
        for (at, hold) in holds.iter().enumerate() {
            for later in holds[at + 1..].iter().take_while(|later| later.from < hold.to) {
                let overlap = hold.to.min(later.to) - later.from;
                let is_of = |change: &Change| {
                    later.from >= change.from && later.from <= change.to + self.overlap
                };
                assert!(changes.iter().any(is_of), "{hold:?} {later:?}");
                assert!(overlap <= self.overlap, "{hold:?} {later:?}");
                overlaps += 1;
                longest = longest.max(overlap);
                unfenced += usize::from(later.token <= hold.token);
            }
        }
        println!(
            "{} holds, {lost} lost, {overlaps} overlaps, the longest of {longest:?}, {unfenced} of \
             them that fencing does not tell",
            holds.len()
        );
        let after = changes[changes.len() - 1].to + self.overlap;
        assert!(holds.len() > 10 && lost >= changes.len(), "nothing was tried");
        assert!(holds.iter().any(|hold| hold.from > after && !hold.lost), "nobody holds after all");
    }
}
