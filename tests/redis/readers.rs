//! Readers and writers: together, in turn, and nobody for ever.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use portalock::{Lock, Mode, Status, Wait};

use crate::support::{Server, wait_until};
use crate::{LONG, SOON, client, lock, lone_lock, ms};

const NAME: &str = "readers";

fn enter(lock: &Lock, mode: Mode) {
    lock.acquire_mode(mode, Wait::For(LONG)).unwrap();
}

#[test]
fn a_writer_that_waits_keeps_later_readers_out_and_they_enter_together() {
    let server = Server::start();
    let locks: Vec<_> = (0..5).map(|_| lone_lock(&server.url(), NAME)).collect();
    let [reader, writer, later @ ..] = &locks[..] else { unreachable!() };
    enter(reader, Mode::Shared);
    let inside = AtomicU64::new(0);
    let (written, met) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            enter(writer, Mode::Exclusive);
            assert_eq!(inside.load(SeqCst), 0);
            written.store(true, SeqCst);
            writer.release().unwrap();
        });
        assert!(wait_until(SOON, || server.members(NAME) == 2));
        assert_eq!(later[0].try_acquire_shared().unwrap_err().status(), Status::Locked);
        for reader in later {
            let (inside, written, met) = (&inside, &written, &met);
            scope.spawn(move || {
                enter(reader, Mode::Shared);
                assert!(written.load(SeqCst), "a reader has overtaken a writer");
                inside.fetch_add(1, SeqCst);
                // All three are inside at once, or this would never end in time.
                let all = wait_until(LONG, || inside.load(SeqCst) == 3);
                met.fetch_add(u64::from(all), SeqCst);
                reader.release().unwrap();
            });
        }
        assert!(wait_until(SOON, || server.members(NAME) == 5));
        reader.release().unwrap();
    });
    assert_eq!(met.load(SeqCst), 3);
}

const SECTION: Duration = ms(50);

/// Takes the lock again and again; each time it is inside for a [`SECTION`].
fn hammer(lock: &Lock, mode: Mode, over: &AtomicBool) {
    while !over.load(SeqCst) {
        enter(lock, mode);
        std::thread::sleep(SECTION);
        lock.release().unwrap();
    }
}

/// How long a writer waits each time among sixteen readers, the shortest first.
fn waits_of_a_writer(
    rounds: usize,
    pause: u64,
    read: impl Fn(&Lock, &AtomicBool) + Sync,
) -> Vec<Duration> {
    let server = Server::start();
    let client = client(&server.url());
    let over = AtomicBool::new(false);
    let readers: Vec<_> = (0..16).map(|_| lock(&client, NAME)).collect();
    let writer = lone_lock(&server.url(), NAME);
    let mut waits = Vec::new();
    std::thread::scope(|scope| {
        for reader in &readers {
            scope.spawn(|| read(reader, &over));
        }
        for _ in 0..rounds {
            std::thread::sleep(ms(pause));
            let begun = Instant::now();
            enter(&writer, Mode::Exclusive);
            waits.push(begun.elapsed());
            writer.release().unwrap();
        }
        over.store(true, SeqCst);
    });
    waits.sort();
    waits
}

#[test]
fn sixteen_readers_do_not_starve_a_writer() {
    let waits = waits_of_a_writer(20, 30, |reader, over| hammer(reader, Mode::Shared, over));
    let (median, worst) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    println!("a writer among readers of {SECTION:?} waits {median:?}, {worst:?} at worst");
    // Twice a section as long as the machine has time for everybody; starving has no bound at all.
    assert!(median < 2 * SECTION + ms(150), "{waits:?}");
    assert!(worst < 2 * SECTION + ms(600), "{waits:?}");
}

/// With sections so short that readers come and go all the time. What it waits is then mostly the
/// machine's doing: the bound is against starving, and the figure is for people.
#[test]
fn sixteen_readers_in_a_hurry_do_not_starve_a_writer() {
    let longest = AtomicU64::new(0);
    let waits = waits_of_a_writer(50, 10, |reader, over| {
        while !over.load(SeqCst) {
            enter(reader, Mode::Shared);
            let begun = Instant::now();
            std::thread::sleep(ms(5));
            reader.release().unwrap();
            longest.fetch_max(begun.elapsed().as_micros() as u64, SeqCst);
        }
    });
    let longest = Duration::from_micros(longest.load(SeqCst));
    let (median, worst) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    println!("a writer among readers of 5 ms ({longest:?}) waits {median:?}, {worst:?} at worst");
    assert!(worst < 2 * longest + ms(800), "{worst:?}, the longest section took {longest:?}");
}

/// Only those that came before it may be served before it.
#[test]
fn four_writers_serve_a_reader_in_its_turn() {
    let server = Server::start();
    let client = client(&server.url());
    let over = AtomicBool::new(false);
    let served = AtomicU64::new(0);
    let writers: Vec<_> = (0..4).map(|_| lock(&client, NAME)).collect();
    let reader = lone_lock(&server.url(), NAME);
    std::thread::scope(|scope| {
        for writer in &writers {
            scope.spawn(|| {
                while !over.load(SeqCst) {
                    enter(writer, Mode::Exclusive);
                    served.fetch_add(1, SeqCst);
                    std::thread::sleep(SECTION);
                    writer.release().unwrap();
                }
            });
        }
        for _ in 0..20 {
            std::thread::sleep(ms(30));
            let before = served.load(SeqCst);
            enter(&reader, Mode::Shared);
            let meanwhile = served.load(SeqCst) - before;
            // The one inside, the three that waited, and whoever was just coming.
            assert!(meanwhile <= 6, "{meanwhile} writers were served first");
            reader.release().unwrap();
        }
        over.store(true, SeqCst);
    });
}
