//! Programs that have to end well, and in time.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::markdown::Block;
use crate::support::{Server, die_with_parent, wait_until};

/// Where the pages say that the server is.
pub const SERVER: &str = "redis://127.0.0.1:6379";

/// Longer than a build takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

/// The text of a block that is to be run, with the address of a server that is there. It must not reach for
/// any other.
pub fn at(server: &Server, block: &Block) -> String {
    let others = block.body.replace(SERVER, "");
    let is_alone = !others.contains("redis://") && !others.contains("unix://");
    assert!(is_alone || block.is_not_run(), "{}: a server that is not there", block.place());
    block.body.replace(SERVER, &server.tcp_url())
}

/// Runs a program of a page. Most say the same, if they get so far.
pub fn run_program(block: &Block, command: &mut Command) -> String {
    const WORDS: &str = "I am the only one here.";
    let said = run(&block.place(), command);
    assert!(said.contains(WORDS) || !block.body.contains(WORDS), "{}: {said}", block.place());
    said
}

/// Runs a command to its end, which has to be a good one; what it says.
pub fn run(place: &str, command: &mut Command) -> String {
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("log");
    let out = File::create(&log).unwrap();
    command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
    die_with_parent(command);
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let over = wait_until(LIMIT, || child.try_wait().unwrap().is_some());
    if !over {
        let _ = child.kill();
    }
    let status = child.wait().unwrap();
    let said = String::from_utf8_lossy(&std::fs::read(&log).unwrap()).into_owned();
    assert!(over && status.success(), "{place}: {command:?}: {status}\n{said}");
    said
}
