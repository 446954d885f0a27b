//! The server is not there, or the command line is wrong.

use std::time::{Duration, Instant};

use crate::portalock;
use crate::process::{LONG, Program};
use crate::support::{Server, stop, wait_until};

#[test]
fn a_server_that_is_not_there_ends_the_wait_at_its_beginning() {
    let mut server = Server::start();
    server.kill();
    let begun = Instant::now();
    for words in
        [&["run", "x", "true"][..], &["run", "-n", "x", "true"], &["holders", "x"], &["wait", "x"]]
    {
        let ended = portalock(&server).args(words).run();
        assert_eq!(ended.code(), 69, "{words:?}: {ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{words:?}: {ended:?}");
    }
    assert!(begun.elapsed() < LONG);
}

#[test]
fn within_its_time_it_is_tried_again() {
    let mut server = Server::start();
    server.kill();
    let begun = Instant::now();
    let ended = portalock(&server).args(&["run", "-w", "0.7", "x", "true"]).run();
    assert_eq!(ended.code(), 69, "{ended:?}");
    assert!(begun.elapsed() >= Duration::from_millis(700));
    let waiting = portalock(&server).args(&["run", "-w", "60", "x", "echo", "ran"]).start();
    waiting.await_err("trying on");
    server.restart();
    let ended = waiting.wait();
    assert_eq!((ended.code(), ended.out.as_str()), (0, "ran\n"));
}

#[test]
fn a_server_that_answers_with_errors_ends_the_wait_at_its_beginning() {
    let server = Server::start();
    let _admin = server.connection();
    server.run::<()>(&["CONFIG", "SET", "maxclients", "1"]);
    for words in [&["run", "x", "true"][..], &["run", "-n", "x", "true"], &["wait", "x"]] {
        let ended = portalock(&server).args(words).run();
        assert_eq!(ended.code(), 69, "{words:?}: {ended:?}");
        assert!(ended.err.contains("no room for another client"), "{words:?}: {ended:?}");
    }
}

/// A server, or a member, that is silent is asked for as long as there is time, and not for longer.
#[test]
fn a_silence_does_not_make_the_wait_longer() {
    let server = Server::start();
    let holder = portalock(&server).args(&["run", "x", "-c", "echo in; exec sleep 60"]).start();
    holder.await_out("in");
    stop(holder.pid());
    let timed = |words: &[&str], code: i32| {
        let begun = Instant::now();
        let ended = portalock(&server).args(words).run();
        let took = begun.elapsed();
        assert_eq!(ended.code(), code, "{words:?}: {ended:?}");
        assert!(!ended.err.contains("trying on"), "{words:?}: {ended:?}");
        assert!(took >= Duration::from_millis(300), "{words:?}: {took:?}");
        assert!(took < Duration::from_millis(1600), "{words:?}: {took:?}");
    };
    timed(&["wait", "-w", "0.3", "x"], 2);
    server.stop();
    timed(&["wait", "-w", "0.3", "x"], 69);
    timed(&["run", "-w", "0.5", "y", "true"], 69);
    server.cont();
}

#[test]
fn who_waits_for_no_time_does_not_try_on() {
    let mut server = Server::start();
    server.kill();
    for words in [&["-w", "0"][..], &["-n"]] {
        let ended = portalock(&server).arg("run").args(words).args(&["x", "true"]).run();
        assert_eq!(ended.code(), 69, "{words:?}: {ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{words:?}: {ended:?}");
    }
}

#[test]
fn a_server_that_goes_away_during_the_wait_is_waited_for() {
    let mut server = Server::start();
    let holder = portalock(&server).args(&["run", "x", "-c", "echo in; sleep 60"]).start();
    holder.await_out("in");
    let waiting = portalock(&server).args(&["run", "x", "echo", "ran"]).start();
    assert!(wait_until(LONG, || server.members("x") == 2));
    server.kill();
    waiting.await_err("trying on");
    server.restart();
    assert_eq!(holder.wait().code(), 75);
    let ended = waiting.wait();
    assert_eq!((ended.code(), ended.out.as_str()), (0, "ran\n"));
}

#[test]
fn a_host_with_a_dead_address_is_no_trouble() {
    let server = Server::start();
    // It has an address of either family on most hosts, and the server listens at one.
    let mut program = portalock(&server).args(&["run", "x", "true"]);
    program.env("PORTALOCK_URL", &format!("redis://localhost:{}", server.port()));
    let ended = program.run();
    assert_eq!((ended.code(), ended.err.as_str()), (0, ""));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let server = Server::start();
    for (words, said) in [
        (&["run"][..], "NAME"),
        (&["run", "x"], "CMD"),
        (&["run", "x", "-u", "true"], "-u is not for locks"),
        (&["run", "-F", "x", "true"], "-F cannot be"),
        (&["run", "-w", "-1", "x", "true"], "-1"),
        (&["run", "-w", "soon", "x", "true"], "not a number"),
        (&["run", "-w", "NaN", "x", "true"], "a span is"),
        (&["run", "-E", "256", "x", "true"], "256"),
        (&["run", "--on-lost=cry", "x", "true"], "kill, term, ignore"),
        (&["run", "", "true"], "name"),
        (&["run", "x-lock-events", "true"], "events"),
        (&["holders"], "NAME"),
        (&["holders", "--timeout=0", "x"], "millisecond"),
        (&["--url", "", "holders", "x"], "URL"),
        (&[], "Usage"),
    ] {
        let ended = portalock(&server).args(words).run();
        assert_eq!(ended.code(), 64, "{words:?}: {ended:?}");
        assert!(ended.err.contains(said), "{words:?}: {ended:?}");
        assert_eq!(ended.out, "", "{words:?}");
    }
    let long = "l".repeat(257);
    assert_eq!(portalock(&server).args(&["run", "--label", &long, "x", "true"]).code(), 64);
}

#[test]
fn what_is_wrong_has_its_status_though_nobody_can_be_told() {
    let program = env!("CARGO_BIN_EXE_portalock");
    for words in ["run", "", "--url http://h holders x"] {
        let script = format!("'{program}' {words} 2>/dev/full; echo status $?");
        let ended = Program::new("/bin/sh").args(&["-c", &script]).run();
        assert_eq!((ended.out.as_str(), ended.err.as_str()), ("status 64\n", ""), "{words}");
    }
}

#[test]
fn what_cannot_be_shown_is_no_success_unless_nobody_reads_on() {
    let server = Server::start();
    let program = env!("CARGO_BIN_EXE_portalock");
    let run = |script: &str| {
        let mut shell = Program::new("/bin/sh").args(&["-c", script]);
        shell.env("PORTALOCK_URL", &server.url());
        shell.run()
    };
    for words in [
        "holders x",
        "holders --json x",
        "reap x",
        "doctor --json",
        "--help",
        "run -h",
        "--version",
    ] {
        let ended = run(&format!("'{program}' {words} >/dev/full"));
        assert_eq!(ended.code(), 74, "{words}: {ended:?}");
        assert!(ended.err.starts_with("portalock: standard output cannot be written"), "{ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{words}: {ended:?}");
    }
    // Whoever reads has enough after the first line.
    for words in ["holders --watch x", "--help"] {
        let ended = run(&format!("{{ '{program}' {words}; echo status $? >&2; }} | head -n 1"));
        assert_eq!((ended.err.as_str(), ended.out.lines().count()), ("status 0\n", 1), "{words}");
    }
}

#[test]
fn what_the_user_may_not_do_is_said() {
    let server = Server::start();
    server.run::<()>(&["ACL", "SETUSER", "nobody", "on", ">pass", "resetchannels", "-@all"]);
    let mut program = portalock(&server).args(&["run", "x", "true"]);
    program.env("PORTALOCK_URL", &format!("redis://nobody:pass@127.0.0.1:{}", server.port()));
    assert_eq!(program.code(), 77);
}

#[test]
fn a_broker_in_memory_is_refused_for_nobody_else_would_see_the_lock() {
    let server = Server::start();
    for words in [&["run", "x", "true"][..], &["holders", "x"], &["doctor"]] {
        let mut program = portalock(&server);
        program.env("PORTALOCK_URL", "memory://x");
        let ended = program.args(words).run();
        assert_eq!(ended.code(), 64, "{words:?}: {ended:?}");
        assert!(ended.err.contains("memory://"), "{words:?}: {ended:?}");
    }
}
