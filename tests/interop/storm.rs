//! Three of ours and three of theirs, readers and writers, as fast as they like.
//!
//! The judge is the server: each section counts itself in and out there, and a section that finds
//! somebody incompatible inside counts an overlap.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use portalock::{Client, ClientOptions, LockOptions, Mode, Wait};

use crate::peers::Version::{self, *};
use crate::support::Server;
use crate::support::worker::Worker;

const NAME: &str = "storm";
const SECTION: &str = "
    local w = tonumber(redis.call('GET', KEYS[1] .. ':w') or '0')
    local r = tonumber(redis.call('GET', KEYS[1] .. ':r') or '0')
    redis.call('INCRBY', KEYS[1] .. ':' .. ARGV[1], ARGV[2])
    if ARGV[2] == '-1' then return 0 end
    if w > 0 or (ARGV[1] == 'w' and r > 0) then
        return redis.call('INCR', KEYS[1] .. ':overlaps')
    end
    return 0";

/// A number from 0 up to 100, another each time.
fn dice(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % 100
}

/// Until it is over.
fn take_part(url: &str, mut seed: u64, span: Duration, over: &AtomicBool) -> u64 {
    let client = Client::new(url, ClientOptions::new()).unwrap();
    let lock = client.lock(NAME, LockOptions::new()).unwrap();
    let mut judge = redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut count = |kind: &str, by: &str| {
        let mut command = redis::cmd("EVAL");
        command.arg(SECTION).arg(1).arg(NAME).arg(kind).arg(by);
        command.query::<i64>(&mut judge).unwrap();
    };
    let mut served = 0;
    while !over.load(SeqCst) {
        let (mode, kind) = match dice(&mut seed) < 50 {
            true => (Mode::Shared, "r"),
            false => (Mode::Exclusive, "w"),
        };
        if lock.acquire_mode(mode, Wait::For(span)).is_err() {
            continue;
        }
        count(kind, "1");
        std::thread::sleep(Duration::from_micros(dice(&mut seed) * 100));
        count(kind, "-1");
        assert!(lock.is_held(), "lost in the middle");
        lock.release().unwrap();
        served += 1;
        std::thread::sleep(Duration::from_millis(dice(&mut seed) * 4));
    }
    served
}

/// Versions before 4.2 end each other's connections now and then, those that are merely between two
/// attempts; their reader threads die of it, and they go on. (We end none: that is asserted.)
fn outcome_of(worker: &Worker, span: Duration) -> String {
    loop {
        let said = worker.line(span * 6).expect("no outcome");
        if !said.starts_with("reader died") {
            return said;
        }
    }
}

/// Listens to the library's log for those whom it ends.
mod log {
    use std::sync::Once;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    static KILLED: AtomicU64 = AtomicU64::new(0);

    struct Ear;

    impl ::log::Log for Ear {
        fn enabled(&self, _: &::log::Metadata) -> bool {
            true
        }

        fn log(&self, record: &::log::Record) {
            let channel = record.key_values().get("channel".into());
            let is_ours = channel.is_some_and(|channel| channel.to_string() == "storm");
            if is_ours && record.args().to_string().starts_with("ending a connection") {
                KILLED.fetch_add(1, SeqCst);
            }
        }

        fn flush(&self) {}
    }

    pub fn listen() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            ::log::set_logger(&Ear).unwrap();
            ::log::set_max_level(::log::LevelFilter::Warn);
        });
    }

    pub fn killed() -> u64 {
        KILLED.load(SeqCst)
    }
}

fn storm(version: Version) {
    log::listen();
    let seconds: u64 = if std::env::var_os("PORTALOCK_SOAK").is_some() { 60 } else { 8 };
    let span = Duration::from_secs(seconds);
    let server = Server::start();
    // The last of ours by two connections.
    let urls = [server.tcp_url(), server.tcp_url(), format!("{}?protocol=resp2", server.tcp_url())];
    let mut theirs: Vec<Worker> = (0..3).map(|_| version.spawn(&server, NAME)).collect();
    let shares = if version.has_readers() { 50 } else { 0 };
    // A probe of 4.0 and 4.1 takes a tenth of a second for each member, and comes to nothing if anybody
    // comes or goes meanwhile: three of them without a pause hardly let each other in.
    let think = if matches!(version, V4_0_0 | V4_1_0) { 1_500 } else { 400 };
    for (seed, worker) in theirs.iter_mut().enumerate() {
        worker.tell(&format!("storm {seconds} {seed} {shares} {think}"));
    }
    let over = AtomicBool::new(false);
    let mut said = Vec::new();
    let ours: Vec<u64> = std::thread::scope(|scope| {
        let start = |seed| {
            let (url, over) = (&urls[seed as usize - 1], &over);
            scope.spawn(move || take_part(url, seed, span, over))
        };
        let threads: Vec<_> = (1..=3).map(start).collect();
        said = theirs.iter().map(|worker| outcome_of(worker, span)).collect();
        over.store(true, SeqCst);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    println!("{version:?}: ours {ours:?}, theirs {said:?}");
    assert_eq!(log::killed(), 0, "we have ended somebody who was alive");
    let overlaps: Option<u64> = server.run(&["GET", "storm:overlaps"]);
    assert_eq!(overlaps, None);
    assert!(ours.iter().all(|served| *served > 0), "{ours:?}");
    for said in &said {
        let served: u64 = said.strip_prefix("served ").expect(said).parse().unwrap();
        assert!(served > 0, "{said:?}");
    }
}

#[test]
fn storm_with_3_2_0() {
    storm(V3_2_0);
}

#[test]
fn storm_with_4_0_0() {
    storm(V4_0_0);
}

#[test]
fn storm_with_4_1_0() {
    storm(V4_1_0);
}

#[test]
fn storm_with_4_4_2() {
    storm(V4_4_2);
}
