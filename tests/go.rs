//! The binding for Go, and the examples in Go: the `go` command builds and tests them with the shared object
//! that was built together with this test, against real servers.

mod support;

use std::io::BufReader;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use support::go::{build, command as go, home, output, text};
use support::program::{await_line, root};
use support::{Server, die_with_parent, signal, wait_until};

/// A test that passes for having found nothing to do would be worth nothing.
fn tests(command: &mut Command, at_least: usize) {
    let said = output(command.args(["-count=1", "-timeout=120s", "-v", "."]));
    let passed = said.lines().filter(|line| line.starts_with("--- PASS: ")).count();
    assert!(passed >= at_least, "{passed} tests passed: {said}");
}

#[test]
fn the_sources_are_formatted_and_have_no_known_faults() {
    for folder in ["bindings/go", "examples/go", "tests/mixed/go"] {
        output(go(folder).args(["vet", "./..."]));
        let mut format = Command::new("gofmt");
        assert_eq!(output(format.current_dir(root().join(folder)).args(["-l", "."])), "");
    }
}

/// `go` of somebody who uses it needs to fetch this and nothing else.
#[test]
fn the_module_needs_no_other() {
    let needed = output(go("bindings/go").args([
        "list",
        "-deps",
        "-f",
        "{{if not .Standard}}{{.ImportPath}}{{end}}",
        ".",
    ]));
    let module = output(go("bindings/go").args(["list", "-m"]));
    assert_eq!(needed.trim(), module.trim());
}

#[test]
fn the_tests_pass_with_the_race_detector() {
    tests(go("bindings/go").args(["test", "-race", "-run=^Test"]), 20);
}

#[test]
fn the_tests_pass_while_the_collector_always_runs_and_pointers_are_checked() {
    let mut command = go("bindings/go");
    // From Go 1.21 on, the stricter check of pointers is compiled in.
    match minor_version() {
        ..=20 => command.env("GODEBUG", "cgocheck=2"),
        _ => command.env("GOEXPERIMENT", "cgocheck2"),
    };
    tests(command.env("GOGC", "1").args(["test", "-run=^Test"]), 20);
}

#[test]
fn the_examples_of_the_documentation_print_what_they_say() {
    tests(go("bindings/go").args(["test", "-run=^Example"]), 6);
}

/// 19 of `go1.19.8`.
fn minor_version() -> u32 {
    let version = output(go(".").args(["env", "GOVERSION"]));
    version.split('.').nth(1).unwrap().trim().parse().unwrap()
}

/// The programs of examples/go, built.
struct Examples {
    dir: TempDir,
}

impl Examples {
    fn build(name: &str) -> Self {
        let dir = TempDir::new().unwrap();
        build("examples/go", &format!("./{name}"), dir.path());
        Self { dir }
    }

    fn start(&self, name: &str, args: &[&str]) -> Child {
        let mut command = Command::new(self.dir.path().join(name));
        command.env("LD_LIBRARY_PATH", home().join("lib")).args(args).stdout(Stdio::piped());
        die_with_parent(&mut command);
        command.spawn().unwrap()
    }
}

/// The lines of a process that has to end well.
fn finish(child: Child) -> Vec<String> {
    let outcome = child.wait_with_output().unwrap();
    assert!(outcome.status.success(), "{outcome:?}");
    text(&outcome).lines().map(str::to_owned).collect()
}

#[test]
fn guarded_jobs_wait_for_each_other_and_stop_when_the_lock_is_lost() {
    let server = Server::start();
    let examples = Examples::build("guarded_job");
    let url = server.url();
    let start = |ms, label| examples.start("guarded_job", &[&url, "job", ms, label]);
    let first = start("1000", "one");
    assert!(wait_until(Duration::from_secs(5), || server.members("job") == 1));
    let second = start("10", "two");
    let first = finish(first).join("\n");
    let second = finish(second).join("\n");
    assert!(first.contains("holds") && first.contains("done"), "{first}");
    for words in ["waits", "sees one", "holds", "done"] {
        assert!(second.contains(words), "{second}");
    }

    let mut third = start("60000", "three");
    let mut said = BufReader::new(third.stdout.take().unwrap());
    await_line(&mut said, "holds");
    assert!(server.kill_client(&server.member("job").unwrap()));
    await_line(&mut said, "LOST");
    assert_eq!(third.wait().unwrap().code(), Some(3));
}

#[test]
fn leaders_take_turns_and_one_says_when_it_has_lost_it() {
    let server = Server::start();
    let examples = Examples::build("leader");
    let url = server.url();
    let candidates = [0; 3].map(|_| examples.start("leader", &[&url, "office", "3", "20"]));
    for candidate in candidates {
        let pid = candidate.id();
        let term = [format!("leader {pid} leads"), format!("leader {pid} steps down")];
        assert_eq!(finish(candidate), [&term[..]; 3].concat());
    }
    let mut last = examples.start("leader", &[&url, "office", "1", "60000"]);
    let mut said = BufReader::new(last.stdout.take().unwrap());
    await_line(&mut said, "leads");
    assert!(server.kill_client(&server.member("office").unwrap()));
    let lines = await_line(&mut said, "lost it: ");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(last.wait().unwrap().success());
}

#[test]
fn a_stale_cache_is_refilled_once() {
    let server = Server::start();
    let examples = Examples::build("cache_refill");
    let url = server.url();
    let file = server.dir().join("cache");
    for _ in 0..3 {
        let start = || examples.start("cache_refill", &[&url, "cache", file.to_str().unwrap()]);
        let processes = [0; 6].map(|_| start());
        let said = processes.map(|process| finish(process).join("\n"));
        let value = std::fs::read_to_string(&file).unwrap();
        let reads = format!(" reads {}", value.trim());
        let count = |words: &str| said.iter().filter(|line| line.ends_with(words)).count();
        assert_eq!((count(" refills"), count(&reads)), (1, 5), "{said:?}");
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn an_event_loop_takes_over_a_hundred_shards_and_leaves_when_told() {
    let mut server = Server::start();
    let examples = Examples::build("event_loop");
    let url = server.url();
    let start = || {
        let mut process = examples.start("event_loop", &[&url, "shard", "100"]);
        let said = BufReader::new(process.stdout.take().unwrap());
        (process, said)
    };
    let (mut first, mut first_said) = start();
    await_line(&mut first_said, "owns 100 of 100 shards");
    let (mut second, mut second_said) = start();
    let all_wait = || (0..100).all(|shard| server.members(&format!("shard-{shard}")) == 2);
    assert!(wait_until(Duration::from_secs(10), all_wait));
    first.kill().unwrap();
    first.wait().unwrap();
    await_line(&mut second_said, "owns 100 of 100 shards");
    // The goroutines that wait hold none: the runtime has a few, and the library has one.
    let threads = std::fs::read_dir(format!("/proc/{}/task", second.id())).unwrap().count();
    assert!(threads < 20, "{threads}");
    server.restart();
    let lines = await_line(&mut second_said, "owns 100 of 100 shards");
    let lost = lines.iter().filter(|line| line.contains("is lost: ")).count();
    assert_eq!(lost, 100, "{lines:?}");
    signal(second.id() as i32, libc::SIGTERM);
    await_line(&mut second_said, "has left");
    assert!(second.wait().unwrap().success());
    assert!(wait_until(Duration::from_secs(1), || server.members("shard-0") == 0));
}

/// A number of the text exposition format, by its name with its labels.
type Metrics = std::collections::BTreeMap<String, f64>;

/// Reads a page as strictly as the format is defined: each metric is described before its first number, all its
/// numbers stand together, and none comes twice.
fn metrics(page: &str) -> Metrics {
    let (mut found, mut seen) = (Metrics::new(), Vec::new());
    let mut lines = page.lines().peekable();
    while let Some(help) = lines.next() {
        let (name, words) = help.strip_prefix("# HELP ").unwrap().split_once(' ').unwrap();
        assert!(!words.is_empty() && !seen.contains(&name), "{help}");
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        assert!(name.bytes().all(is_word) && name.starts_with("portalock_"), "{name}");
        seen.push(name);
        let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap();
        assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let (key, value) = line.rsplit_once(' ').unwrap();
            let series = key.split('{').next().unwrap();
            let rest = series.strip_prefix(name).unwrap_or_else(|| panic!("{line}"));
            let wanted: &[&str] =
                if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(wanted.contains(&rest), "{line}");
            assert!(found.insert(key.to_owned(), value.parse().unwrap()).is_none(), "{line}");
        }
    }
    found
}

fn scrape(address: &str) -> Metrics {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200 "), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    assert!(page.ends_with('\n'));
    metrics(page)
}

#[test]
fn an_exporter_tells_prometheus_what_its_locks_do() {
    let server = Server::start();
    let examples = Examples::build("exporter");
    let url = server.url();
    let start = || {
        let mut process = examples.start("exporter", &[&url, "exported", "127.0.0.1:0"]);
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let lines = await_line(&mut said, "/metrics");
        let address =
            lines.last().unwrap().trim_end_matches("/metrics").rsplit('/').next().unwrap();
        (process, address.to_owned())
    };
    let (mut first, address) = start();
    let (mut second, _) = start();
    let contended = || scrape(&address)["portalock_hand_overs_total"] > 0.0;
    assert!(wait_until(Duration::from_secs(30), contended));
    let all = scrape(&address);
    let granted = all["portalock_acquires_total{outcome=\"granted\"}"];
    let waits = all["portalock_wait_seconds_count"];
    assert!(granted >= waits && waits > 0.0, "{all:?}");
    assert_eq!(all["portalock_wait_seconds_bucket{le=\"+Inf\"}"], waits);
    assert!(all["portalock_wait_seconds_sum"] > 0.0 && all["portalock_connections_total"] >= 1.0);
    let bucket = |le: &str| all[&format!("portalock_wait_seconds_bucket{{le=\"{le}\"}}")];
    let buckets = ["0.001", "0.0025", "0.025", "0.5", "10", "300"].map(bucket);
    assert!(buckets.is_sorted() && buckets[5] == waits, "{all:?}");
    for process in [&mut first, &mut second] {
        signal(process.id() as i32, libc::SIGTERM);
        assert!(process.wait().unwrap().success());
    }
}
