//! The library as C programs see it: compiled with the system's compiler, linked with the shared object,
//! run against a real server.

mod support;

use std::collections::BTreeSet;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use support::program::{Program, await_line, library, root};
use support::{Server, wait_until};

fn runs(source: &str) {
    let server = Server::start();
    Program::compile(source, &["-lportalock"]).run(&server, &[&server.url()]);
}

#[test]
fn wrong_arguments_are_refused_and_harm_nothing() {
    runs("tests/c/arguments.c");
}

#[test]
fn a_lock_goes_through_its_life() {
    runs("tests/c/lifecycle.c");
}

#[test]
fn whatever_is_called_in_whatever_order_harms_nothing() {
    runs("tests/c/schedules.c");
}

#[test]
fn events_are_fetched_and_acquires_carried_on() {
    runs("tests/c/events.c");
}

/// Without a handler there is no line anywhere, and with one there is none above its level.
#[test]
fn the_log_is_silent_while_nothing_goes_wrong() {
    let server = Server::start();
    let program = Program::compile("tests/c/logging.c", &["-lportalock"]);
    program.run(&server, &[&server.url()]);
    let outcome = program.command().args([&server.url(), "quiet"]).output().unwrap();
    assert!(outcome.status.success(), "{outcome:?}");
    assert!(outcome.stdout.is_empty() && outcome.stderr.is_empty(), "{outcome:?}");
}

#[test]
fn threads_may_meddle_with_each_others_locks() {
    runs("tests/c/threads.c");
}

#[test]
fn a_unit_test_needs_no_server() {
    let program = Program::compile("tests/c/memory.c", &["-lportalock"]);
    let outcome = program.command().output().unwrap();
    assert!(outcome.status.success(), "{outcome:?}");
}

#[test]
fn the_library_can_be_loaded_and_unloaded() {
    let server = Server::start();
    let program = Program::compile("tests/c/unload.c", &["-ldl"]);
    program.run(&server, &[&server.url(), library().to_str().unwrap()]);
}

#[test]
fn the_smallest_example_says_why_it_fails() {
    let program = Program::compile("examples/c/hello.c", &["-lportalock"]);
    let outcome = program.command().output().unwrap();
    let said = String::from_utf8_lossy(&outcome.stdout) + String::from_utf8_lossy(&outcome.stderr);
    match outcome.status.code() {
        // Somebody's server is where the example looks for one.
        Some(0) => assert!(said.contains("I am the only one here."), "{said}"),
        Some(1) => assert!(said.contains("127.0.0.1:6379"), "{said}"),
        other => panic!("{other:?}: {said}"),
    }
}

#[test]
fn guarded_jobs_wait_for_each_other() {
    let server = Server::start();
    let program = Program::compile("examples/c/guarded_job.c", &["-lportalock"]);
    let journal = server.dir().join("journal");
    // Long enough for the others to arrive, also where many tests run at once.
    let args = |label| [server.url(), "job".into(), "1000".into(), label, path(&journal)];
    let mut arrived = 0;
    let start = |label: &str| {
        let args = args(label.to_owned());
        let child = program.start(&args.each_ref().map(String::as_str));
        arrived += 1;
        assert!(wait_until(Duration::from_secs(5), || server.members("job") == arrived));
        std::thread::sleep(Duration::from_millis(50));
        child
    };
    let jobs = ["one", "two", "three"].map(start);
    let said = jobs.map(|job| job.wait_with_output().unwrap());
    for outcome in &said {
        assert!(outcome.status.success());
    }
    let second = String::from_utf8_lossy(&said[1].stdout).into_owned();
    assert!(second.contains("waits") && second.contains("sees one"), "{second}");
    let lines = std::fs::read_to_string(&journal).unwrap();
    let events: Vec<_> = lines.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(events, ["enter", "leave"].repeat(3));
}

#[test]
fn a_guarded_job_stops_when_its_lock_is_lost() {
    let server = Server::start();
    let program = Program::compile("examples/c/guarded_job.c", &["-lportalock"]);
    let mut job = program.start(&[&server.url(), "job", "60000"]);
    let held = || server.members("job") == 1;
    assert!(wait_until(Duration::from_secs(5), held));
    std::thread::sleep(Duration::from_millis(100));
    assert!(server.kill_client(&server.member("job").unwrap()));
    let over = wait_until(Duration::from_secs(5), || job.try_wait().unwrap().is_some());
    assert!(over, "it goes on");
    let outcome = job.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&outcome.stdout);
    assert_eq!(outcome.status.code(), Some(3), "{said}");
    assert!(said.contains("LOST"), "{said}");
}

#[test]
fn a_poll_loop_takes_over_a_hundred_shards_and_leaves_when_told() {
    let mut server = Server::start();
    let program = Program::compile("examples/c/poll_loop.c", &["-lportalock"]);
    let url = server.url();
    let start = || {
        let mut process = program.start(&[&url, "shard"]);
        let said = BufReader::new(process.stdout.take().unwrap());
        (process, said)
    };
    let (mut first, mut first_said) = start();
    await_line(&mut first_said, "owns 100 of 100 shards");
    let (mut second, mut second_said) = start();
    assert!(wait_until(Duration::from_secs(10), || server.members("shard-99") == 2));
    first.kill().unwrap();
    first.wait().unwrap();
    await_line(&mut second_said, "owns 100 of 100 shards");
    // It has one thread of its own, the library one that keeps all the locks.
    let threads = std::fs::read_dir(format!("/proc/{}/task", second.id())).unwrap().count();
    assert_eq!(threads, 2);
    server.restart();
    let lines = await_line(&mut second_said, "owns 100 of 100 shards");
    let lost = lines.iter().filter(|line| line.contains("is lost: ")).count();
    assert_eq!(lost, 100, "{lines:?}");
    support::signal(second.id() as i32, libc::SIGTERM);
    await_line(&mut second_said, "has left");
    assert!(second.wait().unwrap().success());
    assert!(wait_until(Duration::from_secs(1), || server.members("shard-0") == 0));
}

fn path(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn tool(program: &str, args: &[&str]) -> String {
    let library = library();
    let outcome = Command::new(program).args(args).arg(&library).output().unwrap();
    assert!(outcome.status.success());
    String::from_utf8(outcome.stdout).unwrap()
}

/// The checked-in list is the ABI: a symbol that goes breaks programs, and one that comes is for ever.
#[test]
fn the_shared_object_exports_what_the_list_says() {
    let table = tool("nm", &["-D", "--defined-only"]);
    let exported: BTreeSet<_> = table.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let new: String = exported.iter().map(|symbol| format!("{symbol}\n")).collect();
    let list = root().join("include/portalock.symbols");
    if std::env::var_os("PORTALOCK_UPDATE_HEADER").is_some() {
        std::fs::write(&list, &new).unwrap();
    }
    assert!(exported.iter().all(|symbol| symbol.starts_with("pl_")), "{exported:?}");
    let old = std::fs::read_to_string(&list).unwrap_or_default();
    assert_eq!(old, new, "include/portalock.symbols differs: run ./dev headers, if it is meant to");
}

#[test]
fn the_shared_object_is_named_by_its_abi_and_needs_little() {
    let dynamic = tool("readelf", &["-d"]);
    assert!(dynamic.contains("Library soname: [libportalock.so.0]"), "{dynamic}");
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let known = ["libc.so.", "libgcc_s.so.", "libm.so.", "libpthread.so.", "libdl.so.", "ld-linux"];
    for line in needed {
        assert!(known.iter().any(|name| line.contains(name)), "{line}");
    }
}
