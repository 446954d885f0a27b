//! The worker in Rust: this very test binary, run again.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use portalock::{Client, ClientOptions, Lock, LockOptions, Wait};

const VARIABLE: &str = "PORTALOCK_MIXED_WORKER";

/// Takes the words of [`crate::crew::Site::job`] from its environment.
pub fn command(words: &[String]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "worker_entry", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, words.join("\n"));
    command
}

/// The process's side; returns at once in the test run proper.
pub fn serve() {
    let Ok(job) = std::env::var(VARIABLE) else {
        return;
    };
    let words: Vec<_> = job.split('\n').collect();
    let [url, name, folder, label, sections, inside, pause] = words[..] else {
        panic!("{words:?}")
    };
    std::env::set_current_dir(folder).unwrap();
    let book = Arc::new(Book {
        label: label.to_owned(),
        journal: OpenOptions::new().append(true).open("journal").unwrap(),
        counter: OpenOptions::new().read(true).write(true).open("counter").unwrap(),
        inside: millis(inside),
    });
    let client = Client::new(url, ClientOptions::new()).unwrap();
    let mut options = LockOptions::new();
    options.fencing(true);
    let lock = client.lock(name, options).unwrap();
    let told = book.clone();
    lock.on_lost(Some(Box::new(move |loss| {
        eprintln!("{}: {}", told.label, loss.message);
        told.note("lost", 0);
    })));
    println!("worker> ready");
    assert_ne!(std::io::stdin().read_line(&mut String::new()).unwrap(), 0, "cannot begin");
    for _ in 0..sections.parse().unwrap() {
        book.section(&lock);
        std::thread::sleep(millis(pause));
    }
}

fn millis(number: &str) -> Duration {
    Duration::from_millis(number.parse().unwrap())
}

struct Book {
    label: String,
    journal: File,
    counter: File,
    inside: Duration,
}

impl Book {
    fn section(&self, lock: &Lock) {
        self.note("want", 0);
        lock.acquire(Wait::Forever).unwrap();
        let token = lock.fencing_token().unwrap();
        std::fs::create_dir("inside").unwrap();
        self.note("enter", token);
        self.count();
        self.note("leave", token);
        std::fs::remove_dir("inside").unwrap();
        lock.release().unwrap();
    }

    /// One write to a file opened for appending is one line, however many processes write.
    fn note(&self, event: &str, token: u64) {
        let line = line(event, &self.label, token);
        (&self.journal).write_all(line.as_bytes()).unwrap();
    }

    /// Without a lock of its own: it loses some if two do it at once.
    fn count(&self) {
        let mut digits = [0; 16];
        self.counter.read_exact_at(&mut digits, 0).unwrap();
        let number: u64 = str::from_utf8(&digits).unwrap().parse().unwrap();
        std::thread::sleep(self.inside);
        self.counter.write_all_at(format!("{:016}", number + 1).as_bytes(), 0).unwrap();
    }
}

/// A line of the journal.
pub fn line(event: &str, label: &str, token: u64) -> String {
    format!("{event} {label} {token} {}\n", monotonic())
}

/// The clock that the other languages read; `Instant` does not show it.
fn monotonic() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to what it is given.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) }, 0);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
