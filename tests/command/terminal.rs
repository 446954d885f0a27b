//! What a person at a terminal sees, and what the shell's keys do.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::portalock;
use crate::process::{LONG, Running, is_alive};
use crate::pty::Pty;
use crate::support::{Server, wait_until};

const ERASED: &str = "\r\x1b[K";

/// The command on a terminal.
fn on_terminal(server: &Server, columns: u16, words: &[&str]) -> Pty {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portalock"));
    command.args(words).env("PORTALOCK_URL", server.url()).env("TERM", "xterm");
    Pty::start(command, columns)
}

fn holder(server: &Server, words: &[&str]) -> Running {
    let holder = portalock(server).arg("run").args(words).args(&["x", "-c", "echo in; read line"]);
    let mut holder = holder;
    holder.command().stdin(std::process::Stdio::piped());
    let holder = holder.start();
    holder.await_out("in");
    holder
}

/// What a line of the terminal showed, one drawing after the other.
fn drawings(shown: &str) -> Vec<String> {
    let parts = shown.split('\r').filter(|part| part.starts_with("waiting for"));
    parts.map(|part| part.split("\x1b[K").next().unwrap().to_owned()).collect()
}

#[test]
fn the_wait_is_one_line_that_goes_away() {
    let server = Server::start();
    let holder = holder(&server, &["--label", "reporter"]);
    let first = portalock(&server).args(&["run", "x", "true"]).start();
    assert!(wait_until(LONG, || server.members("x") == 2));
    let mut terminal = on_terminal(&server, 120, &["run", "-w", "60", "x", "echo", "ran"]);
    terminal.await_shown("2 of 2 in line");
    let line = drawings(&terminal.shown).pop().unwrap();
    assert!(line.starts_with("waiting for \"x\", 2 of 2 in line, held by reporter ("), "{line:?}");
    assert!(line.contains(&format!(":{}) for ", holder.pid())), "{line:?}");
    assert!(line.ends_with("s left"), "{line:?}");
    drop(first);
    terminal.await_shown("1 of 1 in line");
    assert!(!terminal.shown.contains('\n'), "{:?}", terminal.shown);
    drop(holder);
    assert_eq!(terminal.finish(), Some(0));
    let last = terminal.shown.rsplit(ERASED).next().unwrap();
    assert_eq!(last, "ran\r\n", "{:?}", terminal.shown);
}

#[test]
fn it_is_drawn_once_a_second_and_cut_to_the_width() {
    let server = Server::start();
    let _holder = holder(&server, &["--label", "a-label-longer-than-the-line"]);
    let begun = Instant::now();
    let mut terminal = on_terminal(&server, 40, &["run", "-w", "3.5", "x", "true"]);
    assert_eq!(terminal.finish(), Some(1));
    let lines = drawings(&terminal.shown);
    let most = begun.elapsed().as_secs() as usize + 2;
    assert!((2..=most).contains(&lines.len()), "{lines:?}");
    assert!(lines.iter().all(|line| line.chars().count() < 40), "{lines:?}");
    assert!(lines.iter().any(|line| line.chars().count() == 39), "{lines:?}");
    assert!(terminal.shown.ends_with(ERASED), "{:?}", terminal.shown);
}

#[test]
fn a_long_label_leaves_the_times_on_the_line() {
    let server = Server::start();
    let _holder = holder(&server, &["--label", &"label".repeat(50)]);
    let mut terminal = on_terminal(&server, 120, &["run", "-w", "2.5", "x", "true"]);
    assert_eq!(terminal.finish(), Some(1));
    let lines = drawings(&terminal.shown);
    let whole =
        |line: &&String| line.contains("label") && line.contains("… (") && line.ends_with("s left");
    let line = lines.iter().find(whole).unwrap_or_else(|| panic!("{lines:?}"));
    assert!(line.contains(") for ") && line.chars().count() == 119, "{line:?}");
}

#[test]
fn a_lock_that_is_free_shows_nothing() {
    let server = Server::start();
    let mut terminal = on_terminal(&server, 80, &["run", "x", "true"]);
    assert_eq!(terminal.finish(), Some(0));
    assert_eq!(terminal.shown, "");
}

#[test]
fn who_is_no_terminal_is_shown_nothing() {
    let server = Server::start();
    let _holder = holder(&server, &[]);
    let ended = portalock(&server).args(&["run", "-w", "1.5", "x", "true"]).run();
    assert_eq!((ended.code(), ended.out.as_str(), ended.err.as_str()), (1, "", ""));
    let mut command = Command::new(env!("CARGO_BIN_EXE_portalock"));
    command.args(["run", "-w", "1.5", "x", "true"]).env("PORTALOCK_URL", server.url());
    let mut dumb = Pty::start(
        {
            command.env("TERM", "dumb");
            command
        },
        80,
    );
    assert_eq!((dumb.finish(), dumb.shown.as_str()), (Some(1), ""));
}

/// Labels come from other hosts, which might like to write elsewhere on the terminal.
#[test]
fn labels_cannot_command_the_terminal() {
    let server = Server::start();
    let _holder = holder(&server, &["--label", "\x1b[2J\x07evil\u{9b}31m"]);
    let mut terminal = on_terminal(&server, 120, &["run", "-w", "1.5", "x", "true"]);
    assert_eq!(terminal.finish(), Some(1));
    assert!(terminal.shown.contains("evil"), "{:?}", terminal.shown);
    assert!(!terminal.shown.contains("\x1b[2J") && !terminal.shown.contains('\x07'));
    assert!(!terminal.shown.contains('\u{9b}'));
}

#[test]
fn a_watch_keeps_what_was_scrolled_away() {
    let server = Server::start();
    let mut terminal = on_terminal(&server, 80, &["holders", "--watch", "x"]);
    terminal.await_shown("\x1b[H\x1b[2J\"x\": free");
    terminal.await_shown("\x1b[H\x1b[2J\"x\": free");
    assert!(!terminal.shown.contains("\x1b[3J"), "{:?}", terminal.shown);
}

#[test]
fn help_fits_a_narrow_terminal() {
    let server = Server::start();
    for columns in [60, 70, 100] {
        let mut terminal = on_terminal(&server, columns, &["run", "--help"]);
        assert_eq!(terminal.finish(), Some(0));
        let shown = terminal.shown.replace("\r\n", "\n");
        let section = |heading: &str| {
            let rest = shown.split_once(heading).unwrap().1;
            let lines = rest.lines().skip(1).take_while(|line| !line.is_empty());
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        // Two columns, and none of the second begins below the first.
        for (heading, indent) in [("Exit status:", 7), ("Environment:", 27)] {
            let lines = section(heading);
            assert!(lines.len() > 4, "{shown}");
            for line in lines {
                assert!(
                    line.chars().count() <= usize::from(columns).min(80),
                    "{columns}: {line:?}"
                );
                let start = line.len() - line.trim_start().len();
                assert!([2, indent].contains(&start), "{columns}: {line:?}");
            }
        }
    }
}

/// To look is to be answered, once a second, and takes no place: who looks is no member.
#[test]
fn who_looks_does_not_disturb_the_queue() {
    let server = Server::start();
    let holder = holder(&server, &[]);
    let mut terminal = on_terminal(&server, 120, &["run", "x", "true"]);
    terminal.await_shown("1 of 1 in line");
    let published = |server: &Server| server.command_counts().get("publish").copied().unwrap_or(0);
    let (before, begun) = (published(&server), Instant::now());
    for _ in 0..30 {
        terminal.read(Duration::from_millis(100));
        assert_eq!(server.members("x"), 2);
    }
    // A question and two answers a second; and the waiter's own question with its two answers.
    let most = 6 * (begun.elapsed().as_secs() + 2);
    let count = published(&server) - before;
    assert!(count <= most, "{count} of {most}");
    drop(holder);
    assert_eq!(terminal.finish(), Some(0));
}

/// A shell that keeps jobs, with portalock in its path.
fn shell(server: &Server) -> Pty {
    let mut command = Command::new("bash");
    command.args(["--norc", "--noprofile", "-i"]).env("PS1", "> ").env("TERM", "xterm");
    command.env("PORTALOCK_URL", server.url()).env_remove("PROMPT_COMMAND");
    command.env("HISTFILE", "/dev/null").env("portalock", env!("CARGO_BIN_EXE_portalock"));
    let mut shell = Pty::start(command, 200);
    shell.await_shown("> ");
    shell
}

#[test]
fn ctrl_c_ends_the_command_as_if_it_were_alone() {
    let server = Server::start();
    let mut shell = shell(&server);
    shell.type_in("$portalock run x -c 'echo i\"\"n; exec sleep 60'; echo status $?.\n");
    shell.await_shown("in\r\n");
    shell.type_in("\x03");
    shell.await_shown("status 130.");
    shell.await_shown("> ");
    assert!(wait_until(LONG, || server.members("x") == 0));
    // Once: a command that asks twice is not ended by one key.
    let twice = "trap 'echo go\"\"t; n=${n}x' INT; n=; echo i\"\"n; until [ ${#n} = 2 ]; do sleep 0.01; done; exit 0";
    shell.type_in(&format!(
        "$portalock run x bash -c '{}'; echo status $?.\n",
        twice.replace('\'', "'\\''")
    ));
    shell.await_shown("in\r\n");
    shell.type_in("\x03");
    shell.await_shown("got");
    shell.read(Duration::from_millis(500));
    assert_eq!(shell.shown.matches("got").count(), 1, "{:?}", shell.shown);
    shell.type_in("\x03");
    shell.await_shown("status 0.");
}

#[test]
fn ctrl_c_ends_the_wait() {
    let server = Server::start();
    let _holder = holder(&server, &[]);
    let mut shell = shell(&server);
    shell.type_in("$portalock run x true; echo status $?.\n");
    shell.await_shown("1 of 1 in line");
    shell.type_in("\x03");
    let shown = shell.await_shown("status 130.");
    assert!(shown.contains(ERASED), "{shown:?}");
    assert!(wait_until(LONG, || server.members("x") == 1));
}

#[test]
fn ctrl_z_stops_the_job_and_fg_goes_on() {
    let server = Server::start();
    let mut shell = shell(&server);
    shell.type_in(
        "$portalock run x -c 'echo i\"\"n; read line; echo ha\"\"d $line'; echo status $?.\n",
    );
    shell.await_shown("in\r\n");
    shell.type_in("\x1a");
    shell.await_shown("Stopped");
    shell.await_shown("status 147.");
    shell.await_shown("> ");
    // A shell that has just taken its terminal back may throw away what is typed.
    let prompts = shell.shown.matches("> ").count();
    while shell.shown.matches("> ").count() == prompts {
        shell.type_in("\n");
        shell.read(Duration::from_secs(2));
    }
    shell.type_in("fg\n");
    shell.await_shown("read line");
    shell.type_in("that\n");
    shell.await_shown("had that");
    assert!(wait_until(LONG, || server.members("x") == 0));
    shell.type_in("exit\n");
    shell.finish();
}

#[test]
fn a_loss_on_a_terminal_ends_all_that_the_command_has_started() {
    let server = Server::start();
    let script = "sleep 60 & echo child $! end; wait; echo survived";
    let mut terminal = on_terminal(&server, 80, &["run", "x", "-c", script]);
    terminal.await_shown("end");
    let child = terminal.shown.split("child ").nth(1).unwrap().split(' ').next().unwrap();
    let child: i32 = child.parse().unwrap();
    assert!(is_alive(child));
    let member = server.member("x").unwrap();
    assert!(server.kill_client(&member));
    assert_eq!(terminal.finish(), Some(75));
    assert!(wait_until(LONG, || !is_alive(child)));
    assert!(!terminal.shown.contains("survived"), "{:?}", terminal.shown);
}

#[test]
fn a_command_that_does_not_stop_keeps_its_lock() {
    let server = Server::start();
    let mut shell = shell(&server);
    shell.type_in(
        "$portalock run x -c 'trap \"\" TSTP; echo i\"\"n; while :; do sleep 0.1; done'\n",
    );
    shell.await_shown("in\r\n");
    shell.type_in("\x1a");
    // Longer than one who is stopped keeps it.
    assert_eq!(portalock(&server).args(&["run", "-w", "6", "x", "true"]).code(), 1);
    shell.type_in("\x03");
    assert!(wait_until(LONG, || server.members("x") == 0));
}

#[test]
fn a_command_that_stops_itself_stops_the_job() {
    let server = Server::start();
    let mut shell = shell(&server);
    shell.type_in("$portalock run x -c 'kill -STOP $$; echo go\"\"ne on'; echo status $?.\n");
    shell.await_shown("status 147.");
    shell.await_shown("> ");
    shell.type_in("kill %1; fg\n");
    assert!(wait_until(LONG, || server.members("x") == 0));
}
