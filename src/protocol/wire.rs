//! Messages as bytes. Deployed peers fix the form (section 2 of `docs/protocol.md`); what we add is
//! ignored by all of them (section 3).

use serde_json::{Map, Value, json};

use super::contender::Suspect;
use super::id::{HolderId, MemberId};
use super::message::{Answer, Asker, Event, ForeignStanding, Mode, Ping, Record, Standing, State};
use super::names::Names;

const PROTOCOL: u64 = 1;
const QUEUE: u64 = 1;

/// What a member says of itself for people to read. Nothing is decided by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disclosure {
    /// The host's name.
    pub host: Option<String>,
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
        Asker::Member { id, wants } => {
            fields["queue"] = QUEUE.into();
            fields["holder_id"] = id.to_string().into();
            fields["wants"] = mode_name(wants).into();
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
        (Some(id), Some(wants)) => Asker::Member { id, wants },
        _ => Asker::Stranger,
    }
}

/// Writes an answer to a ping.
pub fn write_pong(id: HolderId, wants: Mode, answer: Answer, disclosure: &Disclosure) -> Vec<u8> {
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
    let (record, disclosure) = (Record { id, standing }, read_disclosure(fields));
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
        host: text(fields, "host").map(str::to_owned),
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

/// Reads who is on the lock channel out of the server's list of connections, in the form of
/// `CLIENT LIST`: by the exact name, so that no neighbour is met.
pub fn read_roll(names: &Names, list: &str) -> Vec<Suspect> {
    list.lines().filter_map(|line| read_suspect(names, line)).collect()
}

fn read_suspect(names: &Names, line: &str) -> Option<Suspect> {
    let field =
        |key| line.split(' ').find_map(|field: &str| field.strip_prefix(key)?.strip_prefix('='));
    let client = field("id")?.parse().ok()?;
    let name = field("name")?;
    let member = names.member_of(name);
    let known = member.is_some() || Some(name) == names.legacy_client_name();
    known.then_some(Suspect { client, member })
}

#[cfg(test)]
mod tests;
