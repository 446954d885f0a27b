//! Signals, and processes that are stopped or killed.

use crate::portalock;
use crate::process::{LONG, Running, await_end, is_alive};
use crate::support::{Server, signal, stop, wait_until};

/// A run whose command has said its number.
fn busy(server: &Server, words: &[&str], script: &str) -> (Running, i32) {
    let script = format!("echo pid $$ end; {script}");
    let running = portalock(server).arg("run").args(words).args(&["x", "-c", &script]).start();
    let pid = pid_after(&running, "pid ");
    (running, pid)
}

/// The number that it has said after these words.
fn pid_after(running: &Running, words: &str) -> i32 {
    running.await_out(words);
    assert!(wait_until(LONG, || running
        .out()
        .split(words)
        .nth(1)
        .is_some_and(|rest| rest.contains(' '))));
    let out = running.out();
    out.split(words).nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn signals_are_passed_on() {
    let server = Server::start();
    for (name, number) in [
        ("TERM", libc::SIGTERM),
        ("INT", libc::SIGINT),
        ("HUP", libc::SIGHUP),
        ("QUIT", libc::SIGQUIT),
        ("USR1", libc::SIGUSR1),
        ("USR2", libc::SIGUSR2),
        ("WINCH", libc::SIGWINCH),
    ] {
        let script = format!(
            "trap 'echo got {name}; exit 5' {name}; echo set; while :; do sleep 0.01; done"
        );
        let (running, _) = busy(&server, &[], &script);
        running.await_out("set");
        running.signal(number);
        let ended = running.wait();
        assert_eq!(ended.code(), 5, "{name}: {ended:?}");
        assert!(ended.out.contains(&format!("got {name}")), "{ended:?}");
    }
}

#[test]
fn a_command_that_dies_by_a_signal_gives_its_number() {
    let server = Server::start();
    for number in [libc::SIGTERM, libc::SIGINT, libc::SIGUSR1] {
        let (running, pid) = busy(&server, &[], "exec sleep 60");
        running.signal(number);
        assert_eq!(running.wait().code(), 128 + number);
        await_end(pid);
    }
    assert_eq!(server.members("x"), 0);
}

#[test]
fn signals_reach_the_whole_group_of_the_command() {
    let server = Server::start();
    let (running, pid) = busy(&server, &[], "sleep 60 & echo child $! end; wait");
    let child = pid_after(&running, "child ");
    assert!(is_alive(pid) && is_alive(child));
    running.signal(libc::SIGTERM);
    assert_eq!(running.wait().code(), 128 + 15);
    await_end(child);
}

#[test]
fn a_signal_ends_the_wait() {
    let server = Server::start();
    let (_holder, _) = busy(&server, &[], "exec sleep 60");
    for number in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        let waiter = portalock(&server).args(&["run", "x", "echo", "ran"]).start();
        assert!(wait_until(LONG, || server.members("x") == 2));
        // These are for the command, which is not there yet.
        waiter.signal(libc::SIGUSR1);
        waiter.signal(libc::SIGWINCH);
        waiter.signal(number);
        let ended = waiter.wait();
        assert_eq!((ended.code(), ended.out.as_str()), (128 + number, ""));
        assert!(wait_until(LONG, || server.members("x") == 1));
    }
}

#[test]
fn what_is_ignored_at_the_start_stays_ignored() {
    let server = Server::start();
    let script = "trap '' HUP; exec \"$0\" run x -c 'echo in; sleep 0.5; echo out'";
    let mut program = crate::process::Program::new("/bin/sh").args(&["-c", script]);
    program.env("PORTALOCK_URL", &server.url());
    let running = program.arg(env!("CARGO_BIN_EXE_portalock")).start();
    running.await_out("in");
    // The group of the shell, in which portalock is: the command ignores it too.
    running.signal(libc::SIGHUP);
    let ended = running.wait();
    assert_eq!((ended.code(), ended.out.as_str()), (0, "in\nout\n"));
}

/// A parent may have blocked what portalock lives by. The command gets the mask as it was.
#[test]
fn what_is_blocked_at_the_start_is_heard_and_handed_on() {
    use std::os::unix::process::CommandExt;
    let server = Server::start();
    let script = "echo mask $(grep SigBlk /proc/self/status) end; exec sleep 60";
    for words in [["run", "x", "true"].as_slice(), &["run", "x", "-c", script]] {
        let mut program = portalock(&server).args(words);
        // SAFETY: plain system calls between fork and exec.
        unsafe {
            program.command().pre_exec(|| {
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&raw mut set);
                libc::sigaddset(&raw mut set, libc::SIGCHLD);
                libc::sigaddset(&raw mut set, libc::SIGHUP);
                libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
                Ok(())
            });
        }
        let running = program.start();
        if words.contains(&"true") {
            assert_eq!(running.wait().code(), 0);
            continue;
        }
        running.await_out("end");
        assert!(running.out().contains("0000000000010001 end"), "{}", running.out());
        // The command does not hear it; what portalock is sent afterwards it does.
        running.signal(libc::SIGHUP);
        running.signal(libc::SIGTERM);
        assert_eq!(running.wait().code(), 128 + 15);
    }
}

/// The command is being started, or is not yet: a key that is struck then is for it too.
#[test]
fn a_signal_is_not_lost_whenever_it_comes() {
    let server = Server::start();
    for pause in 0..40 {
        let running = portalock(&server).args(&["run", "x", "sleep", "60"]).start();
        std::thread::sleep(std::time::Duration::from_millis(5 + pause));
        running.signal(libc::SIGTERM);
        let ended = running.wait();
        // One that comes before anybody listens ends the process itself.
        let code = ended.status.code().unwrap_or(128 + 15);
        assert_eq!(code, 128 + 15, "{ended:?}");
    }
}

#[test]
fn a_command_that_is_stopped_keeps_its_lock() {
    let server = Server::start();
    let (running, pid) = busy(&server, &[], "exec sleep 60");
    stop(pid);
    // Long enough for a holder that does not answer to be passed.
    assert_eq!(portalock(&server).args(&["run", "-w", "3", "x", "true"]).code(), 1);
    running.signal(libc::SIGCONT);
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    assert!(wait_until(LONG, || !stat().contains(") T ")));
    running.signal(libc::SIGTERM);
    assert_eq!(running.wait().code(), 128 + 15);
}

/// Without a terminal there is nobody to take portalock itself for stopped.
#[test]
fn a_stop_by_the_terminals_signal_is_the_commands() {
    let server = Server::start();
    let (running, pid) = busy(&server, &[], "while :; do sleep 0.01; done");
    running.signal(libc::SIGTSTP);
    let is_stopped =
        |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ");
    assert!(wait_until(LONG, || is_stopped(pid)));
    assert!(!is_stopped(running.pid()));
    running.signal(libc::SIGCONT);
    assert!(wait_until(LONG, || !is_stopped(pid)));
}

#[test]
fn the_command_dies_with_portalock() {
    let server = Server::start();
    let (running, pid) = busy(&server, &[], "exec sleep 60");
    running.signal(libc::SIGKILL);
    await_end(pid);
    drop(running);
    let (running, pid) = busy(
        &server,
        &["--on-lost=term"],
        "trap 'echo told; exit 0' TERM; while :; do sleep 0.01; done",
    );
    running.signal(libc::SIGKILL);
    running.await_out("told");
    await_end(pid);
}

#[test]
fn a_command_that_is_to_go_on_outlives_portalock() {
    let server = Server::start();
    let (running, pid) = busy(&server, &["--on-lost=ignore"], "sleep 1; echo done");
    running.signal(libc::SIGKILL);
    // The lock is free all the same.
    assert_eq!(portalock(&server).args(&["run", "-w", "10", "x", "true"]).code(), 0);
    running.await_out("done");
    await_end(pid);
}

#[test]
fn whoever_is_left_behind_does_not_hold_the_lock() {
    let server = Server::start();
    let (running, _) = busy(&server, &[], "sleep 60 & echo child $! end");
    let child = pid_after(&running, "child ");
    assert_eq!(running.wait().code(), 0);
    assert_eq!(portalock(&server).args(&["run", "-n", "x", "true"]).code(), 0);
    assert!(is_alive(child));
    signal(child, libc::SIGKILL);
}
