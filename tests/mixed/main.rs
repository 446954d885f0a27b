//! Processes in C, C++, Go, Ruby and Rust, and portalocker 4.4.2, share one lock.
//!
//! Each goes through sections that show any overlap: it makes a folder that nobody else may have at that
//! time, says in a journal when it enters and leaves, and in between counts up a number in a file, which
//! would lose some. Its arguments, in every language:
//!
//!   URL NAME FOLDER LABEL SECTIONS INSIDE_MS PAUSE_MS
//!
//! It says `ready`, begins when it is told something, and ends with another status than 0 if anything is
//! not as it should be.
//!
//! * [`crew`]: the workers, and where they work.
//! * [`worker`]: the one in Rust; the others are in worker.* and go/.
//! * [`judge`]: reads the journal.

#[path = "../redis/dice.rs"]
mod dice;
#[path = "../support/mod.rs"]
mod support;

mod crew;
mod judge;
mod worker;

use std::time::Duration;

use crew::Language::{self, Portalocker};
use crew::{OURS, Site, Task};
use judge::Fate;
use support::worker::Worker;

/// Where the worker in Rust begins.
#[test]
fn worker_entry() {
    worker::serve();
}

/// How long everything may take, on a machine that has much else to do.
const LIMIT: Duration = Duration::from_secs(120);

fn all_end_well(workers: Vec<(String, Worker)>) {
    for (label, mut worker) in workers {
        let status = worker.status(LIMIT);
        assert!(status.is_some_and(|status| status.success()), "{label}: {status:?}");
    }
}

#[test]
fn all_languages_share_one_lock() {
    let site = Site::open();
    // portalocker looks whether it may come in from time to time: it needs a moment when none of ours is
    // there, and gets one as long as ours pause.
    let task = Task { sections: 34, inside: 2, pause: 20 };
    let languages: Vec<Language> = OURS.into_iter().chain([Portalocker]).collect();
    let mut workers: Vec<_> = languages
        .iter()
        .map(|language| {
            let label = format!("{language:?}");
            let worker = site.hire(*language, &label, task);
            (label, worker)
        })
        .collect();
    let crew: Vec<_> =
        workers.iter().map(|(label, _)| (label.clone(), Fate::Serves(task.sections))).collect();
    workers.iter_mut().for_each(|(_, worker)| worker.tell("begin"));
    all_end_well(workers);
    let verdict = site.judge(&crew);
    println!("{verdict:?}");
    assert!(verdict.sections >= 200);
}
