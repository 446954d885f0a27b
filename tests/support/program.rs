//! Programs in C and C++ that use the library: compiled with the system's compiler, linked with the shared
//! object that was built together with the test.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::{Server, die_with_parent};

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The shared object that was built together with this test.
pub fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let path = deps.join("libportalock.so");
    assert!(path.exists(), "{} is missing", path.display());
    path
}

/// Ruby, with a script of this repository that uses the gem.
pub fn ruby(script: &str) -> Command {
    let mut command = Command::new("ruby");
    command.arg("-w").arg("-I").arg(root().join("bindings/ruby/lib")).arg(root().join(script));
    command.env("PORTALOCK_LIBRARY", library());
    command
}

/// A compiled program in a folder of its own, beside the library under the names that it is found by.
pub struct Program {
    dir: TempDir,
}

/// How a program is compiled.
pub struct Recipe<'a> {
    pub compiler: &'a str,
    pub standard: &'a str,
    pub flags: &'a [&'a str],
    pub libraries: &'a [&'a str],
}

impl Recipe<'_> {
    /// The compiler; `./dev sanitize` may put another in the place of the system's, and add to its
    /// arguments.
    fn command(&self, flags: &str) -> Command {
        let other = match self.compiler {
            "cc" => std::env::var_os("PORTALOCK_CC"),
            "c++" => std::env::var_os("PORTALOCK_CXX"),
            _ => None,
        };
        let mut command = Command::new(other.unwrap_or(self.compiler.into()));
        command.args(std::env::var(flags).unwrap_or_default().split_whitespace());
        command
    }
}

fn build(command: &mut Command) {
    let outcome = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let words = String::from_utf8_lossy(&outcome.stderr);
    assert!(outcome.status.success(), "{command:?}: {words}");
}

impl Program {
    /// With the system's compiler for the language.
    pub fn compile(source: &str, libraries: &[&str]) -> Self {
        let (compiler, standard) = match source.ends_with(".cpp") {
            true => ("c++", "c++17"),
            false => ("cc", "c11"),
        };
        Self::compile_by(&Recipe { compiler, standard, flags: &[], libraries }, &[source])
    }

    /// As told, of one or more sources.
    pub fn compile_by(recipe: &Recipe, sources: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        for name in ["libportalock.so", "libportalock.so.0"] {
            std::os::unix::fs::symlink(library(), dir.path().join(name)).unwrap();
        }
        let objects: Vec<_> = (0..sources.len())
            .map(|number| dir.path().join(format!("program{number}.o")))
            .collect();
        for (source, object) in sources.iter().zip(&objects) {
            build(
                recipe
                    .command("PORTALOCK_CFLAGS")
                    .args([&format!("-std={}", recipe.standard), "-D_GNU_SOURCE", "-g", "-O1"])
                    .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"])
                    .args(recipe.flags)
                    .arg("-c")
                    .arg(root().join(source))
                    .arg("-I")
                    .arg(root().join("include"))
                    .arg("-o")
                    .arg(object),
            );
        }
        build(
            recipe
                .command("PORTALOCK_LDFLAGS")
                .args(&objects)
                .args(recipe.flags)
                .arg("-pthread")
                .arg("-o")
                .arg(dir.path().join("program"))
                .arg("-L")
                .arg(dir.path())
                .arg(format!("-Wl,-rpath,{}", dir.path().display()))
                .args(recipe.libraries),
        );
        Self { dir }
    }

    pub fn command(&self) -> Command {
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

    pub fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command();
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Starts it, to be talked with.
    pub fn talk(&self, args: &[&str]) -> Talk {
        let mut child = self.start(args);
        let orders = BufReader::new(child.stdout.take().unwrap()).lines();
        let answers = child.stdin.take().unwrap();
        Talk { child, orders, answers }
    }

    /// Runs it, and does for it what it asks for on its standard output.
    pub fn run(&self, server: &Server, args: &[&str]) {
        let status = attend(self.start(args), server).status;
        assert!(status.success(), "{status}");
    }
}

/// A program that asks for something on its standard output, and waits until it is done.
pub struct Talk {
    child: Child,
    orders: Lines<BufReader<ChildStdout>>,
    answers: ChildStdin,
}

impl Talk {
    /// What it asks for next has to be this.
    pub fn expect(&mut self, order: &str) {
        let said = self.orders.next().map(Result::unwrap);
        assert_eq!(said.as_deref(), Some(order));
    }

    pub fn done(&mut self) {
        self.answers.write_all(b"done\n").unwrap();
    }

    /// It has to end, and well.
    pub fn ends(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

/// Does for a program what it asks for on its standard output, until it ends.
pub fn attend(mut child: Child, server: &Server) -> Output {
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
    child.wait_with_output().unwrap()
}

/// How long a program may say nothing at all before it is taken to be stuck.
const SILENCE: Duration = Duration::from_secs(60);

/// What a program says, until it says `wanted`.
pub fn await_line(said: &mut BufReader<impl Read + AsRawFd>, wanted: &str) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        assert!(says_more(said), "it is stuck before {wanted:?}: {lines:?}");
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "it ends before {wanted:?}: {lines:?}");
        lines.push(line.trim_end().to_owned());
        if line.contains(wanted) {
            return lines;
        }
    }
}

fn says_more(said: &BufReader<impl Read + AsRawFd>) -> bool {
    let mut ready =
        libc::pollfd { fd: said.get_ref().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: it is one descriptor, and open as long as its owner is borrowed.
    !said.buffer().is_empty()
        || unsafe { libc::poll(&raw mut ready, 1, SILENCE.as_millis() as i32) } > 0
}
