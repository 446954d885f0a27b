//! The library as C programs see it: compiled with the system's compiler, linked with the shared object,
//! run against a real server.

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use support::{Server, die_with_parent, wait_until};
use tempfile::TempDir;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The shared object that was built together with this test.
fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let path = deps.join("libportalock.so");
    assert!(path.exists(), "{} is missing", path.display());
    path
}

/// The C compiler, with what `./dev sanitize` adds to its arguments.
fn cc_command(flags: &str) -> Command {
    let mut command = Command::new(std::env::var_os("PORTALOCK_CC").unwrap_or("cc".into()));
    command.args(std::env::var(flags).unwrap_or_default().split_whitespace());
    command
}

fn cc(command: &mut Command) {
    let outcome = command.output().expect("the C compiler cannot be run");
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
}

/// A compiled program in a folder of its own, beside the library under the names that it is found by.
struct Program {
    dir: TempDir,
}

impl Program {
    fn compile(source: &str, libraries: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        for name in ["libportalock.so", "libportalock.so.0"] {
            std::os::unix::fs::symlink(library(), dir.path().join(name)).unwrap();
        }
        let (object, program) = (dir.path().join("program.o"), dir.path().join("program"));
        cc(cc_command("PORTALOCK_CFLAGS")
            .args(["-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-c"])
            .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"])
            .arg(root().join(source))
            .arg("-I")
            .arg(root().join("include"))
            .arg("-o")
            .arg(&object));
        cc(cc_command("PORTALOCK_LDFLAGS")
            .arg(&object)
            .arg("-pthread")
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(dir.path())
            .arg(format!("-Wl,-rpath,{}", dir.path().display()))
            .args(libraries));
        Self { dir }
    }

    fn command(&self) -> Command {
        let path = self.dir.path().join("program");
        let mut command = match std::env::var_os("PORTALOCK_VALGRIND") {
            None => Command::new(path),
            Some(_) => {
                let mut valgrind = Command::new("valgrind");
                valgrind.args(["-q", "--error-exitcode=99", "--leak-check=full"]);
                valgrind.args(["--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"]);
                valgrind.arg("--fair-sched=yes").arg(path);
                valgrind
            }
        };
        die_with_parent(&mut command);
        command
    }

    fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command();
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Runs it, and does for it what it asks for on its standard output.
    fn run(&self, server: &Server, args: &[&str]) {
        let mut child = self.start(args);
        let mut answers = child.stdin.take().unwrap();
        let orders = BufReader::new(child.stdout.take().unwrap());
        for order in orders.lines().map_while(Result::ok) {
            match order.strip_prefix("kill ") {
                // However many there are.
                Some("subscribers") => {
                    server.run::<u64>(&["CLIENT", "KILL", "TYPE", "pubsub"]);
                }
                Some(name) => assert!(server.kill_client(name), "no client {name}"),
                None => {}
            }
            let _ = writeln!(answers, "done");
        }
        let status = child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

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
fn threads_may_meddle_with_each_others_locks() {
    runs("tests/c/threads.c");
}

#[test]
fn whatever_is_called_in_whatever_order_harms_nothing() {
    runs("tests/c/schedules.c");
}

#[test]
fn a_fork_takes_no_lock_along() {
    runs("tests/c/fork.c");
}

#[test]
fn the_library_can_be_loaded_and_unloaded() {
    let server = Server::start();
    let program = Program::compile("tests/c/unload.c", &["-ldl"]);
    program.run(&server, &[&server.url(), library().to_str().unwrap()]);
}

/// However a process ends, it ends, and what it held is free at once.
#[test]
fn every_way_out_frees_the_lock_at_once() {
    let server = Server::start();
    let program = Program::compile("tests/c/leave.c", &["-lportalock"]);
    for (way, signal) in [
        ("return", None),
        ("exit", None),
        ("_exit", None),
        ("pthread_exit", None),
        ("abort", Some(6)),
    ] {
        let mut child = program.start(&[&server.url(), way]);
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!((said.trim(), server.members("leaving")), ("held", 1), "{way}");
        writeln!(child.stdin.take().unwrap(), "go").unwrap();
        // A thread that ends leaves the process to the others: to the library's, which goes on.
        if way == "pthread_exit" {
            std::thread::sleep(Duration::from_millis(200));
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            let over = wait_until(Duration::from_secs(5), || child.try_wait().unwrap().is_some());
            assert!(over, "{way} hangs");
            let status = child.wait().unwrap();
            let as_wanted = match signal {
                None => status.success(),
                Some(_) => status.signal() == signal,
            };
            assert!(as_wanted, "{way}: {status}");
        }
        let free = wait_until(Duration::from_secs(1), || server.members("leaving") == 0);
        assert!(free, "still held after {way}");
    }
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
    let name_of = |line: &str| {
        let mut names = line.split(' ').filter_map(|field| field.strip_prefix("name="));
        names.find(|name| name.starts_with("job-lock-")).map(str::to_owned)
    };
    let name = server.clients().iter().find_map(|line| name_of(line)).unwrap();
    assert!(server.kill_client(&name));
    let over = wait_until(Duration::from_secs(5), || job.try_wait().unwrap().is_some());
    assert!(over, "it goes on");
    let outcome = job.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&outcome.stdout);
    assert_eq!(outcome.status.code(), Some(3), "{said}");
    assert!(said.contains("LOST"), "{said}");
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
