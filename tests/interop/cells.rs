//! Who gets in, and when: each version against us, each way round.

use std::time::{Duration, Instant};

use crate::peers::Version::{self, *};
use crate::support::Server;
use crate::support::worker::Worker;
use crate::{LONG, ms};

const NAME: &str = "mixed";

struct Pair {
    _server: Server,
    ours: Worker,
    theirs: Worker,
}

fn pair(version: Version) -> Pair {
    let server = Server::start();
    let ours = Worker::spawn(&server.tcp_url(), NAME);
    let theirs = version.spawn(&server, NAME);
    Pair { _server: server, ours, theirs }
}

/// `late` gets in only once `early` has left, and not long after.
fn hands_over(early: &mut Worker, late: &mut Worker, first: &str, second: &str) {
    early.expect(first, &format!("got {first}"));
    late.tell(&format!("{second} 8000"));
    assert!(late.is_silent(ms(700)), "{second} beside {first}");
    early.expect("r", "released");
    late.await_line(&format!("got {second}"), LONG);
    late.expect("r", "released");
}

/// Both hold at the same time.
fn share(one: &mut Worker, other: &mut Worker) {
    one.expect("s", "got s");
    other.expect("s 4000", "got s");
    one.expect("r", "released");
    other.expect("r", "released");
}

fn they_hold(version: Version) {
    let Pair { _server, mut ours, mut theirs } = pair(version);
    hands_over(&mut theirs, &mut ours, "x", "x");
    hands_over(&mut theirs, &mut ours, "x", "s");
}

fn we_hold(version: Version) {
    let Pair { _server, mut ours, mut theirs } = pair(version);
    hands_over(&mut ours, &mut theirs, "x", "x");
    if version.has_readers() {
        hands_over(&mut ours, &mut theirs, "x", "s");
    }
}

/// One gets in first, the other only after it.
fn both_race(version: Version) {
    let Pair { _server, mut ours, mut theirs } = pair(version);
    for round in 0..20 {
        ours.tell("x 8000");
        theirs.tell("x 8000");
        let begun = Instant::now();
        let ours_first = loop {
            if ours.line(ms(10)).is_some_and(|said| said == "got x") {
                break true;
            }
            if theirs.line(ms(10)).is_some_and(|said| said == "got x") {
                break false;
            }
            assert!(begun.elapsed() < LONG, "round {round}: nobody gets in");
        };
        let (first, second) = match ours_first {
            true => (&mut ours, &mut theirs),
            false => (&mut theirs, &mut ours),
        };
        assert!(second.is_silent(ms(100)), "round {round}: both are in");
        first.expect("r", "released");
        second.await_line("got x", LONG);
        second.expect("r", "released");
    }
}

fn they_hold_shared(version: Version) {
    let Pair { _server, mut ours, mut theirs } = pair(version);
    share(&mut theirs, &mut ours);
    hands_over(&mut theirs, &mut ours, "s", "x");
}

fn we_hold_shared(version: Version) {
    let Pair { _server, mut ours, mut theirs } = pair(version);
    share(&mut ours, &mut theirs);
    hands_over(&mut ours, &mut theirs, "s", "x");
}

fn they_crash(version: Version) {
    let Pair { _server, mut ours, mut theirs } = pair(version);
    theirs.expect("x", "got x");
    ours.tell("x 8000");
    assert!(ours.is_silent(ms(300)));
    theirs.kill();
    let took = ours.await_line("got x", LONG);
    assert!(took < ms(1_500), "{took:?}");
}

fn we_crash(version: Version) {
    let Pair { _server, mut ours, mut theirs } = pair(version);
    ours.expect("x", "got x");
    theirs.tell("x 9000");
    assert!(theirs.is_silent(ms(300)));
    ours.kill();
    theirs.await_line("got x", LONG);
}

/// Taken for dead after about a second, and told so when it wakes, where it knows how to tell.
fn they_are_stopped(version: Version) {
    let Pair { _server, mut ours, mut theirs } = pair(version);
    theirs.expect("x", "got x");
    theirs.stop();
    ours.tell("x 8000");
    let took = ours.await_line("got x", LONG);
    assert!((ms(900)..Duration::from_secs(4)).contains(&took), "{took:?}");
    theirs.cont();
    if version == V4_4_2 {
        theirs.await_line("lost", LONG);
    }
}

/// A writer that waits keeps readers that come later waiting, as long as it can be seen. Theirs is on
/// the channel only while it asks: it may be passed over, and is served all the same.
fn their_writer_and_our_reader(version: Version) {
    let server = Server::start();
    let mut holder = Worker::spawn(&server.tcp_url(), NAME);
    let mut reader = Worker::spawn(&server.tcp_url(), NAME);
    let mut writer = version.spawn(&server, NAME);
    holder.expect("s", "got s");
    writer.tell("x 9000");
    assert!(writer.is_silent(ms(600)), "a writer beside a reader");
    reader.tell("s 8000");
    let joined = reader.line(ms(500)).is_some();
    holder.expect("r", "released");
    if !joined {
        // It waits for the writer, or finds the channel free while that sleeps.
        assert!(reader.line(LONG).is_some() || writer.line(LONG).is_some());
    }
    let _ = reader.line(ms(1_500));
    reader.tell("r");
    assert!(writer.line(LONG).is_some_and(|said| said == "got x"), "the writer starves");
}

fn our_writer_and_their_reader(version: Version) {
    let server = Server::start();
    let mut holder = version.spawn(&server, NAME);
    let mut reader = version.spawn(&server, NAME);
    let mut writer = Worker::spawn(&server.tcp_url(), NAME);
    holder.expect("s", "got s");
    writer.tell("x 9000");
    assert!(writer.is_silent(ms(300)), "a writer beside a reader");
    reader.tell("s 9000");
    assert!(reader.is_silent(ms(800)), "a reader overtakes a writer that waits");
    holder.expect("r", "released");
    writer.await_line("got x", LONG);
    assert!(reader.is_silent(ms(300)), "a reader beside a writer");
    writer.expect("r", "released");
    reader.await_line("got s", LONG);
}

/// The same counter, so tokens rise whoever draws them.
#[test]
fn tokens_rise_over_both_kinds() {
    let server = Server::start();
    let mut theirs = V4_4_2.spawn(&server, NAME);
    let client = portalock::Client::new(&server.tcp_url(), Default::default()).unwrap();
    let mut options = portalock::LockOptions::new();
    options.fencing(true);
    let ours = client.lock(NAME, options).unwrap();
    for round in 0..3u64 {
        ours.acquire(portalock::Wait::Default).unwrap();
        assert_eq!(ours.fencing_token(), Some(round * 2 + 1));
        ours.release_wait(LONG).unwrap();
        theirs.expect("x", "got x");
        theirs.expect("token", &format!("token {}", round * 2 + 2));
        theirs.expect("r", "released");
    }
}

macro_rules! matrix {
    ($($version:ident as $module:ident: $($cell:ident),*;)*) => {$(
        mod $module {
            use super::*;
            $(#[test]
            fn $cell() {
                super::$cell($version);
            })*
        }
    )*};
}

matrix! {
    V3_2_0 as v3_2_0: they_hold, we_hold, both_race, they_crash, we_crash, they_are_stopped;
    V4_0_0 as v4_0_0: they_hold, we_hold, both_race, they_hold_shared, we_hold_shared, they_crash,
        we_crash, they_are_stopped, their_writer_and_our_reader, our_writer_and_their_reader;
    V4_1_0 as v4_1_0: they_hold, we_hold, both_race, they_hold_shared, we_hold_shared, they_crash,
        we_crash, they_are_stopped, their_writer_and_our_reader, our_writer_and_their_reader;
    V4_4_2 as v4_4_2: they_hold, we_hold, both_race, they_hold_shared, we_hold_shared, they_crash,
        we_crash, they_are_stopped, their_writer_and_our_reader, our_writer_and_their_reader;
}
