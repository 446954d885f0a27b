//! Many runs at a time.

use crate::portalock;
use crate::process::Running;
use crate::support::Server;

/// Whoever reads the counter while another is about to write it loses the other's update.
const COUNT: &str = "n=$(cat counter); sleep 0.01; echo $((n + 1)) >counter";

#[test]
fn fifty_runs_of_a_counter_lose_no_update() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("counter"), "0\n").unwrap();
    let start = |_| {
        let mut program = portalock(&server).args(&["run", "counter", "-c", COUNT]);
        program.command().current_dir(dir.path());
        program.start()
    };
    let runs: Vec<Running> = (0..50).map(start).collect();
    assert!(runs.into_iter().all(|run| run.wait().code() == 0));
    assert_eq!(std::fs::read_to_string(dir.path().join("counter")).unwrap(), "50\n");
    assert_eq!(server.members("counter"), 0);
}

#[test]
fn tokens_rise_from_run_to_run() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let start = |_| {
        let line = "echo $PORTALOCK_FENCING_TOKEN >>tokens";
        let mut program = portalock(&server).args(&["run", "--fence-env", "x", "-c", line]);
        program.command().current_dir(dir.path());
        program.start()
    };
    let runs: Vec<Running> = (0..10).map(start).collect();
    assert!(runs.into_iter().all(|run| run.wait().code() == 0));
    let tokens = std::fs::read_to_string(dir.path().join("tokens")).unwrap();
    let tokens: Vec<u64> = tokens.lines().map(|line| line.parse().unwrap()).collect();
    // Some are drawn and not used.
    assert!(tokens.len() == 10 && tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}
