//! Servers in trouble that come round again: what becomes of those who hold, wait or are idle meanwhile.

use std::time::{Duration, Instant};

use portalock::{Client, Lock, LockOptions, Mode, Status, Wait};

use crate::proxy::Proxy;
use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, SOON, client, failure, lock, lone_lock, ms, wait};

fn fenced(client: &Client, name: &str) -> Lock {
    let mut options = LockOptions::new();
    options.fencing(true);
    client.lock(name, options).unwrap()
}

/// Fails after its time with the true cause, and leaves nobody behind.
fn assert_fails(lock: &Lock, span: u64, expected: Status, word: &str) {
    let begun = Instant::now();
    let error = failure(lock.acquire(wait(span)));
    let took = begun.elapsed();
    println!("{:?} after {took:?}: {error}", error.status());
    assert_eq!(error.status(), expected, "{error}");
    assert!(error.message().contains(word), "no {word:?} in {error}");
    assert!(error.is_retryable());
    assert!(took >= ms(span) && took < ms(span + 400), "{took:?}");
    assert!(!lock.is_held());
}

/// Acquires while the server is in trouble, which ends meanwhile.
fn outlast(lock: &Lock, trouble: Duration, end: impl FnOnce()) {
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            lock.acquire(wait(15_000)).unwrap();
            Instant::now()
        });
        std::thread::sleep(trouble);
        let ending = Instant::now();
        end();
        let ended = Instant::now();
        let acquired = waiting.join().unwrap();
        assert!(acquired >= ending, "there was no trouble");
        let took = acquired.saturating_duration_since(ended);
        println!("acquired {took:?} after the trouble ended");
        assert!(took < ms(2_000), "{took:?}");
    });
    assert!(lock.is_held());
}

#[test]
fn a_restart_is_not_noticed_by_those_who_are_idle() {
    let mut server = Server::start();
    for url in [server.url(), server.tcp_url()] {
        let client = client(&url);
        let (one, two) = (lock(&client, "jobs"), lock(&client, "other"));
        // Two warm connections, both of them stale afterwards.
        for lock in [&one, &two] {
            lock.acquire(Wait::Default).unwrap();
        }
        for lock in [&one, &two] {
            lock.release_wait(LONG).unwrap();
        }
        server.restart();
        let begun = Instant::now();
        for lock in [&one, &two] {
            lock.try_acquire().unwrap();
        }
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    }
}

#[test]
fn a_waiter_whose_server_stays_away_ends_in_time_with_the_cause() {
    let mut server = Server::start();
    let holder = lone_lock(&server.tcp_url(), "jobs");
    holder.acquire(Wait::Default).unwrap();
    let waiter = lone_lock(&server.tcp_url(), "jobs");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| assert_fails(&waiter, 1_500, Status::Refused, "refused"));
        assert!(wait_until(LONG, || server.members("jobs") == 2));
        std::thread::sleep(ms(100));
        server.kill();
        waiting.join().unwrap();
    });
}

/// Runs a script that never ends, until it is ended.
fn keep_busy(server: &Server) -> std::thread::JoinHandle<()> {
    let mut connection = server.connection();
    let script = std::thread::spawn(move || {
        let words = ["while true do end", "0"];
        let _ = redis::cmd("EVAL").arg(&words[..]).query::<()>(&mut connection);
    });
    let busy = || {
        let answer = redis::cmd("GET").arg("x").query::<Option<String>>(&mut server.connection());
        answer.is_err_and(|error| error.code() == Some("BUSY"))
    };
    assert!(wait_until(LONG, busy));
    script
}

fn busy_server() -> Server {
    Server::with(&[("lua-time-limit", "100")])
}

#[test]
fn a_script_that_keeps_the_server_busy_costs_a_holder_nothing_whom_nobody_asks() {
    let server = busy_server();
    let mut holder = Worker::spawn_with(&server.url(), "jobs", &["health_ms=0"]);
    holder.expect("x", "got x");
    let script = keep_busy(&server);
    std::thread::sleep(ms(700));
    server.run::<()>(&["SCRIPT", "KILL"]);
    script.join().unwrap();
    let next = lone_lock(&server.url(), "jobs");
    assert_eq!(failure(next.acquire(wait(300))).status(), Status::Timeout);
    holder.expect("r", "released");
    next.acquire(wait(5_000)).unwrap();
}

#[test]
fn a_holder_whose_check_a_busy_server_refuses_is_told() {
    let server = busy_server();
    let mut holder = Worker::spawn_with(&server.url(), "jobs", &["health_ms=300"]);
    holder.expect("x", "got x");
    let script = keep_busy(&server);
    holder.await_line("lost", ms(1_500));
    holder.tell("why");
    let why = holder.line(SOON).unwrap();
    // Whether the refusal or the deadline comes first is the machine's choice.
    assert!(["Protocol", "Unresponsive"].contains(&&*why), "{why}");
    server.run::<()>(&["SCRIPT", "KILL"]);
    script.join().unwrap();
    holder.expect("r", "Lost");
    holder.expect("x", "got x");
}

/// The ping that it answers was passed on before the script began.
#[test]
fn an_answer_that_a_busy_server_refuses_costs_the_holder_nothing() {
    let server = busy_server();
    let proxy = Proxy::before(server.port());
    let mut holder = Worker::spawn_with(&proxy.url(), "jobs", &["health_ms=0"]);
    holder.expect("x", "got x");
    proxy.hold();
    let mut waiter = Worker::spawn(&server.url(), "jobs");
    waiter.tell("x 60000");
    assert!(wait_until(LONG, || server.members("jobs") == 2));
    let script = keep_busy(&server);
    proxy.resume();
    std::thread::sleep(ms(200));
    server.run::<()>(&["SCRIPT", "KILL"]);
    script.join().unwrap();
    assert_eq!(holder.line(ms(500)), None);
    assert!(waiter.is_silent(ms(500)), "the lock is held");
    holder.expect("r", "released");
    waiter.await_line("got x", ms(2_000));
}

#[test]
fn a_server_that_is_full_lets_its_members_live_and_is_outlasted_by_others() {
    let server = Server::start();
    let mut admin = server.connection();
    let mut holder = Worker::spawn_with(&server.url(), "jobs", &["health_ms=200"]);
    holder.expect("x", "got x");
    let mut set = |count: u32| {
        redis::cmd("CONFIG")
            .arg(&["SET", "maxclients"])
            .arg(count)
            .query::<()>(&mut admin)
            .unwrap();
    };
    // The test's own connection and the holder's.
    set(2);
    let other = lone_lock(&server.url(), "other");
    assert_fails(&other, 300, Status::Server, "no room");
    outlast(&other, ms(500), || set(100));
    assert!(holder.is_silent(ms(100)));
    holder.expect("r", "released");
}

/// Locks are made of subscriptions and messages, which need nothing that can be written; only the
/// fencing token is a key.
fn assert_waits_for_writes(server: &Server, mend: impl FnOnce()) {
    let client = client(&server.url());
    let (plain, next) = (lock(&client, "plain"), lock(&client, "plain"));
    plain.acquire(wait(1_000)).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| next.acquire(wait(5_000)));
        assert!(wait_until(LONG, || server.members("plain") == 2));
        plain.release().unwrap();
        waiting.join().unwrap().unwrap();
    });
    let fenced = fenced(&client, "fenced");
    // Readers draw no token.
    fenced.acquire_mode(Mode::Shared, wait(1_000)).unwrap();
    fenced.release().unwrap();
    outlast(&fenced, ms(300), mend);
    assert!(fenced.fencing_token().is_some());
}

#[test]
fn without_memory_locks_are_handed_over_and_fenced_acquires_go_on_until_there_is_some() {
    let server = Server::with(&[("maxmemory", "100kb"), ("maxmemory-policy", "noeviction")]);
    assert_waits_for_writes(&server, || server.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]));
}

#[test]
fn without_persistence_locks_are_handed_over_and_fenced_acquires_go_on_until_there_is_some() {
    let server = Server::with(&[("save", "3600 1")]);
    let dump = server.dir().join("dump.rdb");
    // Nobody can write a file there, not even root.
    std::fs::create_dir(&dump).unwrap();
    let save = |outcome: &str| {
        server.run::<()>(&["BGSAVE"]);
        let state = format!("rdb_last_bgsave_status:{outcome}");
        let done = || {
            let info: String = server.run(&["INFO", "persistence"]);
            info.contains(&state) && info.contains("rdb_bgsave_in_progress:0")
        };
        assert!(wait_until(LONG, done));
    };
    save("err");
    assert_waits_for_writes(&server, || {
        std::fs::remove_dir(&dump).unwrap();
        save("ok");
    });
}

#[test]
fn a_pause_of_clients_within_the_deadline_costs_nobody_the_lock_or_the_place() {
    for kind in ["ALL", "WRITE"] {
        let server = Server::start();
        let mut holder = Worker::spawn_with(&server.url(), "jobs", &["health_ms=2000"]);
        holder.expect("x", "got x");
        let mut waiter = Worker::spawn(&server.url(), "jobs");
        waiter.tell("x 60000");
        assert!(wait_until(LONG, || server.members("jobs") == 2));
        server.run::<()>(&["CLIENT", "PAUSE", "700", kind]);
        let begun = Instant::now();
        let other = lone_lock(&server.url(), "other");
        let outcome = other.acquire(wait(200)).map_err(|error| error.status());
        println!("{kind}: {outcome:?}");
        // While only writes are paused, a free lock may well be had.
        assert!(outcome == Err(Status::Unresponsive) || (kind == "WRITE" && outcome.is_ok()));
        if outcome.is_err() {
            other.acquire(wait(5_000)).unwrap();
        }
        assert!(begun.elapsed() < ms(2_000), "{:?}", begun.elapsed());
        assert!(waiter.is_silent(ms(800)), "the lock is held");
        holder.expect("r", "released");
        waiter.await_line("got x", SOON);
    }
}
