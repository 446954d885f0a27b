//! The command that is run under the lock: how it is started, reached by signals, and ended.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use portalock::Lock;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpgid, kill_process, kill_process_group, test_kill_process_group,
    waitpid,
};

use super::tree::Tree;
use crate::arguments::{OnLost, Run};
use crate::failure::Failure;
use crate::server::URL_VARIABLE;
use crate::{exit, secret};

/// The name of the lock that a command runs under.
pub const NAME_VARIABLE: &str = "PORTALOCK_NAME";
const TOKEN_VARIABLE: &str = "PORTALOCK_FENCING_TOKEN";

/// What has become of a command.
#[derive(Debug)]
pub enum Turn {
    /// It was stopped.
    Stopped,
    /// It has ended, and this is the exit status that stands for it.
    Ended(u8),
}

/// A command that was started.
pub struct Job {
    pid: Pid,
    /// Whether its status was taken: its number may be another's since.
    is_over: bool,
    /// Whether it is in the process group of portalock itself.
    shares_group: bool,
    /// Those who are to be ended along with it and are in no group of its own.
    tree: Tree,
}

impl Job {
    /// Starts the command.
    pub fn start(arguments: &Run, lock: &Lock) -> Result<Self, Failure> {
        let mut command = words(arguments);
        furnish(&mut command, arguments, lock);
        // On a terminal the shell keeps the jobs, by their process groups: there the command stays in
        // ours, and Ctrl-C and Ctrl-Z reach it as if it had been started by itself. Elsewhere a group of
        // its own keeps those apart who are to be ended when the lock is lost.
        let shares_group = has_terminal();
        if !shares_group {
            command.process_group(0);
        }
        die_with_us(&mut command, arguments.on_lost);
        let child = command.spawn().map_err(|error| cannot_run(&command, &error))?;
        let pid = Pid::from_child(&child);
        Ok(Self { pid, is_over: false, shares_group, tree: Tree::default() })
    }

    /// What has become of it since the last time, if anything.
    pub fn turn(&mut self) -> Option<Turn> {
        let status = match waitpid(Some(self.pid), WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(found) => found?.1,
            Err(Errno::INTR) => return None,
            // Somebody has taken its status away.
            Err(_) => {
                self.is_over = true;
                return Some(Turn::Ended(exit::SOFTWARE));
            }
        };
        if status.stopped() {
            return Some(Turn::Stopped);
        }
        self.is_over = true;
        Some(Turn::Ended(code_of(ExitStatus::from_raw(status.as_raw()))))
    }

    /// Whether the terminal's signals reach it without us.
    pub fn shares_group(&self) -> bool {
        self.shares_group
    }

    /// Sends a signal to the command, and in a group of its own to all that is in it.
    pub fn signal(&self, signal: Signal) {
        // It may have ended meanwhile: then there is nothing to be told.
        if !self.shares_group {
            let _ = kill_process_group(self.pid, signal);
        }
        if self.is_apart() {
            let _ = kill_process(self.pid, signal);
        }
    }

    /// Whether a signal to the group does not reach the command: it may have left the group.
    fn is_apart(&self) -> bool {
        let is_inside = || getpgid(Some(self.pid)).is_ok_and(|group| group == self.pid);
        !self.is_over && (self.shares_group || !is_inside())
    }

    /// Sends a signal to the command and to all that it has started.
    pub fn signal_all(&mut self, signal: Signal) {
        // First of all: whoever has lost its parent is not found any more.
        self.tree.look((!self.is_over).then_some(self.pid));
        self.signal(signal);
        let group = (!self.shares_group).then_some(self.pid);
        self.tree.signal(signal, |pid, its_group| pid == self.pid || Some(its_group) == group);
    }

    /// Whether something of it is left, after the command itself has ended.
    pub fn has_remains(&mut self) -> bool {
        let has_group = !self.shares_group && test_kill_process_group(self.pid).is_ok();
        has_group || self.tree.has_remains()
    }
}

/// Whether there is a terminal that may send signals to us.
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

fn words(arguments: &Run) -> Command {
    if let Some(line) = &arguments.shell_command {
        let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
        let mut command = Command::new(shell.unwrap_or_else(|| OsString::from("/bin/sh")));
        command.arg("-c").arg(line);
        return command;
    }
    let mut words = arguments.program.iter();
    let mut command = Command::new(words.next().cloned().unwrap_or_default());
    command.args(words);
    command
}

/// The environment: what it says of the lock is of this one, also where one runs within another.
fn furnish(command: &mut Command, arguments: &Run, lock: &Lock) {
    command.env(NAME_VARIABLE, &arguments.name);
    match lock.fencing_token() {
        Some(token) => command.env(TOKEN_VARIABLE, token.to_string()),
        None => command.env_remove(TOKEN_VARIABLE),
    };
    if arguments.keep_url {
        return;
    }
    let Some(url) = std::env::var_os(URL_VARIABLE) else {
        return;
    };
    // Without its password rather than not at all: who needs it within is refused by that server, and
    // does not lock on another.
    match url.to_str().and_then(secret::without_password) {
        Some(rest) => command.env(URL_VARIABLE, rest),
        None => command.env_remove(URL_VARIABLE),
    };
}

/// Has the command ended by the system if we are killed, as the lock is free then.
fn die_with_us(command: &mut Command, on_lost: OnLost) {
    let signal = match on_lost {
        OnLost::Kill => Signal::KILL,
        OnLost::Term => Signal::TERM,
        OnLost::Ignore => return,
    };
    #[cfg(target_os = "linux")]
    {
        let parent = rustix::process::getpid();
        // SAFETY: two plain system calls between fork and exec.
        unsafe {
            command.pre_exec(move || {
                rustix::process::set_parent_process_death_signal(Some(signal))?;
                // Killed before that was set.
                match rustix::process::getppid() == Some(parent) {
                    true => Ok(()),
                    false => Err(io::ErrorKind::Interrupted.into()),
                }
            });
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (command, signal);
}

fn cannot_run(command: &Command, error: &io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::NotFound => exit::NOT_FOUND,
        _ => exit::NOT_EXECUTABLE,
    };
    let program = command.get_program().to_string_lossy();
    Failure::new(code, format!("{program} cannot be run: {error}"))
}

/// The exit status that stands for a command's end, as shells have it.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(i32::from(exit::SIGNALLED) + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::SOFTWARE)
}
