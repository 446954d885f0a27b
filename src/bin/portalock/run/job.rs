//! The command that is run under the lock: how it is started, reached by signals, and ended.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use portalock::Lock;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

use super::tree::Tree;
use crate::arguments::{OnLost, Run};
use crate::failure::Failure;
use crate::server::URL_VARIABLE;
use crate::{exit, secret};

/// The name of the lock that a command runs under.
pub const NAME_VARIABLE: &str = "PORTALOCK_NAME";
const TOKEN_VARIABLE: &str = "PORTALOCK_FENCING_TOKEN";

/// A command that was started.
pub struct Job {
    child: Child,
    pid: Pid,
    /// Whether it is in the process group of portalock itself.
    shares_group: bool,
    /// Those who are to be ended along with it, where a group does not tell them.
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
        Ok(Self { child, pid, shares_group, tree: Tree::default() })
    }

    /// Its status, once it has ended.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Whether the terminal's signals reach it without us.
    pub fn shares_group(&self) -> bool {
        self.shares_group
    }

    /// Sends a signal to the command, and in a group of its own to all that is in it.
    pub fn signal(&self, signal: Signal) {
        // It may have ended meanwhile: then there is nothing to be told.
        let _ = match self.shares_group {
            true => kill_process(self.pid, signal),
            false => kill_process_group(self.pid, signal),
        };
    }

    /// Sends a signal to the command and to all that it has started.
    pub fn signal_all(&mut self, signal: Signal) {
        match self.shares_group {
            false => self.signal(signal),
            true => self.tree.signal(self.pid, signal),
        }
    }

    /// Whether something of it is left, after the command itself has ended.
    pub fn has_remains(&mut self) -> bool {
        match self.shares_group {
            false => test_kill_process_group(self.pid).is_ok(),
            true => self.tree.has_remains(),
        }
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
pub fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(i32::from(exit::SIGNALLED) + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::SOFTWARE)
}
