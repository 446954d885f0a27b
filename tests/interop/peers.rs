//! Processes that hold locks with portalocker.

use std::process::Command;

use crate::LONG;
use crate::support::Server;
use crate::support::peers::python;
use crate::support::program::root;
use crate::support::worker::Worker;

/// The versions that behave differently from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// No protocol: timestamps for answers, one name for all.
    V3_2_0,
    /// Readers, and an election.
    V4_0_0,
    /// The same, mended.
    V4_1_0,
    /// Elections are told, promotions confirmed, losses reported.
    V4_4_2,
}

use Version::*;

pub const ALL: [Version; 4] = [V3_2_0, V4_0_0, V4_1_0, V4_4_2];

impl Version {
    pub fn number(self) -> &'static str {
        match self {
            V3_2_0 => "3.2.0",
            V4_0_0 => "4.0.0",
            V4_1_0 => "4.1.0",
            V4_4_2 => "4.4.2",
        }
    }

    pub fn has_readers(self) -> bool {
        self != V3_2_0
    }

    /// A process that is ready to take a lock.
    pub fn spawn(self, server: &Server, name: &str) -> Worker {
        self.spawn_at(&server.tcp_url(), name)
    }

    /// The same, at a URL with a login.
    pub fn spawn_at(self, url: &str, name: &str) -> Worker {
        let driver = root().join("tests/interop/peer.py");
        let worker = Worker::spawn_program(
            Command::new(python(self.number())).arg("-u").arg(driver).args([url, name]),
        );
        worker.await_line("ready", LONG * 3);
        worker
    }
}
