//! `portalock holders`: who is on a lock's channel.

use std::time::{Duration, Instant};

use portalock::{Client, Error, Holder, Status};
use serde_json::{Value, json};

use crate::arguments::Holders;
use crate::exit;
use crate::failure::{Failure, Outcome, code_of};
use crate::member::{self, now_ms};
use crate::output::{print, quote, stdout_is_lively};
use crate::table;

/// From one look to the next.
const EVERY: Duration = Duration::from_secs(1);
/// Clears the terminal and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// A lock and what is known of its members.
pub struct Look<'a> {
    pub name: &'a str,
    pub members: Result<Vec<Holder>, Error>,
}

/// Shows who holds and who waits; the exit status says whether anybody does.
pub fn holders(client: &Client, arguments: &Holders) -> Outcome {
    loop {
        let begun = Instant::now();
        let looks = look(client, arguments)?;
        let text = match arguments.json {
            true => format!("{}\n", Value::from_iter(looks.iter().map(as_json))),
            false => as_text(&looks),
        };
        let clear = arguments.watch && !arguments.json && stdout_is_lively();
        let shown = print(&format!("{}{text}", if clear { CLEAR } else { "" }));
        if !arguments.watch || !shown {
            return Ok(status(&looks));
        }
        std::thread::sleep(EVERY.saturating_sub(begun.elapsed()));
    }
}

fn look<'a>(client: &Client, arguments: &'a Holders) -> Result<Vec<Look<'a>>, Failure> {
    let one = |name: &'a String| {
        let members = client.holders(name, arguments.timeout);
        match members {
            Err(error) if code_of(error.status()) != exit::UNCLEAR && !arguments.watch => {
                Err(Failure::from(error))
            }
            members => Ok(Look { name, members }),
        }
    };
    arguments.names.iter().map(one).collect()
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

fn as_text(looks: &[Look]) -> String {
    let one = |look: &Look| {
        let name = quote(look.name);
        match &look.members {
            Ok(members) if members.is_empty() => format!("{name}: free\n"),
            Ok(members) => format!("{name}:\n{}", table::of(members, now_ms())),
            Err(error) => format!("{name}: {}\n", error.message()),
        }
    };
    looks.iter().map(one).collect()
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
