//! All locks of a client on one connection.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use portalock::{Client, ClientOptions, Lock, LockOptions, Mode, Status, Wait};

use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, SOON, client, failure, lock, lone_lock, ms, wait};

fn shared(url: &str) -> Client {
    let mut options = ClientOptions::new();
    options.shared_connection(true);
    Client::new(url, options).unwrap()
}

/// The names of the connections that many share.
fn links(server: &Server) -> Vec<String> {
    let clients = server.clients();
    let names =
        clients.iter().filter_map(|line| line.split(' ').find_map(|f| f.strip_prefix("name=")));
    names.filter(|name| name.starts_with("portalock-")).map(str::to_owned).collect()
}

/// Begins an acquire and waits until it stands in line, in this client or on the channel.
fn begin<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    lock: &'scope Lock,
    mode: Mode,
    order: &'scope Mutex<Vec<usize>>,
    number: usize,
) {
    scope.spawn(move || {
        lock.acquire_mode(mode, Wait::For(LONG)).unwrap();
        order.lock().unwrap().push(number);
        // Whoever joins in the place of this one is known everywhere before it has ended.
        std::thread::sleep(ms(30));
        lock.release().unwrap();
    });
    std::thread::sleep(ms(60));
}

#[test]
fn many_locks_take_one_connection() {
    let server = Server::start();
    let client = shared(&server.url());
    let locks: Vec<Lock> = (0..200).map(|n| lock(&client, &format!("job-{n}"))).collect();
    for lock in &locks {
        lock.acquire(wait(5_000)).unwrap();
    }
    assert!(locks.iter().all(Lock::is_held));
    let [link] = links(&server).try_into().unwrap();
    assert!(locks.iter().all(|lock| lock.client_name().as_deref() == Some(&link)));
    for n in [0, 199] {
        let name = format!("job-{n}");
        assert_eq!(failure(lone_lock(&server.url(), &name).try_acquire()).status(), Status::Locked);
        let [holder] = client.holders(&name, SOON).unwrap().try_into().unwrap();
        assert_eq!(Some(holder.id), locks[n].holder_id());
        locks[n].verify(SOON).unwrap();
    }
    assert!(locks.iter().all(|lock| lock.verified_age().unwrap() < SOON));
    for lock in &locks {
        lock.release_wait(LONG).unwrap();
    }
    assert_eq!(server.members("job-0"), 0);
    assert_eq!(links(&server), [link], "kept for later");
    drop((locks, client));
    assert!(wait_until(SOON, || links(&server).is_empty()));
}

#[test]
fn those_of_one_name_are_served_in_the_order_of_their_coming() {
    let server = Server::start();
    let client = shared(&server.url());
    let locks: Vec<_> = (0..6).map(|_| lock(&client, "one")).collect();
    locks[0].acquire(wait(1_000)).unwrap();
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (number, lock) in locks.iter().enumerate().skip(1) {
            begin(scope, lock, Mode::Exclusive, &order, number);
        }
        assert_eq!(server.members("one"), 1);
        locks[0].release().unwrap();
    });
    assert_eq!(order.into_inner().unwrap(), [1, 2, 3, 4, 5]);
}

/// The line in the client and the line on the channel are one.
#[test]
fn whoever_came_first_goes_first_wherever_it_waits() {
    let server = Server::start();
    let client = shared(&server.url());
    let here: Vec<_> = (0..4).map(|_| lock(&client, "mixed")).collect();
    let there: Vec<_> = (0..2).map(|_| lone_lock(&server.url(), "mixed")).collect();
    here[0].acquire(wait(1_000)).unwrap();
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let line = [&here[1], &there[0], &here[2], &here[3], &there[1]];
        for (number, lock) in line.into_iter().enumerate() {
            begin(scope, lock, Mode::Exclusive, &order, number);
        }
        here[0].release().unwrap();
    });
    assert_eq!(order.into_inner().unwrap(), [0, 1, 2, 3, 4]);
}

#[test]
fn readers_of_one_client_hold_together() {
    let server = Server::start();
    let client = shared(&server.url());
    let readers: Vec<_> = (0..3).map(|_| lock(&client, "read")).collect();
    for reader in &readers {
        reader.acquire_mode(Mode::Shared, wait(1_000)).unwrap();
    }
    assert_eq!(readers[1].holder_id(), readers[0].holder_id(), "they hold by one membership");
    let writer = lone_lock(&server.url(), "read");
    // The one whose membership it is leaves, and the others hold on.
    readers[0].release_wait(LONG).unwrap();
    assert_eq!(failure(writer.try_acquire()).status(), Status::Locked);
    readers[1].verify(SOON).unwrap();
    readers[1].release_wait(LONG).unwrap();
    assert_eq!(failure(writer.try_acquire()).status(), Status::Locked);
    readers[2].release_wait(LONG).unwrap();
    writer.try_acquire().unwrap();
}

#[test]
fn a_writer_that_waits_anywhere_keeps_later_readers_out() {
    let server = Server::start();
    for local in [true, false] {
        let client = shared(&server.url());
        let locks: Vec<_> = (0..3).map(|_| lock(&client, "fair")).collect();
        let elsewhere = lone_lock(&server.url(), "fair");
        let writer = if local { &locks[2] } else { &elsewhere };
        locks[0].acquire_mode(Mode::Shared, wait(1_000)).unwrap();
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            begin(scope, writer, Mode::Exclusive, &order, 0);
            assert_eq!(failure(locks[1].try_acquire_shared()).status(), Status::Locked);
            begin(scope, &locks[1], Mode::Shared, &order, 1);
            locks[0].release().unwrap();
        });
        assert_eq!(order.into_inner().unwrap(), [0, 1], "local: {local}");
    }
}

#[test]
fn a_writer_elsewhere_that_gives_up_lets_the_readers_behind_it_in() {
    let server = Server::start();
    let client = shared(&server.url());
    let locks: Vec<_> = (0..2).map(|_| lock(&client, "given-up")).collect();
    let elsewhere = lone_lock(&server.url(), "given-up");
    locks[0].acquire_mode(Mode::Shared, wait(1_000)).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| elsewhere.acquire(wait(400)));
        assert!(wait_until(SOON, || server.members("given-up") == 2));
        locks[1].acquire_mode(Mode::Shared, Wait::For(LONG)).unwrap();
        assert_eq!(failure(writer.join().unwrap()).status(), Status::Timeout);
    });
    assert!(locks.iter().all(Lock::is_held));
}

#[test]
fn each_grant_has_a_token_of_its_own() {
    let server = Server::start();
    let client = shared(&server.url());
    let mut options = LockOptions::new();
    options.fencing(true);
    let locks: Vec<_> = (0..4).map(|_| client.lock("fenced", options.clone()).unwrap()).collect();
    let tokens = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for lock in &locks {
            scope.spawn(|| {
                for _ in 0..25 {
                    lock.acquire(Wait::For(LONG)).unwrap();
                    tokens.lock().unwrap().push(lock.fencing_token().unwrap());
                    lock.release().unwrap();
                }
            });
        }
    });
    let tokens = tokens.into_inner().unwrap();
    assert_eq!(tokens.len(), 100);
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[test]
fn whoever_stands_in_line_may_give_up() {
    let server = Server::start();
    let client = shared(&server.url());
    let locks: Vec<_> = (0..3).map(|_| lock(&client, "line")).collect();
    locks[0].acquire(wait(1_000)).unwrap();
    let begun = Instant::now();
    assert_eq!(failure(locks[1].acquire(wait(150))).status(), Status::Timeout);
    assert!((ms(150)..ms(2_000)).contains(&begun.elapsed()));
    assert_eq!(failure(locks[1].try_acquire()).status(), Status::Locked);
    std::thread::scope(|scope| {
        let cancelled = scope.spawn(|| locks[1].acquire(Wait::Forever));
        std::thread::sleep(ms(50));
        let next = scope.spawn(|| locks[2].acquire(Wait::For(LONG)));
        std::thread::sleep(ms(50));
        locks[1].cancel();
        assert_eq!(failure(cancelled.join().unwrap()).status(), Status::Cancelled);
        locks[0].release().unwrap();
        next.join().unwrap().unwrap();
    });
    assert!(locks[2].is_held());
}

#[test]
fn the_end_of_the_connection_is_the_loss_of_all_and_those_in_line_try_again() {
    let server = Server::start();
    let client = shared(&server.url());
    let held: Vec<_> = (0..5).map(|n| lock(&client, &format!("lost-{n}"))).collect();
    for lock in &held {
        lock.acquire(wait(1_000)).unwrap();
    }
    let reader = [lock(&client, "lost-r"), lock(&client, "lost-r")];
    for reader in &reader {
        reader.acquire_mode(Mode::Shared, wait(1_000)).unwrap();
    }
    let next = lock(&client, "lost-0");
    std::thread::scope(|scope| {
        let next = scope.spawn(|| next.acquire(Wait::For(LONG)));
        std::thread::sleep(ms(60));
        let [link] = links(&server).try_into().unwrap();
        assert!(server.kill_client(&link));
        next.join().unwrap().unwrap();
    });
    assert!(wait_until(SOON, || !held.iter().chain(&reader).any(Lock::is_held)));
    for lock in held.iter().chain(&reader) {
        assert_eq!(failure(lock.release()).status(), Status::Lost);
    }
    assert!(next.is_held());
    held[1].acquire(wait(1_000)).unwrap();
    assert_eq!(links(&server).len(), 1);
}

#[test]
fn health_is_checked_once_for_all() {
    let server = Server::start();
    let client = shared(&server.url());
    let mut options = LockOptions::new();
    options.health_check_interval(ms(200)).unwrap().unavailable_timeout(ms(500)).unwrap();
    let locks: Vec<_> =
        (0..50).map(|n| client.lock(&format!("h-{n}"), options.clone()).unwrap()).collect();
    for lock in &locks {
        lock.acquire(wait(1_000)).unwrap();
    }
    let published = || server.command_counts().get("publish").copied().unwrap_or(0);
    let before = published();
    std::thread::sleep(ms(1_500));
    let checks = published() - before;
    assert!((2..=9).contains(&checks), "{checks} checks");
    assert!(locks.iter().all(|lock| lock.is_held() && lock.verified_age().unwrap() < SOON));
    server.stop();
    assert!(wait_until(LONG, || !locks.iter().any(Lock::is_held)), "nobody noticed");
    server.cont();
}

/// Its name tells nothing of its locks: it is known by the mark it follows, and by what it says.
#[test]
fn a_silent_link_is_ended_and_no_other() {
    let server = Server::start();
    let url = server.url();
    let mut silent = Worker::spawn_with(&url, "silent", &["shared=1"]);
    let mut innocent = Worker::spawn_with(&url, "elsewhere", &["shared=1"]);
    let mut awake = Worker::spawn_with(&url, "silent", &["shared=1"]);
    silent.expect("s", "got s");
    awake.expect("s", "got s");
    innocent.expect("x", "got x");
    silent.stop();
    innocent.stop();
    let links_before = links(&server).len();
    for lock in [lone_lock(&url, "silent"), lock(&shared(&url), "silent")] {
        assert_eq!(failure(lock.acquire(wait(3_500))).status(), Status::Timeout);
    }
    assert!(wait_until(SOON, || links(&server).len() < links_before + 1));
    awake.expect("r", "released");
    lone_lock(&url, "silent").acquire(wait(3_000)).unwrap();
    innocent.cont();
    innocent.expect("r", "released");
    silent.cont();
    silent.await_line("lost", LONG);
    silent.expect("r", "Lost");
}

#[test]
fn a_link_that_holds_and_is_stopped_is_passed_over() {
    let server = Server::start();
    let mut holder = Worker::spawn_with(&server.url(), "stopped", &["shared=1"]);
    holder.expect("x", "got x");
    holder.stop();
    let client = client(&server.url());
    assert_eq!(failure(client.holders("stopped", ms(400))).status(), Status::Unclear);
    let lock = lock(&client, "stopped");
    let begun = Instant::now();
    lock.acquire(Wait::For(LONG)).unwrap();
    assert!((ms(900)..ms(6_000)).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    holder.cont();
    holder.await_line("lost", LONG);
    holder.expect("x 100", "Timeout");
    lock.release().unwrap();
    holder.expect("x", "got x");
    holder.stop();
    assert_eq!(client.reap_silent("stopped", ms(600)).unwrap().killed, 1);
    holder.cont();
}

/// Threads of two clients that share and of one that does not, at two locks, while connections end.
#[test]
fn nobody_meets_anybody_inside() {
    let server = Server::start();
    let url = server.url();
    let clients = [shared(&url), shared(&url), client(&url)];
    let inside = [AtomicI64::new(0), AtomicI64::new(0)];
    let served = AtomicU64::new(0);
    let until = Instant::now() + Duration::from_secs(4);
    std::thread::scope(|scope| {
        for n in 0..15 {
            let lock = lock(&clients[n % 3], ["busy-0", "busy-1"][n % 2]);
            let (inside, served) = (&inside[n % 2], &served);
            scope.spawn(move || {
                while Instant::now() < until {
                    let reads = n % 5 == 0;
                    let mode = if reads { Mode::Shared } else { Mode::Exclusive };
                    lock.acquire_mode(mode, Wait::For(LONG)).unwrap();
                    let (mine, fits) = if reads { (1, 0..=90) } else { (100, 0..=0) };
                    let others = inside.fetch_add(mine, SeqCst);
                    assert!(fits.contains(&others), "{others} inside");
                    std::thread::yield_now();
                    inside.fetch_sub(mine, SeqCst);
                    lock.release().unwrap();
                    served.fetch_add(1, SeqCst);
                }
            });
        }
    });
    assert!(served.load(SeqCst) > 100);
    assert_eq!(server.members("busy-0") + server.members("busy-1"), 0);
}
