//! Round trips, what deployed peers send, and what nobody should.

use super::*;
use crate::protocol::ReplyTo;

const HEX: &str = "0123456789abcdef0123456789abcdef";
const ID: HolderId = HolderId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);

/// A long text; an interpreter would take minutes for a megabyte.
const LONG: usize = if cfg!(miri) { 1 << 10 } else { 1 << 20 };
/// A deep nesting.
const DEEP: usize = if cfg!(miri) { 300 } else { 10_000 };

fn names() -> Names {
    Names::new("jobs").unwrap()
}

fn pong(payload: impl AsRef<[u8]>) -> Record {
    read_pong(payload.as_ref(), 3).record
}

fn foreign(payload: &str) -> ForeignStanding {
    match pong(payload) {
        Record { id: MemberId::Hex(ID), standing: Standing::Foreign(standing), .. } => standing,
        other => panic!("no foreign record of the sender: {other:?}"),
    }
}

fn legacy() -> Record {
    Record {
        id: MemberId::Legacy(3),
        link: None,
        standing: Standing::Foreign(ForeignStanding::Exclusive),
    }
}

/// A pong as JSON, with some fields replaced and, by `null`, taken out.
fn altered(changes: Value) -> String {
    let mut fields = json!({
        "holder_id": HEX, "mode": "pending", "protocol": 1, "elected": false,
        "queue": 1, "wants": "exclusive", "state": "waiting",
    });
    for (key, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => fields.as_object_mut().unwrap().remove(key),
            value => fields.as_object_mut().unwrap().insert(key.clone(), value.clone()),
        };
    }
    fields.to_string()
}

/// What must be read without harm, wherever it turns up.
fn garbage() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = [
        "",
        " ",
        "null",
        "true",
        "7",
        "-1e999",
        "\"ping\"",
        "[]",
        "{}",
        "{",
        "{\"",
        "nan",
        "{\"response_channel\"",
        "{\"response_channel\":}",
        "{'response_channel':'x'}",
        "{\"holder_id\":\"x\"}}",
        "\u{feff}{}",
        "\0",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    all.push(vec![0xff, 0xfe, 0x00, 0x80]);
    all.push(b"{\"response_channel\":\"\xff\"}".to_vec());
    all.push("[".repeat(DEEP).into_bytes());
    all.push(("{\"a\":".repeat(DEEP) + "1" + &"}".repeat(DEEP)).into_bytes());
    all.push(format!("{{\"x\":{}{}}}", "[".repeat(DEEP), "]".repeat(DEEP)).into_bytes());
    all.push(format!("\"{}\"", "x".repeat(LONG)).into_bytes());
    all.push("x".repeat(LONG).into_bytes());
    all
}

#[test]
fn pings_come_back_as_they_were() {
    let names = names();
    let wants =
        [Mode::Shared, Mode::Exclusive].map(|wants| Asker::Member { id: ID, wants, link: None });
    for asker in [wants[0], wants[1], Asker::Observer, Asker::Stranger] {
        for reply_to in [ReplyTo::Token(9), ReplyTo::Name("elsewhere".into())] {
            let ping = Ping { reply_to, asker };
            assert_eq!(read_ping(&names, &write_ping(&names, &ping)), Some(ping));
        }
    }
}

#[test]
fn pongs_come_back_as_they_were() {
    let told = Disclosure {
        host: Some("host \"one\"\n".into()),
        pid: Some(u64::MAX),
        label: Some("\u{1f512}".into()),
        since_ms: Some(0),
    };
    for disclosure in [Disclosure::default(), told] {
        for wants in [Mode::Shared, Mode::Exclusive] {
            let held = (State::Held, Some(wants));
            let left = [(State::Leaving, None), (State::Leaving, Some(wants))];
            for (state, holds) in [(State::Waiting, None), held, left[0], left[1]] {
                let answer =
                    Answer { state, holds, elected: (state != State::Held).then_some(true) };
                let read = read_pong(&write_pong((ID, wants, None), answer, &disclosure), 0);
                let standing = Standing::Queue { wants, state };
                assert_eq!(read.record, Record { id: MemberId::Hex(ID), link: None, standing });
                assert_eq!(read.disclosure, disclosure);
            }
        }
    }
}

#[test]
fn events_come_back_as_they_were() {
    assert_eq!(read_event(&write_event(Event::Left(ID))), Some(Event::Left(ID)));
}

#[test]
fn foreign_members_read_the_truth_in_our_pongs() {
    let fields = |answer| {
        let bytes = write_pong((ID, Mode::Shared, None), answer, &Disclosure::default());
        let fields: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((&fields["holder_id"], &fields["protocol"]), (&HEX.into(), &1.into()));
        (fields["mode"].as_str().unwrap().to_owned(), fields["elected"].as_bool())
    };
    let answer = |state, holds, elected| fields(Answer { state, holds, elected });
    assert_eq!(answer(State::Waiting, None, Some(true)), ("pending".to_owned(), Some(true)));
    assert_eq!(answer(State::Held, Some(Mode::Shared), None), ("shared".to_owned(), None));
    assert_eq!(answer(State::Leaving, Some(Mode::Shared), None), ("shared".to_owned(), None));
    assert_eq!(answer(State::Leaving, None, Some(false)), ("pending".to_owned(), Some(false)));
}

#[test]
fn reads_the_pings_of_portalocker() {
    let ping = format!(r#"{{"message": "ping", "response_channel": "jobs-{HEX}"}}"#);
    let read = read_ping(&names(), ping.as_bytes()).unwrap();
    assert_eq!(read, Ping { reply_to: ReplyTo::Token(ID.0), asker: Asker::Stranger });
    let other = read_ping(&names(), br#"{"response_channel": "x"}"#).unwrap();
    assert_eq!(other.reply_to, ReplyTo::Name("x".into()));
}

#[test]
fn a_ping_needs_a_response_channel() {
    for payload in [
        r#"{"message":"ping"}"#,
        r#"{"message":"ping","response_channel":""}"#,
        r#"{"message":"ping","response_channel":null}"#,
        r#"{"message":"ping","response_channel":7}"#,
        r#"{"message":"ping","response_channel":["jobs-1"]}"#,
        r#"[{"response_channel":"x"}]"#,
    ] {
        assert_eq!(read_ping(&names(), payload.as_bytes()), None, "{payload}");
    }
}

/// Whoever cannot be placed in the queue must be taken for somebody who knows nothing of it.
#[test]
fn an_asker_that_is_unclear_is_a_stranger() {
    for fields in [
        json!({"queue": 2, "holder_id": HEX, "wants": "shared"}),
        json!({"queue": "1", "holder_id": HEX, "wants": "shared"}),
        json!({"queue": 1.0, "holder_id": HEX, "wants": "shared"}),
        json!({"queue": true, "holder_id": HEX, "wants": "shared"}),
        json!({"queue": 1, "holder_id": HEX}),
        json!({"queue": 1, "wants": "shared"}),
        json!({"queue": 1, "holder_id": HEX.to_uppercase(), "wants": "shared"}),
        json!({"queue": 1, "holder_id": "short", "wants": "shared"}),
        json!({"queue": 1, "holder_id": 7, "wants": "shared"}),
        json!({"queue": 1, "holder_id": HEX, "wants": "pending"}),
        json!({"queue": 1, "holder_id": HEX, "wants": null}),
    ] {
        let mut ping = fields.clone();
        ping["response_channel"] = "x".into();
        let read = read_ping(&names(), ping.to_string().as_bytes()).unwrap();
        assert_eq!(read.asker, Asker::Stranger, "{fields}");
    }
}

#[test]
fn reads_the_pongs_of_portalocker_4_2_to_4_4() {
    let pong = |mode, elected| {
        foreign(&format!(
            r#"{{"holder_id": "{HEX}", "mode": "{mode}", "protocol": 1, "elected": {elected}}}"#
        ))
    };
    assert_eq!(pong("exclusive", true), ForeignStanding::Exclusive);
    assert_eq!(pong("shared", false), ForeignStanding::Shared);
    assert_eq!(pong("pending", false), ForeignStanding::Pending { elected: Some(false) });
    assert_eq!(pong("pending", true), ForeignStanding::Pending { elected: Some(true) });
}

#[test]
fn reads_the_pongs_of_portalocker_4_0_and_4_1() {
    let pong =
        |mode| foreign(&format!(r#"{{"holder_id": "{HEX}", "mode": "{mode}", "protocol": 1}}"#));
    assert_eq!(pong("exclusive"), ForeignStanding::Exclusive);
    assert_eq!(pong("shared"), ForeignStanding::Shared);
    assert_eq!(pong("pending"), ForeignStanding::Pending { elected: None });
}

#[test]
fn takes_the_timestamp_of_portalocker_3_2_for_a_holder() {
    for payload in ["1712345678.9", "\"1712345678.9\"", "1712345678"] {
        assert_eq!(pong(payload), legacy(), "{payload}");
    }
}

#[test]
fn an_elected_that_is_no_boolean_is_absent() {
    for elected in [json!("true"), json!(1), json!([]), json!({})] {
        let payload = altered(json!({"queue": null, "elected": elected}));
        assert_eq!(foreign(&payload), ForeignStanding::Pending { elected: None }, "{payload}");
    }
}

#[test]
fn an_id_may_be_any_string() {
    for id in ["somebody", "", &HEX.to_uppercase(), &"x".repeat(LONG)] {
        let record = pong(altered(json!({"holder_id": id})));
        assert_eq!(record.id, MemberId::Text(id.into()));
        let standing = Standing::Foreign(ForeignStanding::Pending { elected: Some(false) });
        assert_eq!(record.standing, standing, "only ids of our form take part in the queue");
    }
}

#[test]
fn what_is_no_record_is_a_legacy_holder() {
    for changes in [
        json!({"protocol": 2}),
        json!({"protocol": 0}),
        json!({"protocol": -1}),
        json!({"protocol": "1"}),
        json!({"protocol": 1.5}),
        json!({"protocol": true}),
        json!({"protocol": null}),
        json!({"holder_id": null}),
        json!({"holder_id": 7}),
        json!({"holder_id": [HEX]}),
        json!({"mode": null}),
        json!({"mode": "upgradable"}),
        json!({"mode": "Pending"}),
        json!({"mode": 1}),
    ] {
        assert_eq!(pong(altered(changes.clone())), legacy(), "{changes}");
    }
}

/// Rather foreign than wrong: as a foreign member it blocks by what its mode says.
#[test]
fn queue_fields_that_are_incomplete_or_contradict_the_mode_do_not_count() {
    let pending = ForeignStanding::Pending { elected: Some(false) };
    for (changes, standing) in [
        (json!({"queue": 2}), pending),
        (json!({"queue": "1"}), pending),
        (json!({"wants": null}), pending),
        (json!({"wants": "pending"}), pending),
        (json!({"state": null}), pending),
        (json!({"state": "sleeping"}), pending),
        (json!({"state": "held"}), pending),
        (json!({"state": 1}), pending),
        (json!({"mode": "exclusive"}), ForeignStanding::Exclusive),
        (json!({"mode": "shared"}), ForeignStanding::Shared),
        (json!({"mode": "shared", "state": "held"}), ForeignStanding::Shared),
        (
            json!({"mode": "exclusive", "state": "held", "wants": "shared"}),
            ForeignStanding::Exclusive,
        ),
    ] {
        assert_eq!(foreign(&altered(changes.clone())), standing, "{changes}");
    }
}

#[test]
fn disclosures_of_the_wrong_type_are_left_out() {
    let payload = altered(json!({"host": 1, "pid": "7", "label": [], "since_ms": -1}));
    let read = read_pong(payload.as_bytes(), 0);
    assert_eq!(read.disclosure, Disclosure::default());
    assert!(matches!(read.record.standing, Standing::Queue { .. }), "nothing is decided by them");
}

#[test]
fn of_fields_given_twice_the_last_counts() {
    let pong =
        format!(r#"{{"holder_id":"{HEX}","mode":"pending","mode":"exclusive","protocol":1}}"#);
    assert_eq!(foreign(&pong), ForeignStanding::Exclusive, "as Python reads it");
}

#[test]
fn events_that_are_none_are_ignored() {
    for payload in [
        format!(r#"{{"event":"joined","holder_id":"{HEX}"}}"#),
        format!(r#"{{"holder_id":"{HEX}"}}"#),
        format!(r#"{{"event":["left"],"holder_id":"{HEX}"}}"#),
        r#"{"event":"left"}"#.to_owned(),
        r#"{"event":"left","holder_id":"somebody"}"#.to_owned(),
        r#"{"event":"left","holder_id":7}"#.to_owned(),
    ] {
        assert_eq!(read_event(payload.as_bytes()), None, "{payload}");
    }
}

#[test]
fn garbage_does_no_harm() {
    for payload in garbage() {
        assert_eq!(read_ping(&names(), &payload), None);
        assert_eq!(read_event(&payload), None);
        assert_eq!(pong(&payload), legacy());
    }
}

#[test]
fn no_part_of_a_message_is_a_message() {
    let names = names();
    let asker = Asker::Member { id: ID, wants: Mode::Shared, link: None };
    let ping = write_ping(&names, &Ping { reply_to: ReplyTo::Token(9), asker });
    (0..ping.len()).for_each(|end| assert_eq!(read_ping(&names, &ping[..end]), None));
    let event = write_event(Event::Left(ID));
    (0..event.len()).for_each(|end| assert_eq!(read_event(&event[..end]), None));
    let whole = altered(json!({}));
    (0..whole.len()).for_each(|end| assert_eq!(pong(&whole[..end]), legacy()));
}
