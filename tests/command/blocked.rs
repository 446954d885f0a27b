//! Standard error that nobody reads: what is said there holds nothing up.

use std::io::{PipeReader, Write};
use std::process::{Child, Command};
use std::time::Duration;

use crate::portalock;
use crate::process::{LONG, await_end, begin_anew};
use crate::pty::Pty;
use crate::support::{Server, die_with_parent, signal, wait_until};

/// A run whose standard error is a pipe that is full, and whose reader does not read.
struct Deaf {
    child: Child,
    _reader: PipeReader,
}

impl Deaf {
    fn start(server: &Server, words: &[&str], log: &str) -> Self {
        let (reader, mut writer) = std::io::pipe().unwrap();
        fill(&mut writer);
        let mut command = Command::new(env!("CARGO_BIN_EXE_portalock"));
        command.arg("run").args(words).env("PORTALOCK_URL", server.url());
        command.env("PORTALOCK_LOG", log).stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null()).stderr(writer);
        begin_anew(&mut command);
        die_with_parent(&mut command);
        Self { child: command.spawn().unwrap(), _reader: reader }
    }

    fn code(&mut self) -> Option<i32> {
        assert!(wait_until(LONG, || self.child.try_wait().unwrap().is_some()), "it does not end");
        self.child.wait().unwrap().code()
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn fill(writer: &mut std::io::PipeWriter) {
    use std::os::fd::AsRawFd;
    // SAFETY: plain calls on a descriptor that is ours.
    let size = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_GETPIPE_SZ) };
    writer.write_all(&vec![b'x'; usize::try_from(size).unwrap()]).unwrap();
}

/// A path that the command makes once it runs, with its number in it.
fn mark(dir: &tempfile::TempDir) -> String {
    dir.path().join("mark").display().to_string()
}

fn await_mark(path: &str) -> i32 {
    let read = || std::fs::read_to_string(path).unwrap_or_default();
    assert!(wait_until(LONG, || read().ends_with('\n')), "the command does not run");
    read().trim().parse().unwrap()
}

#[test]
fn a_loss_ends_the_command_all_the_same() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let script = format!("trap '' TERM; echo $$ >{}; while :; do sleep 0.05; done", mark(&dir));
    for log in ["off", "debug"] {
        let mut deaf = Deaf::start(&server, &["-v", "--grace=0.3", "x", "-c", &script], log);
        let pid = await_mark(&mark(&dir));
        assert!(server.kill_client(&server.member("x").unwrap()));
        assert_eq!(deaf.code(), Some(75));
        await_end(pid);
        std::fs::remove_file(mark(&dir)).unwrap();
    }
}

#[test]
fn signals_are_heard_all_the_same() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let script = format!("echo $$ >{}; exec sleep 60", mark(&dir));
    let mut holder = Deaf::start(&server, &["-v", "x", "-c", &script], "debug");
    await_mark(&mark(&dir));
    let mut waiter = Deaf::start(&server, &["-v", "x", "true"], "debug");
    assert!(wait_until(LONG, || server.members("x") == 2));
    for deaf in [&mut waiter, &mut holder] {
        signal(deaf.child.id() as i32, libc::SIGTERM);
        assert_eq!(deaf.code(), Some(128 + 15));
    }
}

/// The library answers for the lock with a log that nobody reads, for longer than one who is silent is borne.
#[test]
fn the_lock_is_kept_all_the_same() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let script = format!("echo $$ >{}; exec sleep 60", mark(&dir));
    let mut holder = Deaf::start(&server, &["x", "-c", &script], "debug");
    await_mark(&mark(&dir));
    assert_eq!(portalock(&server).args(&["run", "-w", "6", "x", "true"]).code(), 1);
    assert!(holder.child.try_wait().unwrap().is_none());
}

#[test]
fn a_terminal_that_pauses_does_not_keep_the_command_from_its_lock() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let holder = portalock(&server).args(&["run", "x", "-c", "echo in; sleep 60"]).start();
    holder.await_out("in");
    let mut command = Command::new(env!("CARGO_BIN_EXE_portalock"));
    let script = format!("echo $$ >{}", mark(&dir));
    command.args(["run", "x", "-c", &script]).env("PORTALOCK_URL", server.url());
    let mut terminal = Pty::start(
        {
            command.env("TERM", "xterm").env("SHELL", "/bin/sh");
            command
        },
        80,
    );
    terminal.await_shown("1 of 1 in line");
    terminal.type_in("\x13");
    // Until a drawing was held up by it.
    terminal.read(Duration::from_millis(100));
    std::thread::sleep(Duration::from_millis(1500));
    drop(holder);
    await_mark(&mark(&dir));
    assert!(wait_until(LONG, || server.members("x") == 0));
}
