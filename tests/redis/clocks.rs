//! Processes whose wall clock is set forward and back by a day: only the monotonic clock may matter.

use std::path::{Path, PathBuf};
use std::time::Instant;

use tempfile::TempDir;

use crate::support::worker::Worker;
use crate::support::{Server, skip, wait_until};
use crate::{LONG, SOON, ms};

const STEPS: [&str; 3] = ["+86400", "-86400", "+0"];

/// A wall clock that can be set, and a worker that reads it.
struct Clock {
    dir: TempDir,
    library: PathBuf,
}

impl Clock {
    /// `None`, with a word about it, where libfaketime is missing.
    fn new() -> Option<Self> {
        let places = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(Path::new);
        let below = places.iter().filter_map(|place| place.read_dir().ok()).flatten().flatten();
        let dirs = below.map(|entry| entry.path()).chain(places.iter().map(|p| p.to_path_buf()));
        let library =
            dirs.map(|dir| dir.join("faketime/libfaketimeMT.so.1")).find(|path| path.exists());
        let Some(library) = library else {
            skip("libfaketime is not installed (Debian: faketime)");
            return None;
        };
        let clock = Self { dir: TempDir::new().unwrap(), library };
        clock.set("+0");
        Some(clock)
    }

    fn offset(&self) -> PathBuf {
        self.dir.path().join("offset")
    }

    /// In one step, since it is read at every look at the clock.
    fn set(&self, offset: &str) {
        let new = self.dir.path().join("new");
        std::fs::write(&new, format!("{offset}\n")).unwrap();
        std::fs::rename(new, self.offset()).unwrap();
    }

    fn worker(&self, url: &str, name: &str, settings: &[&str]) -> Worker {
        let (library, offset) = (self.library.to_str().unwrap(), self.offset());
        let environment = [
            ("LD_PRELOAD", library),
            ("FAKETIME_TIMESTAMP_FILE", offset.to_str().unwrap()),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ];
        Worker::spawn_under(&["env"], url, name, settings, &environment)
    }
}

fn days(said: Option<String>) -> i64 {
    let seconds: i64 = said.unwrap().strip_prefix("clock ").unwrap().parse().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    (seconds - now.as_secs() as i64 + 43_200).div_euclid(86_400)
}

#[test]
fn the_clock_of_these_tests_can_be_set() {
    let Some(clock) = Clock::new() else { return };
    let server = Server::start();
    let mut worker = clock.worker(&server.url(), "stepped", &[]);
    for (step, expected) in STEPS.into_iter().zip([1, -1, 0]) {
        clock.set(step);
        worker.tell("clock");
        assert_eq!(days(worker.line(LONG)), expected);
    }
}

#[test]
fn a_holder_whose_clock_is_set_keeps_the_lock_and_its_checks() {
    let Some(clock) = Clock::new() else { return };
    let server = Server::start();
    let mut holder = clock.worker(&server.url(), "stepped", &["health_ms=200"]);
    holder.expect("x", "got x");
    let checks = || *server.command_counts().get("publish").unwrap_or(&0);
    for step in STEPS {
        clock.set(step);
        let (before, since) = (checks(), Instant::now());
        assert!(wait_until(ms(5_000), || checks() >= before + 3), "no checks after {step}");
        let most = since.elapsed().as_millis() as u64 / 200 + 2;
        let came = checks() - before;
        assert!(came <= most, "{came} checks in {:?} after {step}", since.elapsed());
        assert!(holder.is_silent(ms(0)));
    }
    // And a silence is still found out in time.
    clock.set(STEPS[1]);
    server.stop();
    let told = holder.await_line("lost", LONG);
    server.cont();
    assert!(told < ms(200 + 200 + 700), "{told:?}");
    holder.expect("why", "Unresponsive");
}

#[test]
fn a_waiter_whose_clock_is_set_waits_as_long_as_it_was_told() {
    let Some(clock) = Clock::new() else { return };
    let server = Server::start();
    let mut holder = Worker::spawn(&server.url(), "stepped");
    holder.expect("x", "got x");
    let mut waiter = clock.worker(&server.url(), "stepped", &[]);
    waiter.expect("ready", "ready");
    for step in STEPS {
        let begun = Instant::now();
        waiter.tell("x 600");
        std::thread::sleep(ms(200));
        clock.set(step);
        waiter.await_line("Timeout", LONG);
        let took = begun.elapsed();
        assert!(took >= ms(590) && took < ms(1_100), "{took:?} after {step}");
    }
    holder.expect("r", "released");
}

#[test]
fn waiters_whose_clock_is_set_while_they_wait_are_served_in_the_order_of_arrival() {
    let Some(clock) = Clock::new() else { return };
    let server = Server::start();
    let mut holder = clock.worker(&server.url(), "stepped", &["health_ms=200"]);
    holder.expect("x", "got x");
    let mut waiters: Vec<_> = (0..3)
        .map(|number| {
            let mut waiter = clock.worker(&server.url(), "stepped", &[]);
            waiter.tell("x 60000");
            assert!(wait_until(LONG, || server.members("stepped") == 2 + number));
            waiter
        })
        .collect();
    for step in STEPS {
        clock.set(step);
        assert!(waiters[0].is_silent(ms(300)));
    }
    clock.set(STEPS[1]);
    holder.expect("r", "released");
    for waiter in &mut waiters {
        waiter.await_line("got x", SOON);
        waiter.expect("r", "released");
    }
}

/// The order of arrival is the order of ids, and an id begins with the wall clock's milliseconds: one
/// whose clock is a day behind comes before all who wait, one whose clock is a day ahead after all.
/// It costs fairness, and nothing else: nobody takes what is held.
#[test]
fn a_clock_that_differs_moves_a_newcomer_in_the_queue_and_takes_nothing_from_the_holder() {
    let Some(clock) = Clock::new() else { return };
    let server = Server::start();
    let mut holder = Worker::spawn(&server.url(), "stepped");
    holder.expect("x", "got x");
    let join = |worker: &mut Worker, members| {
        worker.tell("x 60000");
        assert!(wait_until(LONG, || server.members("stepped") == members));
    };
    clock.set(STEPS[0]);
    let mut ahead = clock.worker(&server.url(), "stepped", &[]);
    join(&mut ahead, 2);
    let mut right = Worker::spawn(&server.url(), "stepped");
    join(&mut right, 3);
    clock.set(STEPS[1]);
    let mut behind = clock.worker(&server.url(), "stepped", &[]);
    join(&mut behind, 4);
    assert!(behind.is_silent(ms(1_500)), "the lock is held");
    holder.expect("r", "released");
    for worker in [&mut behind, &mut right, &mut ahead] {
        worker.await_line("got x", SOON);
        assert!(holder.is_silent(ms(50)));
        worker.expect("r", "released");
    }
}

fn id_of_one_acquire(worker: &mut Worker) -> String {
    worker.expect("x", "got x");
    worker.tell("id");
    let id = worker.line(LONG).unwrap();
    worker.expect("r", "released");
    id
}

/// So that a later acquire overtakes none of its own process. The price: after a step forward and
/// back, a process comes after all others until the time that its clock showed wrongly.
#[test]
fn ids_of_one_process_only_rise_although_its_clock_is_set_back() {
    let Some(clock) = Clock::new() else { return };
    let server = Server::start();
    let mut worker = clock.worker(&server.url(), "stepped", &[]);
    let mut before = id_of_one_acquire(&mut worker);
    for step in STEPS {
        clock.set(step);
        let id = id_of_one_acquire(&mut worker);
        assert!(id > before, "{before} and then {id}, after {step}");
        before = id;
    }
    let other = id_of_one_acquire(&mut Worker::spawn(&server.url(), "other"));
    assert!(before > other, "{before} is a day ahead of {other}");
}
