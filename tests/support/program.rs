//! Programs in C and C++ that use the library: compiled with the system's compiler, linked with the shared
//! object that was built together with the test.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

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

/// A language, with its compiler and what tells of another one.
struct Language {
    compiler: &'static str,
    variable: &'static str,
    standard: &'static str,
}

const C: Language = Language { compiler: "cc", variable: "PORTALOCK_CC", standard: "-std=c11" };
const CPP: Language =
    Language { compiler: "c++", variable: "PORTALOCK_CXX", standard: "-std=c++17" };

impl Language {
    /// The compiler, with what `./dev sanitize` adds to its arguments.
    fn command(&self, flags: &str) -> Command {
        let compiler = std::env::var_os(self.variable).unwrap_or(self.compiler.into());
        let mut command = Command::new(compiler);
        command.args(std::env::var(flags).unwrap_or_default().split_whitespace());
        command
    }
}

fn compile(command: &mut Command) {
    let outcome = command.output().expect("the compiler cannot be run");
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
}

/// A compiled program in a folder of its own, beside the library under the names that it is found by.
pub struct Program {
    dir: TempDir,
}

impl Program {
    pub fn compile(source: &str, libraries: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        for name in ["libportalock.so", "libportalock.so.0"] {
            std::os::unix::fs::symlink(library(), dir.path().join(name)).unwrap();
        }
        let language = if source.ends_with(".cpp") { &CPP } else { &C };
        let (object, program) = (dir.path().join("program.o"), dir.path().join("program"));
        compile(
            language
                .command("PORTALOCK_CFLAGS")
                .args([language.standard, "-D_GNU_SOURCE", "-g", "-O1", "-c"])
                .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"])
                .arg(root().join(source))
                .arg("-I")
                .arg(root().join("include"))
                .arg("-o")
                .arg(&object),
        );
        compile(
            language
                .command("PORTALOCK_LDFLAGS")
                .arg(&object)
                .arg("-pthread")
                .arg("-o")
                .arg(&program)
                .arg("-L")
                .arg(dir.path())
                .arg(format!("-Wl,-rpath,{}", dir.path().display()))
                .args(libraries),
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

    /// Runs it, and does for it what it asks for on its standard output.
    pub fn run(&self, server: &Server, args: &[&str]) {
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
