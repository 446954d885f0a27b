//! Old programs with a key that expires, new ones with both: as `docs/migrating.md` has it, nobody meets anybody.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use redis::Connection;

use crate::support::Server;
use crate::{LONG, lone_lock, ms, wait};

const KEY: &str = "lock:jobs";
const SECTIONS: u32 = 12;
/// What the old programs delete their key by.
const DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// The old lock, as programs without a library have it.
fn take_key(connection: &mut Connection, owner: &str) {
    let begun = Instant::now();
    loop {
        let words = [KEY, owner, "NX", "PX", "10000"];
        let answer = redis::cmd("SET").arg(&words[..]).query::<Option<String>>(connection);
        if answer.unwrap().is_some() {
            return;
        }
        assert!(begun.elapsed() < LONG, "{owner} does not get the key");
        std::thread::sleep(ms(3));
    }
}

fn give_key(connection: &mut Connection, owner: &str) {
    let mut eval = redis::cmd("EVAL");
    assert_eq!(eval.arg(DELETE).arg(1).arg(KEY).arg(owner).query(connection), Ok(1));
}

#[derive(Default)]
struct Room {
    taken: AtomicBool,
    visits: AtomicU32,
}

impl Room {
    fn visit(&self) {
        assert!(!self.taken.swap(true, Ordering::SeqCst), "two are inside");
        std::thread::sleep(ms(2));
        self.taken.store(false, Ordering::SeqCst);
        self.visits.fetch_add(1, Ordering::SeqCst);
    }
}

fn old_program(server: &Server, room: &Room, owner: &str) {
    let mut connection = server.connection();
    for _ in 0..SECTIONS {
        take_key(&mut connection, owner);
        room.visit();
        give_key(&mut connection, owner);
        std::thread::sleep(ms(2));
    }
}

fn program_of_the_rollout(server: &Server, room: &Room, owner: &str) {
    let mut connection = server.connection();
    let lock = lone_lock(&server.url(), "jobs");
    for _ in 0..SECTIONS {
        lock.acquire(wait(20_000)).unwrap();
        take_key(&mut connection, owner);
        room.visit();
        give_key(&mut connection, owner);
        lock.release().unwrap();
    }
}

fn new_program(server: &Server, room: &Room) {
    let lock = lone_lock(&server.url(), "jobs");
    for _ in 0..SECTIONS {
        lock.acquire(wait(20_000)).unwrap();
        room.visit();
        lock.release().unwrap();
    }
}

#[test]
fn old_programs_and_those_of_the_rollout_exclude_each_other() {
    let (server, room) = (Server::start(), Room::default());
    std::thread::scope(|scope| {
        for owner in ["old 1", "old 2"] {
            scope.spawn(|| old_program(&server, &room, owner));
        }
        for owner in ["both 1", "both 2"] {
            scope.spawn(|| program_of_the_rollout(&server, &room, owner));
        }
    });
    assert_eq!(room.visits.into_inner(), 4 * SECTIONS);
}

#[test]
fn those_of_the_rollout_and_new_programs_exclude_each_other() {
    let (server, room) = (Server::start(), Room::default());
    std::thread::scope(|scope| {
        for owner in ["both 1", "both 2"] {
            scope.spawn(|| program_of_the_rollout(&server, &room, owner));
        }
        scope.spawn(|| new_program(&server, &room));
    });
    assert_eq!(room.visits.into_inner(), 3 * SECTIONS);
}

/// Which is why there is a step in between.
#[test]
fn old_and_new_programs_do_not_exclude_each_other() {
    let server = Server::start();
    take_key(&mut server.connection(), "old");
    lone_lock(&server.url(), KEY).acquire(wait(5_000)).unwrap();
}
