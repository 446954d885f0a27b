//! Acquires that the keep-alive thread carries on, and the events that tell of them.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use portalock::{
    Client, ClientOptions, Error, Event, EventKind, Lock, LockOptions, LossReason, MAX_EVENTS,
    Mode, Status, Wait,
};

use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::unusable::{serve, swallow};
use crate::{LONG, client, lone_lock, ms, status, wait};

/// Starts an acquire and gives what its callback is told.
fn start(lock: &Lock, mode: Mode, wait: Wait) -> Receiver<Status> {
    let (sender, outcomes) = channel();
    let told = Box::new(move |outcome: &portalock::Result<()>| {
        let _ = sender.send(outcome.as_ref().map_or_else(Error::status, |()| Status::Ok));
    });
    let begun = Instant::now();
    lock.start_acquire(Some(mode), wait, Some(told)).unwrap();
    assert!(begun.elapsed() < ms(200), "it waits: {:?}", begun.elapsed());
    outcomes
}

fn next(client: &Client) -> Event {
    client.next_event(Some(LONG)).unwrap().expect("no event comes")
}

fn no_event(client: &Client) -> bool {
    client.next_event(Some(ms(50))).unwrap().is_none()
}

fn locks(client: &Client, count: usize) -> Vec<Lock> {
    let lock = |number| {
        let lock = client.lock(&format!("shard-{number}"), LockOptions::new()).unwrap();
        lock.set_tag(number);
        lock
    };
    (0..count).map(lock).collect()
}

fn start_all(locks: &[Lock], wait: Wait) {
    for lock in locks {
        lock.start_acquire(None, wait, None).unwrap();
    }
}

#[test]
fn a_started_acquire_calls_back_once_it_is_granted() {
    let server = Server::start();
    let (first, second) = (lone_lock(&server.url(), "jobs"), lone_lock(&server.url(), "jobs"));
    assert_eq!(start(&first, Mode::Exclusive, Wait::Forever).recv_timeout(LONG), Ok(Status::Ok));
    assert!(first.is_held());
    let outcome = start(&second, Mode::Exclusive, Wait::Forever);
    assert!(outcome.recv_timeout(ms(100)).is_err());
    assert_eq!(status(second.acquire(wait(10))), Status::Active);
    first.release().unwrap();
    assert_eq!(outcome.recv_timeout(LONG), Ok(Status::Ok));
    assert_eq!(server.members("jobs"), 1);
    second.release().unwrap();
    second.acquire(wait(1000)).unwrap();
}

#[test]
fn a_started_acquire_ends_as_one_that_waits_does() {
    let server = Server::start();
    let held = lone_lock(&server.url(), "jobs");
    held.acquire(Wait::Default).unwrap();
    let lock = lone_lock(&server.url(), "jobs");
    let outcome = start(&lock, Mode::Exclusive, wait(100)).recv_timeout(LONG);
    assert_eq!(outcome, Ok(Status::Timeout));
    assert_eq!(start(&lock, Mode::Shared, Wait::Once).recv_timeout(LONG), Ok(Status::Locked));
    let outcome = start(&lock, Mode::Exclusive, Wait::Forever);
    std::thread::sleep(ms(30));
    lock.cancel();
    assert_eq!(outcome.recv_timeout(LONG), Ok(Status::Cancelled));
    assert!(wait_until(LONG, || server.members("jobs") == 1));
    let nowhere = lone_lock("unix:///nowhere/redis.sock", "jobs");
    let outcome = start(&nowhere, Mode::Exclusive, wait(100)).recv_timeout(LONG);
    assert_eq!(outcome, Ok(Status::Unreachable));
    let guarded = Server::with(&[("requirepass", "right")]);
    let wrong = lone_lock(&format!("{}?pass=wrong", guarded.url()), "jobs");
    assert_eq!(start(&wrong, Mode::Exclusive, Wait::Forever).recv_timeout(LONG), Ok(Status::Auth));
}

#[test]
fn a_cancel_ends_a_started_acquire_whatever_it_is_busy_with() {
    for url in [&serve(swallow), "redis://192.0.2.1", "redis://no.invalid", "unix:///nowhere"] {
        for pause in [0, 5, 100] {
            let lock = lone_lock(url, "jobs");
            let outcome = start(&lock, Mode::Exclusive, Wait::Forever);
            std::thread::sleep(ms(pause));
            let begun = Instant::now();
            lock.cancel();
            assert_eq!(outcome.recv_timeout(LONG), Ok(Status::Cancelled), "{url}");
            assert!(begun.elapsed() < ms(250), "{url}: {:?}", begun.elapsed());
        }
    }
}

#[test]
fn a_lock_that_is_closed_calls_back_no_more_and_leaves_nobody_behind() {
    let server = Server::start();
    let held = lone_lock(&server.url(), "jobs");
    held.acquire(Wait::Default).unwrap();
    for pause in [0, 1, 5, 30] {
        let lock = lone_lock(&server.url(), "jobs");
        let outcome = start(&lock, Mode::Exclusive, Wait::Forever);
        std::thread::sleep(ms(pause));
        drop(lock);
        // The callback is gone with what it would have told.
        let gone = wait_until(LONG, || {
            outcome.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected)
        });
        assert!(gone, "after {pause} ms");
    }
    assert!(wait_until(LONG, || server.members("jobs") == 1));
    held.release().unwrap();
    assert!(wait_until(LONG, || server.members("jobs") == 0));
}

#[test]
fn a_callback_may_start_the_next_acquire_and_close_its_lock() {
    let server = Server::start();
    let lock = std::sync::Arc::new(lone_lock(&server.url(), "jobs"));
    let (sender, done) = channel();
    fn again(lock: std::sync::Arc<Lock>, left: u32, done: std::sync::mpsc::Sender<Status>) {
        let own = lock.clone();
        let call = Box::new(move |outcome: &portalock::Result<()>| {
            assert!(outcome.is_ok());
            own.release().unwrap();
            match left {
                0 => {
                    own.close();
                    done.send(status(own.acquire(wait(10)))).unwrap();
                }
                _ => again(own.clone(), left - 1, done.clone()),
            }
        });
        lock.start_acquire(None, Wait::Forever, Some(call)).unwrap();
    }
    again(lock, 50, sender);
    assert_eq!(done.recv_timeout(LONG), Ok(Status::Invalid));
}

/// Whoever sees that the lock is held may release it and start the next acquire before the one that was
/// granted has been looked at.
#[test]
fn every_started_acquire_is_heard_of_although_the_next_has_begun() {
    const ROUNDS: usize = 2000;
    let server = Server::start();
    let lock = lone_lock(&server.url(), "jobs");
    let (sender, outcomes) = channel();
    for _ in 0..ROUNDS {
        let sender = sender.clone();
        let told = Box::new(move |outcome: &portalock::Result<()>| {
            sender.send(outcome.is_ok()).unwrap();
        });
        lock.start_acquire(None, Wait::Forever, Some(told)).unwrap();
        while lock.release().is_err() {
            std::hint::spin_loop();
        }
    }
    (0..ROUNDS).for_each(|_| assert_eq!(outcomes.recv_timeout(LONG), Ok(true)));
}

#[test]
fn without_callback_and_queue_nobody_would_hear() {
    let server = Server::start();
    let client = client(&server.url());
    let lock = client.lock("jobs", LockOptions::new()).unwrap();
    assert_eq!(status(lock.start_acquire(None, Wait::Forever, None)), Status::Invalid);
    client.event_descriptor().unwrap();
    lock.start_acquire(None, Wait::Forever, None).unwrap();
    assert!(matches!(next(&client).kind, EventKind::Acquired(Ok(()))));
}

#[test]
fn a_hundred_locks_are_kept_by_one_loop() {
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    ours.event_descriptor().unwrap();
    theirs.event_descriptor().unwrap();
    let (first, second) = (locks(&ours, 100), locks(&theirs, 100));
    start_all(&first, Wait::Forever);
    let granted = |client: &Client, count: usize| {
        let mut tags: Vec<_> = (0..count).map(|_| granted_tag(&next(client))).collect();
        tags.sort_unstable();
        assert_eq!(tags, (0..count).collect::<Vec<_>>());
    };
    granted(&ours, 100);
    start_all(&second, Wait::Forever);
    assert!(no_event(&theirs));
    drop(first);
    granted(&theirs, 100);
    assert!(no_event(&theirs) && no_event(&ours));
}

fn granted_tag(event: &Event) -> usize {
    assert!(matches!(event.kind, EventKind::Acquired(Ok(()))), "{event:?}");
    assert_eq!(event.name, format!("shard-{}", event.tag));
    event.tag
}

#[test]
fn a_loss_is_an_event_beside_the_callback() {
    let server = Server::start();
    let client = client(&server.url());
    client.event_descriptor().unwrap();
    let lock = client.lock("jobs", LockOptions::new()).unwrap();
    let (sender, losses) = channel();
    lock.on_lost(Some(Box::new(move |loss| sender.send(loss.reason).unwrap())));
    lock.acquire(Wait::Default).unwrap();
    assert!(server.kill_client(&lock.client_name().unwrap()));
    let EventKind::Lost(loss) = next(&client).kind else { panic!() };
    assert_eq!(loss.reason, LossReason::Disconnected);
    assert_eq!(losses.recv_timeout(LONG), Ok(LossReason::Disconnected));
    assert!(no_event(&client));
    // Also without its being released first.
    lock.start_acquire(None, Wait::Default, None).unwrap();
    assert!(matches!(next(&client).kind, EventKind::Acquired(Ok(()))));
}

#[test]
fn trouble_is_told_once_and_the_acquire_goes_on() {
    let mut server = Server::start();
    let client = client(&server.url());
    client.event_descriptor().unwrap();
    server.kill();
    let lock = client.lock("jobs", LockOptions::new()).unwrap();
    lock.start_acquire(None, Wait::Forever, None).unwrap();
    let EventKind::Trouble(error) = next(&client).kind else { panic!() };
    assert_eq!(error.status(), Status::Refused);
    assert!(no_event(&client));
    server.restart();
    // While it starts, it may have other troubles, each of them once.
    let mut before = Status::Refused;
    while let EventKind::Trouble(error) = next(&client).kind {
        assert_ne!(error.status(), before);
        before = error.status();
    }
    assert!(lock.is_held() && no_event(&client));
}

#[test]
fn a_server_that_answers_with_errors_is_trouble_too() {
    let server = Server::start();
    let mut admin = server.connection();
    let mut set = |most: u32| {
        let most = redis::cmd("CONFIG").arg("SET").arg("maxclients").arg(most).to_owned();
        let () = most.query(&mut admin).unwrap();
    };
    set(1);
    let client = client(&server.url());
    client.event_descriptor().unwrap();
    let lock = client.lock("jobs", LockOptions::new()).unwrap();
    lock.start_acquire(None, Wait::Forever, None).unwrap();
    let EventKind::Trouble(error) = next(&client).kind else { panic!() };
    assert_eq!(error.status(), Status::Server);
    assert!(error.message().contains("no room for another client"), "{error}");
    set(100);
    assert!(matches!(next(&client).kind, EventKind::Acquired(Ok(()))));
}

#[test]
fn whom_an_acquire_has_ended_is_told() {
    let server = Server::start();
    let mut stopped = Worker::spawn(&server.url(), "jobs");
    stopped.expect("x", "got x");
    let client = client(&server.url());
    client.event_descriptor().unwrap();
    let mut options = LockOptions::new();
    options.unavailable_timeout(ms(300)).unwrap();
    let lock = client.lock("jobs", options).unwrap();
    let holder = client.holders("jobs", ms(1000)).unwrap().remove(0).id;
    stopped.stop();
    lock.acquire(Wait::Forever).unwrap();
    let EventKind::Reaped(whom) = next(&client).kind else { panic!() };
    assert_eq!(whom, Some(holder));
    assert!(no_event(&client));
}

#[test]
fn what_nobody_fetches_is_counted() {
    let server = Server::start();
    let client = client(&server.url());
    client.event_descriptor().unwrap();
    let lock = client.lock("jobs", LockOptions::new()).unwrap();
    for _ in 0..MAX_EVENTS + 10 {
        lock.start_acquire(None, Wait::Default, None).unwrap();
        assert!(wait_until(LONG, || lock.is_held()));
        lock.release().unwrap();
    }
    let mut events = 0;
    let missed = loop {
        match next(&client).kind {
            EventKind::Acquired(Ok(())) => events += 1,
            EventKind::Overflow(missed) => break missed,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((events, missed), (MAX_EVENTS, 10));
    assert!(no_event(&client));
}

#[test]
fn a_lock_that_is_closed_has_no_events() {
    let server = Server::start();
    let client = client(&server.url());
    client.event_descriptor().unwrap();
    let kept = locks(&client, 2);
    start_all(&kept, Wait::Forever);
    assert!(wait_until(LONG, || kept.iter().all(Lock::is_held)));
    // Whose event may be on its way just now.
    let [kept, closed] = kept.try_into().unwrap();
    drop(closed);
    assert_eq!(granted_tag(&next(&client)), 0);
    assert!(no_event(&client));
    drop(kept);
}

#[test]
fn whoever_waits_for_events_is_told_that_there_will_be_none() {
    let client = Client::new("unix:///nowhere", ClientOptions::new()).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.next_event(None).map(drop));
        std::thread::sleep(Duration::from_millis(50));
        client.close_events();
        assert_eq!(status(waiting.join().unwrap()), Status::Invalid);
    });
}
