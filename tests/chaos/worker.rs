//! A process of the crowd. It tells the judge what it does, and waits for an answer each time: what it says
//! before a release is known before anybody else can say that it has entered.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portalock::{Client, ClientOptions, Lock, LockOptions, Status, Wait};

use crate::dice::Dice;
use crate::support::die_with_parent;

pub const NAME: &str = "chaos";
pub const INTERVAL: Duration = Duration::from_millis(500);
pub const UNAVAILABLE: Duration = Duration::from_secs(2);

/// Starts one that is known to the judge by its number.
pub fn spawn(number: usize, url: &str, judge: &Path, seed: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "worker_entry", "--nocapture", "--test-threads=1"])
        .env("PORTALOCK_CHAOS_WORKER", format!("{number}\n{url}\n{}\n{seed}", judge.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    die_with_parent(&mut command);
    command.spawn().unwrap()
}

/// The process's side; returns at once in the test run proper.
pub fn serve() {
    let Ok(job) = std::env::var("PORTALOCK_CHAOS_WORKER") else {
        return;
    };
    let words: Vec<_> = job.split('\n').collect();
    let [number, url, judge, seed] = words[..] else { panic!("{words:?}") };
    let judge = Arc::new(Line::new(UnixStream::connect(judge).unwrap()));
    assert!(judge.ask(&format!("here {number}")));
    let client = Client::new(url, ClientOptions::new()).unwrap();
    let mut options = LockOptions::new();
    options.fencing(true).health_check_interval(INTERVAL).unwrap();
    options.unavailable_timeout(UNAVAILABLE).unwrap();
    let lock = client.lock(NAME, options).unwrap();
    let told = judge.clone();
    lock.on_lost(Some(Box::new(move |_| {
        told.ask("lost");
    })));
    let mut dice = Dice::with_seed(seed.parse().unwrap());
    while judge.ask("more?") {
        turn(&lock, &judge, &mut dice);
    }
}

/// One question and one answer at a time, from whichever thread.
struct Line(Mutex<(UnixStream, BufReader<UnixStream>)>);

impl Line {
    fn new(stream: UnixStream) -> Self {
        let reader = BufReader::new(stream.try_clone().unwrap());
        Self(Mutex::new((stream, reader)))
    }

    fn ask(&self, question: &str) -> bool {
        let mut line = self.0.lock().unwrap();
        let mut answer = String::new();
        let asked = line.0.write_all(format!("{question}\n").as_bytes());
        if asked.is_err() || line.1.read_line(&mut answer).unwrap_or(0) == 0 {
            // The judge is gone, and the test with it.
            std::process::exit(1);
        }
        answer.trim() == "yes"
    }
}

fn turn(lock: &Lock, judge: &Line, dice: &mut Dice) {
    let wait = match dice.below(4) {
        0 => Wait::For(Duration::from_millis(50 + dice.below(2_000) as u64)),
        _ => Wait::For(Duration::from_secs(30)),
    };
    let begun = Instant::now();
    if let Err(error) = lock.acquire(wait) {
        judge.ask(&format!("failed {:?}", error.status()));
        return std::thread::sleep(Duration::from_millis(dice.below(50) as u64));
    }
    let Some(token) = lock.fencing_token() else {
        // It was lost at once; what was granted without a token would be held without one, too.
        let lost = lock.release().map_err(|error| error.status());
        assert_eq!(lost, Err(Status::Lost));
        return;
    };
    let name = lock.client_name().unwrap_or_default();
    judge.ask(&format!("enter {token} {} {name}", begun.elapsed().as_millis()));
    for _ in 0..dice.below(4) {
        std::thread::sleep(Duration::from_micros(dice.below(4_000) as u64));
        if !lock.is_held() {
            break;
        }
        judge.ask(&format!("write {token}"));
    }
    judge.ask("leave");
    if lock.release().is_err() {
        judge.ask("released lost");
    }
}
