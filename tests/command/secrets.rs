//! A password is seen by nobody who has no business with it.

use std::io::Write;
use std::process::Stdio;

use crate::portalock;
use crate::process::Program;
use crate::support::Server;

const PASSWORD: &str = "hunter2-s3cret";

fn guarded() -> (Server, String) {
    let server = Server::with(&[("requirepass", PASSWORD)]);
    let url = format!("redis://:{PASSWORD}@127.0.0.1:{}", server.port());
    (server, url)
}

fn with_url(url: &str) -> Program {
    let mut program = Program::new(env!("CARGO_BIN_EXE_portalock"));
    program.env("PORTALOCK_URL", url);
    program
}

/// The command lines of all processes.
fn listing() -> String {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ") + "\n").collect()
}

#[test]
fn the_command_gets_the_url_without_its_password() {
    let (server, url) = guarded();
    let shown = ["run", "x", "-c", "echo $PORTALOCK_URL; cat /proc/self/environ"];
    let ended = with_url(&url).args(&shown).run();
    assert!(ended.out.starts_with(&format!("redis://127.0.0.1:{}\n", server.port())), "{ended:?}");
    assert!(!ended.out.contains(PASSWORD), "{ended:?}");
    let ended = with_url(&url).args(&["run", "--keep-url", "x", "-c", "echo $PORTALOCK_URL"]).run();
    assert_eq!(ended.out, format!("{url}\n"));
    // One that has none is handed on as it is.
    let plain = format!("unix://{}?db=1", server.socket().display());
    let ended = with_url(&url).args(&["--url", &url, "run", "x", "-c", "echo ok"]).run();
    assert_eq!((ended.code(), ended.out.as_str()), (0, "ok\n"));
    let mut program =
        with_url(&plain).args(&["--url", &url, "run", "x", "-c", "echo $PORTALOCK_URL"]);
    program.env("PORTALOCK_URL", &plain);
    assert_eq!(program.run().out, format!("{plain}\n"));
}

/// It may come from a terminal of another character set.
#[test]
fn a_url_that_is_not_read_is_not_handed_on_either() {
    use std::os::unix::ffi::OsStrExt;
    let server = Server::start();
    let odd = std::ffi::OsStr::from_bytes(b"unix:///s?pass=hunter2\xff");
    let mut program = portalock(&server).args(&["--url", &server.url(), "run", "x", "env"]);
    program.command().env("PORTALOCK_URL", odd);
    let ended = program.run();
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(ended.out.contains("PORTALOCK_NAME=x\n"), "{ended:?}");
    assert!(!ended.out.contains("PORTALOCK_URL"), "{ended:?}");
}

/// Refused by the same server rather than let in by another.
#[test]
fn a_run_within_a_run_does_not_go_to_another_server() {
    let (_server, url) = guarded();
    let inner = format!("'{}' run y echo ran", env!("CARGO_BIN_EXE_portalock"));
    let ended = with_url(&url).args(&["run", "x", "-c", &inner]).run();
    assert_eq!((ended.code(), ended.out.as_str()), (77, ""), "{ended:?}");
    let ended = with_url(&url).args(&["run", "--keep-url", "x", "-c", &inner]).run();
    assert_eq!((ended.code(), ended.out.as_str()), (0, "ran\n"), "{ended:?}");
}

#[test]
fn a_file_keeps_the_url_out_of_listings() {
    let (server, url) = guarded();
    let file = server.dir().join("url");
    std::fs::write(&file, format!("{url}\nand a second line\n")).unwrap();
    let program = with_url("redis://127.0.0.1:1").arg("run").arg("--url-file").arg(&file);
    let running = program.args(&["x", "-c", "echo in; cat /proc/self/environ; sleep 60"]).start();
    running.await_out("in");
    let list = listing();
    assert!(list.contains("--url-file"), "{list}");
    assert!(!list.contains(&format!(":{PASSWORD}@")), "{list}");
    assert!(!running.out().contains(PASSWORD));
    running.signal(libc::SIGTERM);
    assert_eq!(running.wait().code(), 128 + 15);
}

#[test]
fn the_url_may_come_before_the_commands_input() {
    let (_server, url) = guarded();
    let mut program = with_url("").args(&["run", "--url-file", "-", "x", "cat"]);
    program.command().stdin(Stdio::piped());
    let mut running = program.start();
    let mut input = running.input();
    writeln!(input, "  {url}\nthe rest\nis the command's").unwrap();
    drop(input);
    let ended = running.wait();
    assert_eq!((ended.code(), ended.out.as_str()), (0, "the rest\nis the command's\n"));
}

#[test]
fn no_error_shows_it() {
    let (server, url) = guarded();
    let wrong = format!("redis://:{PASSWORD}x@127.0.0.1:{}", server.port());
    let dead = format!("redis://me:{PASSWORD}@127.0.0.1:1");
    let odd = format!("redis://me:{PASSWORD}@127.0.0.1:port/");
    let scheme = format!("http://me:{PASSWORD}@127.0.0.1/");
    for (words, code) in [
        (&["run", "x", "true", "--url"][..], 0),
        (&["--url", &wrong, "run", "x", "true"], 77),
        (&["--url", &dead, "run", "x", "true"], 69),
        (&["--url", &odd, "run", "x", "true"], 64),
        (&["--url", &scheme, "holders", "x"], 64),
        (&[&url, "run", "x", "true"], 64),
        (&["--uri", &url, "holders", "x"], 64),
        (&["holders", "--ur=", &url], 64),
        (&["reap", "x", &url], 64),
        (&["--url-file", &url, "holders", "x"], 66),
        (&["--url", &url, "--url-file", &url, "holders", "x"], 64),
        (&["run", "-w", &url, "x", "true"], 64),
        (&["--url", &url, "run", "x", "--", &url], 127),
        (&["unix:///s?user=me&pass=hunt@hunter2"], 64),
        (&["unix:///s?user=me&pass=my hunter2"], 64),
        (&["redis://:my hunter2@host"], 64),
        (&["redis://:hunter2"], 64),
        (&["me:hunter2@host"], 64),
        (&["run", "-w", "me:hunter2@host", "x", "true"], 64),
        (&["run", "--on-lost", "me:hunter2@host", "x", "true"], 64),
        (&["--redis://:hunter2@host", "holders", "x"], 64),
        (&["run", "x", "--", "redis://:my hunter2@host"], 127),
        (&["--url-file", "redis://:hunter2", "holders", "x"], 66),
    ] {
        let ended = with_url(&url).args(words).run();
        assert_eq!(ended.code(), code, "{words:?}: {ended:?}");
        assert!(!ended.err.contains("hunter2"), "{words:?}: {ended:?}");
        assert!(!ended.out.contains("hunter2"), "{words:?}: {ended:?}");
    }
    let file = server.dir().join("empty");
    std::fs::write(&file, "\n").unwrap();
    assert_eq!(portalock(&server).arg("--url-file").arg(&file).args(&["holders", "x"]).code(), 66);
}
