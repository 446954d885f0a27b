//! What the server has to do.
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use portalock::{Client, ClientOptions, LockOptions, Wait};

use super::{Bench, OURS, everybody};
use crate::process::Worker;
use crate::work::now;

type Counts = BTreeMap<String, u64>;

/// What came in between, with how often for each of `share`; what is rarer than one in fifty belongs to
/// something else.
fn between(before: &Counts, after: &Counts, share: f64) -> Vec<(String, f64)> {
    let rise = |(name, calls): (&String, &u64)| {
        let each = (calls - before.get(name).unwrap_or(&0)) as f64 / share;
        (each >= 0.02).then(|| (name.to_uppercase(), each))
    };
    after.iter().filter_map(rise).collect()
}

fn in_words(parts: &[(String, f64)]) -> String {
    let one = |(name, each): &(String, f64)| format!("{each:.2} {name}");
    parts.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn total(parts: &[(String, f64)]) -> f64 {
    parts.iter().map(|(_, each)| each).sum()
}

impl Bench<'_> {
    fn work_row(&mut self, figure: &str, who: &str, parts: &[(String, f64)], unit: &str) -> f64 {
        let sum = total(parts);
        let cells = [format!("{sum:.2}{unit}"), String::new(), in_words(parts)];
        self.row(figure, who, cells, "", None);
        sum
    }

    /// What a target says of the row that was added last.
    fn judge(&mut self, target: &str, met: bool) {
        let row = self.rows.last_mut().unwrap();
        (row.target, row.met) = (target.to_owned(), Some(met));
    }

    /// What more pairs cost, so that what a process does once is left out. Commands that a script calls are
    /// counted too.
    pub fn commands_of_pairs(&mut self) {
        let counts_for = |who: &str, count: usize| {
            let before = self.server.command_counts();
            let mut worker = Worker::start(who, "pair", &self.server.url, "commands", count, 0);
            worker.json::<Vec<Vec<u64>>>();
            drop(worker);
            // What was written last is on its way.
            sleep(Duration::from_millis(100));
            let mut after = self.server.command_counts();
            for (name, calls) in &mut after {
                *calls -= before.get(name).unwrap_or(&0);
            }
            // The round trips that are measured beside the pairs. No lock sends any for a pair.
            after.remove("ping");
            after
        };
        for who in everybody() {
            let more = if who == "portalocker" { 10 } else { 50 };
            let (few, many) = (counts_for(who, 5), counts_for(who, 5 + more));
            let sum =
                self.work_row("commands per pair", who, &between(&few, &many, more as f64), "");
            if who == OURS {
                self.judge("<= 6", sum <= 6.0);
            }
        }
    }

    /// While n wait and one holds, over a steady time in which each comes again as soon as it has left.
    pub fn commands_of_hand_overs(&mut self) {
        for n in [4, 16] {
            let span = self.pick(Duration::from_secs(3), Duration::from_millis(500));
            let stays = 2 * span.as_millis() as usize / n;
            let mut workers = self.contenders(OURS, &format!("work-{n}"), n + 1, stays, 1000);
            workers.iter_mut().for_each(Worker::go);
            sleep(Duration::from_millis(300));
            let (before, begin) = (self.server.command_counts(), now());
            sleep(span);
            let (after, end) = (self.server.command_counts(), now());
            let entered: Vec<[u64; 2]> =
                workers.iter_mut().flat_map(|worker| worker.json::<Vec<[u64; 2]>>()).collect();
            let last = entered.iter().map(|stay| stay[0]).max().unwrap();
            assert!(last > end, "they were ready too soon");
            let inside = entered.iter().filter(|stay| (begin..end).contains(&stay[0])).count();
            let parts = between(&before, &after, inside as f64);
            let figure = format!("commands per hand-over, {n} waiters");
            let sum = self.work_row(&figure, OURS, &parts, "");
            self.judge(&format!("<= {}", n + 10), sum <= (n + 10) as f64);
        }
    }

    /// With a holder that is left alone, whose answers count too.
    pub fn waiters_at_rest(&mut self) {
        let client = Client::new(&self.server.url, ClientOptions::new()).unwrap();
        let holder = client.lock("rest", LockOptions::new()).unwrap();
        holder.acquire(Wait::Forever).unwrap();
        let mut waiters = Vec::new();
        let mut at_rest = |n: usize| {
            while waiters.len() < n {
                let mut waiter = self.contenders(OURS, "rest", 1, 1, 0).remove(0);
                waiter.go();
                waiters.push(waiter);
            }
            // They look around less and less often.
            sleep(self.pick(Duration::from_secs(6), Duration::from_secs(1)));
            let span = self.pick(Duration::from_secs(10), Duration::from_secs(2));
            let before = self.server.command_counts();
            sleep(span);
            (before, self.server.command_counts(), span.as_secs_f64())
        };
        let (alone, nine) = (at_rest(1), at_rest(9));
        let first = between(&alone.0, &alone.1, alone.2);
        let all = between(&nine.0, &nine.1, nine.2);
        let others: Vec<(String, f64)> = all
            .into_iter()
            .map(|(name, each)| {
                let of_first = first.iter().find(|one| one.0 == name).map_or(0.0, |one| one.1);
                (name, (each - of_first) / 8.0)
            })
            .collect();
        let sum = self.work_row("first waiter at rest", OURS, &first, " /s");
        self.judge("<= 50 /s", sum <= 50.0);
        let sum = self.work_row("each of 8 more at rest", OURS, &others, " /s");
        self.judge("<= 1 /s", sum <= 1.0);
    }
}
