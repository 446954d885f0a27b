//! What about a server endangers the locks on it. Asking is one thing (`ask`), judging what was said
//! another (`judge`, `rights`), which knows no connection. Nothing is changed on the server.

mod ask;
mod judge;
mod rights;
mod sentinels;

use std::time::Duration;

use crate::broker::Dialogue;
use crate::error::{Error, Result, Status};
use crate::protocol::Names;

pub(crate) use ask::ask;
pub(crate) use sentinels::judge as judge_sentinels;

/// How a finding is to be taken. Ordered from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It is as it should be.
    Fine,
    /// It could not be looked at, which is not the same as good.
    Unclear,
    /// Locks work, and are in danger under load, or when something else goes wrong.
    Warning,
    /// Locks do not work, or are not safe.
    Danger,
}

/// One thing about a server that matters to locks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What was looked at: a setting by its name, a right by its rule, or a word such as `role`.
    pub subject: String,
    /// How it is to be taken.
    pub severity: Severity,
    /// What was found, in one line.
    pub found: String,
    /// Why that matters to locks; empty where all is well.
    pub why: String,
    /// What to do about it; empty where all is well.
    pub mend: String,
}

impl Finding {
    fn fine(subject: &str, found: impl Into<String>) -> Self {
        Self::new(subject, Severity::Fine, found, "", "")
    }

    fn unclear(subject: &str, found: impl Into<String>, why: &str, mend: &str) -> Self {
        Self::new(subject, Severity::Unclear, found, why, mend)
    }

    fn warning(subject: &str, found: impl Into<String>, why: &str, mend: &str) -> Self {
        Self::new(subject, Severity::Warning, found, why, mend)
    }

    fn danger(subject: &str, found: impl Into<String>, why: &str, mend: &str) -> Self {
        Self::new(subject, Severity::Danger, found, why, mend)
    }

    fn new(
        subject: &str,
        severity: Severity,
        found: impl Into<String>,
        why: &str,
        mend: &str,
    ) -> Self {
        let (subject, found) = (subject.to_owned(), found.into());
        Self { subject, severity, found, why: why.to_owned(), mend: mend.to_owned() }
    }
}

/// Asks and judges. `named`: the names are those of a lock that is really used.
pub(crate) fn examine(
    dialogue: &mut Dialogue,
    user: &str,
    names: &Names,
    named: bool,
) -> Result<Vec<Finding>> {
    let seen = ask(dialogue, user, names)?;
    let mut findings = judge::judge(&seen);
    findings.extend(rights::judge(&seen.rights, named));
    Ok(findings)
}

/// What a failed login says of the server, if that is something to be mended there.
pub(crate) fn of_failure(error: &Error) -> Option<Finding> {
    let words = error.message();
    match error.status() {
        Status::Unsupported => Some(Finding::danger(
            "protocol",
            words,
            "locks read replies and messages from one connection, which takes RESP3",
            "use Redis 6 or newer",
        )),
        Status::Server if words.contains("no room") => Some(Finding::danger(
            "maxclients",
            words,
            "nobody can begin to wait for a lock, nor come back after a loss",
            "raise maxclients, and ulimit -n with it; see who keeps so many connections open",
        )),
        _ => None,
    }
}

/// What was seen of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// What it answers to `HELLO`.
    hello: Map,
    /// What it answers to `INFO`, if it does.
    info: Option<Map>,
    /// Settings by their names, as far as it tells them.
    config: Option<Map>,
    /// How long each of some round trips took.
    trips: Vec<Duration>,
    /// What was found out of each right.
    rights: Vec<(rights::Right, rights::Standing)>,
}

type Map = std::collections::BTreeMap<String, String>;
