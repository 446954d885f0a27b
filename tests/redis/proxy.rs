//! A path to the server with faults of its own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::dice::Dice;

const PASS: u8 = 0;
const SILENT: u8 = 1;
const DEAF: u8 = 2;
const HOLD: u8 = 3;

/// How long bytes are on their way, anew for each piece, in order all the same.
#[derive(Clone, Copy)]
pub struct Delay {
    pub least: Duration,
    pub most: Duration,
}

/// Passes bytes on in both directions, until it is told to swallow them.
pub struct Proxy {
    port: u16,
    manner: Arc<AtomicU8>,
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
        let manner = Arc::new(AtomicU8::new(PASS));
        let own = manner.clone();
        let mut dice = Dice::new();
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = TcpStream::connect(("127.0.0.1", behind)).unwrap();
                let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
                pass_on(near, far, own.clone(), &[SILENT, DEAF], delay, dice.child(1));
                pass_on(back.0, back.1, own.clone(), &[SILENT], delay, dice.child(2));
            }
        });
        Self { port, manner }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Swallows what comes, from either side.
    pub fn fall_silent(&self) {
        self.manner.store(SILENT, Ordering::SeqCst);
    }

    /// Keeps back what comes, from either side, the end of a connection included, until [`resume`].
    ///
    /// [`resume`]: Self::resume
    pub fn hold(&self) {
        self.manner.store(HOLD, Ordering::SeqCst);
    }

    pub fn resume(&self) {
        self.manner.store(PASS, Ordering::SeqCst);
    }

    /// Swallows what is said to the server.
    pub fn swallow_requests(&self) {
        self.manner.store(DEAF, Ordering::SeqCst);
    }
}

fn pass_on(
    mut from: TcpStream,
    mut to: TcpStream,
    manner: Arc<AtomicU8>,
    swallows: &'static [u8],
    delay: Delay,
    mut dice: Dice,
) {
    to.set_nodelay(true).unwrap();
    let (sender, pieces) = channel::<(Instant, Vec<u8>)>();
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
            await_resumption(&manner);
            let swallowed = swallows.contains(&manner.load(Ordering::SeqCst));
            if !swallowed && to.write_all(&bytes).is_err() {
                return;
            }
        }
        await_resumption(&manner);
        std::thread::sleep(delay.most);
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}

fn await_resumption(manner: &AtomicU8) {
    while manner.load(Ordering::SeqCst) == HOLD {
        std::thread::sleep(Duration::from_millis(1));
    }
}
