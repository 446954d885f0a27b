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
use dice::Dice;
use judge::Fate;
use support::wait_until;
use support::worker::Worker;

/// Where the worker in Rust begins.
#[test]
fn worker_entry() {
    worker::serve();
}

/// How long everything may take, on a machine that has much else to do.
const LIMIT: Duration = Duration::from_secs(120);

/// Workers under their labels, and what is to become of them.
#[derive(Default)]
struct Crew {
    workers: Vec<(String, Worker)>,
    fates: Vec<(String, Fate)>,
}

impl Crew {
    fn hire(&mut self, site: &Site, language: Language, name: &str, task: Task, fate: Fate) {
        let label = format!("{language:?}-{name}");
        self.workers.push((label.clone(), site.hire(language, &label, task)));
        self.fates.push((label, fate));
    }

    fn begin(&mut self) {
        self.workers.iter_mut().for_each(|(_, worker)| worker.tell("begin"));
    }

    /// Waits for the end of those who are left.
    fn all_end_well(&mut self) {
        for (label, worker) in &mut self.workers {
            let status = worker.status(LIMIT);
            assert!(status.is_some_and(|status| status.success()), "{label}: {status:?}");
        }
    }
}

/// portalocker looks from time to time whether it may come in. It needs a moment when none of ours is there,
/// and gets one now and then as long as ours pause. Two of it contend when ours have ended.
const OUR_TASK: Task = Task { sections: 36, inside: 2, pause: 25 };
const THEIR_TASK: Task = Task { sections: 12, inside: 2, pause: 5 };

#[test]
fn all_languages_share_one_lock() {
    let site = Site::open();
    let mut crew = Crew::default();
    for language in OURS {
        crew.hire(&site, language, "1", OUR_TASK, Fate::Serves(OUR_TASK.sections));
    }
    for name in ["1", "2"] {
        crew.hire(&site, Portalocker, name, THEIR_TASK, Fate::Serves(THEIR_TASK.sections));
    }
    crew.begin();
    crew.all_end_well();
    let verdict = site.judge(&crew.fates);
    println!("{verdict:?}");
    assert!(verdict.sections >= 200);
    assert!(verdict.contended * 2 > verdict.sections, "hardly anybody waits: {verdict:?}");
}

/// Long enough inside to be met there, and without an end.
const VICTIMS_TASK: Task = Task { sections: 1_000_000, inside: 30, pause: 5 };
const SURVIVORS_TASK: Task = Task { sections: 30, inside: 2, pause: 5 };

#[test]
fn all_languages_go_on_when_one_of_each_dies_inside() {
    let site = Site::open();
    let mut crew = Crew::default();
    for language in OURS {
        crew.hire(&site, language, "victim", VICTIMS_TASK, Fate::Dies);
    }
    for language in OURS {
        crew.hire(&site, language, "1", SURVIVORS_TASK, Fate::Serves(SURVIVORS_TASK.sections));
    }
    crew.hire(&site, Portalocker, "1", THEIR_TASK, Fate::Serves(THEIR_TASK.sections));
    crew.begin();
    let mut dice = Dice::new();
    for left in (1..=OURS.len()).rev() {
        let (label, mut victim) = crew.workers.remove(dice.below(left));
        std::thread::sleep(Duration::from_millis(dice.below(200) as u64));
        kill_inside(&site, &label, &mut victim, &mut dice);
    }
    crew.all_end_well();
    let verdict = site.judge(&crew.fates);
    println!("{verdict:?}");
    assert!(verdict.after_deaths > 0, "the survivors were done before: {verdict:?}");
}

/// It is stopped first, so that the journal says that it is dead, and the folder is gone that it has made,
/// before its lock can be free.
fn kill_inside(site: &Site, label: &str, victim: &mut Worker, dice: &mut Dice) {
    let is_inside = || judge::is_inside(&site.read(), label);
    loop {
        assert!(wait_until(LIMIT, is_inside), "{label} is not served");
        let inside = VICTIMS_TASK.inside as usize * 1_000;
        std::thread::sleep(Duration::from_micros(dice.below(inside) as u64));
        victim.stop();
        if is_inside() {
            break;
        }
        victim.cont();
    }
    site.note_death(label);
    victim.kill();
}
