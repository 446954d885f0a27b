//! `portalock run`: what it waits for, what it runs, and with which exit status it ends.

use crate::portalock;
use crate::process::{LONG, Program};
use crate::support::{Server, wait_until};

#[test]
fn the_status_is_that_of_the_command() {
    let server = Server::start();
    let code = |words: &[&str]| portalock(&server).args(&["run", "x"]).args(words).code();
    assert_eq!(code(&["true"]), 0);
    assert_eq!(code(&["--", "sh", "-c", "exit 7"]), 7);
    assert_eq!(code(&["sh", "-c", "exit 255"]), 255);
    assert_eq!(code(&["sh", "-c", "kill -TERM $$"]), 128 + 15);
    assert_eq!(code(&["sh", "-c", "kill -KILL $$"]), 128 + 9);
    assert_eq!(code(&["--", "/no/such/program"]), 127);
    assert_eq!(code(&["--", "no-such-program"]), 127);
    assert_eq!(code(&["--", "/etc/passwd"]), 126);
    assert_eq!(code(&["--", "/tmp"]), 126);
    assert_eq!(server.members("x"), 0);
}

/// As with flock(1), what follows the command's name is the command's own, whatever it looks like.
#[test]
fn the_words_of_the_command_are_its_own() {
    let server = Server::start();
    for words in
        [&["run", "x", "echo", "-n", "--", "-c"][..], &["run", "x", "--", "echo", "-n", "--", "-c"]]
    {
        let ended = portalock(&server).args(words).run();
        assert_eq!((ended.code(), ended.out.as_str()), (0, "-- -c"));
    }
}

#[test]
fn a_line_is_run_by_the_shell() {
    let server = Server::start();
    let ended = portalock(&server).args(&["run", "x", "-c", "echo $0; exit 3"]).run();
    assert_eq!((ended.code(), ended.out.as_str()), (3, "/bin/sh\n"));
    let mut program = portalock(&server).args(&["run", "-c", "test -n \"$BASH_VERSION\"", "x"]);
    program.env("SHELL", "/bin/bash");
    assert_eq!(program.code(), 0);
    assert_eq!(portalock(&server).args(&["run", "x", "-c", "true", "echo"]).code(), 64);
}

#[test]
fn who_does_not_want_to_wait_is_told_so_quietly() {
    let server = Server::start();
    let holder = portalock(&server).args(&["run", "x", "-c", "echo in; sleep 60"]).start();
    holder.await_out("in");
    for (words, code) in [
        (&["-n"][..], 1),
        (&["--nb"], 1),
        (&["-w", "0"], 1),
        (&["-w", "0.2"], 1),
        (&["--timeout=0.2", "-E", "75"], 75),
        (&["-n", "-E0"], 0),
        (&["-n", "-w", "60"], 1),
        (&["-w", "60", "-n"], 1),
        (&["-n", "-s", "--conflict-exit-code", "255"], 255),
    ] {
        let ended = portalock(&server).arg("run").args(words).args(&["x", "echo", "ran"]).run();
        assert_eq!((ended.code(), ended.out.as_str(), ended.err.as_str()), (code, "", ""));
    }
    let ended = portalock(&server).args(&["run", "-nv", "x", "true"]).run();
    assert!(ended.err.contains("\"x\" is held by somebody else"), "{}", ended.err);
}

#[test]
fn readers_run_together_and_writers_alone() {
    let server = Server::start();
    let reader = portalock(&server).args(&["run", "-s", "x", "-c", "echo in; sleep 60"]).start();
    reader.await_out("in");
    assert_eq!(portalock(&server).args(&["run", "-s", "-n", "x", "true"]).code(), 0);
    assert_eq!(portalock(&server).args(&["run", "-x", "-n", "x", "true"]).code(), 1);
    // The last letter counts.
    assert_eq!(portalock(&server).args(&["run", "-s", "-e", "-n", "x", "true"]).code(), 1);
    assert_eq!(portalock(&server).args(&["run", "-e", "-s", "-n", "x", "true"]).code(), 0);
}

#[test]
fn who_waits_is_next() {
    let server = Server::start();
    let holder = portalock(&server).args(&["run", "x", "-c", "echo in; sleep 1"]).start();
    holder.await_out("in");
    let waiter = portalock(&server).args(&["run", "-v", "-w", "20", "x", "echo", "ran"]).start();
    waiter.await_err("acquiring \"x\", exclusive");
    assert_eq!(waiter.out(), "");
    assert_eq!(holder.wait().code(), 0);
    let ended = waiter.wait();
    assert_eq!((ended.code(), ended.out.as_str()), (0, "ran\n"));
    let lines: Vec<_> = ended.err.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ended.err);
    assert!(lines[1].starts_with("portalock: \"x\" acquired after "), "{}", ended.err);
}

#[test]
fn the_lock_is_free_when_the_run_is_over() {
    let server = Server::start();
    for _ in 0..30 {
        assert_eq!(portalock(&server).args(&["run", "-n", "x", "true"]).code(), 0);
    }
}

#[test]
fn the_command_knows_its_lock() {
    let server = Server::start();
    let shown = "echo \"$PORTALOCK_NAME/$PORTALOCK_FENCING_TOKEN\"";
    let ended = portalock(&server).args(&["run", "x y", "-c", shown]).run();
    assert_eq!(ended.out, "x y/\n");
    for token in 1..4 {
        let ended = portalock(&server).args(&["run", "--fence-env", "x y", "-c", shown]).run();
        assert_eq!(ended.out, format!("x y/{token}\n"));
    }
    // A token of another lock proves nothing of this one.
    let mut program = portalock(&server).args(&["run", "x", "-c", shown]);
    program.env("PORTALOCK_FENCING_TOKEN", "99");
    assert_eq!(program.run().out, "x/\n");
    server.run::<()>(&["SET", "z-fence", "no number"]);
    assert_eq!(portalock(&server).args(&["run", "--fence-env", "z", "true"]).code(), 65);
}

/// Whoever inherited a socket would keep the lock alive, or speak on its connection.
#[test]
fn the_command_has_no_descriptor_of_ours() {
    let server = Server::start();
    let listing = |program: Program| {
        let out = program.args(&["ls", "-l", "/proc/self/fd"]).run().out;
        let lines = out.lines().filter_map(|line| line.split_once(" -> "));
        let number = |line: &str| line.rsplit(' ').next().unwrap().to_owned();
        lines.map(|(line, target)| (number(line), target.to_owned())).collect::<Vec<_>>()
    };
    // Those that the tests were started with, if any.
    let others = listing(Program::new("/usr/bin/env"));
    for url in [server.url(), server.tcp_url()] {
        let mut program = portalock(&server).args(&["run", "-o", "--label", "l", "x"]);
        program.env("PORTALOCK_URL", &url);
        let found = listing(program);
        let numbers = |list: &[(String, String)]| -> Vec<_> {
            list.iter().map(|(number, _)| number.clone()).collect()
        };
        assert_eq!(numbers(&found), numbers(&others), "{found:?}");
        let are_ours =
            |target: &str| target.starts_with("socket:") || target.starts_with("anon_inode");
        let ours = found.iter().filter(|entry| are_ours(&entry.1) && !others.contains(entry));
        assert_eq!(ours.count(), 0, "{found:?}");
    }
}

#[test]
fn what_others_gave_is_handed_on() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "exec 7>'{}'; exec \"$0\" run x -c 'echo seven >&7'",
        dir.path().join("seven").display()
    );
    let mut program = Program::new("/bin/sh").arg("-c").arg(script);
    program.env("PORTALOCK_URL", &server.url());
    assert_eq!(program.arg(env!("CARGO_BIN_EXE_portalock")).code(), 0);
    assert_eq!(std::fs::read_to_string(dir.path().join("seven")).unwrap(), "seven\n");
}

#[test]
fn a_run_within_a_run_of_another_name_holds_both() {
    let server = Server::start();
    let inner = format!("'{}' run b -c 'echo in; sleep 60'", env!("CARGO_BIN_EXE_portalock"));
    let outer = portalock(&server).args(&["run", "a", "-c", &inner]).start();
    outer.await_out("in");
    assert_eq!((server.members("a"), server.members("b")), (1, 1));
    outer.signal(libc::SIGTERM);
    assert_eq!(outer.wait().code(), 128 + 15);
    assert!(wait_until(LONG, || server.members("a") + server.members("b") == 0));
}

#[test]
fn a_run_within_a_run_of_its_own_name_waits_and_says_so() {
    let server = Server::start();
    let inner = format!("'{}' run -w 0.3 a true", env!("CARGO_BIN_EXE_portalock"));
    let ended = portalock(&server).args(&["run", "a", "-c", &inner]).run();
    assert_eq!(ended.code(), 1);
    assert!(ended.err.contains("runs under \"a\" already"), "{}", ended.err);
}
