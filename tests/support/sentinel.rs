//! A master, replicas of it and sentinels, all on loopback. They die with the value, and with this process.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::{Server, die_with_parent, free_port, signal, stop, wait_until};

/// What the sentinels call the master.
pub const MASTER: &str = "locks";
/// How long the master may be silent before a sentinel takes it for dead.
pub const DOWN_AFTER: Duration = Duration::from_millis(500);
/// Longer than any failover takes.
const LONG: Duration = Duration::from_secs(40);

/// One sentinel.
pub struct Sentinel {
    child: Option<Child>,
    port: u16,
    dir: TempDir,
}

impl Sentinel {
    fn launch(port: u16, settings: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let mut sentinel = Self { child: None, port, dir };
        let file = sentinel.dir.path().join("sentinel.conf");
        std::fs::write(&file, format!("port {port}\nbind 127.0.0.1\n{settings}")).unwrap();
        sentinel.start();
        sentinel
    }

    /// Starts it, with what it knew when it was killed.
    pub fn start(&mut self) {
        let mut command = Command::new(super::server_program());
        command
            .arg(self.dir.path().join("sentinel.conf"))
            .arg("--sentinel")
            .args(["--dir".as_ref(), self.dir.path().as_os_str()])
            .args(["--loglevel", "notice", "--logfile", "sentinel.log"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        die_with_parent(&mut command);
        self.child = Some(command.spawn().expect("redis-server cannot be run"));
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    fn pid(&self) -> i32 {
        self.child.as_ref().map_or(0, |child| child.id() as i32)
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub fn stop(&self) {
        stop(self.pid());
    }

    pub fn cont(&self) {
        signal(self.pid(), libc::SIGCONT);
    }

    /// Runs one command on it, which may fail.
    pub fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port))?;
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(1))?;
        connection.set_read_timeout(Some(Duration::from_secs(5)))?;
        redis::cmd(words[0]).arg(&words[1..]).query(&mut connection)
    }

    /// Where it says that the master is.
    pub fn master(&self) -> Option<SocketAddr> {
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER];
        let (host, port): (String, u16) = self.ask(&words).ok()?;
        format!("{host}:{port}").parse().ok()
    }

    /// Whether it knows so many others and replicas, and could start a failover.
    fn is_ready(&self, others: usize, replicas: usize) -> bool {
        let count = |what: &str| {
            let known: redis::RedisResult<Vec<redis::Value>> =
                self.ask(&["SENTINEL", what, MASTER]);
            known.map_or(0, |known| known.len())
        };
        count("SENTINELS") == others
            && count("REPLICAS") == replicas
            && self.ask::<String>(&["SENTINEL", "CKQUORUM", MASTER]).is_ok()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.kill();
    }
}

/// All of them.
pub struct Estate {
    /// The master at first, then the replicas.
    pub servers: Vec<Server>,
    pub sentinels: Vec<Sentinel>,
}

impl Estate {
    /// One master, one replica, three sentinels, as far as they can be started at ports that were free.
    pub fn start() -> Self {
        Self::with(&[], "")
    }

    /// As [`start`](Self::start), with further settings of the servers and lines for the sentinels.
    pub fn with(settings: &[(&str, &str)], lines: &str) -> Self {
        let quick = [("repl-diskless-sync-delay", "0"), ("repl-ping-replica-period", "1")];
        let settings: Vec<_> = quick.iter().chain(settings).copied().collect();
        let master = Server::with(&settings);
        let port = master.port().to_string();
        let replica_of = format!("127.0.0.1 {port}");
        let replica = Server::with(&[&settings[..], &[("replicaof", &replica_of)]].concat());
        let password = settings.iter().find(|(key, _)| *key == "requirepass");
        let auth = password.map(|(_, pw)| format!("sentinel auth-pass {MASTER} {pw}\n"));
        let lines = auth.unwrap_or_default() + lines;
        let follows =
            || replica.run::<String>(&["INFO", "replication"]).contains("master_link_status:up");
        assert!(wait_until(LONG, follows), "the replica does not follow");
        let sentinels = (0..3).map(|_| Sentinel::launch(free_port(), &watched(&port, &lines)));
        let estate = Self { servers: vec![master, replica], sentinels: sentinels.collect() };
        let ready = || estate.sentinels.iter().all(|sentinel| sentinel.is_ready(2, 1));
        assert!(wait_until(LONG, ready), "the sentinels do not find each other");
        estate
    }

    /// The URL with all sentinels.
    pub fn url(&self) -> String {
        self.url_of(&[0, 1, 2])
    }

    /// The URL with these sentinels.
    pub fn url_of(&self, which: &[usize]) -> String {
        let at = |which: &usize| format!("127.0.0.1:{}", self.sentinels[*which].port());
        let places: Vec<_> = which.iter().map(at).collect();
        format!("redis-sentinel://{}/{MASTER}", places.join(","))
    }

    /// Waits until all sentinels that live say that the master is this one.
    pub fn await_master(&self, server: &Server) {
        let alive = || self.sentinels.iter().filter(|sentinel| sentinel.child.is_some());
        let port = Some(server.port());
        let agreed = || alive().all(|sentinel| sentinel.master().map(|at| at.port()) == port);
        assert!(wait_until(LONG, agreed), "there was no failover");
    }

    /// Waits until the replica follows its master again, as the sentinels know.
    pub fn await_replicas(&self) {
        let words = ["SENTINEL", "REPLICAS", MASTER];
        let up = || {
            self.sentinels.iter().all(|sentinel| {
                let known: redis::RedisResult<Vec<std::collections::HashMap<String, String>>> =
                    sentinel.ask(&words);
                known.is_ok_and(|known| {
                    known
                        .iter()
                        .all(|one| one["flags"] == "slave" && one["master-link-status"] == "ok")
                })
            })
        };
        assert!(wait_until(LONG, up), "the old master does not follow the new one");
    }

    /// Has the sentinels hand the master over to a replica, of which nobody has died.
    pub fn hand_over(&self) {
        let asked: redis::RedisResult<String> =
            self.sentinels[0].ask(&["SENTINEL", "FAILOVER", MASTER]);
        asked.unwrap();
    }
}

fn watched(port: &str, lines: &str) -> String {
    let down_after = DOWN_AFTER.as_millis();
    format!(
        "sentinel monitor {MASTER} 127.0.0.1 {port} 2\n\
         sentinel down-after-milliseconds {MASTER} {down_after}\n\
         sentinel failover-timeout {MASTER} 2000\n{lines}\n"
    )
}
