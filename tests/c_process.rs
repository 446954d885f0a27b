//! Programs that fork and programs that end, in every way, with the library at work in them.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout};
use std::time::Duration;

use portalock::{Client, ClientOptions, Lock, LockOptions, Wait};
use support::program::Program;
use support::{Server, signal, wait_until};

const LONG: Duration = Duration::from_secs(10);
/// How long a lock may stay on after the death of its holder.
const AT_ONCE: Duration = Duration::from_secs(2);

/// A process that is not ours to wait for. It dies with this value.
struct Orphan(i32);

impl Drop for Orphan {
    fn drop(&mut self) {
        signal(self.0, libc::SIGKILL);
    }
}

impl Orphan {
    fn is_alive(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
    }
}

/// The program of `tests/c/forks.c`, and what it says.
struct Forker {
    process: Child,
    said: BufReader<ChildStdout>,
}

impl Forker {
    fn start(program: &Program, server: &Server, way: &str) -> Self {
        let mut process = program.start(&[&server.url(), way]);
        let said = BufReader::new(process.stdout.take().unwrap());
        Self { process, said }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Lets it fork, and gives the child.
    fn go(&mut self) -> Orphan {
        writeln!(self.process.stdin.as_mut().unwrap(), "go").unwrap();
        self.child()
    }

    fn child(&mut self) -> Orphan {
        let line = self.line();
        let pid = line.strip_prefix("child ").unwrap_or_else(|| panic!("it says {line:?}"));
        Orphan(pid.parse().unwrap())
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Forker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn lock(server: &Server, name: &str) -> Lock {
    let client = Client::new(&server.url(), ClientOptions::new()).unwrap();
    client.lock(name, LockOptions::new()).unwrap()
}

fn forks() -> Program {
    Program::compile("tests/c/forks.c", &["-lportalock"])
}

fn becomes(server: &Server, members: u64) -> bool {
    wait_until(AT_ONCE, || server.members("forks") == members)
}

/// Its connections are named after the lock, or not at all: none is to be left, of those either.
fn connections(server: &Server) -> usize {
    server.clients().iter().filter(|line| !line.contains("cmd=client")).count()
}

#[test]
fn the_death_of_a_parent_frees_its_locks_although_the_child_lives() {
    let program = forks();
    for way in ["held", "thread", "exec"] {
        let server = Server::start();
        let mut parent = Forker::start(&program, &server, way);
        assert_eq!(parent.line(), "ready");
        let child = parent.go();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(server.members("forks"), 1, "{way}");
        parent.kill();
        assert!(becomes(&server, 0), "{way}: still held");
        assert!(wait_until(AT_ONCE, || connections(&server) == 0), "{way}: still connected");
        assert!(child.is_alive(), "{way}");
    }
}

#[test]
fn the_death_of_a_parent_ends_its_waiting_and_its_idle_connections_too() {
    let program = forks();
    for (way, members) in [("idle", 0), ("waiting", 1)] {
        let server = Server::start();
        let holder = lock(&server, "forks");
        holder.acquire(Wait::Default).unwrap();
        let mut parent = Forker::start(&program, &server, way);
        assert_eq!(parent.line(), "ready");
        assert!(wait_until(LONG, || server.members("forks") == 1 + members), "{way}");
        let child = parent.go();
        parent.kill();
        assert!(becomes(&server, 1), "{way}");
        assert!(wait_until(AT_ONCE, || connections(&server) == 1), "{way}: still connected");
        assert!(child.is_alive() && holder.is_held(), "{way}");
    }
}

#[test]
fn the_death_of_a_child_costs_the_parent_nothing() {
    let program = forks();
    for way in ["held", "thread", "exec", "waiting"] {
        let server = Server::start();
        let holder = lock(&server, "forks");
        if way == "waiting" {
            holder.acquire(Wait::Default).unwrap();
        }
        let mut parent = Forker::start(&program, &server, way);
        assert_eq!(parent.line(), "ready");
        drop(parent.go());
        std::thread::sleep(Duration::from_millis(200));
        if way == "waiting" {
            holder.release().unwrap();
            assert!(becomes(&server, 1));
        }
        let refused = lock(&server, "forks").acquire(Wait::For(Duration::from_millis(300)));
        assert!(refused.is_err(), "{way}: it is lost");
        assert_eq!(server.members("forks"), 1, "{way}");
    }
}

#[test]
fn a_fork_finds_nothing_locked_however_busy_the_parent_is() {
    let server = Server::start();
    let program = forks();
    program.run(&server, &[&server.url(), "many"]);
}

#[test]
fn a_daemon_makes_a_client_of_its_own() {
    let server = Server::start();
    let program = forks();
    let mut parent = Forker::start(&program, &server, "daemon");
    let daemon = parent.child();
    assert!(daemon.is_alive());
    assert_eq!(server.members("forks"), 1);
}

#[test]
fn a_prefork_server_shares_nothing_but_the_name() {
    let server = Server::start();
    let program = Program::compile("tests/c/prefork.c", &["-lportalock"]);
    let counter = server.dir().join("counter");
    program.run(&server, &[&server.url(), counter.to_str().unwrap()]);
}

#[test]
fn a_fork_takes_no_lock_along() {
    let server = Server::start();
    Program::compile("tests/c/fork.c", &["-lportalock"]).run(&server, &[&server.url()]);
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
        ("waiting", None),
        ("callback", None),
        ("atexit", None),
        ("thread", None),
        ("killed", Some(15)),
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
fn a_connection_that_ends_raises_no_signal() {
    let server = Server::start();
    let program = Program::compile("tests/c/leave.c", &["-lportalock"]);
    let mut process = program.start(&[&server.url(), "sigpipe"]);
    let mut said = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut said).unwrap();
    writeln!(process.stdin.take().unwrap(), "go").unwrap();
    let mut killed = 0;
    let over = wait_until(LONG, || {
        for kind in ["pubsub", "normal"] {
            killed += server.run::<u64>(&["CLIENT", "KILL", "TYPE", kind]);
        }
        process.try_wait().unwrap().is_some()
    });
    assert!(over && killed > 100, "{killed} killed");
    let status = process.wait().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn static_objects_in_cpp_may_outlive_main() {
    let server = Server::start();
    let program = Program::compile("tests/cpp/statics.cpp", &["-lportalock"]);
    let mut process = program.start(&[&server.url()]);
    assert!(wait_until(LONG, || process.try_wait().unwrap().is_some()), "it hangs");
    assert!(process.wait().unwrap().success());
    assert!(wait_until(AT_ONCE, || server.members("leaving") == 0));
}
