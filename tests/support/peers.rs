//! Python with a version of portalocker.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use super::program::root;

/// The interpreter that has this version installed; installs it where it is missing.
pub fn python(version: &str) -> PathBuf {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = INSTALLING.lock().unwrap_or_else(|e| e.into_inner());
    let venv = peers_dir().join(version);
    let python = venv.join("bin/python");
    if !has(&python, version) {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
        let package = format!("portalocker=={version}");
        let pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check"];
        run(Command::new(&python).args(pip).args([&package, "redis"]));
    }
    python
}

fn has(python: &Path, version: &str) -> bool {
    let code = "import portalocker, redis; print(portalocker.__version__)";
    let said = Command::new(python).args(["-c", code]).output();
    said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).trim() == version)
}

fn peers_dir() -> PathBuf {
    match std::env::var_os("PORTALOCK_PEERS") {
        Some(dir) => dir.into(),
        None => root().join("target/peers"),
    }
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
