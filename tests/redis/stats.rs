//! What a client counts: each number moves by what it says, by the right number, and by nothing else.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use portalock::{Client, ClientOptions, Lock, LockOptions, Mode, Status, Wait};

use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, SOON, lock, lone_lock, ms, status, wait};

type Numbers = BTreeMap<&'static str, i64>;

fn numbers(client: &Client) -> Numbers {
    // How long they took is looked at elsewhere.
    let all = client.stats().unwrap().numbers().filter(|(name, _)| !name.ends_with("_us"));
    all.map(|(name, value)| (name, i64::try_from(value).unwrap())).collect()
}

fn moved(before: &Numbers, after: &Numbers) -> Vec<(&'static str, i64)> {
    let by = |(name, value): (&&'static str, &i64)| (*name, value - before[name]);
    after.iter().map(by).filter(|(_, by)| *by != 0).collect()
}

/// Does something, and makes sure that it moves these numbers and no other.
fn moves(client: &Client, by: &[(&'static str, i64)], act: impl FnOnce()) {
    let before = numbers(client);
    act();
    let mut wanted = by.to_vec();
    wanted.sort_unstable();
    // What the keep-alive thread does may be counted a moment after it is seen.
    wait_until(SOON, || moved(&before, &numbers(client)) == wanted);
    std::thread::sleep(ms(20));
    assert_eq!(moved(&before, &numbers(client)), wanted);
}

fn plain(url: &str) -> Client {
    Client::new(url, ClientOptions::new()).unwrap()
}

fn sharing(url: &str) -> Client {
    let mut options = ClientOptions::new();
    options.shared_connection(true);
    Client::new(url, options).unwrap()
}

/// With a connection that is made already.
fn warm(client: &Client, name: &str) -> Lock {
    let lock = lock(client, name);
    lock.acquire(wait(5_000)).unwrap();
    lock.release_wait(LONG).unwrap();
    lock
}

/// Begins to wait in a thread, for as long as `meanwhile` takes at least.
fn waits<R>(
    server: &Server,
    lock: &Lock,
    meanwhile: impl FnOnce() -> R,
) -> (portalock::Result<()>, R) {
    let members = server.members(lock.name());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| lock.acquire(Wait::For(LONG)));
        wait_until(ms(200), || server.members(lock.name()) > members);
        // It is on the channel, and learns who else is.
        std::thread::sleep(ms(60));
        let result = meanwhile();
        (waiting.join().unwrap(), result)
    })
}

fn both(case: fn(&Server, Client)) {
    let server = Server::start();
    case(&server, plain(&server.url()));
    case(&server, sharing(&server.url()));
}

#[test]
fn a_pair_is_an_acquire_and_the_first_a_connection() {
    both(|_, client| {
        let lock = lock(&client, "pair");
        moves(&client, &[("acquires", 1), ("connections", 1), ("held", 1)], || {
            lock.acquire(Wait::Default).unwrap();
        });
        moves(&client, &[("held", -1)], || lock.release_wait(LONG).unwrap());
        moves(&client, &[("acquires", 10)], || {
            for _ in 0..10 {
                lock.acquire(Wait::Default).unwrap();
                lock.release().unwrap();
            }
        });
    });
}

#[test]
fn whoever_is_not_let_in_is_counted_by_why() {
    both(|server, client| {
        let holder = lone_lock(&server.url(), "busy");
        let lock = warm(&client, "busy");
        holder.acquire(Wait::Default).unwrap();
        moves(&client, &[("locked", 1)], || {
            assert_eq!(status(lock.try_acquire()), Status::Locked);
        });
        moves(&client, &[("timeouts", 1), ("waits", 1)], || {
            assert_eq!(status(lock.acquire(wait(60))), Status::Timeout);
        });
        moves(&client, &[("cancelled", 1), ("waits", 1)], || {
            let (outcome, ()) = waits(server, &lock, || lock.cancel());
            assert_eq!(status(outcome), Status::Cancelled);
        });
        moves(&client, &[("timeouts", 1), ("waits", 1)], || {
            let (sender, ended) = std::sync::mpsc::channel();
            let done = Box::new(move |outcome: &portalock::Result<()>| {
                sender.send(outcome.clone()).unwrap();
            });
            lock.start_acquire(None, wait(60), Some(done)).unwrap();
            assert_eq!(status(ended.recv_timeout(LONG).unwrap()), Status::Timeout);
        });
        holder.release_wait(LONG).unwrap();
    });
}

#[test]
fn what_never_begins_is_not_counted() {
    both(|_, client| {
        let lock = warm(&client, "never");
        lock.acquire(Wait::Default).unwrap();
        moves(&client, &[], || {
            assert_eq!(status(lock.acquire(Wait::Default)), Status::Active);
            assert_eq!(status(lock.start_acquire(None, Wait::Default, None)), Status::Invalid);
            assert!(!lock.is_held() || lock.verified_age().is_some());
        });
        moves(&client, &[("held", -1)], || drop(lock));
    });
}

#[test]
fn a_hand_over_is_one_only_from_somebody_who_leaves() {
    both(|server, client| {
        let lock = warm(&client, "passed");
        let holder = lone_lock(&server.url(), "passed");
        holder.acquire(Wait::Default).unwrap();
        let let_in = [("acquires", 1), ("held", 1), ("waits", 1)];
        moves(&client, &[let_in.as_slice(), &[("hand_overs", 1)]].concat(), || {
            waits(server, &lock, || holder.release().unwrap()).0.unwrap();
        });
        lock.release_wait(LONG).unwrap();

        let mut worker = Worker::spawn(&server.url(), "passed");
        worker.expect("x", "got x");
        moves(&client, &let_in, || {
            waits(server, &lock, || worker.kill()).0.unwrap();
        });
        lock.release_wait(LONG).unwrap();
    });
}

#[test]
fn those_of_one_client_hand_over_to_each_other() {
    both(|server, client| {
        let (first, second) = (warm(&client, "among"), lock(&client, "among"));
        first.acquire(Wait::Default).unwrap();
        // Each has a connection of its own, unless they share one.
        let connections = i64::from(first.client_name().unwrap().starts_with("among"));
        let all = [("acquires", 1), ("connections", connections), ("hand_overs", 1), ("waits", 1)];
        let all: Vec<_> = all.into_iter().filter(|(_, by)| *by != 0).collect();
        moves(&client, &all, || {
            waits(server, &second, || first.release().unwrap()).0.unwrap();
        });
    });
}

#[test]
fn readers_that_meet_have_not_waited() {
    both(|server, client| {
        let elsewhere = lone_lock(&server.url(), "readers");
        elsewhere.acquire_mode(Mode::Shared, Wait::Default).unwrap();
        let lock = warm(&client, "warm");
        let reader = self::lock(&client, "readers");
        moves(&client, &[("acquires", 1), ("held", 1)], || {
            reader.acquire_mode(Mode::Shared, Wait::Default).unwrap();
        });
        elsewhere.release_wait(LONG).unwrap();
        reader.release_wait(LONG).unwrap();
        drop(lock);
    });
}

#[test]
fn a_loss_is_counted_once() {
    both(|server, client| {
        let lock = warm(&client, "lost");
        lock.acquire(Wait::Default).unwrap();
        moves(&client, &[("held", -1), ("losses", 1)], || {
            assert!(server.kill_client(&lock.client_name().unwrap()));
            assert!(wait_until(SOON, || !lock.is_held()));
            assert_eq!(status(lock.verify(SOON)), Status::Lost);
            assert_eq!(status(lock.release()), Status::Lost);
        });
        moves(&client, &[("acquires", 1), ("connections", 1), ("held", 1)], || {
            lock.acquire(Wait::Default).unwrap();
        });
        lock.release_wait(LONG).unwrap();
    });
}

#[test]
fn whoever_is_ended_is_counted_and_so_is_the_wait_for_it() {
    both(|server, client| {
        let lock = warm(&client, "silent");
        let mut worker = Worker::spawn(&server.url(), "silent");
        worker.expect("x", "got x");
        worker.stop();
        let all = [("acquires", 1), ("held", 1), ("reaps", 1), ("waits", 1)];
        moves(&client, &all, || lock.acquire(Wait::For(LONG)).unwrap());
        let waits = client.stats().unwrap().waits;
        assert!(waits.max() >= ms(900), "{waits:?}");
        lock.release_wait(LONG).unwrap();

        let mut worker = Worker::spawn(&server.url(), "silent");
        worker.expect("x", "got x");
        worker.stop();
        moves(&client, &[("connections", 1), ("reaps", 1)], || {
            assert_eq!(client.reap_silent("silent", ms(500)).unwrap().killed, 1);
        });
    });
}

#[test]
fn questions_take_connections() {
    both(|_, client| {
        moves(&client, &[("connections", 2)], || {
            client.ping(LONG).unwrap();
            client.holders("nobody", LONG).unwrap();
        });
    });
}

#[test]
fn each_message_that_has_to_come_back_is_a_health_check() {
    both(|server, client| {
        let mut options = LockOptions::new();
        options.health_check_interval(ms(100)).unwrap();
        let lock = client.lock("checked", options).unwrap();
        let published = || server.command_counts().get("publish").copied().unwrap_or(0) as i64;
        let (begun, before) = (published(), numbers(&client));
        lock.acquire(Wait::Default).unwrap();
        std::thread::sleep(ms(450));
        lock.verify(SOON).unwrap();
        lock.release_wait(LONG).unwrap();
        // One of them is the farewell.
        assert!(wait_until(SOON, || numbers(&client)["health_checks"] - before["health_checks"]
            == published() - begun - 1));
        assert!(published() - begun > 3);
    });
}

#[test]
fn a_server_that_is_not_there_is_a_failure_and_no_wait() {
    for make in [plain, sharing] {
        let mut server = Server::start();
        let client = make(&server.url());
        let lock = warm(&client, "away");
        server.kill();
        moves(&client, &[("failed", 2)], || {
            assert!(lock.try_acquire().is_err());
            assert!(lock.acquire(wait(50)).is_err());
        });
        moves(&client, &[], || assert!(client.ping(SOON).is_err()));
    }
}

#[test]
fn who_holds_and_who_waits_can_be_read_at_any_time() {
    both(|server, client| {
        let holder = lone_lock(&server.url(), "gauged");
        holder.acquire(Wait::Default).unwrap();
        let own = warm(&client, "own");
        own.acquire(Wait::Default).unwrap();
        let waiter = lock(&client, "gauged");
        let begun = Instant::now();
        waits(server, &waiter, || {
            let stats = client.stats().unwrap();
            assert_eq!((stats.held, stats.waiting), (1, 1));
            holder.release().unwrap();
        })
        .0
        .unwrap();
        let stats = client.clone().stats().unwrap();
        assert_eq!((stats.held, stats.waiting), (2, 0));
        // The only wait so far.
        let (waits, took) = (stats.waits, begun.elapsed());
        assert!(waits.max() >= ms(50) && waits.max() <= took, "{waits:?}");
        assert_eq!((waits.sum(), waits.percentile(50.0)), (waits.max(), waits.max()));
        let below = waits.buckets().into_iter().filter(|(bound, _)| *bound < waits.max());
        assert!(below.clone().all(|(_, count)| count == 0) && below.count() > 3);
        assert_eq!(waits.buckets().last(), Some(&(Duration::from_secs(300), 1)));
    });
}

#[test]
fn a_lock_that_is_closed_while_it_waits_is_cancelled() {
    both(|server, client| {
        let holder = lone_lock(&server.url(), "closed");
        holder.acquire(Wait::Default).unwrap();
        let lock = warm(&client, "closing");
        drop(lock);
        let waiter = self::lock(&client, "closed");
        moves(&client, &[("cancelled", 1), ("waits", 1)], || {
            let (outcome, ()) = waits(server, &waiter, || waiter.close());
            assert_eq!(status(outcome), Status::Cancelled);
        });
        holder.release_wait(LONG).unwrap();
    });
}

/// Many at once, and no number is off by one in the end.
#[test]
fn numbers_add_up_under_contention() {
    both(|server, client| {
        let rounds = 25;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let client = &client;
                scope.spawn(move || {
                    let mine = lock(client, "storm");
                    for round in 0..rounds {
                        let impatient = (thread + round) % 3 == 0;
                        let outcome =
                            mine.acquire(if impatient { Wait::Once } else { Wait::For(LONG) });
                        if outcome.is_ok() {
                            mine.release().unwrap();
                        }
                    }
                });
            }
        });
        let stats = client.stats().unwrap();
        assert_eq!(stats.acquires + stats.locked, 4 * rounds);
        assert_eq!((stats.held, stats.waiting, stats.timeouts, stats.failed), (0, 0, 0, 0));
        assert!(stats.hand_overs <= stats.waits.count() && stats.waits.count() <= stats.acquires);
        assert!(stats.hand_overs > 0, "{stats:?}");
        assert_eq!(server.members("storm"), 0);
    });
}
