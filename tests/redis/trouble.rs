//! A server in trouble: an acquire goes on as long as it may, and ends with the true cause.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use portalock::{Lock, LockOptions, Status, Wait};

use crate::proxy::{Delay, Proxy};
use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::unusable::{serve, swallow};
use crate::{LONG, client, failure, lone_lock, ms, status, wait};

fn fenced(url: &str) -> Lock {
    let mut options = LockOptions::new();
    options.fencing(true);
    client(url).lock("jobs", options).unwrap()
}

fn checked(url: &str, interval: u64) -> Lock {
    let mut options = LockOptions::new();
    options.health_check_interval(ms(interval)).unwrap();
    client(url).lock("jobs", options).unwrap()
}

#[test]
fn a_script_that_does_not_end_is_waited_for_and_named() {
    let server = Server::with(&[("lua-time-limit", "50")]);
    let mut connection = server.connection();
    let busy = std::thread::spawn(move || {
        redis::cmd("EVAL").arg("while true do end").arg(0).query::<()>(&mut connection)
    });
    std::thread::sleep(ms(200));
    let error = failure(lone_lock(&server.url(), "jobs").acquire(wait(300)));
    assert_eq!(error.status(), Status::Server, "{error}");
    assert!(error.message().contains("BUSY") && error.is_retryable(), "{error}");
    let lock = lone_lock(&server.url(), "jobs");
    std::thread::scope(|scope| {
        let acquire = scope.spawn(|| lock.acquire(wait(20_000)));
        std::thread::sleep(ms(300));
        server.run::<()>(&["SCRIPT", "KILL"]);
        acquire.join().unwrap().unwrap();
    });
    assert!(busy.join().unwrap().is_err());
}

/// Subscriptions need no data: only the token has to wait for it.
#[test]
fn a_server_that_loads_its_data_gives_locks_at_once_and_tokens_later() {
    // Some seconds for the whole of it; it looks at its clients every 1024 keys.
    let mut server = Server::with(&[("appendonly", "yes"), ("key-load-delay", "200")]);
    let fill = "for i = 1, 20000 do redis.call('SET', 'key' .. i, i) end";
    server.run::<()>(&["EVAL", fill, "0"]);
    server.kill();
    let url = server.url();
    let plain = lone_lock(&url, "plain");
    std::thread::scope(|scope| {
        let plain = scope.spawn(|| (plain.acquire(wait(20_000)), Instant::now()));
        let early = scope.spawn(|| failure(fenced(&url).acquire(wait(1_500))));
        let late = scope.spawn(|| (fenced(&url).acquire(wait(20_000)), Instant::now()));
        server.restart();
        let error = early.join().unwrap();
        assert_eq!(error.status(), Status::Server, "{error}");
        assert!(error.message().contains("LOADING"), "{error}");
        let ((plain, at_once), (late, later)) = (plain.join().unwrap(), late.join().unwrap());
        assert!(plain.is_ok() && late.is_ok());
        assert!(at_once < later);
    });
}

#[test]
fn a_holder_that_reads_too_slowly_is_ended_by_the_server_and_told() {
    let server = Server::with(&[("client-output-buffer-limit", "pubsub 64kb 0 0")]);
    let mut holder = Worker::spawn(&server.url(), "jobs");
    holder.expect("x 5000", "got x");
    holder.stop();
    let flood = "x".repeat(100_000);
    let ended = wait_until(LONG, || server.run::<u64>(&["PUBLISH", "jobs", &flood]) == 0);
    assert!(ended);
    let next = lone_lock(&server.url(), "jobs");
    next.acquire(wait(5_000)).unwrap();
    holder.cont();
    holder.await_line("lost", LONG);
    holder.expect("r", "Lost");
}

#[test]
fn a_server_without_memory_gives_no_tokens_and_locks_all_the_same() {
    let server = Server::with(&[("maxmemory", "1"), ("maxmemory-policy", "noeviction")]);
    let error = failure(fenced(&server.url()).acquire(wait(300)));
    assert_eq!(error.status(), Status::Server, "{error}");
    assert!(error.message().contains("OOM"), "{error}");
    assert!(wait_until(LONG, || server.members("jobs") == 0));
    lone_lock(&server.url(), "jobs").acquire(wait(5_000)).unwrap();
}

#[test]
fn a_server_that_cannot_save_gives_no_tokens_and_locks_all_the_same() {
    let server = Server::start();
    std::fs::create_dir(server.dir().join("dump.rdb")).unwrap();
    server.run::<()>(&["CONFIG", "SET", "save", "1 1"]);
    server.run::<()>(&["SET", "some", "thing"]);
    let fails = || {
        let info: String = server.run(&["INFO", "persistence"]);
        info.contains("rdb_last_bgsave_status:err")
    };
    assert!(wait_until(LONG, fails), "it can save");
    let error = failure(fenced(&server.url()).acquire(wait(300)));
    assert_eq!(error.status(), Status::Server, "{error}");
    assert!(error.message().contains("MISCONF"), "{error}");
    assert!(wait_until(LONG, || server.members("jobs") == 0));
    lone_lock(&server.url(), "jobs").acquire(wait(5_000)).unwrap();
}

#[test]
fn a_paused_server_is_waited_for() {
    for kind in ["ALL", "WRITE"] {
        let server = Server::start();
        let holder = checked(&server.url(), 0);
        holder.acquire(wait(5_000)).unwrap();
        let next = lone_lock(&server.url(), "jobs");
        std::thread::scope(|scope| {
            server.run::<()>(&["CLIENT", "PAUSE", "1000", kind]);
            let acquire = scope.spawn(|| next.acquire(wait(20_000)));
            holder.release().unwrap();
            acquire.join().unwrap().unwrap();
        });
        assert!(next.is_held(), "{kind}");
    }
}

#[test]
fn a_paused_server_fails_its_health_check() {
    let server = Server::start();
    let lock = checked(&server.url(), 300);
    lock.acquire(wait(5_000)).unwrap();
    server.run::<()>(&["CLIENT", "PAUSE", "60000", "ALL"]);
    assert!(wait_until(ms(5_000), || !lock.is_held()));
    let error = failure(lock.release());
    assert_eq!(error.status(), Status::Lost);
    assert!(error.message().contains("health check"), "{error}");
}

#[test]
fn a_slow_and_unsteady_path_costs_time_and_nothing_else() {
    let server = Server::start();
    let proxy = Proxy::delaying(server.port(), Delay { least: ms(0), most: ms(300) });
    let locks = [checked(&proxy.url(), 1_500), checked(&proxy.url(), 1_500)];
    for lock in &locks {
        lock.on_lost(Some(Box::new(|loss| panic!("lost: {loss:?}"))));
    }
    let inside = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for lock in &locks {
            scope.spawn(|| {
                for _ in 0..4 {
                    lock.acquire(wait(60_000)).unwrap();
                    assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
                    std::thread::sleep(ms(200));
                    inside.store(false, Ordering::SeqCst);
                    lock.release().unwrap();
                }
            });
        }
    });
    // A health check comes back by such a path, too.
    locks[0].acquire(wait(60_000)).unwrap();
    std::thread::sleep(ms(4_000));
    locks[0].verify(LONG).unwrap();
}

#[test]
fn a_connection_that_is_open_at_one_end_only_ends_in_time() {
    for (what, url) in [("nothing comes back", serve(swallow)), ("nothing arrives", deaf())] {
        let begun = Instant::now();
        let error = failure(lone_lock(&url, "jobs").acquire(wait(400)));
        assert_eq!(error.status(), Status::Unresponsive, "{what}: {error}");
        let took = begun.elapsed();
        assert!(took >= ms(400) && took < ms(2_000), "{what}: {took:?}");
    }
}

/// A path on which the server hears nothing, and whatever it says would arrive.
fn deaf() -> String {
    let server = Box::leak(Box::new(Server::start()));
    let proxy = Proxy::before(server.port());
    proxy.swallow_requests();
    proxy.url()
}

#[test]
fn a_waiter_outlasts_a_server_that_is_away_for_a_second() {
    let mut server = Server::start();
    let holder = lone_lock(&server.url(), "jobs");
    holder.acquire(wait(5_000)).unwrap();
    let mut waiter = Worker::spawn(&server.url(), "jobs");
    waiter.tell("x 20000");
    assert!(wait_until(LONG, || server.members("jobs") == 2));
    server.kill();
    let error = failure(lone_lock(&server.url(), "jobs").acquire(wait(300)));
    assert!(matches!(error.status(), Status::Refused | Status::Unreachable), "{error}");
    std::thread::sleep(ms(700));
    server.restart();
    waiter.await_line("got x", LONG);
    assert_eq!(status(holder.release()), Status::Lost);
}

#[test]
fn what_no_time_can_mend_ends_at_once() {
    let server = Server::with(&[("requirepass", "right")]);
    let url = |user: &str, password: &str| format!("{}?user={user}&pass={password}", server.url());
    let limited = ["ACL", "SETUSER", "limited", "on", ">right", "+hello", "+client"];
    server.run::<()>(&limited);
    for (url, expected) in [
        (url("default", "wrong"), Status::Auth),
        (url("nobody", "right"), Status::Auth),
        (url("limited", "right"), Status::Denied),
    ] {
        let begun = Instant::now();
        let error = failure(lone_lock(&url, "jobs").acquire(Wait::Forever));
        assert_eq!(error.status(), expected, "{error}");
        assert!(begun.elapsed() < Duration::from_secs(2) && !error.message().contains("right"));
    }
}
