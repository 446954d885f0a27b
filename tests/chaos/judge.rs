//! Who is inside, and whether another one may be: the resource that checks fencing tokens, and more than a
//! resource could know.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::worker::{INTERVAL, UNAVAILABLE};

/// For so long after a fault a holder may not know of it: until its health check was due, and overdue,
/// and its process had time to run on a busy machine.
const GRACE: Duration = INTERVAL.saturating_add(INTERVAL).saturating_add(Duration::from_secs(2));
const _: () = assert!(INTERVAL.as_millis() < UNAVAILABLE.as_millis());

#[derive(Default)]
pub struct Judge(Mutex<Book>);

#[derive(Default)]
struct Book {
    workers: BTreeMap<usize, Entry>,
    /// Connections that were ended, and when: whoever has just been granted may not have said so yet.
    killed: HashMap<String, Instant>,
    highest: u64,
    last_write: u64,
    report: Report,
    over: bool,
}

#[derive(Default)]
struct Entry {
    /// The name of its connection, while it is inside and was not told of a loss.
    inside: Option<String>,
    token: u64,
    stopped: bool,
    /// When it was last hurt, and how.
    fault: Option<(Instant, &'static str)>,
    sections: u64,
    owed: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub sections: u64,
    fewest: u64,
    pub unexcused: u64,
    excused: BTreeMap<&'static str, u64>,
    losses: u64,
    released_lost: u64,
    slowest_loss: Duration,
    writes: u64,
    stale: u64,
    failed: BTreeMap<String, u64>,
    longest_wait: Duration,
    faults: BTreeMap<&'static str, u64>,
    details: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "sections served               {} (each at least {})",
            self.sections, self.fewest
        )?;
        writeln!(f, "longest wait of one served    {:?}", self.longest_wait)?;
        let faults: u64 = self.faults.values().sum();
        writeln!(f, "faults injected               {faults}: {:?}", self.faults)?;
        writeln!(
            f,
            "losses told                   {} by callback, the slowest {:?} after; {} by the release",
            self.losses, self.slowest_loss, self.released_lost
        )?;
        writeln!(f, "acquires that failed          {:?}", self.failed)?;
        let excused: u64 = self.excused.values().sum();
        writeln!(f, "met one that could not know   {excused}: {:?}", self.excused)?;
        writeln!(f, "met one that could have known {}", self.unexcused)?;
        writeln!(f, "writes, stale ones refused    {}, {}", self.writes, self.stale)?;
        self.details.iter().try_for_each(|detail| writeln!(f, "  {detail}"))
    }
}

impl Judge {
    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.0.lock().unwrap()
    }

    /// Listens to workers at a socket.
    pub fn listen(self: &Arc<Self>, path: &Path) {
        let listener = UnixListener::bind(path).unwrap();
        let own = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let judge = own.clone();
                std::thread::spawn(move || judge.hear(stream));
            }
        });
    }

    fn hear(&self, mut stream: UnixStream) {
        let mut number = None;
        for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
            let words: Vec<_> = line.split(' ').collect();
            let yes = match (words[..].first().copied(), number) {
                (Some("here"), _) => {
                    number = words[1].parse().ok();
                    true
                }
                (_, Some(number)) => self.book().take(number, &words),
                _ => panic!("{line}"),
            };
            if stream.write_all(if yes { b"yes\n" } else { b"no\n" }).is_err() {
                break;
            }
        }
    }

    /// A fault was injected, from which this worker may suffer.
    pub fn hurt(&self, number: usize, how: &'static str) {
        let mut book = self.book();
        book.workers.entry(number).or_default().fault = Some((Instant::now(), how));
    }

    pub fn count(&self, how: &'static str) {
        *self.book().report.faults.entry(how).or_default() += 1;
    }

    pub fn set_stopped(&self, number: usize, stopped: bool) {
        self.book().workers.entry(number).or_default().stopped = stopped;
        self.hurt(number, "stopped");
    }

    /// A connection of this name was ended.
    pub fn killed(&self, name: &str) {
        let mut book = self.book();
        let now = Instant::now();
        book.killed.insert(name.to_owned(), now);
        let of_name = |entry: &&mut Entry| entry.inside.as_deref() == Some(name);
        if let Some(entry) = book.workers.values_mut().find(of_name) {
            entry.fault = Some((now, "connection killed"));
        }
    }

    /// The process is gone, and a new one will bear its number.
    pub fn died(&self, number: usize) {
        let mut book = self.book();
        let entry = book.workers.entry(number).or_default();
        (entry.inside, entry.stopped) = (None, false);
    }

    /// From here on everybody has to be served once more.
    pub fn expect_more(&self) {
        self.book().workers.values_mut().for_each(|entry| entry.owed = true);
    }

    pub fn is_everybody_served_again(&self) -> bool {
        self.book().workers.values().all(|entry| !entry.owed)
    }

    pub fn end(&self) {
        self.book().over = true;
    }

    pub fn report(&self) -> Report {
        let book = self.book();
        let fewest = book.workers.values().map(|entry| entry.sections).min().unwrap_or(0);
        Report { fewest, ..book.report.clone() }
    }
}

impl Book {
    fn take(&mut self, number: usize, words: &[&str]) -> bool {
        match words {
            ["more?"] => return !self.over,
            ["enter", token, waited, name] => {
                let waited = Duration::from_millis(waited.parse().unwrap());
                self.enter(number, token.parse().unwrap(), waited, name);
            }
            ["write", token] => self.write(number, token.parse().unwrap()),
            ["leave"] => self.entry(number).inside = None,
            ["lost"] => self.lost(number),
            ["released", "lost"] => self.report.released_lost += 1,
            ["failed", status] => {
                *self.report.failed.entry((*status).to_owned()).or_default() += 1;
            }
            other => panic!("{other:?}"),
        }
        true
    }

    fn entry(&mut self, number: usize) -> &mut Entry {
        self.workers.entry(number).or_default()
    }

    fn enter(&mut self, number: usize, token: u64, waited: Duration, name: &str) {
        let killed = self.killed.remove(name);
        let inside = self.workers.iter().filter(|(_, entry)| entry.inside.is_some());
        let met: Vec<_> = inside.map(|(other, _)| *other).filter(|o| *o != number).collect();
        for other in met {
            self.meet(number, token, other);
        }
        let entry = self.entry(number);
        entry.inside = Some(name.to_owned());
        entry.token = token;
        entry.sections += 1;
        entry.owed = false;
        if let Some(at) = killed {
            entry.fault = Some((at, "connection killed"));
        }
        self.report.sections += 1;
        self.report.longest_wait = self.report.longest_wait.max(waited);
        self.highest = self.highest.max(token);
    }

    /// Somebody has entered while another is inside that was not told of a loss. The one with the lower
    /// token came first: it must have been hurt so lately that it cannot know.
    fn meet(&mut self, number: usize, token: u64, other: usize) {
        let entry = self.entry(other);
        let excuse = match entry.fault {
            _ if entry.stopped => Some("stopped"),
            Some((at, how)) if at.elapsed() < GRACE => Some(how),
            _ => None,
        };
        let first = entry.token;
        // The newcomer may be the one that was held up on its way here.
        let own = self.entry(number);
        let excuse = excuse.or(match own.fault {
            Some((at, how)) if token < first && at.elapsed() < GRACE => Some(how),
            _ => None,
        });
        match excuse {
            Some(how) => *self.report.excused.entry(how).or_default() += 1,
            None => {
                self.report.unexcused += 1;
                let fault = self.entry(other).fault.map(|(at, how)| (at.elapsed(), how));
                self.report.details.push(format!(
                    "{number} enters with {token}, {other} is inside with {first}, hurt {fault:?}"
                ));
            }
        }
    }

    fn write(&mut self, _number: usize, token: u64) {
        if token < self.last_write {
            self.report.stale += 1;
            return;
        }
        self.last_write = token;
        self.report.writes += 1;
    }

    fn lost(&mut self, number: usize) {
        let entry = self.entry(number);
        entry.inside = None;
        let since = entry.fault.map(|(at, _)| at.elapsed()).filter(|since| *since < GRACE * 4);
        let stopped = entry.fault.is_some_and(|(_, how)| how == "stopped");
        self.report.losses += 1;
        if let Some(since) = since.filter(|_| !stopped) {
            self.report.slowest_loss = self.report.slowest_loss.max(since);
        }
    }
}
