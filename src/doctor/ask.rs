//! Asks a server what it is, how it is set, and what this user may do there.

use std::time::Instant;

use uuid::Uuid;

use super::rights::{RIGHTS, Right, Standing};
use super::{Map, Seen};
use crate::broker::{Commands, Dialogue, Said};
use crate::error::{Result, Status};
use crate::protocol::{Names, ReplyTo};

const ROUND_TRIPS: usize = 15;
const SECTIONS: [&str; 4] = ["server", "replication", "clients", "stats"];
pub(super) const SETTINGS: [&str; 8] = [
    "client-output-buffer-limit",
    "maxmemory-clients",
    "tcp-keepalive",
    "busy-reply-threshold",
    "lua-time-limit",
    "maxclients",
    "maxmemory",
    "maxmemory-policy",
];
/// No connection has this number.
const NOBODY: &str = "9223372036854775807";

pub(crate) fn ask(dialogue: &mut Dialogue, user: &str, names: &Names) -> Result<Seen> {
    let mut seen = Seen { hello: hello(dialogue)?, ..Seen::default() };
    seen.info = info(dialogue)?;
    seen.config = config(dialogue)?;
    for _ in 0..ROUND_TRIPS {
        let asked = Instant::now();
        // Refused or not: the answer has come.
        question(dialogue, &["PING"])?;
        seen.trips.push(asked.elapsed());
    }
    seen.rights = rights(dialogue, user, names)?;
    Ok(seen)
}

fn question(dialogue: &mut Dialogue, words: &[&str]) -> Result<Said> {
    let mut commands = Commands::default();
    commands.question(words);
    dialogue.send(commands);
    dialogue.answer()
}

/// Asked again, with nothing changed: the first answer was read as part of the login.
fn hello(dialogue: &mut Dialogue) -> Result<Map> {
    Ok(match question(dialogue, &["HELLO", "3"])? {
        Said::Pairs(pairs) => map(pairs),
        _ => Map::new(),
    })
}

fn map(pairs: Vec<(Said, Said)>) -> Map {
    pairs.into_iter().filter_map(|(key, value)| Some((key.text()?, value.text()?))).collect()
}

fn info(dialogue: &mut Dialogue) -> Result<Option<Map>> {
    let mut all = Map::new();
    for section in SECTIONS {
        match question(dialogue, &["INFO", section])? {
            Said::Text(text) => all.extend(info_fields(&text)),
            _ => return Ok(None),
        }
    }
    Ok(Some(all))
}

pub(super) fn info_fields(text: &str) -> Map {
    let field = |line: &str| {
        let (key, value) = line.trim_end().split_once(':')?;
        Some((key.to_owned(), value.to_owned()))
    };
    text.lines().filter_map(field).collect()
}

fn config(dialogue: &mut Dialogue) -> Result<Option<Map>> {
    let mut all = Map::new();
    for setting in SETTINGS {
        match question(dialogue, &["CONFIG", "GET", setting])? {
            Said::Pairs(pairs) => all.extend(map(pairs)),
            // Some servers know some of them only; one that refuses refuses all.
            Said::Refused { .. } => return Ok(None),
            _ => {}
        }
    }
    Ok(Some(all))
}

// --- Rights ---------------------------------------------------------------------------------------

/// The names that a member of this lock would use.
struct Words<'a> {
    names: &'a Names,
    response: String,
    fence: String,
}

impl Words<'_> {
    /// What a member sends.
    fn real(&self, right: Right) -> Vec<&str> {
        let (channel, response) = (self.names.channel(), self.response.as_str());
        match right {
            Right::Subscribe => vec!["SUBSCRIBE", channel, self.names.events(), response],
            Right::Count => vec!["PUBSUB", "NUMSUB", channel],
            Right::Name => vec!["CLIENT", "SETNAME", "portalock"],
            Right::Publish => vec!["PUBLISH", channel, ""],
            Right::Unsubscribe => vec!["UNSUBSCRIBE", channel],
            Right::Ping => vec!["PING"],
            Right::List => vec!["CLIENT", "LIST", "TYPE", "pubsub"],
            Right::Kill => vec!["CLIENT", "KILL", "ID", NOBODY, "TYPE", "pubsub"],
            Right::Script => vec!["EVAL", "return 1", "0"],
            Right::Token => vec!["INCR", &self.fence],
        }
    }

    /// What may be sent in earnest without changing anything or disturbing anybody.
    fn harmless(&self, right: Right) -> Option<Vec<&str>> {
        match right {
            // The lock channel itself would make a member of us that answers nobody.
            Right::Subscribe | Right::Unsubscribe | Right::Token => None,
            Right::Name => Some(vec!["CLIENT", "SETNAME", ""]),
            Right::Publish => Some(vec!["PUBLISH", &self.response, ""]),
            Right::List => Some(vec!["CLIENT", "LIST", "ID", NOBODY]),
            right => Some(self.real(right)),
        }
    }
}

fn rights(dialogue: &mut Dialogue, user: &str, names: &Names) -> Result<Vec<(Right, Standing)>> {
    let response = names.response_channel(&ReplyTo::Token(Uuid::now_v7().as_u128()));
    let words = Words { names, response, fence: names.fence_key() };
    let mut found = Vec::new();
    for right in RIGHTS {
        found.push((right, dry_run(dialogue, user, &words.real(right))?));
    }
    // Where it will not say, what can be tried is tried.
    for (right, standing) in &mut found {
        if let (Standing::Unknown, Some(harmless)) = (&*standing, words.harmless(*right)) {
            *standing = Standing::of(&question(dialogue, &harmless)?);
        }
    }
    if found.contains(&(Right::Subscribe, Standing::Unknown)) {
        subscribe(dialogue, &words.response, &mut found)?;
    }
    Ok(found)
}

fn dry_run(dialogue: &mut Dialogue, user: &str, command: &[&str]) -> Result<Standing> {
    let words: Vec<_> = ["ACL", "DRYRUN", user].iter().chain(command).copied().collect();
    Ok(match question(dialogue, &words)? {
        // That the answer itself is refused says nothing of what was asked.
        Said::Refused { words, .. } if !words.contains("Command '") => Standing::Unknown,
        said => Standing::of(&said),
    })
}

/// Comes last: a refusal ends the dialogue.
fn subscribe(
    dialogue: &mut Dialogue,
    channel: &str,
    found: &mut [(Right, Standing)],
) -> Result<()> {
    let mut stand = |right, standing| {
        found.iter_mut().filter(|(each, _)| *each == right).for_each(|each| each.1 = standing);
    };
    for (right, unsubscribe) in [(Right::Subscribe, false), (Right::Unsubscribe, true)] {
        let mut commands = Commands::default();
        match unsubscribe {
            true => commands.drop_response(channel),
            false => commands.open_response(channel),
        }
        dialogue.send(commands);
        match dialogue.next() {
            Ok(Some(_)) => stand(right, Standing::Given),
            Ok(None) => return Err(dialogue.silence()),
            Err(error) if matches!(error.status(), Status::Denied | Status::Server) => {
                let words = error.message().to_owned();
                let code = if error.status() == Status::Denied { "NOPERM" } else { "ERR" };
                stand(right, Standing::of(&Said::Refused { code: code.to_owned(), words }));
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
