//! The rules for users of the server in `docs/operations.md`: enough, what each is for, and in which words
//! it is missed.

mod changes;

use std::collections::BTreeMap;

use portalock::{Client, ClientOptions, Error, EventKind, Lock, LockOptions, Mode, Status, Wait};

use crate::support::worker::Worker;
use crate::support::{Server, wait_until};
use crate::{LONG, client, failure, lock, lone_lock, ms, status, wait};

const PAGE: &str = include_str!("../../docs/operations.md");
/// What a lock is for. A rule that one of these needs cannot be left out.
const ESSENTIALS: [&str; 4] = ["exclusive", "shared", "hand-over", "late"];

/// The words of the command that makes a user.
fn documented_user(name: &str) -> Vec<&'static str> {
    let start = format!("ACL SETUSER {name} on >secret ");
    let line = PAGE.lines().find(|line| line.starts_with(&start)).expect("no such user");
    line.split(' ').collect()
}

fn is_grant(word: &str) -> bool {
    word.starts_with(['+', '~', '&'])
}

/// The cells of the page's tables whose first begins with a rule, or with a status.
fn rows(first: fn(&str) -> bool) -> impl Iterator<Item = Vec<String>> {
    PAGE.lines().filter_map(move |line| {
        let line = line.strip_prefix("| ")?.strip_suffix(" |")?.replace("\\|", "¦");
        let cells = line.split(" | ").map(|cell| cell.replace('¦', "|").replace('`', ""));
        Some(cells.collect::<Vec<_>>()).filter(|cells| first(&cells[0]))
    })
}

/// What a step has come to: the status of its failure by the name it has in C, and the words if known.
type Outcome = Result<(), (String, Option<String>)>;

fn name_of(status: &str) -> String {
    let mut name = "PL".to_owned();
    for letter in status.chars() {
        let word = if letter.is_uppercase() { "_" } else { "" };
        name.extend(word.chars().chain(letter.to_uppercase()));
    }
    name
}

fn outcome<T>(result: portalock::Result<T>) -> Outcome {
    let told = |error: Error| (name_of(&format!("{:?}", error.status())), Some(error.to_string()));
    result.map(drop).map_err(told)
}

/// A server with a user on it.
struct Stage {
    server: Server,
    client: Client,
}

impl Stage {
    fn new(words: &[&str]) -> Self {
        let server = Server::start();
        server.run::<()>(words);
        let client = client(&Self::url(&server, words[2]));
        Self { server, client }
    }

    fn url(server: &Server, user: &str) -> String {
        format!("redis://{user}:secret@127.0.0.1:{}", server.port())
    }

    /// A lock of somebody who may do everything.
    fn held_by_another(&self, name: &str, mode: Mode) -> Lock {
        let other = lone_lock(&self.server.url(), name);
        other.acquire_mode(mode, wait(3_000)).unwrap();
        other
    }

    fn alone(&self, mode: Mode) -> portalock::Result<()> {
        let lock = lock(&self.client, "jobs-alone");
        lock.acquire_mode(mode, wait(3_000))?;
        lock.release_wait(LONG)
    }

    fn hand_over(&self, name: &str) -> portalock::Result<()> {
        let (first, second) = (lock(&self.client, name), lock(&self.client, name));
        first.acquire(wait(3_000))?;
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| second.acquire(wait(4_000)));
            wait_until(ms(500), || self.server.members(name) == 2);
            first.release()?;
            waiting.join().unwrap()
        })
    }

    /// The lock comes to a waiter that stands still: it asks the server before it believes that.
    fn late(&self) -> Outcome {
        let holder = self.held_by_another("jobs-late", Mode::Exclusive);
        let mut waiter = Worker::spawn(&Self::url(&self.server, "portalock"), "jobs-late");
        waiter.tell("x 6000");
        if wait_until(ms(1_500), || self.server.members("jobs-late") == 2) {
            // Until it has asked the holder, and had its answer.
            std::thread::sleep(ms(300));
            waiter.stop();
            std::thread::sleep(ms(1_200));
            holder.release_wait(LONG).unwrap();
            std::thread::sleep(ms(50));
            waiter.cont();
        }
        match waiter.line(LONG).expect("a worker that says nothing").as_str() {
            "got x" => Ok(()),
            other => Err((name_of(other), None)),
        }
    }

    fn verify(&self) -> portalock::Result<()> {
        let lock = lock(&self.client, "jobs-verified");
        lock.acquire(wait(3_000))?;
        lock.verify(ms(2_000))
    }

    fn token(&self) -> portalock::Result<()> {
        let mut options = LockOptions::new();
        options.fencing(true);
        let lock = self.client.lock("jobs-fenced", options)?;
        lock.acquire(wait(3_000))?;
        assert_eq!(lock.fencing_token(), Some(1));
        Ok(())
    }

    fn probe(&self) -> portalock::Result<()> {
        let _holder = self.held_by_another("jobs-probed", Mode::Exclusive);
        let holders = self.client.holders("jobs-probed", ms(2_000))?;
        assert_eq!(holders.len(), 1);
        Ok(())
    }

    /// The first stops; the second comes in once that one's connection is ended, and there is an event of it.
    fn reap(&self) -> portalock::Result<()> {
        let mut holder = Worker::spawn(&self.server.url(), "jobs-stopped");
        holder.expect("x", "got x");
        let client = client(&Self::url(&self.server, "portalock"));
        client.event_descriptor()?;
        holder.stop();
        let lock = lock(&client, "jobs-stopped");
        lock.acquire(wait(6_000))?;
        let event = client.next_event(Some(LONG))?.expect("no event");
        assert!(matches!(event.kind, EventKind::Reaped(Some(_))), "{event:?}");
        Ok(())
    }

    /// Somebody subscribes by pattern, so that receivers and members differ.
    fn onlooker(&self) -> portalock::Result<()> {
        let mut connection = self.server.connection();
        let mut onlooker = connection.as_pubsub();
        onlooker.psubscribe("jobs-seen*").unwrap();
        let _reader = self.held_by_another("jobs-seen", Mode::Shared);
        lock(&self.client, "jobs-seen").acquire_mode(Mode::Shared, wait(3_000))
    }

    /// An acquire that was started, and the loss of what it brought.
    fn events(&self) -> portalock::Result<()> {
        let client = client(&Self::url(&self.server, "portalock"));
        client.event_descriptor()?;
        let lock = lock(&client, "jobs-told");
        lock.start_acquire(None, wait(3_000), None)?;
        let next = || client.next_event(Some(LONG)).map(|event| event.expect("no event").kind);
        match next()? {
            EventKind::Acquired(end) => end?,
            other => panic!("{other:?}"),
        }
        assert!(self.server.kill_client(&lock.client_name().unwrap()));
        assert!(matches!(next()?, EventKind::Lost(_)));
        Ok(())
    }

    fn try_everything(&self) -> [(&'static str, Outcome); 12] {
        [
            ("exclusive", outcome(self.alone(Mode::Exclusive))),
            ("shared", outcome(self.alone(Mode::Shared))),
            ("hand-over", outcome(self.hand_over("jobs-next"))),
            ("late", self.late()),
            ("events", outcome(self.events())),
            ("verify", outcome(self.verify())),
            ("token", outcome(self.token())),
            ("probe", outcome(self.probe())),
            ("ping", outcome(self.client.ping(ms(2_000)))),
            ("reap", outcome(self.reap())),
            ("reap_silent", outcome(self.client.reap_silent("jobs-free", ms(2_000)))),
            ("onlooker", outcome(self.onlooker())),
        ]
    }
}

/// What the end of a refusal has to say for a user who lacks this rule.
fn named(rule: &str) -> String {
    format!("(missing rule: {})", rule.replace("jobs", "NAME"))
}

/// What does not work for a user with these rules, and how that ends: in the words of the page's table, and
/// with the name of the rule that is lacking.
fn missing(words: &[&str], lacking: Option<&str>) -> Vec<(String, Vec<&'static str>)> {
    let mut found: Vec<(String, Vec<_>)> = Vec::new();
    for (step, outcome) in Stage::new(words).try_everything() {
        let Err((status, said)) = outcome else {
            continue;
        };
        println!("{step}: {status}, {said:?}");
        if let Some(said) = said {
            let known = rows(|cell| cell.starts_with("PL_"))
                .any(|cells| cells[0] == status && said.contains(&cells[1]));
            assert!(known, "the page does not say that {step} ends with {status}: {said}");
            let told = lacking.is_some_and(|rule| match status.as_str() {
                "PL_TIMEOUT" => said.ends_with(&format!("refuses what the rule {rule} allows")),
                _ => said.ends_with(&named(rule)),
            });
            assert!(told, "without {lacking:?} {step} does not name it: {said}");
        }
        match found.iter_mut().find(|(known, _)| *known == status) {
            Some((_, steps)) => steps.push(step),
            None => found.push((status, vec![step])),
        }
    }
    found
}

fn cell(found: &[(String, Vec<&str>)]) -> String {
    let parts = found.iter().map(|(status, steps)| format!("{status}: {}", steps.join(", ")));
    parts.collect::<Vec<_>>().join("; ")
}

#[test]
fn the_documented_rules_are_enough_for_everything() {
    assert_eq!(missing(&documented_user("portalock"), None), []);
}

#[test]
fn without_a_rule_is_missing_what_the_page_says() {
    let all = documented_user("portalock");
    let found: BTreeMap<_, _> = std::thread::scope(|scope| {
        let tries = all.iter().filter(|word| is_grant(word)).map(|&without| {
            let rest: Vec<_> = all.iter().copied().filter(|word| *word != without).collect();
            scope.spawn(move || (without.to_owned(), missing(&rest, Some(without))))
        });
        let tries: Vec<_> = tries.collect();
        tries.into_iter().map(|each| each.join().unwrap()).collect()
    });
    for (rule, found) in &found {
        println!("| `{}` | {} | |", rule.replace('|', "\\|"), cell(found));
    }
    let documented: BTreeMap<_, _> = rows(is_grant)
        .map(|cells| (cells[0].clone(), (cells[1].clone(), cells[2].clone())))
        .collect();
    assert!(found.keys().eq(documented.keys()), "a rule without a row, or a row without a rule");
    for (rule, found) in found {
        let (failures, optional) = &documented[&rule];
        // Members leave when it suits them: what is refused differs from run to run.
        if failures == "anything" {
            assert!(!found.is_empty() && optional == "no", "without {rule}");
            continue;
        }
        assert_eq!(&cell(&found), failures, "without {rule}");
        let essential =
            found.iter().flat_map(|(_, steps)| steps).any(|step| ESSENTIALS.contains(step));
        assert_eq!(essential, optional == "no", "without {rule}");
    }
}

#[test]
fn a_user_of_one_lock_needs_no_more_than_its_channels_and_its_key() {
    let mut words = documented_user("portalock");
    words.retain(|word| !word.starts_with(['~', '&']));
    words.extend(["%RW~jobs-fence", "&jobs", "&jobs-*"]);
    assert!(PAGE.contains("`%RW~jobs-fence &jobs &jobs-*`"));
    let stage = Stage::new(&words);
    stage.hand_over("jobs").unwrap();
    let mut options = LockOptions::new();
    options.fencing(true);
    let fenced = stage.client.lock("jobs", options).unwrap();
    fenced.acquire(wait(3_000)).unwrap();
    assert_eq!(status(lock(&stage.client, "jobs2").acquire(Wait::Forever)), Status::Denied);
}

#[test]
fn a_user_that_only_looks_cannot_lock() {
    let stage = Stage::new(&documented_user("watcher"));
    stage.probe().unwrap();
    let error = failure(lock(&stage.client, "jobs").acquire(Wait::Forever));
    assert_eq!(error.status(), Status::Denied, "{error}");
}

/// Whoever may ping may ask for the answer on any channel: that we have no right to it costs nobody a lock.
#[test]
fn a_ping_that_wants_its_answer_elsewhere_is_left_unanswered() {
    let stage = Stage::new(&documented_user("portalock"));
    let (holder, waiter) = (lock(&stage.client, "jobs"), lock(&stage.client, "jobs"));
    holder.acquire(wait(3_000)).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.acquire(wait(10_000)));
        assert!(wait_until(LONG, || stage.server.members("jobs") == 2));
        let ping = "{\"message\":\"ping\",\"response_channel\":\"somewhere else\"}";
        assert_eq!(stage.server.run::<u64>(&["PUBLISH", "jobs", ping]), 2);
        holder.verify(LONG).unwrap();
        holder.release().unwrap();
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn another_database_than_the_first_takes_a_rule() {
    let mut words = documented_user("portalock");
    for expected in [Some(Status::Denied), None] {
        let stage = Stage::new(&words);
        let url = format!("{}/1", Stage::url(&stage.server, "portalock"));
        let elsewhere = Client::new(&url, ClientOptions::new()).unwrap();
        let outcome = lock(&elsewhere, "jobs").acquire(wait(3_000));
        let named = |error: &Error| error.message().ends_with(&named("+select"));
        assert!(outcome.as_ref().err().is_none_or(named), "{outcome:?}");
        assert_eq!(outcome.err().map(|error| error.status()), expected);
        words.push("+select");
    }
}

#[test]
fn a_user_that_is_changed_keeps_its_locks_unless_a_channel_is_taken_away() {
    let stage = Stage::new(&documented_user("portalock"));
    let holder = lock(&stage.client, "jobs");
    holder.acquire(wait(3_000)).unwrap();
    stage.server.run::<()>(&["ACL", "SETUSER", "portalock", "+select", ">other", "&more*"]);
    holder.verify(LONG).unwrap();
    stage.server.run::<()>(&["ACL", "SETUSER", "portalock", "resetchannels", "&more*"]);
    assert!(wait_until(LONG, || !holder.is_held()));
    assert_eq!(status(lock(&stage.client, "jobs").acquire(Wait::Forever)), Status::Denied);
}

/// Not as somebody else, which may be somebody who may do everything.
#[test]
fn a_user_that_is_named_without_a_password_logs_in_as_that_user() {
    let server = Server::start();
    server.run::<()>(&["ACL", "SETUSER", "open", "on", "nopass", "~*", "&*", "+@all"]);
    server.run::<()>(&["ACL", "SETUSER", "shut", "on", ">secret", "~*", "&*", "+@all"]);
    let url = |user: &str| format!("redis://{user}@127.0.0.1:{}", server.port());
    let held = lone_lock(&url("open"), "jobs");
    held.acquire(wait(3_000)).unwrap();
    let holder = server.clients().into_iter().find(|line| line.contains("name=jobs-lock-"));
    assert!(holder.unwrap().contains("user=open"));
    let refused = lone_lock(&url("shut"), "jobs").acquire(wait(3_000));
    assert_eq!(refused.unwrap_err().status(), Status::Auth);
}
