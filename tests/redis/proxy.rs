//! A path to the server with faults of its own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::dice::Dice;

const PASS: u8 = 0;
const SILENT: u8 = 1;
const DEAF: u8 = 2;
const HOLD: u8 = 3;
const MUTE: u8 = 4;

/// How long bytes are on their way, anew for each piece, in order all the same.
#[derive(Clone, Copy)]
pub struct Delay {
    pub least: Duration,
    pub most: Duration,
}

/// Passes bytes on in both directions, until it is told to swallow them.
pub struct Proxy {
    port: u16,
    faults: Arc<Faults>,
}

/// What ails a path now.
#[derive(Default)]
struct Faults {
    manner: AtomicU8,
    /// How many connections have come, and how many of these are forsaken.
    connections: AtomicUsize,
    forsaken: AtomicUsize,
    /// The test is over.
    over: AtomicBool,
}

/// One direction of one connection.
#[derive(Clone)]
struct Lane {
    faults: Arc<Faults>,
    number: usize,
    swallowed_in: &'static [u8],
    delay: Delay,
}

impl Lane {
    fn swallows(&self) -> bool {
        let manner = self.faults.manner.load(Ordering::SeqCst);
        let forsaken = self.faults.forsaken.load(Ordering::SeqCst);
        self.number < forsaken || self.swallowed_in.contains(&manner)
    }

    fn await_resumption(&self) {
        while self.faults.manner.load(Ordering::SeqCst) == HOLD {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A path that swallows what is said swallows the end, too.
    fn await_voice(&self) {
        while self.swallows() && !self.faults.over.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Delay {
    pub const NONE: Self = Self { least: Duration::ZERO, most: Duration::ZERO };
}

impl Proxy {
    pub fn before(port: u16) -> Self {
        Self::delaying(port, Delay::NONE)
    }

    pub fn delaying(behind: u16, delay: Delay) -> Self {
        Self::listening("127.0.0.1", behind, delay)
    }

    pub fn listening(address: &str, behind: u16, delay: Delay) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let faults = Arc::<Faults>::default();
        let own = faults.clone();
        let mut dice = Dice::new();
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = TcpStream::connect(("127.0.0.1", behind)).unwrap();
                let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
                let number = own.connections.fetch_add(1, Ordering::SeqCst);
                let lane = |swallowed_in| Lane { faults: own.clone(), number, swallowed_in, delay };
                pass_on(near, far, lane(&[SILENT, DEAF]), dice.child(1));
                pass_on(back.0, back.1, lane(&[SILENT, MUTE]), dice.child(2));
            }
        });
        Self { port, faults }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Swallows what comes, from either side.
    pub fn fall_silent(&self) {
        self.faults.manner.store(SILENT, Ordering::SeqCst);
    }

    /// Keeps back what comes, from either side, the end of a connection included, until [`resume`].
    ///
    /// [`resume`]: Self::resume
    pub fn hold(&self) {
        self.faults.manner.store(HOLD, Ordering::SeqCst);
    }

    pub fn resume(&self) {
        self.faults.manner.store(PASS, Ordering::SeqCst);
    }

    /// Swallows what the server says.
    pub fn swallow_answers(&self) {
        self.faults.manner.store(MUTE, Ordering::SeqCst);
    }

    /// Swallows, for ever, all of the connections that there are; those that come are not touched.
    pub fn forsake(&self) {
        let count = self.faults.connections.load(Ordering::SeqCst);
        self.faults.forsaken.store(count, Ordering::SeqCst);
    }

    /// Swallows what is said to the server.
    pub fn swallow_requests(&self) {
        self.faults.manner.store(DEAF, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.faults.over.store(true, Ordering::SeqCst);
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, lane: Lane, mut dice: Dice) {
    to.set_nodelay(true).unwrap();
    let (sender, pieces) = channel::<(Instant, Vec<u8>)>();
    let delay = lane.delay;
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let spread = (delay.most - delay.least).as_micros() as usize + 1;
            let span = delay.least + Duration::from_micros(dice.below(spread) as u64);
            if sender.send((Instant::now() + span, buffer[..count].to_vec())).is_err() {
                break;
            }
        }
    });
    std::thread::spawn(move || {
        for (due, bytes) in pieces {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            lane.await_resumption();
            if !lane.swallows() && to.write_all(&bytes).is_err() {
                return;
            }
        }
        lane.await_resumption();
        lane.await_voice();
        std::thread::sleep(delay.most);
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}
