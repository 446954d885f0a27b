//! What it costs the server, counted by the server itself.

use std::collections::BTreeMap;

use portalock::{Lock, Wait};

use crate::support::{Server, wait_until};
use crate::{SOON, lone_lock, ms};

const NAME: &str = "counted";

/// The commands that `work` causes, those of the test's own connections left out.
fn caused(server: &Server, work: impl FnOnce()) -> BTreeMap<String, u64> {
    let before = server.command_counts();
    work();
    let ours = |name: &str| !["info", "hello", "client|setinfo", "auth", "select"].contains(&name);
    let more = |(name, count): (String, u64)| {
        let more = count - before.get(&name).copied().unwrap_or(0);
        (more > 0 && ours(&name)).then_some((name, more))
    };
    server.command_counts().into_iter().filter_map(more).collect()
}

fn pair(lock: &Lock) {
    lock.acquire(Wait::Default).unwrap();
    lock.release_wait(SOON).unwrap();
}

#[test]
fn an_uncontended_pair_is_six_commands_and_no_more() {
    let server = Server::start();
    let lock = lone_lock(&server.url(), NAME);
    pair(&lock);
    std::thread::sleep(ms(50));
    let caused = caused(&server, || {
        for _ in 0..10 {
            pair(&lock);
        }
        std::thread::sleep(ms(50));
    });
    let expected = [
        ("client|setname", 20),
        ("publish", 10),
        ("pubsub|numsub", 10),
        ("subscribe", 10),
        ("unsubscribe", 10),
    ];
    let expected: BTreeMap<_, _> = expected.map(|(name, n)| (name.to_owned(), n)).into();
    assert_eq!(caused, expected);
}

/// A hand-over is the event's flight: no list of clients, no script, nobody ended.
#[test]
fn a_queue_of_our_own_needs_no_list_and_no_script() {
    let server = Server::start();
    let locks: Vec<_> = (0..5).map(|_| lone_lock(&server.url(), NAME)).collect();
    let caused = caused(&server, || {
        locks[0].acquire(Wait::Default).unwrap();
        std::thread::scope(|scope| {
            for lock in &locks[1..] {
                scope.spawn(|| {
                    lock.acquire(Wait::Default).unwrap();
                    std::thread::sleep(ms(20));
                    lock.release().unwrap();
                });
            }
            std::thread::sleep(ms(100));
            locks[0].release().unwrap();
        });
    });
    for name in ["client|list", "client|kill", "eval", "evalsha"] {
        assert_eq!(caused.get(name), None, "{caused:?}");
    }
    // Each joins, pings once and leaves; those that wait answer those that come.
    assert_eq!(caused["subscribe"], 5, "{caused:?}");
    assert!(caused["publish"] <= 4 + 10 + 5 + 10, "{caused:?}");
}

/// The first in line counts fifty times a second and pings once; each of the others says one word to that.
#[test]
fn a_waiter_at_rest_says_one_word_a_second() {
    let server = Server::start();
    let locks: Vec<_> = (0..8).map(|_| lone_lock(&server.url(), NAME)).collect();
    locks[0].acquire(Wait::Default).unwrap();
    std::thread::scope(|scope| {
        for (number, lock) in locks.iter().enumerate().skip(1) {
            scope.spawn(|| lock.acquire(Wait::Forever).unwrap_err());
            assert!(wait_until(SOON, || server.members(NAME) == number as u64 + 1));
            std::thread::sleep(ms(20));
        }
        // Until they have come to rest.
        std::thread::sleep(ms(4_000));
        let caused = caused(&server, || std::thread::sleep(ms(5_000)));
        println!("{caused:?}");
        // 50 a second by the first; of the six others, one and a half a second together at most.
        assert!(caused["pubsub|numsub"] <= 250 + 30, "{caused:?}");
        assert!(caused["publish"] <= 6 * 8 + 10, "{caused:?}");
        // The holder last: whoever is next would hold before it is closed itself.
        locks.iter().rev().for_each(Lock::close);
    });
}

#[test]
fn the_first_in_line_counts_fifty_times_a_second_and_pings_once() {
    let server = Server::start();
    let (holder, waiter) = (lone_lock(&server.url(), NAME), lone_lock(&server.url(), NAME));
    holder.acquire(Wait::Default).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| waiter.acquire(Wait::Default).unwrap());
        assert!(wait_until(SOON, || server.members(NAME) == 2));
        std::thread::sleep(ms(200));
        let caused = caused(&server, || std::thread::sleep(ms(3_000)));
        let counts = caused["pubsub|numsub"];
        assert!((50..=165).contains(&counts), "{caused:?}");
        assert!(caused["publish"] <= 8, "{caused:?}");
        holder.release().unwrap();
    });
}
