//! Servers that do not speak RESP3: two connections for each lock, and everything else as ever.

use std::time::Instant;

use portalock::{Client, ClientOptions, LockOptions, LossReason, Mode, State, Status, Wait};

use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, SOON, client, failure, lock, lone_lock, ms, status, wait};

/// As Redis 5 and older are, of which this may be one: they know no HELLO.
fn old_server() -> Server {
    old_server_with(&[])
}

fn old_server_with(settings: &[(&str, &str)]) -> Server {
    let (known,): (Option<redis::Value>,) = Server::start().run(&["COMMAND", "INFO", "HELLO"]);
    let hidden = known.map(|_| ("rename-command", "HELLO hidden"));
    Server::with(&hidden.into_iter().chain(settings.iter().copied()).collect::<Vec<_>>())
}

/// How many connections there are, by whether they follow channels; the asker's own left out.
fn connections(server: &Server) -> (usize, usize) {
    let clients = server.clients();
    let (following, others): (Vec<_>, Vec<_>) =
        clients.iter().partition(|line| !line.contains(" sub=0 "));
    (following.len(), others.len() - 1)
}

#[test]
fn a_lock_takes_two_connections_and_is_as_good_as_any() {
    let server = old_server();
    let client = client(&server.tcp_url());
    let lock = lock(&client, "jobs");
    for _ in 0..20 {
        lock.acquire(wait(5_000)).unwrap();
        lock.verify(LONG).unwrap();
        assert_eq!(server.members("jobs"), 1);
        assert_eq!(connections(&server), (1, 1));
        lock.release_wait(LONG).unwrap();
    }
    assert_eq!(server.members("jobs"), 0);
    assert_eq!(client.stats().unwrap().connections, 2, "the first told nothing and was none");
    assert!(client.ping(LONG).unwrap() < LONG);
}

/// The first attempt finds it out, and goes on: also where there is to be but one.
#[test]
fn one_attempt_is_enough_to_find_it_out() {
    let server = old_server();
    let first = lone_lock(&server.url(), "jobs");
    first.try_acquire().unwrap();
    assert_eq!(status(lone_lock(&server.url(), "jobs").try_acquire()), Status::Locked);
    let found = client(&server.url()).holders("jobs", LONG).unwrap();
    assert_eq!((found.len(), found[0].state), (1, State::Held));
}

#[test]
fn a_url_may_ask_for_it() {
    let server = Server::start();
    for protocol in ["2", "resp2"] {
        let old = lone_lock(&format!("{}?protocol={protocol}", server.tcp_url()), "jobs");
        old.acquire(wait(5_000)).unwrap();
        // Those of the round before may be on their way out.
        assert!(wait_until(LONG, || connections(&server) == (1, 1)), "{protocol}");
        assert_eq!(status(lone_lock(&server.url(), "jobs").try_acquire()), Status::Locked);
        old.release_wait(LONG).unwrap();
    }
}

#[test]
fn passwords_and_databases_are_sent_by_both() {
    let server = old_server_with(&[("requirepass", "secret")]);
    let at = |login: &str| format!("redis://{login}127.0.0.1:{}/3", server.port());
    for login in [":secret@", "default:secret@"] {
        let lock = lone_lock(&at(login), "jobs");
        lock.acquire(wait(5_000)).unwrap();
        lock.release_wait(LONG).unwrap();
    }
    for login in [":hunter2@", "nobody:hunter2@", ""] {
        let error = failure(lone_lock(&at(login), "jobs").acquire(wait(2_000)));
        assert_eq!(error.status(), Status::Auth, "{login}: {error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn those_who_wait_are_served_in_order_beside_others_who_speak_resp3() {
    let server = Server::start();
    let urls = [format!("{}?protocol=resp2", server.tcp_url()), server.tcp_url()];
    let holder = lone_lock(&urls[0], "jobs");
    holder.acquire(wait(5_000)).unwrap();
    let order = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (url, order) = (&urls[number % 2], &order);
            scope.spawn(move || {
                let lock = lone_lock(url, "jobs");
                lock.acquire(Wait::For(LONG)).unwrap();
                order.lock().unwrap().push(number);
                lock.release().unwrap();
            });
            assert!(wait_until(LONG, || server.members("jobs") == number as u64 + 2));
            std::thread::sleep(ms(30));
        }
        holder.release().unwrap();
    });
    assert_eq!(order.into_inner().unwrap(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn readers_tokens_timeouts_and_cancels() {
    let server = old_server();
    let client = client(&server.url());
    let [one, other] = [0; 2].map(|_| lock(&client, "shared"));
    one.acquire_mode(Mode::Shared, wait(5_000)).unwrap();
    other.acquire_mode(Mode::Shared, wait(5_000)).unwrap();
    let writer = lock(&client, "shared");
    let begun = Instant::now();
    assert_eq!(status(writer.acquire(wait(300))), Status::Timeout);
    assert!(begun.elapsed() >= ms(300) && begun.elapsed() < LONG);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| status(writer.acquire(Wait::Forever)));
        assert!(wait_until(LONG, || server.members("shared") == 3));
        writer.cancel();
        assert_eq!(waiting.join().unwrap(), Status::Cancelled);
    });
    let mut options = LockOptions::new();
    options.fencing(true);
    let fenced = client.lock("fenced", options).unwrap();
    let tokens: Vec<u64> = (0..3)
        .map(|_| {
            fenced.acquire(wait(5_000)).unwrap();
            let token = fenced.fencing_token().unwrap();
            fenced.release_wait(LONG).unwrap();
            token
        })
        .collect();
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

/// Whichever of the two goes, the lock is lost, and the other goes with it.
#[test]
fn the_end_of_either_connection_is_the_end_of_the_lock() {
    let server = old_server();
    for follows in [true, false] {
        let lock = lone_lock(&server.url(), "jobs");
        let (sender, losses) = std::sync::mpsc::channel();
        lock.on_lost(Some(Box::new(move |loss| drop(sender.send(loss.clone())))));
        lock.acquire(wait(5_000)).unwrap();
        let is_it =
            |line: &&String| !line.contains("cmd=client") && line.contains(" sub=0 ") != follows;
        let clients = server.clients();
        let line = clients.iter().find(is_it).unwrap();
        let id = line.split(' ').find_map(|field| field.strip_prefix("id=")).unwrap();
        assert_eq!(server.run::<u64>(&["CLIENT", "KILL", "ID", id]), 1);
        let loss = losses.recv_timeout(LONG).unwrap();
        assert_eq!(loss.reason, LossReason::Disconnected, "{loss:?}");
        assert_eq!(status(lock.release()), Status::Lost);
        assert!(wait_until(LONG, || connections(&server) == (0, 0)), "{:?}", server.clients());
        assert_eq!(server.members("jobs"), 0);
    }
}

#[test]
fn processes_exclude_each_other_and_a_stopped_one_is_passed_over() {
    let server = old_server();
    let mut options = LockOptions::new();
    options.unavailable_timeout(ms(1_500)).unwrap();
    let ours = client(&server.url()).lock("jobs", options).unwrap();
    let mut theirs = Worker::spawn(&server.url(), "jobs");
    theirs.expect("x 5000", "got x");
    assert_eq!(status(ours.try_acquire()), Status::Locked);
    theirs.stop();
    ours.acquire(Wait::For(LONG)).unwrap();
    assert_eq!(server.members("jobs"), 1, "the stopped one was ended");
    theirs.cont();
}

#[test]
fn a_shared_connection_takes_two_as_well() {
    let server = old_server();
    let mut options = ClientOptions::new();
    options.shared_connection(true);
    let client = Client::new(&server.url(), options).unwrap();
    let locks: Vec<_> = (0..20).map(|n| lock(&client, &format!("job-{n}"))).collect();
    for lock in &locks {
        lock.acquire(wait(5_000)).unwrap();
    }
    assert_eq!(connections(&server), (1, 1));
    assert!(locks.iter().all(|lock| lock.is_held()));
    for lock in &locks {
        lock.release().unwrap();
    }
    assert!(wait_until(SOON, || server.members("job-3") == 0));
    locks[3].acquire(wait(5_000)).unwrap();
}

/// A great many who come and go at once, by both ways: never two inside.
#[test]
fn nobody_meets_anybody_inside() {
    let server = Server::start();
    let urls = [format!("{}?protocol=resp2", server.tcp_url()), server.tcp_url()];
    let inside = std::sync::atomic::AtomicU32::new(0);
    let until = Instant::now() + ms(3_000);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (url, inside) = (&urls[number % 2], &inside);
            scope.spawn(move || {
                let lock = lone_lock(url, "jobs");
                while Instant::now() < until {
                    lock.acquire(Wait::For(LONG)).unwrap();
                    assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    lock.release().unwrap();
                }
            });
        }
    });
}
