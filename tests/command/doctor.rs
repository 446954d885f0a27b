//! `portalock doctor`: each server has one thing wrong.

use serde_json::Value;

use crate::process::{Ended, Program};
use crate::support::Server;

fn doctor(url: &str, words: &[&str]) -> Program {
    let program = Program::new(env!("CARGO_BIN_EXE_portalock"));
    program.arg("doctor").args(words).arg(url)
}

/// What it says of all that is not fine, but for the way to the server: the machine may be slow just now.
fn amiss(ended: &Ended) -> Vec<(String, String)> {
    let said: Value = serde_json::from_str(&ended.out).unwrap();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let all = said["findings"].as_array().unwrap().iter();
    let pairs = all.map(|finding| (text(finding, "subject"), text(finding, "severity")));
    pairs.filter(|(subject, severity)| severity != "fine" && subject != "round trip").collect()
}

fn judges(url: &str, words: &[&str], code: i32, wanted: &[(&str, &str)]) {
    let ended = doctor(url, &[&["--json"], words].concat()).run();
    let owned = |(subject, severity): &(&str, &str)| (subject.to_string(), severity.to_string());
    assert_eq!(amiss(&ended), wanted.iter().map(owned).collect::<Vec<_>>());
    assert_eq!((ended.code(), ended.err.as_str()), (code, ""), "{ended:?}");
}

#[test]
fn a_server_as_it_comes_is_fine() {
    let server = Server::start();
    judges(&server.url(), &[], 0, &[]);
    let ended = doctor(&server.tcp_url(), &[]).run();
    assert_eq!(ended.code(), 0, "{ended:?}");
    let lines: Vec<_> = ended.out.lines().collect();
    assert!(lines.len() > 9 && lines.iter().all(|line| line.starts_with("fine  ")), "{lines:?}");
}

#[test]
fn the_status_says_how_bad_it_is() {
    let master = Server::start();
    let port = format!("127.0.0.1 {}", master.port());
    let set = |name: &str, value: &str| Server::with(&[(name, value)]);
    let limit = "client-output-buffer-limit";
    judges(&set("tcp-keepalive", "0").url(), &[], 1, &[("tcp-keepalive", "warning")]);
    judges(&set("maxmemory-clients", "1gb").url(), &[], 1, &[("maxmemory-clients", "warning")]);
    judges(&set(limit, "pubsub 64kb 0 0").url(), &[], 3, &[(limit, "danger")]);
    judges(&set("cluster-enabled", "yes").url(), &[], 3, &[("mode", "danger")]);
    judges(&set("replicaof", &port).url(), &[], 3, &[("role", "danger")]);
    let renamed = set("rename-command", "PUBLISH hidden");
    judges(&renamed.url(), &[], 3, &[("+publish", "danger")]);
}

#[test]
fn what_cannot_be_looked_at_is_not_called_good() {
    let server = Server::start();
    let user = "ACL SETUSER eve on >hunter2 resetchannels &jobs* ~jobs* +@all -config -info";
    server.run::<()>(&user.split(' ').collect::<Vec<_>>());
    let url = format!("redis://eve:hunter2@127.0.0.1:{}", server.port());
    let both = [("INFO", "unclear"), ("CONFIG", "unclear")];
    judges(&url, &["--lock", "jobs"], 2, &both);
    let ended = doctor(&url, &["--lock", "other"]).run();
    assert_eq!(ended.code(), 3, "{ended:?}");
    assert!(ended.out.starts_with("danger   +subscribe: "), "{ended:?}");
    assert!(ended.out.contains("\n         why: ") && ended.out.contains("\n         mend: "));
    assert!(!ended.out.contains("hunter2") && ended.err.is_empty(), "{ended:?}");
}

#[test]
fn a_server_that_cannot_be_reached_is_no_finding() {
    let ended = doctor("unix:///nowhere/redis.sock", &[]).run();
    assert_eq!((ended.code(), ended.out.as_str()), (69, ""), "{ended:?}");
    let server = Server::with(&[("requirepass", "hunter2")]);
    let ended = doctor(&server.tcp_url().replace("://", "://:wrong@"), &[]).run();
    assert_eq!(ended.code(), 77, "{ended:?}");
    assert!(!ended.err.contains("wrong@"), "{ended:?}");
    assert_eq!(doctor("redis://a", &["--url", "redis://b"]).code(), 64);
    assert_eq!(doctor("http://a", &[]).code(), 64);
}

#[test]
fn it_counts_what_it_does_itself() {
    let server = Server::start();
    let ended = doctor(&server.url(), &["--json", "--stats"]).run();
    let said: Value = serde_json::from_str(&ended.out).unwrap();
    let number = |name: &str| said["stats"][name].as_u64().unwrap();
    assert_eq!((number("acquires"), number("health_checks"), number("connections")), (21, 1, 2));
    assert_eq!((number("held"), number("waits"), number("failed"), ended.code()), (0, 0, 0, 0));
    let ended = doctor(&server.url(), &["--stats"]).run();
    assert!(ended.out.contains("\n  acquires         21\n"), "{ended:?}");
    let keys: u64 = server.run(&["DBSIZE"]);
    assert_eq!(keys, 0);
}

#[test]
fn the_log_is_shown_if_it_is_asked_for() {
    let server = Server::start();
    let said = |level: Option<&str>| {
        let mut program = doctor(&server.url(), &["--stats"]);
        if let Some(level) = level {
            program.env("PORTALOCK_LOG", level);
        }
        program.run().err
    };
    for quiet in [None, Some("off"), Some("error"), Some("warn")] {
        assert_eq!(said(quiet), "", "{quiet:?}");
    }
    let (info, debug) = (said(Some("info")), said(Some("debug")));
    assert_eq!(info.lines().count(), 42, "{info}");
    assert!(info.lines().all(|line| line.starts_with("portalock: 2") && line.contains("Z info: ")));
    assert!(info.contains(" acquired channel=portalock-doctor-") && info.contains(" state=held "));
    assert!(info.contains(" holder=01") && debug.contains("Z debug: a check has come back "));
}
