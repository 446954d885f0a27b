//! Each test has a server with one thing wrong, which has to be found, and nothing else.

use std::collections::BTreeSet;

use portalock::{Finding, Severity, Status};

use crate::support::Server;
use crate::{LONG, client, lock, status, wait};

fn examine(url: &str, name: Option<&str>) -> Vec<Finding> {
    client(url).examine(name, LONG).unwrap()
}

/// What is not as it should be.
fn amiss(url: &str, name: Option<&str>) -> Vec<(String, Severity)> {
    let mut found = examine(url, name);
    assert!(found.is_sorted_by_key(|finding| std::cmp::Reverse(finding.severity)), "{found:?}");
    // The machine may be slow just now.
    found.retain(|finding| finding.severity != Severity::Fine && finding.subject != "round trip");
    for finding in &found {
        assert!(!finding.why.is_empty() && !finding.mend.is_empty(), "{finding:?}");
        let lines = [&finding.found, &finding.why, &finding.mend];
        assert!(lines.iter().all(|line| !line.contains("secret") && !line.contains('\n')));
    }
    found.into_iter().map(|finding| (finding.subject, finding.severity)).collect()
}

fn one(subject: &str, severity: Severity) -> Vec<(String, Severity)> {
    vec![(subject.to_owned(), severity)]
}

#[test]
fn nothing_is_amiss_with_a_server_as_it_comes() {
    let server = Server::start();
    assert_eq!(amiss(&server.url(), None), []);
    assert_eq!(amiss(&server.tcp_url(), Some("nightly report")), []);
    let subjects: BTreeSet<_> =
        examine(&server.url(), None).into_iter().map(|finding| finding.subject).collect();
    let wanted = [
        "client-output-buffer-limit",
        "maxclients",
        "maxmemory-clients",
        "mode",
        "protocol",
        "rights",
        "role",
        "round trip",
        "server",
        "tcp-keepalive",
    ];
    assert!(wanted.iter().all(|subject| subjects.contains(*subject)), "{subjects:?}");
}

#[test]
fn each_setting_that_is_wrong_is_found_alone() {
    use Severity::*;
    let cases = [
        ("client-output-buffer-limit", "pubsub 100kb 0 0", Danger),
        ("client-output-buffer-limit", "pubsub 8mb 2mb 60", Warning),
        ("maxmemory-clients", "10mb", Warning),
        ("tcp-keepalive", "0", Warning),
        ("busy-reply-threshold", "50", Warning),
    ];
    for (setting, value, severity) in cases {
        let server = Server::start();
        server.run::<()>(&["CONFIG", "SET", setting, value]);
        assert_eq!(amiss(&server.url(), None), one(setting, severity), "{setting} {value}");
    }
    let server = Server::with(&[("maxmemory", "100mb"), ("maxmemory-policy", "allkeys-lru")]);
    assert_eq!(amiss(&server.url(), None), one("maxmemory-policy", Warning));
}

#[test]
fn a_server_of_the_wrong_kind_is_found() {
    let master = Server::start();
    let port = master.port().to_string();
    let replica = Server::with(&[("replicaof", &format!("127.0.0.1 {port}"))]);
    assert_eq!(amiss(&replica.url(), None), one("role", Severity::Danger));
    let cluster = Server::with(&[("cluster-enabled", "yes")]);
    assert_eq!(amiss(&cluster.url(), None), one("mode", Severity::Danger));
}

#[test]
fn a_server_without_room_is_found() {
    let server = Server::with(&[("maxclients", "12")]);
    let crowd: Vec<_> = (0..9).map(|_| server.connection()).collect();
    assert_eq!(amiss(&server.url(), None), one("maxclients", Severity::Warning));
    let more: Vec<_> = (0..2).map(|_| server.connection()).collect();
    assert_eq!(amiss(&server.url(), None), one("maxclients", Severity::Danger));
    let last = server.connection();
    // It does not even get in.
    assert_eq!(amiss(&server.url(), None), one("maxclients", Severity::Danger));
    drop((crowd, more, last));
}

const USER: [&str; 5] = ["ACL", "SETUSER", "portalock", "on", ">secret"];
const NAMES: [&str; 5] = ["resetkeys", "resetchannels", "-@all", "~jobs*-fence", "&jobs*"];
const COMMANDS: [&str; 10] = [
    "+subscribe",
    "+unsubscribe",
    "+publish",
    "+pubsub|numsub",
    "+client|setname",
    "+ping",
    "+client|list",
    "+client|kill",
    "+eval",
    "+incr",
];
/// What only the doctor needs.
const LOOK: [&str; 3] = ["+config|get", "+info", "+acl|dryrun"];

fn with_user(names: &[&str], commands: &[&str]) -> (Server, String) {
    let server = Server::start();
    server.run::<()>(&[USER.as_slice(), names, commands].concat());
    let url = format!("redis://portalock:secret@127.0.0.1:{}", server.port());
    (server, url)
}

fn without(right: &str) -> Vec<&'static str> {
    COMMANDS.into_iter().filter(|each| *each != right).collect()
}

#[test]
fn each_right_that_is_missing_is_named_by_a_dry_run() {
    let (_server, url) = with_user(&NAMES, &[COMMANDS.as_slice(), &LOOK].concat());
    assert_eq!(amiss(&url, Some("jobs")), []);
    for right in COMMANDS {
        let (_server, url) = with_user(&NAMES, &[without(right).as_slice(), &LOOK].concat());
        let may_do_without = ["+client|list", "+client|kill", "+eval", "+incr"].contains(&right);
        let severity = if may_do_without { Severity::Warning } else { Severity::Danger };
        assert_eq!(amiss(&url, Some("jobs")), one(right, severity), "{right}");
    }
}

/// The least that locks need, and nothing for a doctor: what can be tried is tried.
#[test]
fn each_right_that_is_missing_is_found_by_trying() {
    let unclear = |subject: &str| (subject.to_owned(), Severity::Unclear);
    let usual: BTreeSet<_> = ["CONFIG", "INFO", "+incr"].map(unclear).into();
    let (_server, url) = with_user(&NAMES, &COMMANDS);
    assert_eq!(BTreeSet::from_iter(amiss(&url, Some("jobs"))), usual);
    for right in COMMANDS {
        let (_server, url) = with_user(&NAMES, &without(right));
        let found = BTreeSet::from_iter(amiss(&url, Some("jobs")));
        let mut more: Vec<_> = found.difference(&usual).cloned().collect();
        // Whoever may not subscribe cannot be seen to unsubscribe.
        more.retain(|(subject, severity)| {
            right != "+subscribe"
                || (subject.as_str(), *severity) != ("+unsubscribe", Severity::Unclear)
        });
        let may_do_without = ["+client|list", "+client|kill", "+eval"].contains(&right);
        let wanted = match right {
            "+incr" => vec![],
            _ if may_do_without => one(right, Severity::Warning),
            _ => one(right, Severity::Danger),
        };
        assert_eq!(more, wanted, "{right}: {found:?}");
    }
}

#[test]
fn a_lock_outside_of_the_users_names_is_found_if_it_is_named() {
    use Severity::*;
    let (_server, url) = with_user(&NAMES, &[COMMANDS.as_slice(), &LOOK].concat());
    let named = amiss(&url, Some("other"));
    for (subject, severity) in [("+subscribe", Danger), ("+publish", Danger), ("+incr", Warning)] {
        assert!(named.contains(&(subject.to_owned(), severity)), "{named:?}");
    }
    let unnamed = amiss(&url, None);
    assert!(!unnamed.is_empty() && unnamed.iter().all(|(_, severity)| *severity == Unclear));
}

#[test]
fn commands_that_were_renamed_are_missed() {
    let server = Server::with(&[("rename-command", "PUBSUB hidden")]);
    assert_eq!(amiss(&server.url(), None), one("+pubsub|numsub", Severity::Danger));
    let server = Server::with(&[("rename-command", "EVAL hidden")]);
    assert_eq!(amiss(&server.url(), None), one("+eval", Severity::Warning));
}

#[test]
fn a_server_that_cannot_be_looked_at_is_an_error() {
    let server = Server::with(&[("requirepass", "secret")]);
    assert_eq!(status(client(&server.url()).examine(None, LONG)), Status::Auth);
    assert_eq!(status(client("unix:///nowhere.sock").examine(None, LONG)), Status::Unreachable);
    assert_eq!(status(client(&server.url()).examine(Some(""), LONG)), Status::Invalid);
}

/// Neither keys, nor settings, nor members; and a lock in use is not disturbed.
#[test]
fn to_examine_changes_nothing() {
    let server = Server::start();
    let held = lock(&client(&server.url()), "jobs");
    held.acquire(wait(1_000)).unwrap();
    let state = || {
        let keys: u64 = server.run(&["DBSIZE"]);
        let config: std::collections::BTreeMap<String, String> =
            server.run(&["CONFIG", "GET", "*"]);
        let channels: Vec<String> = server.run(&["PUBSUB", "CHANNELS"]);
        let users: Vec<String> = server.run(&["ACL", "LIST"]);
        (keys, config, BTreeSet::from_iter(channels), users, server.members("jobs"))
    };
    let before = state();
    assert_eq!(amiss(&server.url(), Some("jobs")), []);
    assert_eq!(state(), before);
    let (_server, url) = with_user(&NAMES, &COMMANDS);
    examine(&url, Some("jobs"));
    held.verify(LONG).unwrap();
}
