//! The rules for a user of the server in `docs/operations.md`: enough, and what each is for.

use std::collections::BTreeMap;

use portalock::{Client, LockOptions, Mode, Result};

use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, client, lock, lone_lock, ms, wait};

const PAGE: &str = include_str!("../../docs/operations.md");

/// The words after the user's password.
fn rules() -> Vec<&'static str> {
    let line = PAGE.split_once("```acl\n").expect("a block of rules").1.lines().next().unwrap();
    let rules = line.split_once(" >secret ").expect("a password").1;
    rules.split(' ').collect()
}

/// What the page says is missing without a rule.
fn documented() -> BTreeMap<String, Vec<&'static str>> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    let cells = rows.filter_map(|row| row.split_once("` | "));
    cells.map(|(rule, steps)| (rule.replace("\\|", "|"), steps.split(", ").collect())).collect()
}

fn alone(client: &Client, mode: Mode) -> Result<()> {
    let lock = lock(client, "jobs-alone");
    lock.acquire_mode(mode, wait(3_000))?;
    lock.release_wait(LONG)
}

fn hand_over(server: &Server, client: &Client) -> Result<()> {
    let first = lock(client, "jobs-next");
    let second = lock(client, "jobs-next");
    first.acquire(wait(3_000))?;
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| second.acquire(wait(4_000)));
        wait_until(ms(500), || server.members("jobs-next") == 2);
        first.release()?;
        waiting.join().unwrap()
    })
}

fn token(client: &Client) -> Result<()> {
    let mut options = LockOptions::new();
    options.fencing(true);
    client.lock("jobs-fenced", options)?.acquire(wait(3_000))
}

/// The first stops; the second comes in once that one's connection is ended.
fn reap(server: &Server, client: &Client) -> Result<()> {
    let mut holder = Worker::spawn(&server.url(), "jobs-stopped");
    holder.expect("x", "got x");
    holder.stop();
    lock(client, "jobs-stopped").acquire(wait(6_000))
}

/// Somebody subscribes by pattern, so that receivers and members differ.
fn onlooker(server: &Server, client: &Client) -> Result<()> {
    let mut connection = server.connection();
    let mut onlooker = connection.as_pubsub();
    onlooker.psubscribe("jobs-seen*").unwrap();
    let reader = lone_lock(&server.url(), "jobs-seen");
    reader.acquire_mode(Mode::Shared, wait(3_000)).unwrap();
    lock(client, "jobs-seen").acquire_mode(Mode::Shared, wait(3_000))
}

fn probe(server: &Server, client: &Client) -> Result<()> {
    let holder = lone_lock(&server.url(), "jobs-probed");
    holder.acquire(wait(3_000)).unwrap();
    let holders = client.holders("jobs-probed", ms(2_000))?;
    assert_eq!(holders.len(), 1);
    Ok(())
}

fn verify(client: &Client) -> Result<()> {
    let lock = lock(client, "jobs-verified");
    lock.acquire(wait(3_000))?;
    lock.verify(ms(2_000))
}

/// What does not work for a user with these rules.
fn missing(rules: &[&str]) -> Vec<&'static str> {
    let server = Server::start();
    let mut words = vec!["ACL", "SETUSER", "portalock", "on", ">secret"];
    words.extend(rules);
    server.run::<()>(&words);
    let client = client(&format!("redis://portalock:secret@127.0.0.1:{}", server.port()));
    let outcomes = [
        ("exclusive", alone(&client, Mode::Exclusive)),
        ("shared", alone(&client, Mode::Shared)),
        ("hand-over", hand_over(&server, &client)),
        ("verify", verify(&client)),
        ("token", token(&client)),
        ("probe", probe(&server, &client)),
        ("ping", client.ping(ms(2_000)).map(drop)),
        ("reap", reap(&server, &client)),
        ("reap_silent", client.reap_silent("jobs-free", ms(2_000)).map(drop)),
        ("onlooker", onlooker(&server, &client)),
    ];
    let failed = outcomes.into_iter().filter_map(|(step, outcome)| Some((step, outcome.err()?)));
    failed
        .inspect(|(step, error)| println!("{rules:?} {step}: {error}"))
        .map(|(step, _)| step)
        .collect()
}

#[test]
fn the_documented_rules_are_enough_for_everything() {
    assert_eq!(missing(&rules()), Vec::<&str>::new());
}

#[test]
fn without_a_rule_is_missing_what_the_page_says() {
    let all = rules();
    let given: Vec<_> = all.iter().filter(|rule| rule.starts_with(['+', '~', '&'])).collect();
    let found: BTreeMap<_, _> = std::thread::scope(|scope| {
        let tries = given.iter().map(|&&without| {
            let rest: Vec<_> = all.iter().copied().filter(|rule| *rule != without).collect();
            scope.spawn(move || (without.to_owned(), missing(&rest)))
        });
        let tries: Vec<_> = tries.collect();
        tries.into_iter().map(|each| each.join().unwrap()).collect()
    });
    for (rule, steps) in &found {
        println!("| `{rule}` | {} |", steps.join(", "));
    }
    let documented = documented();
    assert!(found.keys().eq(documented.keys()), "a rule without a row, or a row without a rule");
    for (rule, steps) in found {
        match documented[&rule][..] {
            ["anything"] => assert!(!steps.is_empty(), "nothing fails without {rule}"),
            _ => assert_eq!(steps, documented[&rule], "without {rule}"),
        }
    }
}
