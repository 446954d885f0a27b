//! Programs that are started, watched and ended.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::support::{die_with_parent, signal, wait_until};

/// Longer than anything takes that works, on a busy machine.
pub const LONG: Duration = Duration::from_secs(30);

/// A program that is about to be started.
pub struct Program {
    command: Command,
    dir: TempDir,
}

/// A program that runs. It is killed with this value.
pub struct Running {
    child: Child,
    dir: TempDir,
}

/// How a program has ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Program {
    pub fn new(path: &str) -> Self {
        let mut command = Command::new(path);
        for name in ["URL", "NAME", "FENCING_TOKEN", "LOG"] {
            command.env_remove(format!("PORTALOCK_{name}"));
        }
        command.env("SHELL", "/bin/sh").env("TERM", "xterm");
        command.stdin(Stdio::null());
        begin_anew(&mut command);
        die_with_parent(&mut command);
        Self { command, dir: TempDir::new().unwrap() }
    }

    pub fn env(&mut self, name: &str, value: &str) -> &mut Self {
        self.command.env(name, value);
        self
    }

    pub fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
        self.command.arg(word);
        self
    }

    pub fn args(mut self, words: &[&str]) -> Self {
        self.command.args(words);
        self
    }

    pub fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// What it says goes to files: whoever it leaves behind holds nobody up.
    pub fn start(mut self) -> Running {
        self.command.stdout(File::create(self.dir.path().join("out")).unwrap());
        self.command.stderr(File::create(self.dir.path().join("err")).unwrap());
        let child = self.command.spawn().unwrap();
        Running { child, dir: self.dir }
    }

    /// Runs it to its end.
    pub fn run(self) -> Ended {
        self.start().wait()
    }

    /// Runs it to its end; its exit status.
    pub fn code(self) -> i32 {
        self.run().code()
    }
}

/// Puts a program into a session of its own, without a terminal, and without the signals that whoever runs
/// the tests ignores or blocks.
pub fn begin_anew(command: &mut Command) {
    // SAFETY: plain system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            for number in 1..32 {
                libc::signal(number, libc::SIG_DFL);
            }
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
            Ok(())
        });
    }
}

impl Running {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Its standard input, which has to be a pipe.
    pub fn input(&mut self) -> std::process::ChildStdin {
        self.child.stdin.take().unwrap()
    }

    pub fn signal(&self, number: i32) {
        signal(self.pid(), number);
    }

    pub fn out(&self) -> String {
        self.text("out")
    }

    pub fn err(&self) -> String {
        self.text("err")
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.dir.path().join(name)).unwrap()).into_owned()
    }

    /// Waits until it has said something on standard output.
    pub fn await_out(&self, words: &str) {
        let said = wait_until(LONG, || self.out().contains(words));
        assert!(said, "no {words:?} in {:?}, {:?}", self.out(), self.err());
    }

    pub fn await_err(&self, words: &str) {
        let said = wait_until(LONG, || self.err().contains(words));
        assert!(said, "no {words:?} in {:?}", self.err());
    }

    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn wait(mut self) -> Ended {
        let over = wait_until(LONG, || self.is_over());
        assert!(over, "it does not end: {:?}, {:?}", self.out(), self.err());
        let status = self.child.wait().unwrap();
        Ended { status, out: self.out(), err: self.err() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Its exit status; it has to have one.
    pub fn code(&self) -> i32 {
        let code = self.status.code();
        code.unwrap_or_else(|| panic!("ended by signal {:?}: {self:?}", self.status.signal()))
    }
}

/// Whether a process is there and has not ended.
pub fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

pub fn await_end(pid: i32) {
    assert!(wait_until(LONG, || !is_alive(pid)), "process {pid} goes on");
}
