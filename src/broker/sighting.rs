//! What one sentinel says of the master, asked over a connection of its own.

use std::time::{Duration, Instant};

use super::commands::Commands;
use super::dialogue::Dialogue;
use super::link::Frame;
use super::reply::Said;
use crate::error::{Error, Result, Status};

/// Where sentinels publish that the master is another.
const SWITCHED: &str = "+switch-master";

/// Where a sentinel sees the master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) host: String,
    pub(super) port: u16,
    /// Which of the masters it is: rises with each failover. 0 if the sentinel does not tell.
    pub(super) epoch: u64,
    /// For how long a sentinel lets the master be silent; `None` if it does not tell.
    pub(super) down_after: Option<Duration>,
    /// How many sentinels there are; `None` if it does not tell.
    pub(super) sentinels: Option<u64>,
    /// When it was asked.
    pub(super) asked: Instant,
    /// Whether it sees a majority of the sentinels: without one it may be what a partition has cut off.
    pub(super) backed: bool,
}

/// What comes of listening to a sentinel.
pub(super) enum News {
    /// There may be another master.
    Switched,
    /// Nothing has come.
    None,
}

/// Asks for the master of this name.
pub(super) fn ask(dialogue: &mut Dialogue, name: &str) -> Result<Option<Sighting>> {
    let asked = Instant::now();
    let mut commands = Commands::default();
    // The epoch before the address: if the master changes in between, the epoch is too low, which makes
    // the answer an old one, and not too high.
    for what in ["MASTER", "GET-MASTER-ADDR-BY-NAME", "CKQUORUM"] {
        commands.question(&["SENTINEL", what, name]);
    }
    dialogue.send(commands);
    let about = dialogue.answer()?;
    let place = dialogue.answer()?;
    let quorum = dialogue.answer()?;
    let (host, port) = match place {
        Said::Items(words) => match place_of(words) {
            Some(place) => place,
            None => return Err(nonsense(dialogue)),
        },
        Said::Refused { code, words } => return Err(refused(&code, &words)),
        _ => return Ok(None),
    };
    let number = |field: &str| field_of(&about, field)?.parse::<u64>().ok();
    Ok(Some(Sighting {
        host,
        port,
        epoch: number("config-epoch").unwrap_or(0),
        down_after: number("down-after-milliseconds").map(Duration::from_millis),
        sentinels: number("num-other-sentinels").map(|others| others + 1),
        asked,
        backed: is_backed(&quorum),
    }))
}

/// Has the sentinel tell of changes, from now on.
pub(super) fn follow(dialogue: &mut Dialogue) {
    let mut commands = Commands::default();
    commands.follow(&[SWITCHED]);
    dialogue.send(commands);
}

/// Waits until then for a change of this master.
pub(super) fn listen(dialogue: &mut Dialogue, name: &str, until: Instant) -> Result<News> {
    while let Some(frame) = dialogue.next_until(until)? {
        let Frame::Message { channel, payload } = frame else {
            continue;
        };
        let of = payload.split(|byte| *byte == b' ').next();
        if channel == SWITCHED.as_bytes() && of == Some(name.as_bytes()) {
            return Ok(News::Switched);
        }
    }
    Ok(News::None)
}

fn place_of(words: Vec<Said>) -> Option<(String, u16)> {
    let mut words = words.into_iter();
    let (host, port) = (words.next()?.text()?, words.next()?.text()?);
    Some((host, port.parse().ok()?))
}

/// A field of a map, which is a flat list in RESP2.
fn field_of<'a>(said: &'a Said, field: &str) -> Option<&'a str> {
    let is_field = |key: &Said| matches!(key, Said::Text(key) if key == field);
    let value = match said {
        Said::Pairs(pairs) => &pairs.iter().find(|(key, _)| is_field(key))?.1,
        Said::Items(items) => items.chunks_exact(2).find(|pair| is_field(&pair[0]))?.get(1)?,
        _ => return None,
    };
    match value {
        Said::Text(text) => Some(text),
        _ => None,
    }
}

/// A quorum that is out of reach only means that no failover can begin. One that may not ask is believed.
fn is_backed(said: &Said) -> bool {
    match said {
        Said::Refused { code, words } => code != "NOQUORUM" || !words.contains("majority"),
        _ => true,
    }
}

fn refused(code: &str, words: &str) -> Error {
    let status = if code == "NOPERM" { Status::Denied } else { Status::Server };
    Error::new(status, format!("a sentinel says: {code} {words}"))
}

fn nonsense(dialogue: &Dialogue) -> Error {
    Error::new(Status::NotRedis, format!("{} is no sentinel", dialogue.endpoint()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: &str, words: &str) -> Said {
        Said::Refused { code: code.to_owned(), words: words.to_owned() }
    }

    fn text(text: &str) -> Said {
        Said::Text(text.to_owned())
    }

    #[test]
    fn a_sentinel_without_a_majority_is_not_believed() {
        assert!(is_backed(&text("OK 3 usable Sentinels. Quorum can be reached")));
        let lonely = "1 usable Sentinels. Not enough available Sentinels to reach the majority and authorize a failover";
        assert!(!is_backed(&refusal("NOQUORUM", lonely)));
        let picky = "2 usable Sentinels. Not enough available Sentinels to reach the specified quorum for this master";
        assert!(is_backed(&refusal("NOQUORUM", picky)));
        assert!(is_backed(&refusal("NOPERM", "User x has no permissions")));
    }

    #[test]
    fn fields_are_found_in_both_protocols() {
        let pairs = vec![(text("ip"), text("h")), (text("config-epoch"), text("7"))];
        let flat = pairs.iter().flat_map(|(key, value)| [key.clone(), value.clone()]).collect();
        for said in [Said::Pairs(pairs), Said::Items(flat)] {
            assert_eq!(field_of(&said, "config-epoch"), Some("7"));
            assert_eq!(field_of(&said, "h"), None);
        }
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        let place = vec![text("::1"), text("6379")];
        assert_eq!(place_of(place), Some(("::1".to_owned(), 6379)));
        assert_eq!(place_of(vec![text("h"), text("99999")]), None);
        assert_eq!(place_of(vec![text("h")]), None);
    }
}
