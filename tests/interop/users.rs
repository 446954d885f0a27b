//! One user of the server for both kinds: the rules of `docs/operations.md`, with what `docs/migrating.md` adds.

use std::process::Command;

use crate::LONG;
use crate::peers::{ALL, Version};
use crate::support::Server;
use crate::support::peers::python;
use crate::support::worker::Worker;

const OPERATIONS: &str = include_str!("../../docs/operations.md");
const MIGRATING: &str = include_str!("../../docs/migrating.md");
const NAME: &str = "jobs";

/// A server with the user, and its URL.
fn server_with(more: &[&str]) -> (Server, String) {
    let server = Server::start();
    let mut user = OPERATIONS.lines().filter(|line| line.starts_with("ACL SETUSER portalock "));
    let words: Vec<_> =
        user.next().expect("no user").split(' ').chain(more.iter().copied()).collect();
    server.run::<()>(&words);
    let url = format!("redis://portalock:secret@127.0.0.1:{}", server.port());
    (server, url)
}

#[test]
fn one_user_does_for_every_version_and_for_us() {
    assert!(MIGRATING.contains("`+incrby`"));
    let (_server, url) = server_with(&["+incrby"]);
    for version in ALL {
        let mut theirs = version.spawn_at(&url, NAME);
        let mut ours = Worker::spawn_with(&url, NAME, &["fencing=1"]);
        ours.expect("x", "got x");
        theirs.expect("x 300", "Timeout");
        ours.expect("r", "released");
        theirs.expect("x 5000", "got x");
        ours.expect("x 300", "Timeout");
        theirs.expect("r", "released");
    }
}

/// What the page shows in Python.
#[test]
fn the_page_s_python_runs() {
    let server = Server::start();
    let script = MIGRATING.split_once("```python\n").unwrap().1.split_once("```").unwrap().0;
    let placeholder = "redis://127.0.0.1:6379";
    assert!(script.contains(placeholder));
    let script = script.replace(placeholder, &server.tcp_url());
    let said = Command::new(python("4.4.2")).args(["-c", &script]).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "I am the only one here.\n");
}

/// Redis-py counts up by another command than this library.
#[test]
fn without_that_rule_they_draw_no_tokens() {
    let (server, url) = server_with(&[]);
    let mut theirs = Version::V4_4_2.spawn_at(&url, NAME);
    theirs.tell("x 300");
    assert_eq!(theirs.line(LONG), None);
    assert_eq!(server.members(NAME), 0);
}
