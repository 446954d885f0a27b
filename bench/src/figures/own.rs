//! Figures that no peer has.
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::{Bench, OURS, quantile, time};
use crate::process::Worker;

fn read_json(path: std::path::PathBuf) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Seconds of processor time that a process has taken so far.
fn processor_time(pid: i32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap().split(' ').collect();
    // SAFETY: a plain question.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / ticks
}

impl Bench<'_> {
    fn plain_row(&mut self, figure: &str, value: String, target: &str, met: Option<bool>) {
        self.row(figure, OURS, [value, String::new(), String::new()], target, met);
    }

    /// By criterion. Its samples are of many calls each.
    pub fn in_process(&mut self) {
        let folder = tempfile::TempDir::new().unwrap();
        let seconds = self.pick("3", "1");
        let words =
            ["own", "in-process", &self.server.url, folder.path().to_str().unwrap(), seconds];
        let mut child = Command::new(std::env::current_exe().unwrap());
        let status = child.args(words).stdout(Stdio::null()).status().unwrap();
        assert!(status.success(), "{status}");
        for name in ["pl_lock_is_held", "pl_lock_verified_age"] {
            let found = folder.path().join(name).join("new");
            let median =
                read_json(found.join("estimates.json"))["median"]["point_estimate"].clone();
            let median = median.as_f64().unwrap();
            let sample = read_json(found.join("sample.json"));
            let list =
                |key: &str| sample[key].as_array().unwrap().iter().map(|v| v.as_f64().unwrap());
            // In picoseconds, since quantiles are of whole numbers.
            let mut spans: Vec<u64> =
                list("times").zip(list("iters")).map(|(t, n)| (t / n * 1e3) as u64).collect();
            let p99 = quantile(&mut spans, 0.99) / 1e3;
            let cells = [time(median), time(p99), String::new()];
            self.row(name, OURS, cells, "<= 20 ns", Some(median <= 20.0));
        }
    }

    /// Each on a connection of its own, and all on one.
    pub fn held(&mut self) {
        let (count, many, seconds) = self.pick((5000, 50_000, 30), (200, 2000, 2));
        self.held_by(count, false, 12.0, seconds);
        self.held_by(many, true, 1.5, seconds.min(10));
    }

    fn held_by(&mut self, count: u64, shared: bool, most: f64, seconds: u32) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["own", "hold", &self.server.url, &count.to_string(), &shared.to_string()]);
        let mut holder = Worker::spawn(command);
        let (bytes, threads): (u64, usize) = holder.json();
        sleep(Duration::from_secs(1));
        let before = processor_time(holder.pid());
        let mut checks = Vec::new();
        for _ in 0..seconds {
            let so_far = self.server.command_counts()["publish"];
            sleep(Duration::from_secs(1));
            checks.push(self.server.command_counts()["publish"] - so_far);
        }
        let taken = (processor_time(holder.pid()) - before) / f64::from(seconds) * 100.0;
        holder.go();
        assert!(holder.json::<bool>(), "a lock was lost");
        let mean = checks.iter().sum::<u64>() as f64 / checks.len() as f64;
        let busiest = quantile(&mut checks, 1.0);
        let on_one = if shared { " on one connection" } else { "" };
        let figure = |what: &str| format!("{count} held locks{on_one}: {what}");
        self.plain_row(
            &figure("threads of the library"),
            threads.to_string(),
            "1",
            Some(threads == 1),
        );
        let kilobytes = bytes as f64 / 1024.0;
        let (target, met) = (format!("<= {most} KB"), Some(kilobytes <= most));
        self.plain_row(&figure("resident each"), format!("{kilobytes:.2} KB"), &target, met);
        let met = Some(taken <= 1.0);
        self.plain_row(&figure("a core when idle"), format!("{taken:.2} %"), "<= 1 %", met);
        let text = format!("{mean:.0} /s");
        let cells = [text, String::new(), format!("busiest second {busiest:.0}")];
        self.row(
            &figure("health checks"),
            OURS,
            cells,
            "spread",
            (mean > 0.0 && !shared).then_some(busiest <= 2.0 * mean),
        );
    }

    pub fn allocations(&mut self) {
        let program = std::env::current_exe().unwrap().with_file_name("allocations");
        let mut command = Command::new(program);
        command.args([self.server.url.as_str(), self.pick("1000", "100")]);
        let (acquire, pair): (f64, f64) = Worker::spawn(command).json();
        self.plain_row("allocations per acquire, its thread", format!("{acquire:.1}"), "", None);
        self.plain_row("allocations per pair, all threads", format!("{pair:.1}"), "", None);
    }
}
