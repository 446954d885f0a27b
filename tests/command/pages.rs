//! `--help`, the manual pages, the completions and docs/command.md: they exist, and say the same.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::portalock;
use crate::support::program::root;
use crate::support::{Server, skip};

const SUBCOMMANDS: [&str; 5] = ["run", "holders", "wait", "reap", "doctor"];

/// What the build has made.
fn asset(name: &str) -> String {
    let path = Path::new(env!("PORTALOCK_ASSETS")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn help(server: &Server, words: &[&str]) -> String {
    let ended = portalock(server).args(words).run();
    assert_eq!((ended.code(), ended.err.as_str()), (0, ""), "{words:?}");
    ended.out
}

/// The long options, such as `--on-lost`.
fn options(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    let long = words.filter(|word| word.len() > 3 && word.starts_with("--"));
    long.map(|word| word.trim_end_matches('-').to_owned()).collect()
}

/// The rows below a heading of `--help`, each by its first word.
fn rows(help: &str, heading: &str) -> BTreeSet<String> {
    let body = help.split_once(&format!("{heading}:\n")).unwrap_or_else(|| panic!("{heading}")).1;
    let lines = body.lines().take_while(|line| !line.is_empty());
    // What a row goes on with is indented further.
    let first = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    first.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn help_has_what_a_person_looks_for() {
    let server = Server::start();
    let all = help(&server, &["--help"]);
    assert!(SUBCOMMANDS.iter().all(|name| all.contains(name)), "{all}");
    for name in SUBCOMMANDS {
        let page = help(&server, &[name, "--help"]);
        for heading in ["Usage:", "Server:", "Exit status:", "Environment:", "Examples:"] {
            assert!(page.contains(heading), "{name}: {heading}");
        }
        assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
        assert!(rows(&page, "Exit status").contains("69"), "{page}");
    }
    assert!(help(&server, &["--version"]).contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn who_asks_for_nothing_is_shown_the_help() {
    let server = Server::start();
    let ended = portalock(&server).run();
    assert_eq!((ended.code(), ended.out.as_str()), (64, ""));
    assert_eq!(ended.err, help(&server, &["-h"]));
    assert!(ended.err.contains("redis[s]://[USER[:PASSWORD]@]HOST"), "{}", ended.err);
}

/// On a terminal that is known by the variable alone, as where all goes to a pager.
#[test]
fn help_is_as_wide_as_it_is_told() {
    let server = Server::start();
    let mut program = portalock(&server).args(&["holders", "--help"]);
    program.env("COLUMNS", "60");
    let page = program.run().out;
    let exits = page.split_once("Exit status:\n").unwrap().1.split("\n\n").next().unwrap();
    assert!(exits.lines().count() > rows(&page, "Exit status").len(), "{exits}");
    let is_below = |line: &str| line.starts_with("      ") || line.as_bytes()[2].is_ascii_digit();
    assert!(exits.lines().all(|line| line.len() <= 60 && is_below(line)), "{exits}");
}

/// Each command line that is shown as an example is one that is understood.
#[test]
fn examples_of_the_help_can_be_run() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    for name in SUBCOMMANDS {
        let page = help(&server, &[name, "--help"]);
        let examples = page.split_once("Examples:\n").unwrap().1;
        let lines = examples.lines().filter_map(|line| line.strip_prefix("  portalock "));
        for line in lines.filter(|line| !line.contains("--watch") && !line.contains("--url-file")) {
            // Without what is not there: only whether portalock itself has something against it counts.
            let script = format!("'{}' {line}; echo status $?", env!("CARGO_BIN_EXE_portalock"));
            let mut program = crate::process::Program::new("/bin/sh").args(&["-c", &script]);
            program.env("PORTALOCK_URL", &server.url());
            program.command().current_dir(dir.path());
            let ended = program.run();
            assert!(!ended.out.contains("status 64"), "{line}: {ended:?}");
            assert!(!ended.out.contains("status 69"), "{line}: {ended:?}");
        }
    }
}

#[test]
fn the_page_on_the_command_names_all_that_there_is() {
    let server = Server::start();
    let page = std::fs::read_to_string(root().join("docs/command.md")).unwrap();
    let documented = options(&page);
    let mut known = BTreeSet::new();
    for name in SUBCOMMANDS {
        let help = help(&server, &[name, "--help"]);
        let of_clap = ["--help".to_owned(), "--version".to_owned()];
        known.extend(options(&help));
        for option in options(&help).iter().filter(|option| !of_clap.contains(option)) {
            assert!(documented.contains(option), "docs/command.md: {name} {option}");
        }
        for code in rows(&help, "Exit status") {
            assert!(page.contains(&format!("| {code}")), "docs/command.md: status {code}");
        }
        for variable in rows(&help, "Environment") {
            assert!(page.contains(&format!("`{variable}`")), "docs/command.md: {variable}");
        }
    }
    known.extend(["--unlock", "--no-fork"].map(str::to_owned));
    // Of ours, in lines that run ours.
    for line in page.lines().filter(|line| line.contains("portalock ") && line.starts_with("    "))
    {
        let own = line.split(" -- ").next().unwrap().split(" -c ").next().unwrap();
        let unknown: Vec<_> = options(own).difference(&known).cloned().collect();
        assert!(unknown.is_empty(), "docs/command.md: {line}: {unknown:?}");
    }
}

#[test]
fn manual_pages_are_set_without_a_complaint() {
    let pages = SUBCOMMANDS.map(|name| format!("portalock-{name}"));
    for name in pages.iter().map(String::as_str).chain(["portalock"]) {
        let source = Path::new(env!("PORTALOCK_ASSETS")).join(format!("{name}.1"));
        let mut groff = Command::new("groff");
        let groff = groff.args(["-man", "-Tascii", "-P-cbou", "-ww", "-rLL=100n"]).arg(source);
        let outcome = groff.output().expect("groff is there");
        let complaints = String::from_utf8_lossy(&outcome.stderr);
        assert!(outcome.status.success() && complaints.is_empty(), "{name}: {complaints}");
        let page = String::from_utf8_lossy(&outcome.stdout).into_owned();
        for heading in ["NAME", "SYNOPSIS", "EXIT STATUS", "ENVIRONMENT", "EXAMPLES", "SEE ALSO"] {
            assert!(page.contains(&format!("\n{heading}\n")), "{name}: {heading}: {page}");
        }
        assert!(!page.contains("portalock-help"), "{page}");
    }
    let server = Server::start();
    let shown = options(&help(&server, &["run", "--help"]));
    let source = asset("portalock-run.1").replace("\\-", "-");
    for option in shown.iter().filter(|option| *option != "--") {
        assert!(source.contains(option.as_str()), "{option}");
    }
    assert!(source.contains("The same: -e\n"), "{source}");
    let synopsis = source.split(".SH ").find(|part| part.starts_with("SYNOPSIS")).unwrap();
    assert!(synopsis.contains("[-w|--wait SECONDS]"), "{synopsis}");
    assert!(synopsis.trim_end().ends_with(" NAME [CMD...]"), "{synopsis}");
    let version = format!("portalock {}", env!("CARGO_PKG_VERSION"));
    assert!(source.lines().any(|line| line.starts_with(".TH") && line.contains(&version)));
}

/// What bash offers for these words, the last of which is being typed.
fn completed(words: &[&str]) -> BTreeSet<String> {
    let script = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                  _portalock portalock \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; \
                  printf '%s\\n' \"${COMPREPLY[@]}\"";
    let path = Path::new(env!("PORTALOCK_ASSETS")).join("portalock.bash");
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-c", script, "bash"]).arg(path).args(words);
    let outcome = bash.output().unwrap();
    assert!(outcome.status.success(), "{outcome:?}");
    String::from_utf8_lossy(&outcome.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes() {
    let path = Path::new(env!("PORTALOCK_ASSETS")).join("portalock.bash");
    assert!(Command::new("bash").arg("-n").arg(path).status().unwrap().success());
    assert_eq!(completed(&["portalock", "ru"]), ["run".to_owned()].into());
    assert!(SUBCOMMANDS.iter().all(|name| completed(&["portalock", ""]).contains(*name)));
    assert_eq!(completed(&["portalock", "run", "--on-"]), ["--on-lost".to_owned()].into());
    let kinds = ["kill", "term", "ignore"].map(str::to_owned);
    assert_eq!(completed(&["portalock", "run", "--on-lost", ""]), kinds.into());
    assert!(completed(&["portalock", "holders", "--"]).contains("--watch"));
    assert!(completed(&["portalock", "run", "-"]).contains("-w"));
}

#[test]
fn no_shell_offers_what_is_refused() {
    for file in ["portalock.bash", "_portalock", "portalock.fish"] {
        let text = asset(file);
        for option in ["unlock", "no-fork"] {
            assert!(!text.contains(option), "{file}: {option}");
        }
        assert!(text.contains("on-lost") && text.contains("url-file"), "{file}");
    }
}

#[test]
fn the_other_shells_can_read_theirs() {
    for (shell, file) in [("zsh", "_portalock"), ("fish", "portalock.fish")] {
        let text = asset(file);
        assert!(SUBCOMMANDS.iter().all(|name| text.contains(name)), "{file}");
        let path = Path::new(env!("PORTALOCK_ASSETS")).join(file);
        match Command::new(shell).arg("-n").arg(path).status() {
            Ok(status) => assert!(status.success(), "{shell}"),
            Err(_) => skip(&format!("there is no {shell}, so {file} is not read by it")),
        }
    }
}
