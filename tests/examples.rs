//! The examples in C, C++ and Rust: they say the same, and do what they say, against a real server.

mod support;

use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Once;
use std::time::Duration;

use support::program::{Program, await_line, root};
use support::{Server, die_with_parent, wait_until};

/// An example in one of the languages.
enum Example {
    Compiled(Program),
    Rust(PathBuf),
}

impl Example {
    fn compile(source: &str) -> Self {
        Self::Compiled(Program::compile(source, &["-lportalock"]))
    }

    /// From beside this test. Cargo builds examples only if it is asked to.
    fn rust(name: &str) -> Self {
        static BUILT: Once = Once::new();
        let test = std::env::current_exe().unwrap();
        let profile = test.ancestors().nth(2).unwrap();
        BUILT.call_once(|| {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--quiet", "--locked", "--offline", "--examples"]);
            cargo.arg("--target-dir").arg(profile.parent().unwrap()).current_dir(root());
            assert!(cargo.status().unwrap().success());
        });
        Self::Rust(profile.join("examples").join(name))
    }

    fn every(name: &str) -> [Self; 3] {
        let source = |language: &str| format!("examples/{language}/{name}.{language}");
        [Self::compile(&source("c")), Self::compile(&source("cpp")), Self::rust(name)]
    }

    fn start(&self, args: &[&str]) -> Child {
        let mut command = match self {
            Self::Compiled(program) => program.command(),
            Self::Rust(path) => Command::new(path),
        };
        die_with_parent(&mut command);
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

fn said(outcome: &Output) -> String {
    let errors = String::from_utf8_lossy(&outcome.stderr);
    assert!(outcome.status.success(), "{}: {errors}", outcome.status);
    String::from_utf8_lossy(&outcome.stdout).into_owned()
}

fn output_of(child: &mut Child) -> BufReader<ChildStdout> {
    BufReader::new(child.stdout.take().unwrap())
}

fn lose(server: &Server, lock: &str) {
    assert!(server.kill_client(&server.member(lock).unwrap()));
}

#[test]
fn guarded_jobs_of_all_languages_take_turns() {
    let server = Server::start();
    let url = server.url();
    let jobs = Example::every("guarded_job");
    let mut first = jobs[0].start(&[&url, "job", "1500", "the first"]);
    let mut lines = output_of(&mut first);
    await_line(&mut lines, "holds");
    let later = [&jobs[1], &jobs[2]].map(|job| job.start(&[&url, "job", "10"]));
    for outcome in later.map(|child| child.wait_with_output().unwrap()) {
        let said = said(&outcome);
        let order =
            ["waits", "sees the first hold it", "holds", "done"].map(|word| said.find(word));
        assert!(order.is_sorted() && order[0].is_some(), "{said}");
    }
    await_line(&mut lines, "done");
    assert!(first.wait().unwrap().success());
}

#[test]
fn guarded_jobs_of_all_languages_stop_when_the_lock_is_lost() {
    let server = Server::start();
    for job in Example::every("guarded_job") {
        let mut child = job.start(&[&server.url(), "job", "60000"]);
        let mut lines = output_of(&mut child);
        await_line(&mut lines, "holds");
        lose(&server, "job");
        await_line(&mut lines, "LOST");
        assert_eq!(child.wait().unwrap().code(), Some(3));
    }
}

#[test]
fn leaders_of_all_languages_follow_each_other() {
    let server = Server::start();
    let url = server.url();
    let programs = Example::every("leader");
    let leaders = programs.each_ref().map(|one| one.start(&[&url, "throne", "3", "20"]));
    let pids = leaders.each_ref().map(Child::id);
    let outcomes = leaders.map(|leader| said(&leader.wait_with_output().unwrap()));
    for (said, pid) in outcomes.iter().zip(pids) {
        let round = format!("leader {pid} leads\nleader {pid} steps down\n");
        assert_eq!(*said, round.repeat(3));
    }
}

#[test]
fn leaders_of_all_languages_say_when_they_lose_and_lead_again() {
    let server = Server::start();
    for leader in Example::every("leader") {
        let mut child = leader.start(&[&server.url(), "throne", "2", "1500"]);
        let mut lines = output_of(&mut child);
        await_line(&mut lines, "leads");
        lose(&server, "throne");
        let line = await_line(&mut lines, "lost it: ").pop().unwrap();
        assert!(!line.ends_with("lost it: "), "{line}");
        await_line(&mut lines, "leads");
        await_line(&mut lines, "steps down");
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_cache_is_refilled_by_one_and_read_by_all_others() {
    let server = Server::start();
    let url = server.url();
    let file = server.dir().join("cache");
    let args = [&url, "cache", file.to_str().unwrap()];
    let crowd = Example::every("cache_refill");
    for _ in 0..2 {
        let _ = std::fs::remove_file(&file);
        let readers: Vec<_> = (0..9).map(|i| crowd[i % 3].start(&args)).collect();
        let outcomes = readers.into_iter().map(|child| child.wait_with_output().unwrap());
        let lines: Vec<_> = outcomes.map(|outcome| said(&outcome)).collect();
        let value = std::fs::read_to_string(&file).unwrap();
        let refills = format!("{} refills\n", value.trim());
        assert_eq!(lines.iter().filter(|line| **line == refills).count(), 1, "{lines:?}");
        let reads = format!(" reads {value}");
        assert_eq!(lines.iter().filter(|line| line.ends_with(&reads)).count(), 8, "{lines:?}");
    }
}

#[test]
fn event_loops_of_all_languages_take_over_from_each_other() {
    let server = Server::start();
    let url = server.url();
    let loops = [
        Example::compile("examples/c/poll_loop.c"),
        Example::compile("examples/cpp/poll_loop.cpp"),
        Example::rust("event_loop"),
    ];
    let mut before: Option<Child> = None;
    for one in &loops {
        let mut child = one.start(&[&url, "shard", "10"]);
        let mut lines = output_of(&mut child);
        if let Some(mut before) = before.take() {
            let both = || (0..10).all(|i| server.members(&format!("shard-{i}")) == 2);
            assert!(wait_until(Duration::from_secs(10), both));
            before.kill().unwrap();
            before.wait().unwrap();
        }
        await_line(&mut lines, "owns 10 of 10 shards");
        lose(&server, "shard-3");
        await_line(&mut lines, "is lost: ");
        await_line(&mut lines, "owns 10 of 10 shards");
        // Nobody reads on, and nothing more is said.
        std::mem::forget(lines);
        before = Some(child);
    }
    before.unwrap().kill().unwrap();
}

#[test]
fn the_poll_loop_of_cpp_leaves_when_told() {
    let server = Server::start();
    let poll_loop = Example::compile("examples/cpp/poll_loop.cpp");
    let mut child = poll_loop.start(&[&server.url(), "shard", "3"]);
    await_line(&mut output_of(&mut child), "owns 3 of 3 shards");
    support::signal(child.id() as i32, libc::SIGTERM);
    assert!(child.wait().unwrap().success());
    assert!(wait_until(Duration::from_secs(5), || server.members("shard-0") == 0));
}
