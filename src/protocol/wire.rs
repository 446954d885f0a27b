//! Messages as bytes. Deployed peers fix the form (section 2 of `docs/protocol.md`); what we add is
//! ignored by all of them (section 3).

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::contender::{Bears, Suspect};
use super::id::{HolderId, LinkId, MemberId};
use super::message::{Answer, Asker, Event, ForeignStanding, Mode, Ping, Record, Standing, State};
use super::names::Names;

const PROTOCOL: u64 = 1;
const QUEUE: u64 = 1;

/// What a member says of itself for people to read. Nothing is decided by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disclosure {
    /// The host's name.
    pub host: Option<Arc<str>>,
    /// The process's id.
    pub pid: Option<u64>,
    /// The label that the application chose.
    pub label: Option<String>,
    /// Milliseconds since the Unix epoch at which the present state began.
    pub since_ms: Option<u64>,
}

/// A decoded answer to a ping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pong {
    /// What the protocol goes by.
    pub record: Record,
    /// What it holds by its `mode`; `None` for pending.
    pub holds: Option<Mode>,
    /// Whether it says that it has won an election.
    pub elected: Option<bool>,
    /// What it says for people.
    pub disclosure: Disclosure,
}

/// Writes a ping.
pub fn write_ping(names: &Names, ping: &Ping) -> Vec<u8> {
    let mut fields = json!({
        "message": "ping",
        "response_channel": names.response_channel(&ping.reply_to),
    });
    match ping.asker {
        Asker::Member { id, wants, link } => {
            fields["queue"] = QUEUE.into();
            fields["holder_id"] = id.to_string().into();
            fields["wants"] = mode_name(wants).into();
            if let Some(link) = link {
                fields["link"] = link.to_string().into();
            }
        }
        Asker::Observer => fields["queue"] = QUEUE.into(),
        Asker::Stranger => {}
    }
    fields.to_string().into_bytes()
}

/// Reads a message on the lock channel: a ping is any object with a non-empty `response_channel`.
pub fn read_ping(names: &Names, payload: &[u8]) -> Option<Ping> {
    let fields = object(payload)?;
    let channel = text(&fields, "response_channel").filter(|name| !name.is_empty())?;
    let reply_to = names.reply_to(channel);
    let asker = read_asker(&fields);
    Some(Ping { reply_to, asker })
}

fn read_asker(fields: &Map<String, Value>) -> Asker {
    if !is_version(fields, "queue", QUEUE) {
        return Asker::Stranger;
    }
    if !fields.contains_key("holder_id") && !fields.contains_key("wants") {
        return Asker::Observer;
    }
    let id = text(fields, "holder_id").and_then(HolderId::parse);
    let wants = text(fields, "wants").and_then(read_mode);
    match (id, wants) {
        (Some(id), Some(wants)) => Asker::Member { id, wants, link: read_link(fields) },
        _ => Asker::Stranger,
    }
}

fn read_link(fields: &Map<String, Value>) -> Option<LinkId> {
    text(fields, "link").and_then(LinkId::parse)
}

/// Writes an answer to a ping.
pub fn write_pong(
    (id, wants, link): (HolderId, Mode, Option<LinkId>),
    answer: Answer,
    disclosure: &Disclosure,
) -> Vec<u8> {
    let mut fields = json!({
        "holder_id": id.to_string(),
        "mode": answer.holds.map_or("pending", mode_name),
        "protocol": PROTOCOL,
        "queue": QUEUE,
        "wants": mode_name(wants),
        "state": state_name(answer.state),
    });
    let Disclosure { host, pid, label, since_ms } = disclosure;
    for (key, value) in [
        ("link", link.map(|link| Value::from(link.to_string()))),
        ("elected", answer.elected.map(Value::from)),
        ("host", host.as_deref().map(Value::from)),
        ("pid", pid.map(Value::from)),
        ("label", label.as_deref().map(Value::from)),
        ("since_ms", since_ms.map(Value::from)),
    ] {
        if let Some(value) = value {
            fields[key] = value;
        }
    }
    fields.to_string().into_bytes()
}

/// Reads an answer to a ping. What is no record comes from a member too old to send one; it blocks
/// everybody, and is told from others like it by `legacy`, a number of the reader's choice.
pub fn read_pong(payload: &[u8], legacy: u32) -> Pong {
    object(payload).and_then(|fields| read_current_pong(&fields)).unwrap_or_else(|| Pong {
        record: Record {
            id: MemberId::Legacy(legacy),
            link: None,
            standing: Standing::Foreign(ForeignStanding::Exclusive),
        },
        holds: Some(Mode::Exclusive),
        elected: None,
        disclosure: Disclosure::default(),
    })
}

fn read_current_pong(fields: &Map<String, Value>) -> Option<Pong> {
    if !is_version(fields, "protocol", PROTOCOL) {
        return None;
    }
    let id = MemberId::parse(text(fields, "holder_id")?);
    let holds = match text(fields, "mode")? {
        "pending" => None,
        mode => Some(read_mode(mode)?),
    };
    let queue =
        matches!(id, MemberId::Hex(_)).then(|| read_queue_standing(fields, holds)).flatten();
    let elected = fields.get("elected").and_then(Value::as_bool);
    let standing = queue.unwrap_or(Standing::Foreign(match holds {
        Some(Mode::Exclusive) => ForeignStanding::Exclusive,
        Some(Mode::Shared) => ForeignStanding::Shared,
        None => ForeignStanding::Pending { elected },
    }));
    let (record, disclosure) =
        (Record { id, link: read_link(fields), standing }, read_disclosure(fields));
    Some(Pong { record, holds, elected, disclosure })
}

/// The queue fields, where they are complete and do not contradict the mode.
fn read_queue_standing(fields: &Map<String, Value>, holds: Option<Mode>) -> Option<Standing> {
    if !is_version(fields, "queue", QUEUE) {
        return None;
    }
    let wants = text(fields, "wants").and_then(read_mode)?;
    let state = text(fields, "state").and_then(read_state)?;
    let consistent = match state {
        State::Waiting => holds.is_none(),
        State::Held => holds == Some(wants),
        State::Leaving => true,
    };
    consistent.then_some(Standing::Queue { wants, state })
}

fn read_disclosure(fields: &Map<String, Value>) -> Disclosure {
    Disclosure {
        host: text(fields, "host").map(Arc::from),
        pid: fields.get("pid").and_then(Value::as_u64),
        label: text(fields, "label").map(str::to_owned),
        since_ms: fields.get("since_ms").and_then(Value::as_u64),
    }
}

/// Writes the message of a health check.
pub fn write_health(number: u32) -> Vec<u8> {
    json!({"message": "health", "number": number}).to_string().into_bytes()
}

/// Reads the message of a health check.
pub fn read_health(payload: &[u8]) -> Option<u32> {
    let fields = object(payload)?;
    if text(&fields, "message")? != "health" {
        return None;
    }
    fields.get("number")?.as_u64()?.try_into().ok()
}

/// Writes an event.
pub fn write_event(event: Event) -> Vec<u8> {
    let Event::Left(id) = event;
    json!({"event": "left", "holder_id": id.to_string()}).to_string().into_bytes()
}

/// Reads a message on the events channel; what is no known event is ignored.
pub fn read_event(payload: &[u8]) -> Option<Event> {
    let fields = object(payload)?;
    match text(&fields, "event")? {
        "left" => text(&fields, "holder_id").and_then(HolderId::parse).map(Event::Left),
        _ => None,
    }
}

fn object(payload: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(payload) {
        Ok(Value::Object(fields)) => Some(fields),
        _ => None,
    }
}

fn text<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str)
}

fn is_version(fields: &Map<String, Value>, key: &str, version: u64) -> bool {
    fields.get(key).and_then(Value::as_u64) == Some(version)
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Shared => "shared",
        Mode::Exclusive => "exclusive",
    }
}

fn read_mode(name: &str) -> Option<Mode> {
    match name {
        "shared" => Some(Mode::Shared),
        "exclusive" => Some(Mode::Exclusive),
        _ => None,
    }
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Waiting => "waiting",
        State::Held => "held",
        State::Leaving => "leaving",
    }
}

fn read_state(name: &str) -> Option<State> {
    match name {
        "waiting" => Some(State::Waiting),
        "held" => Some(State::Held),
        "leaving" => Some(State::Leaving),
        _ => None,
    }
}

/// Who is on the lock channel by the server's list of connections. Of a link its name does not tell: it is
/// there if somebody follows its [mark](Names::mark).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roll {
    members: Vec<Suspect>,
    links: Vec<(Suspect, LinkId)>,
}

impl Roll {
    /// Reads the list, in the form of `CLIENT LIST`: by the exact names, so that no neighbour is met.
    /// The reader's own link is left out.
    pub fn read(names: &Names, list: &str, own: Option<LinkId>) -> Self {
        let mut roll = Self::default();
        for suspect in list.lines().filter_map(|line| read_suspect(names, line)) {
            match suspect.bears {
                Bears::Link(link) if Some(link) == own => {}
                Bears::Link(link) => roll.links.push((suspect, link)),
                _ => roll.members.push(suspect),
            }
        }
        roll
    }

    /// The marks that tell which of the links are on the channel; `None` if there are no links.
    pub fn marks(&self, names: &Names) -> Option<Vec<String>> {
        let marks = self.links.iter().map(|(_, link)| names.mark(*link));
        (!self.links.is_empty()).then(|| marks.collect())
    }

    /// Who is there, where there are no links.
    pub fn all(self) -> Vec<Suspect> {
        self.present(&[])
    }

    /// Who is there; of the links those whose marks are followed, in the order of
    /// [`marks`](Self::marks).
    pub fn present(self, followed: &[bool]) -> Vec<Suspect> {
        let links = self.links.into_iter().zip(followed).filter(|(_, followed)| **followed);
        self.members.into_iter().chain(links.map(|((suspect, _), _)| suspect)).collect()
    }
}

fn read_suspect(names: &Names, line: &str) -> Option<Suspect> {
    let field =
        |key| line.split(' ').find_map(|field: &str| field.strip_prefix(key)?.strip_prefix('='));
    let client = field("id")?.parse().ok()?;
    let name = field("name")?;
    let bears = match (names.member_of(name), Names::link_of(name)) {
        (Some(member), _) => Bears::Member(member),
        (_, Some(link)) => Bears::Link(link),
        _ if Some(name) == names.legacy_client_name() => Bears::Legacy,
        _ => return None,
    };
    Some(Suspect { client, bears })
}

#[cfg(test)]
mod tests;
