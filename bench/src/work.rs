//! What a measured process does, for every lock alike: pairs in a closed loop, a cold acquire, or contention.
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use portalock::{Client, ClientOptions, Lock, LockOptions, Wait};

const LEASE: Duration = Duration::from_secs(10);
const WARM_UP: usize = 20;

/// A lock on a connection that is there already.
pub trait Peer {
    fn acquire(&mut self);
    fn release(&mut self);
}

impl Peer for Lock {
    fn acquire(&mut self) {
        Lock::acquire(self, Wait::Forever).unwrap();
    }
    fn release(&mut self) {
        Lock::release(self).unwrap();
    }
}

/// The least that a lock with a key can do: SET NX PX, and a script that deletes what it set.
struct Minimal {
    connection: redis::Connection,
    name: String,
    digest: String,
}

impl Peer for Minimal {
    fn acquire(&mut self) {
        let mut set = redis::cmd("SET");
        set.arg(&self.name).arg("me").arg("NX").arg("PX").arg(LEASE.as_millis() as u64);
        while set.query::<Option<String>>(&mut self.connection).unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    fn release(&mut self) {
        let mut run = redis::cmd("EVALSHA");
        run.arg(&self.digest).arg(1).arg(&self.name).arg("me");
        run.query::<u64>(&mut self.connection).unwrap();
    }
}

struct Rslock {
    runtime: tokio::runtime::Runtime,
    manager: rslock::LockManager,
    name: String,
    held: Option<rslock::Lock>,
}

impl Peer for Rslock {
    fn acquire(&mut self) {
        let name = self.name.as_bytes();
        let lock = self.runtime.block_on(self.manager.acquire_no_guard(name, LEASE));
        self.held = Some(lock.unwrap());
    }
    fn release(&mut self) {
        let lock = self.held.take().unwrap();
        self.runtime.block_on(self.manager.unlock(&lock));
    }
}

/// A PING round trip on a plain blocking socket, by which everything is measured.
struct Ping(TcpStream);

impl Peer for Ping {
    fn acquire(&mut self) {
        let mut answer = [0; 7];
        self.0.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
        self.0.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"+PONG\r\n");
    }
    fn release(&mut self) {}
}

fn connect(url: &str) -> TcpStream {
    let stream = TcpStream::connect(url.trim_start_matches("redis://")).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn peer(who: &str, url: &str, name: &str) -> Box<dyn Peer> {
    match who {
        "ping" => Box::new(Ping(connect(url))),
        "portalock" => {
            let client = Client::new(url, ClientOptions::new()).unwrap();
            Box::new(client.lock(name, LockOptions::new()).unwrap())
        }
        "minimal" => {
            let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
            let script = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) \
                          else return 0 end";
            let digest =
                redis::cmd("SCRIPT").arg("LOAD").arg(script).query(&mut connection).unwrap();
            Box::new(Minimal { connection, name: name.to_owned(), digest })
        }
        "rslock" => Box::new(Rslock {
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
            manager: rslock::LockManager::new(vec![url]),
            name: name.to_owned(),
            held: None,
        }),
        _ => panic!("nobody is called {who}"),
    }
}

/// By the clock that Python's `monotonic_ns` and Node's `hrtime` read too.
pub fn now() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a place for what is written.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn span(since: Instant) -> u64 {
    since.elapsed().as_nanos() as u64
}

/// `[[acquire, acquire + release, PING], ...]` in nanoseconds. How long a round trip takes changes with where
/// the system lets the two processes run: so each pair has one beside it.
fn pairs(peer: &mut dyn Peer, url: &str, count: usize) -> serde_json::Value {
    let mut ping = Ping(connect(url));
    let mut one = || {
        let begin = Instant::now();
        ping.acquire();
        let round_trip = span(begin);
        let begin = Instant::now();
        peer.acquire();
        let acquired = span(begin);
        peer.release();
        [acquired, span(begin), round_trip]
    };
    for _ in 0..WARM_UP {
        one();
    }
    (0..count).map(|_| one()).collect::<Vec<_>>().into()
}

fn cold(who: &str, url: &str, name: &str) -> serde_json::Value {
    let begin = Instant::now();
    if who == "ping" {
        drop(connect(url));
    } else {
        peer(who, url, name).acquire();
    }
    span(begin).into()
}

/// `[[enter, leave], ...]` by the clock that all processes share. Begins on a line from outside.
fn contend(peer: &mut dyn Peer, count: usize, hold: Duration) -> serde_json::Value {
    println!("ready");
    let _ = BufReader::new(std::io::stdin()).read_line(&mut String::new());
    let mut stays = Vec::new();
    for _ in 0..count {
        peer.acquire();
        let enter = now();
        if hold >= Duration::from_secs(1) {
            println!("{enter}");
        }
        if !hold.is_zero() {
            std::thread::sleep(hold);
        }
        let leave = now();
        peer.release();
        stays.push([enter, leave]);
    }
    stays.into()
}

/// WHO WORK URL NAME COUNT HOLD_US, and one line of JSON at the end.
pub fn run(words: &[String]) {
    let [who, work, url, name, count, hold] = words else {
        panic!("WHO WORK URL NAME COUNT HOLD_US")
    };
    let count = count.parse().unwrap();
    let hold = Duration::from_micros(hold.parse().unwrap());
    let result = match work.as_str() {
        "pair" => pairs(&mut *peer(who, url, name), url, count),
        "cold" => cold(who, url, name),
        "contend" => contend(&mut *peer(who, url, name), count, hold),
        _ => panic!("no work is called {work}"),
    };
    println!("{result}");
}
