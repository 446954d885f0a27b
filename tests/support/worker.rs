//! Another process that holds locks, driven line by line.
//!
//! It is this very test binary, run again with one test selected: a test target that uses workers has
//! a test named `worker_entry` that calls [`serve`].

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use portalock::{Client, ClientOptions, Lock, LockOptions, Mode, State, Wait};

use super::{die_with_parent, signal, stop, wait_until};

const MARK: &str = "worker> ";

/// A worker process.
pub struct Worker {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Worker {
    /// Starts one with a client and a lock of its own.
    pub fn spawn(url: &str, name: &str) -> Self {
        Self::spawn_with(url, name, &[])
    }

    /// Starts one with options of its lock and client: `health_ms=`, `unavailable_ms=`, `connect_ms=` and
    /// `fencing=`, with a number.
    pub fn spawn_with(url: &str, name: &str, options: &[&str]) -> Self {
        Self::spawn_program(
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "worker_entry", "--nocapture", "--test-threads=1"])
                .env("PORTALOCK_WORKER", Self::job(url, name, options)),
        )
    }

    /// Starts one by another program, which is given as the words before its own.
    pub fn spawn_under(
        before: &[&str],
        url: &str,
        name: &str,
        options: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        Self::spawn_program(
            Command::new(before[0])
                .args(&before[1..])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", "worker_entry", "--nocapture", "--test-threads=1"])
                .envs(environment.iter().copied())
                .env("PORTALOCK_WORKER", Self::job(url, name, options)),
        )
    }

    /// What a worker's environment says in `PORTALOCK_WORKER`.
    pub fn job(url: &str, name: &str, options: &[&str]) -> String {
        [&[url, name], options].concat().join("\n")
    }

    /// Starts another program that speaks the same lines.
    pub fn spawn_program(command: &mut Command) -> Self {
        die_with_parent(command);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("no worker");
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once(MARK) {
                    let _ = sender.send(said.to_owned());
                }
            }
        });
        Self { child, stdin, lines }
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Tells it what to do: `x|s [ms]`, `try`, `r`, `q`; `holders|reap MS`, `clock`, `id`, `token`,
    /// `why`; `sections COUNT DIR`, `turn WORD FILE`, and anything else is repeated.
    pub fn tell(&mut self, order: &str) {
        let _ = writeln!(self.stdin, "{order}");
    }

    /// The next line that it says.
    pub fn line(&self, limit: Duration) -> Option<String> {
        self.lines.recv_timeout(limit).ok()
    }

    /// Tells it what to do and expects what it says to that.
    pub fn expect(&mut self, order: &str, answer: &str) {
        self.tell(order);
        let said = self.line(Duration::from_secs(20));
        assert_eq!(said.as_deref(), Some(answer), "to {order:?}");
    }

    /// Waits for a line; tells how long it took.
    pub fn await_line(&self, answer: &str, limit: Duration) -> Duration {
        let begun = Instant::now();
        let said = self.line(limit);
        assert_eq!(said.as_deref(), Some(answer), "after {:?}", begun.elapsed());
        begun.elapsed()
    }

    /// Whether it says nothing for so long.
    pub fn is_silent(&self, span: Duration) -> bool {
        self.line(span).is_none()
    }

    /// How it has ended; `None` if it has not, so long after.
    pub fn status(&mut self, limit: Duration) -> Option<ExitStatus> {
        wait_until(limit, || self.child.try_wait().unwrap().is_some());
        self.child.try_wait().unwrap()
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops it, and waits until the last of its threads stands still.
    pub fn stop(&self) {
        stop(self.pid());
    }

    pub fn cont(&self) {
        signal(self.pid(), libc::SIGCONT);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The worker's side; returns at once in the test run proper.
pub fn serve() {
    let Ok(job) = std::env::var("PORTALOCK_WORKER") else {
        return;
    };
    let mut job = job.split('\n');
    let (url, name) = (job.next().unwrap(), job.next().unwrap());
    let (client_options, lock_options) = options_of(job);
    let client = Client::new(url, client_options).unwrap();
    let lock = client.lock(name, lock_options).unwrap();
    lock.on_lost(Some(Box::new(|loss| {
        *WHY.lock().unwrap() = format!("{:?}", loss.reason);
        println!("{MARK}lost");
    })));
    for order in std::io::stdin().lock().lines().map_while(Result::ok) {
        println!("{MARK}{}", obey(&client, &lock, &order));
    }
}

/// Why the lock was lost last.
static WHY: Mutex<String> = Mutex::new(String::new());

fn options_of<'a>(words: impl Iterator<Item = &'a str>) -> (ClientOptions, LockOptions) {
    let (mut client, mut lock) = (ClientOptions::new(), LockOptions::new());
    for word in words {
        let (name, number) = word.split_once('=').unwrap();
        let span = millis(number);
        let known = match name {
            "connect_ms" => client.connect_timeout(span).is_ok(),
            "health_ms" => lock.health_check_interval(span).is_ok(),
            "unavailable_ms" => lock.unavailable_timeout(span).is_ok(),
            "fencing" => {
                lock.fencing(!span.is_zero());
                true
            }
            _ => false,
        };
        assert!(known, "{word}");
    }
    (client, lock)
}

fn millis(number: &str) -> Duration {
    Duration::from_millis(number.parse().unwrap())
}

fn obey(client: &Client, lock: &Lock, order: &str) -> String {
    let words: Vec<_> = order.splitn(3, ' ').collect();
    match words[..] {
        ["token"] => {
            return match lock.fencing_token() {
                Some(token) => format!("token {token}"),
                None => "no token".to_owned(),
            };
        }
        ["clock"] => {
            let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            return format!("clock {}", time.as_secs());
        }
        ["holders", ms] => return holders(client, lock.name(), millis(ms)),
        ["reap", ms] => return reap(client, lock.name(), millis(ms)),
        ["id"] => return lock.holder_id().unwrap_or_default(),
        ["why"] => return WHY.lock().unwrap().clone(),
        ["sections", count, dir] => return sections(lock, count.parse().unwrap(), Path::new(dir)),
        ["turn", word, file] => return turn(lock, word, Path::new(file)),
        _ => {}
    }
    let mut words = words.into_iter();
    let verb = words.next().unwrap_or_default();
    let wait = match words.next().map(str::parse) {
        Some(Ok(ms)) => Wait::For(Duration::from_millis(ms)),
        _ => Wait::Default,
    };
    let outcome = match verb {
        "x" => lock.acquire_mode(Mode::Exclusive, wait).map(|()| "got x"),
        "s" => lock.acquire_mode(Mode::Shared, wait).map(|()| "got s"),
        "try" => lock.try_acquire().map(|()| "got x"),
        "r" => lock.release_wait(Duration::from_secs(5)).map(|()| "released"),
        "q" => std::process::exit(0),
        _ => return order.to_owned(),
    };
    match outcome {
        Ok(said) => said.to_owned(),
        Err(error) => format!("{:?}", error.status()),
    }
}

/// Goes through critical sections that show any overlap, twice over: each writes its coming and its
/// going to one journal, and has a file to itself that nobody else may have at that time.
fn sections(lock: &Lock, count: usize, dir: &Path) -> String {
    let pid = std::process::id();
    let (journal, marker) = (dir.join("journal"), dir.join("marker"));
    for _ in 0..count {
        if let Err(error) = lock.acquire(Wait::Forever) {
            return format!("{:?}", error.status());
        }
        append(&journal, &format!("enter {pid}"));
        let alone = OpenOptions::new().write(true).create_new(true).open(&marker);
        if let Err(error) = alone {
            return format!("somebody is here already: {error}");
        }
        std::thread::yield_now();
        if let Err(error) = std::fs::remove_file(&marker) {
            return format!("somebody was here meanwhile: {error}");
        }
        append(&journal, &format!("leave {pid}"));
        if let Err(error) = lock.release() {
            return format!("{:?}", error.status());
        }
    }
    "done".to_owned()
}

/// One section that leaves a word behind.
fn turn(lock: &Lock, word: &str, file: &Path) -> String {
    if let Err(error) = lock.acquire(Wait::Forever) {
        return format!("{:?}", error.status());
    }
    append(file, word);
    match lock.release() {
        Ok(()) => "done".to_owned(),
        Err(error) => format!("{:?}", error.status()),
    }
}

/// How many hold and how many wait, or why that cannot be told.
fn holders(client: &Client, name: &str, limit: Duration) -> String {
    match client.holders(name, limit) {
        Ok(found) => {
            let held = found.iter().filter(|holder| holder.state == State::Held).count();
            format!("holders {held}, waiters {}", found.len() - held)
        }
        Err(error) => format!("{:?}", error.status()),
    }
}

fn reap(client: &Client, name: &str, limit: Duration) -> String {
    match client.reap_silent(name, limit) {
        Ok(reaped) => format!("alive {}, killed {}", reaped.alive, reaped.killed),
        Err(error) => format!("{:?}", error.status()),
    }
}

/// A line in one write, which no other process can come in between.
fn append(path: &Path, line: &str) {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
}
