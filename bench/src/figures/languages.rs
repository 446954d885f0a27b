//! The same pair through the C interface, the Go package and the gem.
use std::collections::BTreeMap;

use super::{Bench, quantile};
use crate::process::Worker;

impl Bench<'_> {
    pub fn languages(&mut self) {
        let (rounds, count) = self.pick((10, 300), (1, 50));
        let mut samples: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        let all = [("C", 1.0), ("Go", 1.15), ("Ruby", 1.5)];
        for _ in 0..rounds {
            for (who, _) in all {
                let mut worker = Worker::start(who, "pair", &self.server.url, "pair", count, 0);
                let pairs: Vec<[u64; 2]> = worker.json();
                samples.entry(who).or_default().extend(pairs.iter().map(|pair| pair[1]));
            }
        }
        let by_c = quantile(samples.get_mut("C").unwrap(), 0.5);
        for (who, limit) in all {
            let taken = samples.get_mut(who).unwrap();
            let mut cells = self.cells(taken);
            let ratio = quantile(taken, 0.5) / by_c;
            cells[2] += &format!(", {ratio:.2} x C");
            let (target, met) = match who {
                "C" => (String::new(), None),
                _ => (format!("<= {limit} x C"), Some(ratio <= limit)),
            };
            self.row("acquire + release, by language", who, cells, &target, met);
        }
    }
}
