//! Each figure, and what it is to be.
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use portalock::{Client, ClientOptions, LockOptions, Status, Wait};

mod languages;
mod own;
mod server;

use crate::process::{Server, Worker};
use crate::report::Row;
use crate::work::now;

const OURS: &str = "portalock";
const PEERS: [&str; 6] =
    ["minimal", "rslock", "portalocker", "redis-py", "python-redis-lock", "redlock"];

fn everybody() -> impl Iterator<Item = &'static str> {
    std::iter::once(OURS).chain(PEERS)
}

type Step<'a> = fn(&mut Bench<'a>);

struct Bench<'a> {
    server: &'a Server,
    quick: bool,
    /// The median of PING, in nanoseconds.
    rtt: f64,
    rows: Vec<Row>,
}

/// A share of the samples, from 0 to 1.
fn quantile(samples: &mut [u64], share: f64) -> f64 {
    samples.sort_unstable();
    assert!(!samples.is_empty(), "nothing was measured");
    samples[((samples.len() - 1) as f64 * share).round() as usize] as f64
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.1} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

pub fn all<'a>(server: &'a Server, quick: bool) -> Vec<Row> {
    let mut bench = Bench { server, quick, rtt: 0.0, rows: Vec::new() };
    let steps: [(&str, Step<'a>); 14] = [
        ("pairs", Bench::pairs),
        ("cold", Bench::cold),
        ("hand-overs", Bench::hand_overs),
        ("crowds", Bench::crowds),
        ("fairness", Bench::fairness),
        ("dead and stopped holders", Bench::take_overs),
        ("timeouts", Bench::timeouts),
        ("languages", Bench::languages),
        ("commands of pairs", Bench::commands_of_pairs),
        ("commands of hand-overs", Bench::commands_of_hand_overs),
        ("waiters at rest", Bench::waiters_at_rest),
        ("in-process", Bench::in_process),
        ("held locks", Bench::held),
        ("allocations", Bench::allocations),
    ];
    for (name, step) in steps {
        let begun = Instant::now();
        step(&mut bench);
        eprintln!("{name}: {:.1} s", begun.elapsed().as_secs_f64());
    }
    bench.rows
}

impl Bench<'_> {
    fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    fn row(
        &mut self,
        figure: &str,
        who: &str,
        cells: [String; 3],
        target: &str,
        met: Option<bool>,
    ) {
        let [median, p99, ratio] = cells;
        let (figure, who, target) = (figure.to_owned(), who.to_owned(), target.to_owned());
        self.rows.push(Row { figure, who, median, p99, ratio, target, met });
    }

    /// Median, p99, and the median in round trips.
    fn cells(&self, samples: &mut [u64]) -> [String; 3] {
        let median = quantile(samples, 0.5);
        let p99 = quantile(samples, 0.99);
        [time(median), time(p99), format!("{:.2} RTT", median / self.rtt)]
    }

    fn contenders(
        &self,
        who: &str,
        name: &str,
        n: usize,
        count: usize,
        hold_us: u64,
    ) -> Vec<Worker> {
        (0..n).map(|_| Worker::contender(who, &self.server.url, name, count, hold_us)).collect()
    }

    fn pairs(&mut self) {
        let (rounds, count) = self.pick((7, 400), (1, 50));
        let mut samples: BTreeMap<&str, Vec<Vec<u64>>> = BTreeMap::new();
        for _ in 0..rounds {
            for who in everybody() {
                // Portalocker polls and sleeps: each of its pairs takes long.
                let count = if who == "portalocker" { count.min(5) } else { count };
                let mut worker = Worker::start(who, "pair", &self.server.url, "pair", count, 0);
                samples.entry(who).or_default().extend(worker.json::<Vec<Vec<u64>>>());
            }
        }
        let part = |who: &str, i: usize| samples[who].iter().map(|s| s[i]).collect::<Vec<_>>();
        let mut ping = part(OURS, 2);
        self.rtt = quantile(&mut ping, 0.5);
        let cells = self.cells(&mut ping);
        self.row("PING round trip", "a plain socket", cells, "", None);
        for who in everybody() {
            let mut acquire = part(who, 0);
            let cells = self.cells(&mut acquire);
            let limit = quantile(&mut acquire, 0.5) <= 1.3 * self.rtt;
            let (target, met) = if who == OURS { ("<= 1.30 RTT", Some(limit)) } else { ("", None) };
            self.row("acquire, free, warm", who, cells, target, met);
        }
        let ours = quantile(&mut part(OURS, 1), 0.5);
        for who in everybody() {
            let mut pair = part(who, 1);
            let mut cells = self.cells(&mut pair);
            let median = quantile(&mut pair, 0.5);
            if who == OURS {
                let met = Some(median <= 1.45 * self.rtt);
                self.row("acquire + release", who, cells, "<= 1.45 RTT", met);
            } else {
                let ratio = median / ours;
                cells[2] += &format!(", {ratio:.2} x ours");
                self.row("acquire + release", who, cells, ">= 1.5 x ours", Some(ratio >= 1.5));
            }
        }
    }

    /// In processes that have just begun. The bare connect is taken the same way.
    fn cold(&mut self) {
        let rounds = self.pick(100, 5);
        let mut samples: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        let all = ["ping", OURS, "minimal", "rslock"];
        for i in 0..rounds {
            for who in all {
                let name = format!("cold-{who}-{i}");
                let mut worker = Worker::start(who, "cold", &self.server.url, &name, 1, 0);
                samples.entry(who).or_default().push(worker.json());
            }
        }
        let bare = quantile(samples.get_mut("ping").unwrap(), 0.5);
        for who in all {
            let taken = samples.get_mut(who).unwrap();
            let mut cells = self.cells(taken);
            let over = (quantile(taken, 0.5) - bare) / self.rtt;
            cells[2] = format!("connect + {over:.2} RTT");
            let label = if who == "ping" { "bare connect" } else { who };
            let ours = who == OURS;
            let target = if ours { "<= connect + 3 RTT" } else { "" };
            self.row("acquire, cold process", label, cells, target, ours.then_some(over <= 3.0));
        }
    }

    /// From before the release to after the acquire of another process. Where the same process comes in
    /// again, there was no hand-over.
    fn hand_overs(&mut self) {
        let count = self.pick(200, 10);
        for who in everybody() {
            let count = if who == OURS { count * 2 } else { count / 4 + 2 };
            let stays = self.stays(who, "hand-over", 2, count, 3000);
            let mut gaps: Vec<u64> = stays
                .windows(2)
                .filter(|pair| pair[0].2 != pair[1].2)
                .map(|pair| pair[1].0.saturating_sub(pair[0].1))
                .collect();
            let mut cells = self.cells(&mut gaps);
            let p99 = quantile(&mut gaps, 0.99) / self.rtt;
            cells[2] += &format!(", p99 {p99:.2} RTT");
            let met = quantile(&mut gaps, 0.5) <= 2.0 * self.rtt && p99 <= 5.0;
            let ours = who == OURS;
            let target = if ours { "<= 2.0 RTT, p99 <= 5 RTT" } else { "" };
            self.row("hand-over, 2 processes", who, cells, target, ours.then_some(met));
        }
    }

    /// Enter, leave and worker of each stay, in the order of entering.
    fn stays(
        &self,
        who: &str,
        name: &str,
        n: usize,
        count: usize,
        hold: u64,
    ) -> Vec<(u64, u64, usize)> {
        let name = format!("{name}-{who}");
        let mut workers = self.contenders(who, &name, n, count, hold);
        workers.iter_mut().for_each(Worker::go);
        let mut stays = Vec::new();
        for (i, worker) in workers.iter_mut().enumerate() {
            let own: Vec<[u64; 2]> = worker.json();
            stays.extend(own.into_iter().map(|[enter, leave]| (enter, leave, i)));
        }
        stays.sort_unstable();
        stays
    }

    /// Over the time in which all were still at it: until the first has done its share.
    fn crowds(&mut self) {
        let count = self.pick(200, 10);
        let mut at_16 = 0.0;
        for (n, who) in [(16, OURS), (64, OURS), (16, "minimal")] {
            let count = if n == 64 { count / 4 + 5 } else { count };
            let stays = self.stays(who, &format!("crowd-{n}"), n, count, 0);
            let mut left = vec![count; n];
            let end = stays.iter().position(|stay| {
                left[stay.2] -= 1;
                left[stay.2] == 0
            });
            let seen = &stays[..=end.unwrap()];
            let changes = seen.windows(2).filter(|pair| pair[0].2 != pair[1].2).count();
            let rate = changes as f64 * 1e9 / (seen[seen.len() - 1].0 - seen[0].0) as f64;
            let share = rate * self.rtt / 1e9;
            let (target, met) = match (who, n) {
                (OURS, 16) => (">= 0.4 / RTT", Some(share >= 0.4)),
                (OURS, _) => (">= half of that at 16", Some(rate >= at_16 / 2.0)),
                _ => ("", None),
            };
            if n == 16 && who == OURS {
                at_16 = rate;
            }
            let cells = [format!("{rate:.0} /s"), String::new(), format!("{share:.2} / RTT")];
            self.row(&format!("hand-overs, {n} processes"), who, cells, target, met);
        }
    }

    /// 33 processes, so that 32 wait while one holds. The waits of the steady middle are taken.
    fn fairness(&mut self) {
        let (n, rounds) = (33, self.pick(20, 6));
        let stays = self.stays(OURS, "fair", n, rounds, 500);
        let steady = &stays[2 * n..stays.len() - 2 * n];
        // In the order of arrival all come by once before anybody comes by again.
        let in_order = steady.windows(n + 1).all(|turn| turn[0].2 == turn[n].2);
        let mut last = BTreeMap::new();
        let mut waits = Vec::new();
        for (enter, leave, who) in &stays[n..stays.len() - n] {
            if let Some(left) = last.insert(who, *leave) {
                waits.push(enter - left);
            }
        }
        let mean = waits.iter().sum::<u64>() as f64 / waits.len() as f64;
        let ratio = quantile(&mut waits, 1.0) / mean;
        let mut cells = self.cells(&mut waits);
        cells[2] =
            format!("max / mean {ratio:.2}, in order: {}", if in_order { "yes" } else { "no" });
        let target = "in order, max / mean <= 2.2";
        self.row("wait, 32 waiters", OURS, cells, target, Some(in_order && ratio <= 2.2));
    }

    /// From the signal to the next holder's acquire.
    fn take_over(&self, who: &str, signal: i32, i: usize) -> u64 {
        let name = format!("take-over-{who}-{signal}-{i}");
        let mut holder = self.contenders(who, &name, 1, 1, 60_000_000).remove(0);
        holder.go();
        let _: u64 = holder.json();
        let mut next = self.contenders(who, &name, 1, 1, 1000).remove(0);
        next.go();
        sleep(Duration::from_millis(150));
        let begin = now();
        holder.signal(signal);
        let stays: Vec<[u64; 2]> = next.json();
        stays[0][0].saturating_sub(begin)
    }

    fn take_overs(&mut self) {
        for who in everybody() {
            let ours = who == OURS;
            let rounds = if ours { self.pick(60, 5) } else { 1 };
            if self.quick && !ours {
                continue; // Their leases are 10 s.
            }
            let mut spans: Vec<u64> =
                (0..rounds).map(|i| self.take_over(who, libc::SIGKILL, i)).collect();
            let met = quantile(&mut spans, 0.5) <= 25e6 && quantile(&mut spans, 0.99) <= 60e6;
            let cells = self.cells(&mut spans);
            let target = if ours { "p50 25 ms, p99 60 ms" } else { "" };
            self.row("SIGKILL to next holder", who, cells, target, ours.then_some(met));
        }
        let rounds = self.pick(5, 1);
        let mut spans: Vec<u64> =
            (0..rounds).map(|i| self.take_over(OURS, libc::SIGSTOP, i)).collect();
        let met = quantile(&mut spans, 1.0) <= 2.5e9;
        let cells = self.cells(&mut spans);
        self.row("SIGSTOP to next holder", OURS, cells, "<= 2.5 s", Some(met));
    }

    fn timeouts(&mut self) {
        let client = Client::new(&self.server.url, ClientOptions::new()).unwrap();
        let lock = || client.lock("timeout", LockOptions::new()).unwrap();
        let (holder, waiter) = (lock(), lock());
        holder.acquire(Wait::Forever).unwrap();
        let wait = Duration::from_millis(50);
        let mut over: Vec<u64> = (0..self.pick(200, 10))
            .map(|_| {
                let begin = Instant::now();
                let error = waiter.acquire(Wait::For(wait)).unwrap_err();
                assert_eq!(error.status(), Status::Timeout);
                begin.elapsed().saturating_sub(wait).as_nanos() as u64
            })
            .collect();
        let met = quantile(&mut over, 0.99) <= 5e6;
        let cells = self.cells(&mut over);
        self.row("overshoot of a 50 ms timeout", OURS, cells, "p99 <= 5 ms", Some(met));
    }
}
