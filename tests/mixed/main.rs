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

type Crew = Vec<(String, Worker)>;

/// Has every one begin, and waits until all have ended well.
fn work(crew: &mut Crew) {
    begin(crew);
    all_end_well(crew);
}

fn begin(crew: &mut Crew) {
    crew.iter_mut().for_each(|(_, worker)| worker.tell("begin"));
}

fn all_end_well(crew: &mut Crew) {
    for (label, worker) in crew {
        let status = worker.status(LIMIT);
        assert!(status.is_some_and(|status| status.success()), "{label}: {status:?}");
    }
}

/// portalocker looks from time to time whether it may come in. It needs a moment when none of ours is there,
/// and gets one now and then as long as ours pause. Two of it contend when ours have ended.
const OUR_TASK: Task = Task { sections: 36, inside: 2, pause: 25 };
const THEIR_TASK: Task = Task { sections: 12, inside: 2, pause: 5 };

#[test]
fn all_languages_share_one_lock() {
    let site = Site::open();
    let mut members: Vec<_> = OURS.map(|language| (language, 1, OUR_TASK)).into();
    members.extend([1, 2].map(|number| (Portalocker, number, THEIR_TASK)));
    let (mut crew, mut fates) = (Vec::new(), Vec::new());
    for (language, number, task) in members {
        let label = format!("{language:?}-{number}");
        crew.push((label.clone(), site.hire(language, &label, task)));
        fates.push((label, Fate::Serves(task.sections)));
    }
    work(&mut crew);
    let verdict = site.judge(&fates);
    println!("{verdict:?}");
    assert!(verdict.sections >= 200);
    assert!(verdict.contended * 2 > verdict.sections, "hardly anybody waits: {verdict:?}");
}
