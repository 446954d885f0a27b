//! The server and the processes that do the work.
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

fn die_with_parent(command: &mut Command) {
    // SAFETY: prctl is safe to call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
}

/// A throwaway redis-server on loopback TCP.
pub struct Server {
    child: Child,
    pub url: String,
    _dir: TempDir,
}

impl Server {
    pub fn start() -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let dir = TempDir::new().unwrap();
        let mut command = Command::new("redis-server");
        command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "no", "--loglevel", "warning", "--dir"])
            .arg(dir.path())
            .stdout(Stdio::null());
        die_with_parent(&mut command);
        let child = command.spawn().expect("redis-server cannot be run");
        let server = Self { child, url: format!("redis://127.0.0.1:{port}"), _dir: dir };
        for _ in 0..500 {
            if redis::Client::open(&*server.url).unwrap().get_connection().is_ok() {
                return server;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("redis-server does not come up");
    }

    pub fn connection(&self) -> redis::Connection {
        redis::Client::open(&*self.url).unwrap().get_connection().unwrap()
    }

    /// How often each command was executed so far, but for those that only this question needs.
    pub fn command_counts(&self) -> BTreeMap<String, u64> {
        let text: String =
            redis::cmd("INFO").arg("commandstats").query(&mut self.connection()).unwrap();
        let count = |line: &str| -> Option<(String, u64)> {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let asking = name == "info" || name == "client|setinfo";
            let calls = rest.split(',').next()?.parse().ok()?;
            (!asking).then(|| (name.replace('|', " "), calls))
        };
        text.lines().filter_map(count).collect()
    }

    pub fn version(&self) -> String {
        let text: String = redis::cmd("INFO").arg("server").query(&mut self.connection()).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("redis_version:"));
        line.unwrap().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process at work; killed with this value.
pub struct Worker {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Worker {
    pub fn start(who: &str, work: &str, url: &str, name: &str, count: usize, hold_us: u64) -> Self {
        let peers = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");
        let mut command = match who {
            "portalocker" | "redis-py" | "python-redis-lock" => {
                let mut python = Command::new(std::env::var("PORTALOCK_BENCH_PYTHON").unwrap());
                python.arg(format!("{peers}/peer.py"));
                python
            }
            "C" | "Go" => {
                Command::new(format!("{}/{who}", std::env::var("PORTALOCK_BENCH_PAIR").unwrap()))
            }
            "Ruby" => {
                let mut ruby = Command::new("ruby");
                ruby.args(["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/../bindings/ruby/lib")]);
                ruby.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/pair/pair.rb"));
                ruby
            }
            "redlock" => {
                let mut node = Command::new("node");
                node.arg(format!("{peers}/peer.mjs"));
                node
            }
            _ => {
                let mut own = Command::new(std::env::current_exe().unwrap());
                own.arg("work");
                own
            }
        };
        command.args([who, work, url, name, &count.to_string(), &hold_us.to_string()]);
        Self::spawn(command)
    }

    pub fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        die_with_parent(&mut command);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// One that is ready to contend.
    pub fn contender(who: &str, url: &str, name: &str, count: usize, hold_us: u64) -> Self {
        let mut worker = Self::start(who, "contend", url, name, count, hold_us);
        assert_eq!(worker.line(), "ready", "{who}");
        worker
    }

    pub fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    pub fn json<T: serde::de::DeserializeOwned>(&mut self) -> T {
        serde_json::from_str(&self.line()).expect("a process at work has failed")
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a plain system call, on a child that was not waited for.
        unsafe { libc::kill(self.pid(), signal) };
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
