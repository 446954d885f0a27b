//! `portalock holders`, `wait` and `reap`.

use serde_json::{Value, json};

use crate::portalock;
use crate::process::{LONG, Running};
use crate::support::{Server, stop, wait_until};

fn holder(server: &Server, words: &[&str]) -> Running {
    let holder = portalock(server).arg("run").args(words);
    let holder = holder.args(&["x", "-c", "echo in; exec sleep 60"]).start();
    holder.await_out("in");
    holder
}

/// A run that waits behind so many.
fn waiter(server: &Server, words: &[&str], members: u64) -> Running {
    let waiter = portalock(server).arg("run").args(words).args(&["x", "sleep", "60"]).start();
    assert!(wait_until(LONG, || server.members("x") == members + 1));
    waiter
}

#[test]
fn members_are_listed_in_the_order_of_the_queue() {
    let server = Server::start();
    let first = holder(&server, &["--label", "first one"]);
    let second = waiter(&server, &["-s"], 1);
    let third = waiter(&server, &["--label", "third"], 2);
    let ended = portalock(&server).args(&["holders", "x"]).run();
    assert_eq!(ended.code(), 1);
    let lines: Vec<_> = ended.out.lines().collect();
    assert_eq!(lines[0], "\"x\":");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(lines[1]), ["STATE", "MODE", "HOST", "PID", "SINCE", "FOR", "LABEL"]);
    for (line, running, state, mode, label) in [
        (lines[2], &first, "held", "exclusive", "first one"),
        (lines[3], &second, "waiting", "shared", "-"),
        (lines[4], &third, "waiting", "exclusive", "third"),
    ] {
        let cells = words(line);
        assert_eq!(cells[..2], [state, mode], "{line}");
        assert_eq!(cells[3], running.pid().to_string(), "{line}");
        assert!(cells[4].starts_with("20") && cells[4].ends_with('Z'), "{line}");
        assert!(line.ends_with(label), "{line}");
    }
    assert_eq!(lines.len(), 5);
}

#[test]
fn a_program_may_read_it() {
    let server = Server::start();
    let one = holder(&server, &["-s", "--label", "reader \"1\""]);
    let ended = portalock(&server).args(&["holders", "--json", "x", "free"]).run();
    assert_eq!(ended.code(), 1);
    assert_eq!(ended.out.lines().count(), 1);
    let found: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&found[0]["name"], &found[0]["state"]), (&json!("x"), &json!("held")));
    let member = &found[0]["members"][0];
    assert_eq!(member["pid"], json!(one.pid()));
    assert_eq!(member["label"], json!("reader \"1\""));
    assert_eq!((&member["mode"], &member["state"]), (&json!("shared"), &json!("held")));
    assert_eq!(member["id"].as_str().unwrap().len(), 32);
    assert!(member["since_ms"].as_u64().unwrap() > 1_700_000_000_000);
    let free = json!({"name": "free", "state": "free", "members": [], "error": null});
    assert_eq!(found[1], free);
}

#[test]
fn the_exit_status_says_whether_somebody_is_there() {
    let server = Server::start();
    let ended = portalock(&server).args(&["holders", "x", "y"]).run();
    assert_eq!((ended.code(), ended.out.as_str()), (0, "\"x\": free\n\"y\": free\n"));
    let holder = holder(&server, &[]);
    assert_eq!(portalock(&server).args(&["holders", "y", "x"]).code(), 1);
    stop(holder.pid());
    let ended = portalock(&server).args(&["holders", "--timeout", "0.3", "x", "y"]).run();
    assert_eq!(ended.code(), 2);
    assert!(ended.out.contains("\"x\": 0 of 1 members"), "{ended:?}");
    assert!(ended.out.contains("\"y\": free"), "{ended:?}");
    let ended = portalock(&server).args(&["holders", "--timeout", "0.3", "--json", "x"]).run();
    assert!(ended.out.contains("\"state\":\"unclear\""), "{ended:?}");
}

#[test]
fn it_is_shown_again_and_again() {
    let server = Server::start();
    let watch = portalock(&server).args(&["holders", "--watch", "x"]).start();
    watch.await_out("\"x\": free");
    let _holder = holder(&server, &["--label", "newcomer"]);
    watch.await_out("newcomer");
    // One look is one line for a program.
    let watch = portalock(&server).args(&["holders", "--watch", "--json", "x"]).start();
    assert!(wait_until(LONG, || watch.out().lines().count() > 2));
    let lines = watch.out();
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(first[0]["members"][0]["label"], json!("newcomer"));
}

#[test]
fn who_waits_for_a_free_lock_takes_none() {
    let server = Server::start();
    assert_eq!(portalock(&server).args(&["wait", "x"]).code(), 0);
    let holder = holder(&server, &[]);
    for (words, code) in [
        (&["-n"][..], 1),
        (&["-n", "-w", "60"], 1),
        (&["-w", "0.3"], 1),
        (&["-w", "0", "-E", "9"], 9),
    ] {
        assert_eq!(portalock(&server).arg("wait").args(words).arg("x").code(), code);
    }
    let mut waiting = portalock(&server).args(&["wait", "-w", "30", "x"]).start();
    assert!(!wait_until(std::time::Duration::from_millis(500), || {
        assert_eq!(server.members("x"), 1);
        waiting.is_over()
    }));
    holder.signal(libc::SIGTERM);
    assert_eq!(waiting.wait().code(), 0);
}

#[test]
fn who_does_not_answer_is_ended() {
    let server = Server::start();
    let ended = portalock(&server).args(&["reap", "x"]).run();
    assert_eq!((ended.code(), ended.out.as_str()), (0, "0 ended, 0 alive\n"));
    let reader = holder(&server, &["-s"]);
    let other = holder(&server, &["-s"]);
    stop(reader.pid());
    let ended = portalock(&server).args(&["reap", "--timeout", "1", "x"]).run();
    assert_eq!((ended.code(), ended.out.as_str()), (0, "1 ended, 1 alive\n"));
    assert!(wait_until(LONG, || server.members("x") == 1));
    reader.signal(libc::SIGCONT);
    assert_eq!(reader.wait().code(), 75);
    other.signal(libc::SIGTERM);
    assert_eq!(other.wait().code(), 128 + 15);
}

/// A user who may look at the locks whose names begin with `app`.
fn restricted(server: &Server) -> String {
    let user =
        ["ACL", "SETUSER", "me", "on", ">pass", "+@all", "allkeys", "resetchannels", "&app*"];
    server.run::<()>(&user);
    format!("redis://me:pass@127.0.0.1:{}", server.port())
}

#[test]
fn a_watch_ends_where_another_look_cannot_help() {
    let server = Server::start();
    for name in ["", "a-lock-events"] {
        let ended = portalock(&server).args(&["holders", "--watch", name]).run();
        assert_eq!((ended.code(), ended.out.as_str()), (64, ""), "{name}: {ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{name}: {ended:?}");
    }
    let mut program = portalock(&server).args(&["holders", "--watch", "zzz"]);
    program.env("PORTALOCK_URL", &restricted(&server));
    assert_eq!(program.code(), 77);
}

#[test]
fn a_watch_outlives_its_server() {
    let mut server = Server::start();
    let watch = portalock(&server).args(&["holders", "--watch", "--json", "x"]).start();
    watch.await_out("free");
    server.kill();
    watch.await_out("unavailable");
    server.restart();
    let last = || watch.out().lines().last().unwrap_or_default().to_owned();
    assert!(wait_until(LONG, || last().contains("free")));
}

#[test]
fn a_lock_that_cannot_be_looked_at_hides_no_other() {
    let mut server = Server::start();
    let url = restricted(&server);
    let look = |words: &[&str]| {
        let mut program = portalock(&server).arg("holders").args(words);
        program.env("PORTALOCK_URL", &url);
        program.run()
    };
    let ended = look(&["app1", "zzz", "app2"]);
    assert_eq!((ended.code(), ended.out.as_str()), (77, "\"app1\": free\n\"app2\": free\n"));
    assert!(ended.err.starts_with("portalock: \"zzz\": "), "{ended:?}");
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    let ended = look(&["--json", "app1", "zzz"]);
    assert_eq!(ended.code(), 77);
    let found: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&found[0]["state"], &found[0]["error"]), (&json!("free"), &Value::Null));
    assert_eq!((&found[1]["name"], &found[1]["state"]), (&json!("zzz"), &json!("unavailable")));
    assert!(found[1]["error"].is_string(), "{found}");
    server.kill();
    let ended = portalock(&server).args(&["holders", "--json", "x"]).run();
    assert_eq!((ended.code(), ended.err.lines().count()), (69, 1), "{ended:?}");
    let found: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(found[0]["state"], json!("unavailable"));
}

/// A label could show itself as that of another, or as a row of its own.
#[test]
fn a_label_cannot_turn_the_table_around() {
    let server = Server::start();
    let _holder = holder(&server, &["--label", "a\u{202e}b\u{2028}c\u{200b}d"]);
    let ended = portalock(&server).args(&["holders", "x"]).run();
    assert!(ended.out.ends_with("  a\u{fffd}b\u{fffd}c\u{fffd}d\n"), "{ended:?}");
}
