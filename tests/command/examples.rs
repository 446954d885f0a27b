//! The examples for cron and systemd: their command lines are run as they stand.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Program, Running};
use crate::support::program::root;
use crate::support::{Server, skip};

fn example(path: &str) -> String {
    std::fs::read_to_string(root().join("examples").join(path)).unwrap()
}

/// The folder in which the command is.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_portalock")).parent().unwrap().to_owned()
}

/// A shell that is given what cron gives it: the settings of the file, with another server and report.
fn by_cron(table: &str, server: &Server, report: &Path) -> Running {
    let settings = table.lines().filter(|line| !line.starts_with(['#', '*', ' ']));
    let settings: Vec<_> = settings.filter_map(|line| line.split_once('=')).collect();
    let names: Vec<_> = settings.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["SHELL", "PATH", "PORTALOCK_URL", "REPORT"]);
    let job = table.lines().find(|line| line.starts_with('*')).unwrap();
    // Five fields of time, and the user.
    let line = job.splitn(7, ' ').nth(6).unwrap();
    assert!(!line.contains('%'), "cron makes an end of line of it");
    let mut program = Program::new(settings[0].1).arg("-c").arg(line);
    program.command().env_clear();
    program.env("SHELL", settings[0].1).env("HOME", "/").env("LOGNAME", "nobody");
    program.env("PATH", &format!("{}:{}", folder().display(), settings[1].1));
    program.env("PORTALOCK_URL", &server.url()).env("REPORT", report.to_str().unwrap());
    program.start()
}

#[test]
fn cron_jobs_do_not_overlap() {
    let server = Server::start();
    let table = example("cron/nightly-report");
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report");
    let runs: Vec<_> = (0..4).map(|_| by_cron(&table, &server, &report)).collect();
    for run in runs {
        let ended = run.wait();
        // Nothing is said, so there is no mail.
        assert_eq!((ended.code(), ended.out.as_str(), ended.err.as_str()), (0, "", ""));
    }
    assert_eq!(std::fs::read_to_string(&report).unwrap(), "begun\ndone\n");
    by_cron(&table, &server, &report).wait();
    assert_eq!(std::fs::read_to_string(&report).unwrap(), "begun\ndone\nbegun\ndone\n");
}

const UNIT: &str = "systemd/portalock-worker.service";

/// The words of the unit's command, as systemd reads them.
fn exec_start(unit: &str) -> Vec<String> {
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let mut words = Vec::new();
    for (number, part) in line.split('\'').enumerate() {
        match number % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

#[test]
fn the_unit_works_on_one_host_at_a_time() {
    let server = Server::start();
    let words = exec_start(&example(UNIT));
    assert_eq!(words[0], "/usr/local/bin/portalock");
    let start = |host: &str| {
        let mut program = Program::new(env!("CARGO_BIN_EXE_portalock"));
        for word in &words[1..] {
            program = program.arg(word.replace("%H", host));
        }
        program.env("PORTALOCK_URL", &server.url());
        program.start()
    };
    let one = start("one");
    one.await_out("works");
    let two = start("two");
    assert!(crate::support::wait_until(crate::process::LONG, || server.members("worker") == 2));
    assert_eq!(two.out(), "");
    // What `systemctl stop` sends with KillMode=mixed.
    one.signal(libc::SIGTERM);
    assert_eq!(one.wait().code(), 143);
    two.await_out("works");
    two.signal(libc::SIGTERM);
    assert_eq!(two.wait().code(), 143);
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("portalock-worker.service");
    let command = env!("CARGO_BIN_EXE_portalock");
    std::fs::write(&path, example(UNIT).replace("/usr/local/bin/portalock", command)).unwrap();
    match Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output() {
        Ok(outcome) => {
            let said = String::from_utf8_lossy(&outcome.stderr).into_owned();
            assert!(outcome.status.success(), "{said}");
            assert!(!said.contains("portalock-worker.service"), "{said}");
        }
        Err(error) => skip(&format!("the unit is not verified: systemd-analyze: {error}")),
    }
}
