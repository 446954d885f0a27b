//! Whatever arrives on a channel, or in a list of connections, is read without a panic and means what
//! JSON says that it means; and what we write is read as we meant it.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use portalock::protocol::wire::*;
use portalock::protocol::*;
use serde_json::Value;

const CHANNELS: [&str; 6] = ["jobs", "j", "a b", "jobs-lock-x", "ü%20", "a-0123456789abcdef"];

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let names = Names::new(CHANNELS[usize::from(first >> 2) % CHANNELS.len()]).unwrap();
    match first & 3 {
        0 => read_all(&names, rest),
        1 => roll(&names, &String::from_utf8_lossy(rest)),
        2 => drop(write_and_read(&names, &mut Unstructured::new(rest))),
        _ => drop(list_and_read(&names, &mut Unstructured::new(rest))),
    }
});

/// Every reader gets the same bytes: nobody checks on which channel which of them may come.
fn read_all(names: &Names, payload: &[u8]) {
    let json: Option<Value> = serde_json::from_slice(payload).ok().filter(Value::is_object);
    let value = json.clone().unwrap_or(Value::Null);
    let read = (
        read_ping(names, payload),
        read_pong(payload, 7),
        read_event(payload),
        read_health(payload),
    );
    assert_eq!(read.0, meant_as_ping(names, &value));
    assert_eq!(read.1, meant_as_pong(&value));
    assert_eq!(read.2, meant_as_event(&value));
    assert_eq!(read.3, meant_as_health(&value));
    if json.is_some() {
        // The same in other words: other escapes, other white space, each key once.
        let again = serde_json::to_vec_pretty(&value).unwrap();
        assert_eq!(read.0, read_ping(names, &again));
        assert_eq!(read.1, read_pong(&again, 7));
        assert_eq!(read.2, read_event(&again));
        assert_eq!(read.3, read_health(&again));
    }
    rewrite(names, read.0, read.2, read.3);
}

/// What was read can be written and read again.
fn rewrite(names: &Names, ping: Option<Ping>, event: Option<Event>, health: Option<u32>) {
    if let Some(ping) = ping {
        assert_eq!(read_ping(names, &write_ping(names, &ping)), Some(ping));
    }
    if let Some(event) = event {
        assert_eq!(read_event(&write_event(event)), Some(event));
    }
    if let Some(number) = health {
        assert_eq!(read_health(&write_health(number)), Some(number));
    }
}

// --- What section 2 and 3 of docs/protocol.md say, in other words than src/protocol/wire.rs -------

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("")
}

fn mode(name: &str) -> Option<Mode> {
    [("shared", Mode::Shared), ("exclusive", Mode::Exclusive)]
        .into_iter()
        .find_map(|(known, mode)| (known == name).then_some(mode))
}

/// As an integer: JSON's `1.0` and `1e0` are none to any peer that compares with `is`, nor to us.
fn is_one(value: &Value, key: &str) -> bool {
    value[key].as_u64() == Some(1)
}

fn hex(text: &str) -> Option<HolderId> {
    let wanted = text.len() == 32 && text.chars().all(|c| "0123456789abcdef".contains(c));
    wanted.then(|| HolderId(u128::from_str_radix(text, 16).unwrap()))
}

fn meant_as_ping(names: &Names, value: &Value) -> Option<Ping> {
    let channel = text(value, "response_channel");
    if channel.is_empty() {
        return None;
    }
    let (head, tail) = channel.split_at_checked(names.channel().len() + 1).unwrap_or(("", ""));
    let reply_to = match hex(tail) {
        Some(id) if head == format!("{}-", names.channel()) => ReplyTo::Token(id.0),
        _ => ReplyTo::Name(channel.into()),
    };
    let says_nothing = value.get("holder_id").is_none() && value.get("wants").is_none();
    let asker = match (hex(text(value, "holder_id")), mode(text(value, "wants"))) {
        _ if !is_one(value, "queue") => Asker::Stranger,
        _ if says_nothing => Asker::Observer,
        (Some(id), Some(wants)) => {
            Asker::Member { id, wants, link: hex(text(value, "link")).map(|id| LinkId(id.0)) }
        }
        _ => Asker::Stranger,
    };
    Some(Ping { reply_to, asker })
}

fn meant_as_pong(value: &Value) -> Pong {
    let id = value["holder_id"].as_str();
    let said = text(value, "mode");
    let is_record = is_one(value, "protocol") && id.is_some();
    if !is_record || !["pending", "shared", "exclusive"].contains(&said) {
        let standing = Standing::Foreign(ForeignStanding::Exclusive);
        return Pong {
            record: Record { id: MemberId::Legacy(7), link: None, standing },
            holds: Some(Mode::Exclusive),
            elected: None,
            disclosure: Disclosure::default(),
        };
    }
    let (id, holds, elected) = (id.unwrap(), mode(said), value["elected"].as_bool());
    let wants = mode(text(value, "wants"));
    let standing = match (text(value, "state"), wants, holds) {
        _ if !is_one(value, "queue") || hex(id).is_none() => None,
        ("waiting", Some(wants), None) => Some((wants, State::Waiting)),
        ("held", Some(wants), Some(holds)) if wants == holds => Some((wants, State::Held)),
        ("leaving", Some(wants), _) => Some((wants, State::Leaving)),
        _ => None,
    };
    let foreign = match holds {
        None => ForeignStanding::Pending { elected },
        Some(Mode::Shared) => ForeignStanding::Shared,
        Some(Mode::Exclusive) => ForeignStanding::Exclusive,
    };
    Pong {
        record: Record {
            id: hex(id).map_or_else(|| MemberId::Text(id.into()), MemberId::Hex),
            link: hex(text(value, "link")).map(|id| LinkId(id.0)),
            standing: standing.map_or(Standing::Foreign(foreign), |(wants, state)| {
                Standing::Queue { wants, state }
            }),
        },
        holds,
        elected,
        disclosure: Disclosure {
            host: value["host"].as_str().map(Arc::from),
            pid: value["pid"].as_u64(),
            label: value["label"].as_str().map(str::to_owned),
            since_ms: value["since_ms"].as_u64(),
        },
    }
}

fn meant_as_event(value: &Value) -> Option<Event> {
    (text(value, "event") == "left").then(|| hex(text(value, "holder_id")))?.map(Event::Left)
}

fn meant_as_health(value: &Value) -> Option<u32> {
    let number = value["number"].as_u64().filter(|_| text(value, "message") == "health")?;
    (number <= u64::from(u32::MAX)).then_some(number as u32)
}

// --- What we write --------------------------------------------------------------------------------

fn some_mode(u: &mut Unstructured) -> Result<Mode> {
    Ok(if u.arbitrary()? { Mode::Shared } else { Mode::Exclusive })
}

fn write_and_read(names: &Names, u: &mut Unstructured) -> Result<()> {
    let (id, wants) = (HolderId(u.arbitrary()?), some_mode(u)?);
    let state = *u.choose(&[State::Waiting, State::Held, State::Leaving])?;
    let holds = if u.arbitrary()? { Some(some_mode(u)?) } else { None };
    let answer = Answer { state, holds, elected: u.arbitrary()? };
    let link = u.arbitrary::<Option<u128>>()?.map(LinkId);
    let disclosure = Disclosure {
        host: u.arbitrary::<Option<String>>()?.map(Arc::from),
        pid: u.arbitrary()?,
        label: u.arbitrary()?,
        since_ms: u.arbitrary()?,
    };
    let written = write_pong((id, wants, link), answer, &disclosure);
    let pong = read_pong(&written, 7);
    let ours = Standing::Queue { wants, state };
    let agrees = state == State::Leaving || holds == (state == State::Held).then_some(wants);
    assert_eq!((&pong.record.id, pong.record.link), (&MemberId::Hex(id), link));
    assert_eq!(pong.record.standing == ours, agrees, "{pong:?}");
    assert_eq!((pong.holds, pong.elected), (holds, answer.elected));
    assert_eq!(pong.disclosure, disclosure);

    let member = Asker::Member { id, wants, link };
    let asker = *u.choose(&[member, Asker::Observer, Asker::Stranger])?;
    let reply_to = ReplyTo::Token(u.arbitrary()?);
    let ping = Ping { reply_to, asker };
    assert_eq!(read_ping(names, &write_ping(names, &ping)), Some(ping));
    Ok(())
}

// --- Lists of connections -------------------------------------------------------------------------

/// As if every mark were followed.
fn everybody(names: &Names, list: &str) -> Vec<Suspect> {
    let roll = Roll::read(names, list, None);
    let marks = roll.marks(names).map_or(0, |marks| marks.len());
    roll.present(&vec![true; marks])
}

/// Nobody is suspected whose very line does not say so.
fn roll(names: &Names, list: &str) {
    for suspect in everybody(names, list) {
        let name = match suspect.bears {
            Bears::Member(id) => names.client_name(id),
            Bears::Legacy => names.legacy_client_name().unwrap().to_owned(),
            Bears::Link(link) => Names::link_name(link),
        };
        let (name, client) = (format!("name={name}"), suspect.client);
        let says = |line: &&str| {
            let mut fields = line.split(' ');
            let number = fields.clone().find_map(|field| field.strip_prefix("id="));
            number.and_then(|n| n.parse().ok()) == Some(client) && fields.any(|f| f == name)
        };
        assert!(list.lines().any(|line| says(&line)), "{suspect:?} in {list:?}");
    }
}

/// A list with members in it, neighbours and others.
fn list_and_read(names: &Names, u: &mut Unstructured) -> Result<()> {
    let (mut list, mut members) = (String::new(), Vec::new());
    for client in 0..u.int_in_range(0..=8u64)? {
        let id = HolderId(u.arbitrary()?);
        let neighbour = Names::new(CHANNELS[usize::from(u.arbitrary::<u8>()?) % CHANNELS.len()]);
        let neighbour = neighbour.unwrap();
        let member = Some(Bears::Member(id));
        let (name, bears) = match u.int_in_range(0..=4u8)? {
            0 => (names.client_name(id), member),
            1 => (names.legacy_client_name().unwrap_or("").to_owned(), Some(Bears::Legacy)),
            2 => (neighbour.client_name(id), member.filter(|_| neighbour == *names)),
            3 => (Names::link_name(LinkId(id.0)), Some(Bears::Link(LinkId(id.0)))),
            _ => (String::new(), None),
        };
        if let Some(bears) = bears.filter(|_| !name.is_empty()) {
            members.push(Suspect { client, bears });
        }
        let lib: u8 = u.arbitrary()?;
        list += &format!("id={client} addr=1.2.3.4:5 fd=9 name={name} age=1 lib-name=x{lib}\n");
    }
    // Those known by their own names come first.
    members.sort_by_key(|suspect| matches!(suspect.bears, Bears::Link(_)));
    assert_eq!(everybody(names, &list), members);
    Ok(())
}
