//! `portalock holders`: who is on a lock's channel.

use std::time::{Duration, Instant};

use portalock::{Client, Error, Holder, Status};
use serde_json::{Value, json};

use crate::arguments::Holders;
use crate::exit;
use crate::failure::{Failure, Outcome, code_of};
use crate::member::{self, now_ms};
use crate::output::{print, quote, say, stdout_is_lively};
use crate::table;

/// From one look to the next.
const EVERY: Duration = Duration::from_secs(1);
/// Clears the terminal and goes to its first line. What was scrolled away is the person's, and stays.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// A lock and what is known of its members.
pub struct Look<'a> {
    pub name: &'a str,
    pub members: Result<Vec<Holder>, Error>,
}

impl Look<'_> {
    /// What ends the looking: one look has failed, and another would fail as well.
    fn failure(&self, arguments: &Holders) -> Option<&Error> {
        let may_pass = |error: &Error| {
            error.status() == Status::Unclear || (arguments.watch && error.is_retryable())
        };
        self.members.as_ref().err().filter(|error| !may_pass(error))
    }
}

/// Shows who holds and who waits; the exit status says whether anybody does.
pub fn holders(client: &Client, arguments: &Holders) -> Outcome {
    loop {
        let begun = Instant::now();
        let looks = look(client, arguments)?;
        let shown = show(&looks, arguments)?;
        let mut failed = false;
        for look in &looks {
            let Some(error) = look.failure(arguments) else {
                continue;
            };
            say(&format!("{}: {}", quote(look.name), error.message()));
            failed = true;
        }
        if !arguments.watch || failed || !shown {
            return Ok(status(&looks));
        }
        std::thread::sleep(EVERY.saturating_sub(begun.elapsed()));
    }
}

/// A name that cannot be one is not looked at, nor are those behind it.
fn look<'a>(client: &Client, arguments: &'a Holders) -> Result<Vec<Look<'a>>, Failure> {
    let one = |name: &'a String| match client.holders(name, arguments.timeout) {
        Err(error) if error.status() == Status::Invalid => Err(Failure::from(error)),
        members => Ok(Look { name, members }),
    };
    arguments.names.iter().map(one).collect()
}

/// A program is shown failures, too; a person is told of them elsewhere.
fn show(looks: &[Look], arguments: &Holders) -> Result<bool, Failure> {
    if arguments.json {
        return print(&format!("{}\n", Value::from_iter(looks.iter().map(as_json))));
    }
    let clear = if arguments.watch && stdout_is_lively() { CLEAR } else { "" };
    let seen = looks.iter().filter(|look| look.failure(arguments).is_none());
    print(&format!("{clear}{}", seen.map(as_text).collect::<String>()))
}

/// The worst of all: not known, held, free.
fn status(looks: &[Look]) -> u8 {
    let of = |look: &Look| match &look.members {
        Ok(members) if members.is_empty() => exit::OK,
        Ok(_) => exit::CONFLICT,
        Err(error) => code_of(error.status()),
    };
    looks.iter().map(of).max().unwrap_or(exit::OK)
}

fn as_text(look: &Look) -> String {
    let name = quote(look.name);
    match &look.members {
        Ok(members) if members.is_empty() => format!("{name}: free\n"),
        Ok(members) => format!("{name}:\n{}", table::of(members, now_ms())),
        Err(error) => format!("{name}: {}\n", error.message()),
    }
}

fn as_json(look: &Look) -> Value {
    let state = match &look.members {
        Ok(members) if members.is_empty() => "free",
        Ok(_) => "held",
        Err(error) if error.status() == Status::Unclear => "unclear",
        Err(_) => "unavailable",
    };
    let members: Vec<_> = look.members.iter().flatten().map(member_as_json).collect();
    let error = look.members.as_ref().err().map(Error::message);
    json!({"name": look.name, "state": state, "members": members, "error": error})
}

fn member_as_json(one: &Holder) -> Value {
    json!({
        "id": one.id,
        "state": member::state(one.state),
        "mode": one.mode.map(member::mode),
        "wants": one.wants.map(member::mode),
        "host": one.host,
        "pid": one.pid,
        "label": one.label,
        "since_ms": one.since_ms,
        "foreign": one.foreign,
        "legacy": one.legacy,
        "elected": one.elected,
    })
}
