//! What the tests with a real server need: the server, and other processes.
#![allow(dead_code)]

pub mod cluster;
pub mod go;
pub mod locks;
#[cfg(feature = "simulation")]
pub mod memory;
pub mod netns;
pub mod overlap;
pub mod peers;
pub mod program;
pub mod sentinel;
pub mod tls;
pub mod worker;

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The server that the tests start: `redis-server`, or what `PORTALOCK_SERVER` names (`./dev cousins`).
pub fn server_program() -> String {
    std::env::var("PORTALOCK_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

/// A private redis-server. It dies with this value, and with this process however that ends.
pub struct Server {
    child: Option<Child>,
    port: u16,
    dir: TempDir,
    args: Vec<String>,
    /// The words that start another program, such as one that enters a namespace.
    before: Vec<String>,
    password: Option<String>,
    /// The name of the broker in memory that stands in for it.
    in_memory: Option<String>,
}

impl Server {
    /// One with no settings of its own.
    pub fn start() -> Self {
        let mut server = Self::new(&[], &[]);
        #[cfg(feature = "simulation")]
        if std::env::var_os("PORTALOCK_IN_MEMORY").is_some() {
            server.in_memory = Some(memory::serve(&server.socket()));
            return server;
        }
        server.begin();
        server
    }

    /// One with further arguments, such as `["requirepass", "secret"]` in pairs.
    pub fn with(settings: &[(&str, &str)]) -> Self {
        Self::under(&[], settings)
    }

    /// One that is started by another program, which is given as the words before its own.
    pub fn under(before: &[&str], settings: &[(&str, &str)]) -> Self {
        let mut server = Self::new(before, settings);
        server.begin();
        server
    }

    fn new(before: &[&str], settings: &[(&str, &str)]) -> Self {
        let args = settings.iter().flat_map(|(key, value)| {
            let words = value.split(' ').map(str::to_owned);
            std::iter::once(format!("--{key}")).chain(words)
        });
        let password = settings.iter().find(|(key, _)| *key == "requirepass");
        Self {
            child: None,
            port: 0,
            dir: TempDir::new().unwrap(),
            args: args.collect(),
            before: before.iter().map(|word| (*word).to_owned()).collect(),
            password: password.map(|(_, value)| (*value).to_owned()),
            in_memory: None,
        }
    }

    fn begin(&mut self) {
        let comes_up = |_| {
            self.port = free_port();
            self.launch()
        };
        assert!((0..20).any(comes_up), "no redis-server could be started");
    }

    fn must_be_a_process(&self) {
        assert!(self.in_memory.is_none(), "a broker in memory is no process and has no port");
    }

    fn launch(&mut self) -> bool {
        let program = server_program();
        let words: Vec<_> =
            self.before.iter().map(String::as_str).chain([program.as_str()]).collect();
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--loglevel", "warning"])
            .args(["--unixsocket".as_ref(), self.socket().as_os_str()])
            .args(["--dir".as_ref(), self.dir.path().as_os_str()])
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        die_with_parent(&mut command);
        let mut child = command.spawn().expect("redis-server cannot be run");
        let up = wait_until(Duration::from_secs(10), || self.answers() || is_over(&mut child));
        let up = up && !is_over(&mut child);
        self.child = Some(child);
        up
    }

    fn answers(&self) -> bool {
        let client = redis::Client::open(self.admin_url()).unwrap();
        client
            .get_connection_with_timeout(Duration::from_secs(1))
            .and_then(|mut connection| redis::cmd("PING").query::<String>(&mut connection))
            .is_ok()
    }

    fn admin_url(&self) -> String {
        let password = self.password.as_deref().map(|p| format!("?pass={p}")).unwrap_or_default();
        if self.in_memory.is_some() {
            return format!("unix://{}?protocol=resp3", self.socket().display());
        }
        format!("unix://{}{password}", self.socket().display())
    }

    /// Over the unix socket.
    pub fn url(&self) -> String {
        if let Some(name) = &self.in_memory {
            return format!("memory://{name}");
        }
        format!("unix://{}{}", self.socket().display(), wanted_protocol())
    }

    /// Over TCP.
    pub fn tcp_url(&self) -> String {
        format!("redis://127.0.0.1:{}{}", self.port(), wanted_protocol())
    }

    pub fn port(&self) -> u16 {
        self.must_be_a_process();
        self.port
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn pid(&self) -> i32 {
        self.must_be_a_process();
        self.child.as_ref().map_or(0, |child| child.id() as i32)
    }

    /// A connection for the test's own commands.
    pub fn connection(&self) -> redis::Connection {
        redis::Client::open(self.admin_url()).unwrap().get_connection().unwrap()
    }

    /// Runs one command.
    pub fn run<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query(&mut self.connection()).unwrap()
    }

    /// How many are subscribed to a channel.
    pub fn members(&self, channel: &str) -> u64 {
        self.run::<(String, u64)>(&["PUBSUB", "NUMSUB", channel]).1
    }

    /// The lines of `CLIENT LIST`.
    pub fn clients(&self) -> Vec<String> {
        self.run::<String>(&["CLIENT", "LIST"]).lines().map(str::to_owned).collect()
    }

    /// The name of a connection that is on a lock's channel, or is coming or going; the first if there are
    /// several.
    pub fn member(&self, channel: &str) -> Option<String> {
        let prefix = format!("{channel}-lock-");
        let name_of = |line: &String| {
            let mut names = line.split(' ').filter_map(|field| field.strip_prefix("name="));
            names.find(|name| name.starts_with(&prefix)).map(str::to_owned)
        };
        self.clients().iter().find_map(name_of)
    }

    /// Ends the connection that bears this name; whether there was one.
    pub fn kill_client(&self, name: &str) -> bool {
        let field = format!("name={name}");
        let clients = self.clients();
        let Some(line) = clients.iter().find(|line| line.split(' ').any(|f| f == field)) else {
            return false;
        };
        let id = line.split(' ').find_map(|field| field.strip_prefix("id=")).unwrap();
        self.run::<u64>(&["CLIENT", "KILL", "ID", id]) == 1
    }

    /// How often each command was executed so far.
    pub fn command_counts(&self) -> std::collections::BTreeMap<String, u64> {
        let text: String = self.run(&["INFO", "commandstats"]);
        let line = |line: &str| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
        };
        text.lines().filter_map(line).collect()
    }

    pub fn kill(&mut self) {
        self.must_be_a_process();
        self.end();
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again after [`kill`](Self::kill), at the same addresses.
    pub fn restart(&mut self) {
        self.kill();
        let _ = std::fs::remove_file(self.socket());
        assert!(self.launch(), "redis-server did not come back");
    }

    pub fn stop(&self) {
        stop(self.pid());
    }

    pub fn cont(&self) {
        signal(self.pid(), libc::SIGCONT);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Has a child killed when the thread that spawns it ends, so that no failure leaves it behind.
pub fn die_with_parent(command: &mut Command) {
    // SAFETY: prctl is safe to call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
}

/// Has the tests go by two connections of RESP2 where that is asked for.
fn wanted_protocol() -> &'static str {
    match std::env::var_os("PORTALOCK_RESP2") {
        Some(_) => "?protocol=resp2",
        None => "",
    }
}

fn is_over(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_some()
}

/// Stops a process. Only one of its threads is woken to see to that, and on a busy machine the others run
/// on for a while: returns when all of them stand still.
pub fn stop(pid: i32) {
    signal(pid, libc::SIGSTOP);
    let stands = |stat: String| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'));
    let all_stand = || {
        let threads =
            std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let mut stats = threads.map(|thread| std::fs::read_to_string(thread.path().join("stat")));
        // A thread that has just ended has no stat.
        stats.all(|stat| stat.map_or(true, stands))
    };
    assert!(wait_until(Duration::from_secs(10), all_stand), "it does not stop");
}

pub fn signal(pid: i32, signal: i32) {
    // SAFETY: a plain system call.
    unsafe { libc::kill(pid, signal) };
}

/// Says why a test does nothing here, past the test harness, which shows nothing of tests that pass.
pub fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Polls until something is true; `false` if it did not become so in time.
pub fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + limit;
    while !done() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}
