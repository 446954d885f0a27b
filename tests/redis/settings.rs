//! What settings of the server do to locks, and the commands to watch it by, as `docs/operations.md` says.

use std::process::Command;

use portalock::{LockOptions, Status};

use crate::support::{Server, wait_until};
use crate::{LONG, client, lock, lone_lock, ms, status, wait};

const PAGE: &str = include_str!("../../docs/operations.md");

/// Idle connections are ended, but none that subscribes.
#[test]
fn a_timeout_of_the_server_ends_no_holder_and_no_waiter() {
    let server = Server::with(&[("timeout", "1")]);
    let client = client(&server.url());
    let (holder, idle) = (lock(&client, "held"), lock(&client, "idle"));
    let waiter = lone_lock(&server.url(), "held");
    holder.acquire(wait(5_000)).unwrap();
    idle.acquire(wait(5_000)).unwrap();
    idle.release_wait(LONG).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.acquire(wait(20_000)));
        let members = || server.clients().iter().filter(|line| line.contains("name=held")).count();
        let others = || server.clients().len() - members();
        assert!(wait_until(LONG, || members() == 2 && others() == 1), "an idle one is left");
        assert!(holder.is_held());
        idle.acquire(wait(5_000)).unwrap();
        holder.release().unwrap();
        waiting.join().unwrap().unwrap();
    });
}

/// The server ends its largest clients, and does not ask what they are there for.
#[test]
fn a_bound_on_the_memory_of_clients_ends_holders() {
    let server = Server::with(&[("maxmemory-clients", "1mb")]);
    let locks: Vec<_> =
        (0..100).map(|number| lone_lock(&server.url(), &format!("jobs{number}"))).collect();
    let held: Vec<_> = locks.iter().filter(|lock| lock.acquire(wait(5_000)).is_ok()).collect();
    assert!(wait_until(LONG, || held.iter().any(|lock| !lock.is_held())), "{} hold", held.len());
    let lost = held.iter().find(|lock| !lock.is_held()).unwrap();
    assert_eq!(status(lost.release()), Status::Lost);
}

/// A check that the server answers after its deadline is as good as none.
#[test]
fn a_command_that_takes_longer_than_the_deadline_costs_those_whose_check_falls_into_it() {
    let server = Server::with(&[("enable-debug-command", "yes")]);
    let checked = |name: &str, interval: u64| {
        let mut options = LockOptions::new();
        options.health_check_interval(ms(interval)).unwrap();
        let lock = client(&server.url()).lock(name, options).unwrap();
        lock.acquire(wait(5_000)).unwrap();
        lock
    };
    let (often, seldom) = (checked("often", 300), checked("seldom", 60_000));
    server.run::<()>(&["DEBUG", "SLEEP", "2"]);
    assert!(wait_until(LONG, || !often.is_held()));
    assert_eq!(status(often.release()), Status::Lost);
    seldom.verify(LONG).unwrap();
}

#[test]
fn who_renames_what_locks_need_is_told_and_scripts_are_not_among_that() {
    for (command, works) in [("CLIENT", false), ("PUBSUB", false), ("EVAL", true)] {
        let server = Server::with(&[("rename-command", &format!("{command} hidden"))]);
        let lock = lone_lock(&server.url(), "jobs");
        match lock.acquire(wait(300)) {
            Ok(()) => assert!(works, "{command}"),
            Err(error) => assert!(!works && error.message().contains("unknown command"), "{error}"),
        }
    }
}

/// Each line of the page's console runs, and shows a lock that is held.
#[test]
fn the_commands_to_watch_by_show_what_the_page_says() {
    let server = Server::start();
    let holder = lone_lock(&server.url(), "nightly-report");
    holder.acquire(wait(5_000)).unwrap();
    let watch = PAGE.split_once("## What to watch\n").unwrap().1;
    let console = watch.split_once("```console\n").unwrap().1.split_once("```").unwrap().0;
    let mut said = String::new();
    for line in console.lines() {
        let line = line.strip_prefix("$ redis-cli ").expect("no command of redis-cli");
        let command = format!("redis-cli -e -s '{}' {line}", server.socket().display());
        let outcome = Command::new("sh").args(["-c", &command]).output().unwrap();
        assert!(outcome.status.success(), "{line}: {outcome:?}");
        said += &String::from_utf8(outcome.stdout).unwrap();
    }
    assert!(said.contains("nightly-report\n1\n") && said.contains("nightly-report-lock-events\n"));
    assert!(said.contains(&format!("name={} ", holder.client_name().unwrap())), "{said}");
    for figure in ["rejected_connections:0", "evicted_clients:0", "latest_fork_usec:"] {
        assert!(PAGE.contains(figure.split(':').next().unwrap()) && said.contains(figure));
    }
}
