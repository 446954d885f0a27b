//! The workers, in every language, and where they work.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::judge::{Fate, Verdict, judge};
use crate::support::program::{Program, root, ruby};
use crate::support::worker::Worker;
use crate::support::{Server, go, peers, wait_until};
use crate::worker;

const NAME: &str = "mixed";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    Cpp,
    Go,
    Ruby,
    Rust,
    Portalocker,
}

use Language::*;

/// Those that use this library.
pub const OURS: [Language; 5] = [C, Cpp, Go, Ruby, Rust];

/// What has to be built first.
struct Built {
    c: Program,
    cpp: Program,
    go: TempDir,
    python: PathBuf,
}

impl Built {
    fn new() -> Self {
        let go = TempDir::new().unwrap();
        go::build("tests/mixed/go", ".", go.path());
        Self {
            c: Program::compile("tests/mixed/worker.c", &["-lportalock"]),
            cpp: Program::compile("tests/mixed/worker.cpp", &["-lportalock"]),
            go,
            python: peers::python("4.4.2"),
        }
    }

    fn command(&self, language: Language, job: &[String]) -> Command {
        let mut command = match language {
            C => self.c.command(),
            Cpp => self.cpp.command(),
            Go => Command::new(self.go.path().join("mixed")),
            Ruby => ruby("tests/mixed/worker.rb"),
            Rust => return worker::command(job),
            Portalocker => Command::new(&self.python),
        };
        match language {
            Go => command.env("LD_LIBRARY_PATH", go::home().join("lib")),
            Portalocker => command.arg(root().join("tests/mixed/worker.py")),
            _ => &mut command,
        };
        command.args(job);
        command
    }
}

/// What a worker does; the times are milliseconds.
#[derive(Clone, Copy)]
pub struct Task {
    pub sections: u64,
    pub inside: u64,
    pub pause: u64,
}

/// A server, and a folder with the files that the workers share.
pub struct Site {
    server: Server,
    built: Built,
    folder: TempDir,
}

impl Site {
    pub fn open() -> Self {
        let (built, server) = (Built::new(), Server::start());
        let site = Self { server, built, folder: TempDir::new().unwrap() };
        std::fs::write(site.journal(), "").unwrap();
        std::fs::write(site.folder.path().join("counter"), format!("{:016}\n", 0)).unwrap();
        site
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    /// The folder that is there as long as somebody is inside.
    fn marker(&self) -> PathBuf {
        self.folder.path().join("inside")
    }

    pub fn read(&self) -> String {
        std::fs::read_to_string(self.journal()).unwrap()
    }

    /// To be said of a worker that is inside, and has been stopped, before it dies.
    pub fn note_death(&self, label: &str) {
        let mut journal = OpenOptions::new().append(true).open(self.journal()).unwrap();
        journal.write_all(worker::line("kill", label, 0).as_bytes()).unwrap();
        std::fs::remove_dir(self.marker()).unwrap();
    }

    /// A worker that is ready to begin.
    pub fn hire(&self, language: Language, label: &str, task: Task) -> Worker {
        let worker =
            Worker::spawn_program(&mut self.built.command(language, &self.job(label, task)));
        worker.await_line("ready", Duration::from_secs(60));
        worker
    }

    fn job(&self, label: &str, task: Task) -> [String; 7] {
        [
            self.server.tcp_url(),
            NAME.to_owned(),
            self.folder.path().display().to_string(),
            label.to_owned(),
            task.sections.to_string(),
            task.inside.to_string(),
            task.pause.to_string(),
        ]
    }

    /// What is to be said when all workers have ended.
    pub fn judge(&self, crew: &[(String, Fate)]) -> Verdict {
        let counter = std::fs::read_to_string(self.folder.path().join("counter")).unwrap();
        let verdict = judge(&self.read(), counter.trim().parse().unwrap(), crew);
        assert!(!self.marker().exists());
        let gone = wait_until(Duration::from_secs(10), || self.server.members(NAME) == 0);
        assert!(gone, "{:?}", self.server.clients());
        verdict.unwrap_or_else(|why| panic!("{why}"))
    }
}

impl Drop for Site {
    /// What has happened, for whoever has to find out why.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the journal:\n{}", self.read());
        }
    }
}
