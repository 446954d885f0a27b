//! A pseudo-terminal: its far end is the terminal of a program, its near end is the test's.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::process::{LONG, begin_anew};
use crate::support::die_with_parent;

pub struct Pty {
    near: File,
    pub child: Child,
    /// All that was shown so far.
    pub shown: String,
    /// Up to where it was waited for.
    seen: usize,
}

impl Pty {
    /// Starts a program on a terminal with so many columns.
    pub fn start(mut command: Command, columns: u16) -> Self {
        let (near, far) = open(columns);
        command.stdin(far.try_clone().unwrap());
        command.stdout(far.try_clone().unwrap());
        command.stderr(far);
        begin_anew(&mut command);
        // SAFETY: a plain system call between fork and exec.
        unsafe {
            command.pre_exec(|| match libc::ioctl(0, libc::TIOCSCTTY, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        die_with_parent(&mut command);
        let child = command.spawn().unwrap();
        Self { near, child, shown: String::new(), seen: 0 }
    }

    pub fn type_in(&mut self, text: &str) {
        self.near.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until this is shown, after what was waited for before; what came up to there.
    pub fn await_shown(&mut self, wanted: &str) -> String {
        let from = self.seen;
        let until = Instant::now() + LONG;
        loop {
            if let Some(at) = self.shown[from..].find(wanted) {
                self.seen = from + at + wanted.len();
                return self.shown[from..self.seen].to_owned();
            }
            let goes_on = self.read(Duration::from_millis(100));
            let state = self.child.try_wait();
            let left = &self.shown[from..];
            assert!(goes_on || left.contains(wanted), "it ended, {state:?}: {left:?}");
            assert!(Instant::now() < until, "no {wanted:?} in {left:?}, {state:?}");
        }
    }

    /// Takes in what is shown within a time; `false` once there will be no more.
    pub fn read(&mut self, span: Duration) -> bool {
        let mut ready =
            libc::pollfd { fd: self.near.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        if unsafe { libc::poll(&raw mut ready, 1, span.as_millis() as i32) } <= 0 {
            return true;
        }
        let mut bytes = [0; 4096];
        match self.near.read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                self.shown += &String::from_utf8_lossy(&bytes[..count]);
                true
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            // Nobody has the far end open any more.
            Err(_) => false,
        }
    }

    /// Takes in all until the program has ended; its exit status.
    pub fn finish(&mut self) -> Option<i32> {
        let until = Instant::now() + LONG;
        while self.read(Duration::from_millis(50)) {
            assert!(Instant::now() < until, "it does not end: {:?}", self.shown);
        }
        self.child.wait().unwrap().code()
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn open(columns: u16) -> (File, OwnedFd) {
    let (mut near, mut far) = (-1, -1);
    let size = libc::winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: valid places for two descriptors, no name, no settings, a size.
    let made = unsafe {
        libc::openpty(
            &raw mut near,
            &raw mut far,
            std::ptr::null_mut(),
            std::ptr::null(),
            &raw const size,
        )
    };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    for descriptor in [near, far] {
        // SAFETY: plain calls on descriptors that are ours.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    // SAFETY: they were just opened, and nobody else has them.
    unsafe { (File::from_raw_fd(near), OwnedFd::from_raw_fd(far)) }
}
