//! What `--help` and the manual pages say beyond the options. Also read by the build script.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::exit;

/// How wide a line of `--help` may be at the most, and is unless the terminal is narrower.
const WIDEST: usize = 80;
/// Below that two columns make no sense.
const NARROWEST: usize = 50;
static WIDTH: AtomicUsize = AtomicUsize::new(WIDEST);

/// Fits what follows to a terminal of so many columns: else its lines would be broken once more.
pub fn fit(columns: usize) {
    WIDTH.store(columns.clamp(NARROWEST, WIDEST), Ordering::Relaxed);
}

/// What a subcommand's page has at its end.
pub struct Page {
    /// Exit statuses and what they mean; those of [`COMMON`] come on top.
    pub exits: &'static [(u8, &'static str)],
    /// Variables that are read or set.
    pub environment: &'static [(&'static str, &'static str)],
    /// Command lines, each with what it does.
    pub examples: &'static [(&'static str, &'static str)],
}

/// Exit statuses of every subcommand.
const COMMON: &[(u8, &str)] = &[
    (exit::USAGE, "the command line, or the server's URL, is wrong"),
    (exit::NO_INPUT, "the file of --url-file cannot be read"),
    (exit::UNAVAILABLE, "the server cannot be used"),
    (exit::SOFTWARE, "a fault of portalock's own"),
    (exit::NO_OUTPUT, "standard output cannot be written to"),
    (exit::NO_PERMISSION, "the server refuses the user, the password, or a command"),
];

const URL: (&str, &str) = (
    "PORTALOCK_URL",
    "the server, unless --url or --url-file says it; redis://127.0.0.1:6379 if none does",
);

/// Where the wanted level of the log is looked for.
pub const LOG_VARIABLE: &str = "PORTALOCK_LOG";

const LOG: (&str, &str) = (
    LOG_VARIABLE,
    "which lines of the library's log go to standard error: off (unless set), error, warn, info, debug",
);

/// Of the command as a whole.
pub const ALL: Page = Page {
    exits: &[],
    environment: &[URL, LOG],
    examples: &[
        ("portalock run nightly-report -- ./report.sh", "run it, alone among all hosts"),
        ("portalock holders nightly-report", "who holds it, and who waits"),
    ],
};

/// Of `portalock run`.
pub const RUN: Page = Page {
    exits: &[
        (exit::OK, "the command's own status: 0 if it did well"),
        (
            exit::CONFLICT,
            "somebody else holds the lock, and -n or -w ended the wait; -E sets another",
        ),
        (exit::DATA, "with --fence-env: the key of the counter holds something else"),
        (exit::LOST, "the lock was lost while the command ran"),
        (exit::NOT_EXECUTABLE, "the command cannot be run"),
        (exit::NOT_FOUND, "the command is not there"),
        (exit::SIGNALLED, "and n on top: signal n ended the command, or the wait"),
    ],
    environment: &[
        (
            "PORTALOCK_URL",
            "the server, unless --url or --url-file says it; redis://127.0.0.1:6379 if none does. \
          The command gets it without its password, or whole with --keep-url",
        ),
        ("PORTALOCK_NAME", "set for the command: the lock's name"),
        (
            "PORTALOCK_FENCING_TOKEN",
            "set for the command with --fence-env, unset without: the token",
        ),
        ("SHELL", "the shell that -c uses"),
        LOG,
    ],
    examples: &[
        (
            "portalock run -n nightly-report -- ./report.sh",
            "run it, unless it runs already on some host",
        ),
        (
            "portalock run -w 2.5 -E 75 db -c 'pg_dump shop >shop.sql'",
            "wait for 2.5 s, then end with 75",
        ),
        ("portalock run -s cache -- ./read.sh", "run it together with other readers"),
        ("portalock run --fence-env store -- ./write.sh", "let it prove its turn to the store"),
        (
            "portalock run --url-file /etc/portalock.url -v db -- ./migrate",
            "keep the password out of listings",
        ),
    ],
};

/// Of `portalock holders`.
pub const HOLDERS: Page = Page {
    exits: &[
        (exit::OK, "every lock is free"),
        (exit::CONFLICT, "somebody is there: a lock is held or waited for"),
        (exit::UNCLEAR, "it cannot be told: some members do not answer"),
    ],
    environment: &[URL, LOG],
    examples: &[
        ("portalock holders nightly-report db", "who is there"),
        ("portalock holders --watch db", "the same every second"),
        ("portalock holders --json db | jq '.[0].members[].host'", "the hosts"),
    ],
};

/// Of `portalock wait`.
pub const WAIT: Page = Page {
    exits: &[
        (exit::OK, "the lock was free"),
        (exit::CONFLICT, "it was not when -n or -w ended the wait; -E sets another"),
        (exit::UNCLEAR, "it cannot be told: some members do not answer"),
    ],
    environment: &[URL, LOG],
    examples: &[("portalock wait -w 60 migration && ./start.sh", "start when nobody migrates")],
};

/// Of `portalock reap`.
pub const REAP: Page = Page {
    exits: &[(exit::OK, "those who are left have answered")],
    environment: &[URL, LOG],
    examples: &[("portalock reap nightly-report", "free it of processes that were stopped")],
};

/// Of `portalock doctor`.
pub const DOCTOR: Page = Page {
    exits: &[
        (exit::OK, "all is well"),
        (exit::CONFLICT, "locks work, and are in danger under load or when something else fails"),
        (exit::UNCLEAR, "nothing is known to be wrong, and not everything could be looked at"),
        (exit::DANGER, "locks do not work, or are not safe"),
    ],
    environment: &[URL, LOG],
    examples: &[
        ("portalock doctor --stats", "look at the server, and use it a little"),
        (
            "portalock doctor --url-file /etc/portalock.url --lock nightly-report",
            "look whether that user may use that lock",
        ),
        (
            "portalock doctor --json | jq '.findings[] | select(.severity != \"fine\")'",
            "what is amiss",
        ),
    ],
};

/// The subcommands that have a page; the build script alone goes through them.
#[allow(dead_code)]
pub const SUBCOMMANDS: &[(&str, &Page)] =
    &[("run", &RUN), ("holders", &HOLDERS), ("wait", &WAIT), ("reap", &REAP), ("doctor", &DOCTOR)];

impl Page {
    /// Its exit statuses, lowest first.
    pub fn exits(&self) -> Vec<(u8, &'static str)> {
        let mut all = [self.exits, COMMON].concat();
        all.sort_by_key(|(code, _)| *code);
        all
    }

    /// As it stands at the end of `--help`.
    pub fn text(&self) -> String {
        let exits: Vec<_> =
            self.exits().iter().map(|(code, what)| (code.to_string(), *what)).collect();
        let exits = exits.iter().map(|(code, what)| (code.as_str(), *what));
        let mut text = section("Exit status", exits);
        text += &section("Environment", self.environment.iter().copied());
        text += "\nExamples:\n";
        for (line, what) in self.examples {
            text += &format!("  {line}\n      {what}\n");
        }
        text.trim().to_owned()
    }
}

/// A heading, and rows of two columns.
fn section<'a>(heading: &str, rows: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let rows: Vec<_> = rows.collect();
    let wide = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    if rows.is_empty() {
        return String::new();
    }
    let width = WIDTH.load(Ordering::Relaxed) - 4 - wide;
    let mut text = format!("\n{heading}:\n");
    for (name, what) in rows {
        for (number, line) in wrapped(what, width).iter().enumerate() {
            let name = if number == 0 { name } else { "" };
            text += &format!("  {name:wide$}  {line}\n");
        }
    }
    text
}

/// Lines of at most so many characters, broken between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().filter(|line| line.len() + word.len() < width);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}
