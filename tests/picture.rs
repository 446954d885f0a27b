//! The picture of the protocol is true: what `docs/pictures/acquire.dot` shows of the states of an acquire, and of
//! the messages, is what src/protocol does; and the picture that is checked in was made of it.

#[path = "picture/walk.rs"]
mod walk;

use std::collections::{BTreeMap, BTreeSet};

const SOURCE: &str = include_str!("../docs/pictures/acquire.dot");
const DRAWN: &str = include_str!("../docs/pictures/acquire.svg");
const STATES: &str = include_str!("../src/protocol/contender/io.rs");
const WIRE: &str = include_str!("../src/protocol/wire.rs");

type Set = BTreeSet<String>;

/// The statements of the source that begin with a name and have attributes: that name, or `A -> B`, and what is
/// between the brackets.
fn statements() -> Vec<(&'static str, &'static str)> {
    let lines = SOURCE.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let all = lines.filter_map(|line| line.split_once(" ["));
    all.filter(|(name, _)| !["graph", "node", "edge"].contains(name)).collect()
}

/// The value of an attribute.
fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let start = format!("{name}=\"");
    let at = attributes.find(&start).filter(|at| *at == 0 || attributes[..*at].ends_with(", "))?;
    let rest = &attributes[at + start.len()..];
    let mut before = ' ';
    let is_end = |c: char| std::mem::replace(&mut before, c) != '\\' && c == '"';
    Some(&rest[..rest.find(is_end)?])
}

fn words(text: &str) -> Set {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Those whose names are states, with their labels.
fn nodes() -> BTreeMap<&'static str, &'static str> {
    let all = statements().into_iter().filter(|(name, _)| !name.contains("->"));
    let states = all.filter(|(name, _)| *name != "messages");
    states.map(|(name, attributes)| (name, attribute(attributes, "label").unwrap())).collect()
}

/// From where, to where, upon what, and what is done.
fn edges() -> Vec<(&'static str, &'static str, Set, Set)> {
    let all =
        statements().into_iter().filter_map(|(name, rest)| Some((name.split_once(" -> ")?, rest)));
    let seen = all.filter(|((_, to), _)| *to != "messages");
    seen.map(|((from, to), rest)| {
        let of = |name| {
            words(attribute(rest, name).unwrap_or_else(|| panic!("{from} -> {to}: no {name}")))
        };
        (from, to, of("on"), of("does"))
    })
    .collect()
}

fn variants() -> Set {
    let body = STATES.split_once("pub enum Phase {").unwrap().1.split_once("\n}").unwrap().0;
    let lines = body.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    lines.filter_map(|line| line.strip_suffix(',')).map(str::to_owned).collect()
}

#[test]
fn its_states_are_those_of_the_code() {
    let drawn: Set = nodes().keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(drawn, variants());
    assert!(nodes().iter().all(|(name, label)| label.split("\\n").next() == Some(name)));
}

#[test]
fn its_changes_are_those_that_the_code_makes() {
    let drawn = edges().into_iter().flat_map(|(from, to, on, _)| {
        on.into_iter().map(move |on| (from.to_owned(), on, to.to_owned()))
    });
    let drawn: Vec<_> = drawn.collect();
    let walked: BTreeSet<_> = walk::walked().steps.into_keys().collect();
    assert_eq!(drawn.iter().cloned().collect::<BTreeSet<_>>(), walked);
    assert_eq!(drawn.len(), walked.len(), "one is drawn twice");
}

/// And what is sent where something is sent.
#[test]
fn what_is_done_at_a_change_is_what_the_code_does() {
    let steps = walk::walked().steps;
    for (from, to, on, does) in edges() {
        let done =
            on.into_iter().flat_map(|on| steps[&(from.to_owned(), on, to.to_owned())].clone());
        assert_eq!(done.collect::<Set>(), does, "{from} -> {to}");
    }
}

#[test]
fn members_answer_pings_as_it_says() {
    let walked = walk::walked().answers;
    for (name, label) in nodes() {
        let said =
            label.split_once("answers pings: \\\"").map(|(_, rest)| rest.trim_end_matches("\\\""));
        let answers = walked.get(name).cloned().unwrap_or_default();
        assert_eq!(said.map(str::to_owned).into_iter().collect::<Set>(), answers, "{name}");
    }
}

#[test]
fn its_messages_are_those_that_are_written() {
    let written: Set = WIRE
        .lines()
        .filter_map(|line| line.strip_prefix("pub fn write_")?.split('(').next())
        .map(str::to_owned)
        .collect();
    let (_, attributes) = statements().into_iter().find(|(name, _)| *name == "messages").unwrap();
    assert_eq!(words(attribute(attributes, "messages").unwrap()), written);
    let rows =
        SOURCE.lines().filter_map(|line| line.trim().strip_prefix("<tr><td align=\"left\">"));
    let shown = rows.map(|row| row.split('<').next().unwrap()).filter(|word| !word.is_empty());
    assert_eq!(shown.map(str::to_owned).collect::<Set>(), written);
}

#[test]
fn what_is_checked_in_was_drawn_of_it() {
    let inside = DRAWN.split_once("<metadata><![CDATA[\n").unwrap().1;
    let (source, rest) = inside.split_once("]]></metadata>").unwrap();
    assert_eq!(source, SOURCE, "docs/pictures/acquire.svg is out of date: run ./dev pictures");
    for (from, to, ..) in edges() {
        let title = format!("<title>{from}&#45;&gt;{to}</title>");
        assert!(rest.contains(&title), "{title}");
    }
}
