//! The lock is lost while the command runs.

use std::time::Instant;

use crate::portalock;
use crate::process::{LONG, Running, await_end, is_alive};
use crate::support::{Server, wait_until};

/// What the script of a command is.
const STUBBORN: &str = "trap 'echo told' TERM; echo in; while :; do sleep 0.01; done";
const POLITE: &str = "trap 'echo told; exit 3' TERM; echo in; while :; do sleep 0.01; done";
const BRIEF: &str = "trap 'echo told' TERM; echo in; sleep 1; echo done; exit 4";

/// A run in whose command the lock is lost.
fn bereft(server: &Server, words: &[&str], script: &str) -> Running {
    let running = portalock(server).arg("run").args(words).args(&["x", "-c", script]).start();
    running.await_out("in");
    let member = server.member("x").expect("somebody holds it");
    assert!(server.kill_client(&member));
    running
}

#[test]
fn the_command_is_ended() {
    let server = Server::start();
    let ended = bereft(&server, &[], POLITE).wait();
    assert_eq!((ended.code(), ended.out.as_str()), (75, "in\ntold\n"));
    assert!(ended.err.contains("\"x\" is lost: "), "{}", ended.err);
    assert!(ended.err.contains("ending the command"), "{}", ended.err);
}

#[test]
fn the_command_is_killed_if_it_does_not_end() {
    let server = Server::start();
    let begun = Instant::now();
    let ended = bereft(&server, &["--grace", "0.5"], STUBBORN).wait();
    assert!(begun.elapsed().as_millis() >= 500);
    assert_eq!((ended.code(), ended.out.as_str()), (75, "in\ntold\n"));
}

#[test]
fn so_is_all_that_it_has_started() {
    let server = Server::start();
    // The shell ends at once; its child does not hear of it, and is killed.
    let script = "(trap '' TERM; exec sleep 60) & echo child $! end; sleep 0.3; echo in; wait";
    let running = bereft(&server, &["--grace=0.5"], script);
    let child = running.out().split("child ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let child = child.parse().unwrap();
    assert!(is_alive(child));
    assert_eq!(running.wait().code(), 75);
    await_end(child);
}

#[test]
fn a_command_that_is_stopped_is_ended_too() {
    let server = Server::start();
    let running = bereft(&server, &[], "echo in; kill -STOP $$");
    assert_eq!(running.wait().code(), 75);
}

#[test]
fn it_may_be_told_and_not_killed() {
    let server = Server::start();
    let ended = bereft(&server, &["--on-lost=term", "--grace=0"], BRIEF).wait();
    assert_eq!((ended.code(), ended.out.as_str()), (75, "in\ntold\ndone\n"));
}

#[test]
fn it_may_be_left_alone() {
    let server = Server::start();
    let running = bereft(&server, &["--on-lost", "ignore"], BRIEF);
    running.await_err("goes on without it");
    // Somebody else is inside meanwhile: that is what was asked for.
    assert_eq!(portalock(&server).args(&["run", "-n", "x", "true"]).code(), 0);
    let ended = running.wait();
    assert_eq!((ended.code(), ended.out.as_str()), (4, "in\ndone\n"));
}

#[test]
fn a_server_that_is_gone_is_a_loss() {
    let mut server = Server::start();
    let running = portalock(&server).args(&["run", "x", "-c", POLITE]).start();
    running.await_out("in");
    server.kill();
    assert_eq!(running.wait().code(), 75);
}

#[test]
fn portalock_that_was_stopped_ends_the_command_when_it_goes_on() {
    let server = Server::start();
    let running = portalock(&server).args(&["run", "x", "-c", POLITE]).start();
    running.await_out("in");
    crate::support::stop(running.pid());
    assert_eq!(portalock(&server).args(&["run", "-w", "20", "x", "true"]).code(), 0);
    running.signal(libc::SIGCONT);
    assert_eq!(running.wait().code(), 75);
    assert!(wait_until(LONG, || server.members("x") == 0));
}

#[test]
fn a_command_that_has_left_its_group_is_reached() {
    let server = Server::start();
    let leave = "import os, signal, sys, time\nos.setpgid(0, os.getpgid(os.getppid()))\n\
        print('in', flush=True)\ntime.sleep(60)";
    for by_loss in [true, false] {
        let running = portalock(&server).args(&["run", "x", "python3", "-c", leave]).start();
        running.await_out("in");
        if by_loss {
            assert!(server.kill_client(&server.member("x").unwrap()));
        } else {
            running.signal(libc::SIGTERM);
        }
        assert_eq!(running.wait().code(), if by_loss { 75 } else { 128 + 15 });
    }
}

#[test]
fn whoever_is_in_a_group_of_its_own_below_the_command_is_ended() {
    let server = Server::start();
    // timeout(1) makes a group of its own.
    let script = "timeout 60 sh -c 'echo child $$ end; exec sleep 60'; echo survived";
    let running = portalock(&server).args(&["run", "x", "-c", script]).start();
    running.await_out("end");
    let out = running.out();
    let child = out.split("child ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(server.kill_client(&server.member("x").unwrap()));
    let ended = running.wait();
    assert_eq!(ended.code(), 75);
    assert!(!ended.out.contains("survived"));
    await_end(child);
}

/// The command has ended, and what it has left behind has a minute yet.
#[test]
fn a_second_signal_during_the_grace_kills_what_is_left() {
    let server = Server::start();
    let script =
        "(trap '' TERM; trap 'echo heard' HUP; echo in; while :; do sleep 0.05; done) & wait";
    let running = bereft(&server, &["--grace=300"], script);
    running.await_err("ending the command");
    std::thread::sleep(std::time::Duration::from_millis(500));
    running.signal(libc::SIGHUP);
    running.await_out("heard");
    running.signal(libc::SIGTERM);
    assert_eq!(running.wait().code(), 75);
}
