//! Everything at once, by chance: short timeouts, single attempts, cancels, locks dropped while held,
//! readers and writers, pooled connections that change hands, a server that stops for a moment.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use portalock::{Client, ClientOptions, Lock, LockOptions, Mode, Status, Wait};

use crate::dice::Dice;
use crate::support::{Server, wait_until};
use crate::{LONG, SOON, lock, ms};

const NAMES: [&str; 2] = ["jobs", "other"];
const THREADS: u64 = 6;

/// Who is inside: a writer counts as a great many readers.
const WRITER: i64 = 1_000;

struct Weather {
    inside: [AtomicI64; NAMES.len()],
    served: AtomicU64,
    over: AtomicBool,
}

impl Weather {
    fn enter(&self, name: usize, mode: Mode) {
        let weight = if mode == Mode::Exclusive { WRITER } else { 1 };
        let before = self.inside[name].fetch_add(weight, SeqCst);
        let alone = before == 0 || (mode == Mode::Shared && before < WRITER);
        assert!(alone, "{mode:?} entered where {before} were inside");
    }

    fn leave(&self, name: usize, mode: Mode) {
        let weight = if mode == Mode::Exclusive { WRITER } else { 1 };
        self.inside[name].fetch_sub(weight, SeqCst);
        self.served.fetch_add(1, SeqCst);
    }
}

/// `PORTALOCK_STORM_SECONDS` makes it last.
fn storm(pause_server: bool) {
    let seconds = std::env::var("PORTALOCK_STORM_SECONDS").ok().and_then(|text| text.parse().ok());
    let span = Duration::from_secs(seconds.unwrap_or(3));
    let server = Server::start();
    let mut dice = Dice::new();
    let weather = Weather {
        inside: Default::default(),
        served: AtomicU64::new(0),
        over: AtomicBool::new(false),
    };
    let clients: Vec<Client> = [1, 8]
        .into_iter()
        .map(|size| {
            let mut options = ClientOptions::new();
            options.pool_size(size).unwrap();
            Client::new(&server.url(), options).unwrap()
        })
        .collect();
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (weather, clients) = (&weather, &clients);
            let dice = dice.child(number);
            scope.spawn(move || take_part(weather, clients, dice));
        }
        let until = Instant::now() + span;
        while Instant::now() < until {
            std::thread::sleep(ms(dice.below(40) as u64));
            if pause_server {
                server.stop();
                std::thread::sleep(ms(dice.below(30) as u64));
                server.cont();
            }
        }
        weather.over.store(true, SeqCst);
    });
    println!("{} sections", weather.served.load(SeqCst));
    for name in NAMES {
        let left = || server.members(name) == 0;
        assert!(wait_until(SOON, left), "{name}: {:?}", server.clients());
        lock(&clients[0], name).try_acquire().unwrap();
    }
}

fn take_part(weather: &Weather, clients: &[Client], mut dice: Dice) {
    let mut held_by: Vec<Lock> = Vec::new();
    while !weather.over.load(SeqCst) {
        let name = dice.below(NAMES.len());
        let client = &clients[dice.below(clients.len())];
        // A lock of its own, or one that was used before.
        let lock = match held_by.pop() {
            Some(lock) if lock.name() == NAMES[name] && dice.below(2) == 0 => lock,
            _ => client.lock(NAMES[name], LockOptions::new()).unwrap(),
        };
        let mode = if dice.below(3) == 0 { Mode::Shared } else { Mode::Exclusive };
        match acquire(&lock, mode, &mut dice) {
            Ok(()) => {
                weather.enter(name, mode);
                assert!(lock.is_held());
                if dice.below(4) == 0 {
                    std::thread::sleep(Duration::from_micros(dice.below(2_000) as u64));
                }
                weather.leave(name, mode);
                match dice.below(4) {
                    0 => drop(lock),
                    1 => {
                        lock.release_wait(LONG).unwrap();
                        held_by.push(lock);
                    }
                    _ => {
                        lock.release().unwrap();
                        held_by.push(lock);
                    }
                }
            }
            Err(status) => {
                let known =
                    [Status::Timeout, Status::Locked, Status::Cancelled, Status::Unresponsive];
                assert!(known.contains(&status), "{status:?}");
                assert!(!lock.is_held());
                held_by.push(lock);
            }
        }
    }
}

fn acquire(lock: &Lock, mode: Mode, dice: &mut Dice) -> Result<(), Status> {
    let result = match dice.below(4) {
        0 => lock.acquire_mode(mode, Wait::Once),
        1 => lock.acquire_mode(mode, Wait::For(Duration::from_micros(dice.below(20_000) as u64))),
        2 => lock.acquire_mode(mode, Wait::For(LONG)),
        _ => std::thread::scope(|scope| {
            let patience = Duration::from_micros(dice.below(5_000) as u64);
            scope.spawn(move || {
                std::thread::sleep(patience);
                lock.cancel();
            });
            lock.acquire_mode(mode, Wait::Forever)
        }),
    };
    result.map_err(|error| error.status())
}

#[test]
fn nobody_meets_and_nobody_is_left_behind() {
    storm(false);
}

#[test]
fn not_even_if_the_server_stops_now_and_then() {
    storm(true);
}
