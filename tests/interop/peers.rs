//! Processes that hold locks with portalocker.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::LONG;
use crate::support::Server;
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

    /// The interpreter that has this version installed; installs it where it is missing.
    fn python(self) -> PathBuf {
        static INSTALLING: Mutex<()> = Mutex::new(());
        let _one_at_a_time = INSTALLING.lock().unwrap_or_else(|e| e.into_inner());
        let venv = peers_dir().join(self.number());
        let python = venv.join("bin/python");
        if !self.is_installed(&python) {
            run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
            let package = format!("portalocker=={}", self.number());
            let pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check"];
            run(Command::new(&python).args(pip).args([&package, "redis"]));
        }
        python
    }

    fn is_installed(self, python: &Path) -> bool {
        let code = "import portalocker, redis; print(portalocker.__version__)";
        let said = Command::new(python).args(["-c", code]).output();
        said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).trim() == self.number())
    }

    /// A process that is ready to take a lock.
    pub fn spawn(self, server: &Server, name: &str) -> Worker {
        let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/peer.py");
        let url = server.tcp_url();
        let worker = Worker::spawn_program(
            Command::new(self.python()).arg("-u").arg(driver).args([&url, name]),
        );
        worker.await_line("ready", LONG * 3);
        worker
    }
}

fn peers_dir() -> PathBuf {
    match std::env::var_os("PORTALOCK_PEERS") {
        Some(dir) => dir.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("target/peers"),
    }
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
