//! `portalock doctor`: what about a server endangers the locks on it.

use std::time::Duration;

use portalock::{Client, Finding, LockOptions, Result, Severity, Stats, Wait};
use serde_json::{Value, json};

use crate::arguments::Doctor;
use crate::exit;
use crate::failure::Outcome;
use crate::output::{plain, print, quote};

/// How often a lock is taken for the numbers.
const ROUNDS: usize = 20;

/// Shows what was found, the worst first; the exit status says how bad it is.
pub fn doctor(client: &Client, arguments: &Doctor) -> Outcome {
    let findings = client.examine(arguments.lock.as_deref(), arguments.timeout)?;
    let usage = match arguments.stats {
        true => Some(use_it(client, arguments)),
        false => None,
    };
    let text = match arguments.json {
        true => format!("{}\n", as_json(&findings, usage.as_ref())),
        false => as_text(&findings, usage.as_ref()),
    };
    print(&text)?;
    match usage {
        Some(Usage { outcome: Err(error), .. }) => Err(error.into()),
        _ => Ok(status(&findings)),
    }
}

/// A lock that was taken a few times, and what was counted.
struct Usage {
    name: String,
    outcome: Result<()>,
    stats: Stats,
}

/// Nobody else knows the lock, and the server keeps nothing of it.
fn use_it(client: &Client, arguments: &Doctor) -> Usage {
    let prefix = arguments.lock.as_deref().unwrap_or("portalock");
    let name = format!("{prefix}-doctor-{}", std::process::id());
    let outcome = rounds(client, &name, arguments.timeout);
    Usage { name, outcome, stats: client.stats().unwrap_or_default() }
}

fn rounds(client: &Client, name: &str, timeout: Duration) -> Result<()> {
    let mut options = LockOptions::new();
    options.label("portalock doctor")?;
    let lock = client.lock(name, options)?;
    for _ in 0..ROUNDS {
        lock.acquire(Wait::For(timeout))?;
        lock.release()?;
    }
    lock.acquire(Wait::For(timeout))?;
    lock.verify(timeout)?;
    lock.release_wait(timeout)
}

/// What is wrong counts more than what could not be looked at.
fn status(findings: &[Finding]) -> u8 {
    match findings.iter().map(|finding| finding.severity).max() {
        Some(Severity::Danger) => exit::DANGER,
        Some(Severity::Warning) => exit::CONFLICT,
        Some(Severity::Unclear) => exit::UNCLEAR,
        _ => exit::OK,
    }
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Fine => "fine",
        Severity::Unclear => "unclear",
        Severity::Warning => "warning",
        Severity::Danger => "danger",
    }
}

fn as_text(findings: &[Finding], usage: Option<&Usage>) -> String {
    let one = |finding: &Finding| {
        let head = format!("{:8} {}: {}\n", word(finding.severity), finding.subject, finding.found);
        let more = [("why", &finding.why), ("mend", &finding.mend)];
        let more = more.iter().filter(|(_, text)| !text.is_empty());
        let lines = more.map(|(what, text)| format!("         {what}: {text}\n"));
        // What a server says of itself is not to be obeyed by a terminal.
        let lines = std::iter::once(head).chain(lines);
        lines.map(|line| plain(line.trim_end()) + "\n").collect::<String>()
    };
    findings.iter().map(one).chain(usage.map(usage_as_text)).collect()
}

fn usage_as_text(usage: &Usage) -> String {
    let mut text = format!("\nThis process, after {ROUNDS} pairs of {}:\n", quote(&usage.name));
    for (name, value) in numbers(&usage.stats) {
        text += &format!("  {name:<16} {value}\n");
    }
    text
}

/// Those that the library names, and percentiles of the waits.
fn numbers(stats: &Stats) -> Vec<(&'static str, u64)> {
    let percentiles = [("wait_p50_us", 50.0), ("wait_p90_us", 90.0), ("wait_p99_us", 99.0)];
    let us =
        |percent| u64::try_from(stats.waits.percentile(percent).as_micros()).unwrap_or(u64::MAX);
    stats.numbers().chain(percentiles.map(|(name, percent)| (name, us(percent)))).collect()
}

fn as_json(findings: &[Finding], usage: Option<&Usage>) -> Value {
    let worst = findings.iter().map(|finding| finding.severity).max();
    let one = |finding: &Finding| {
        json!({
            "subject": finding.subject,
            "severity": word(finding.severity),
            "found": finding.found,
            "why": finding.why,
            "mend": finding.mend,
        })
    };
    json!({
        "severity": word(worst.unwrap_or(Severity::Fine)),
        "findings": findings.iter().map(one).collect::<Vec<_>>(),
        "stats": usage.map(|usage| Value::from_iter(numbers(&usage.stats))),
    })
}
