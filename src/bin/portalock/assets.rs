//! Part of the build script alone: what is made of the command line's definition.

use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::arguments::Arguments;
use crate::pages::{self, Page};

/// Where CMakeLists.txt wants it; cargo's own folder unless it is set.
const FOLDER: &str = "PORTALOCK_ASSETS";

/// Writes completions and manual pages, and tells the compiler where, for the tests.
pub fn make() {
    println!("cargo:rerun-if-env-changed={FOLDER}");
    println!("cargo:rerun-if-changed=src/bin/portalock");
    let own = || std::env::var_os("OUT_DIR").map(|dir| PathBuf::from(dir).join("assets"));
    let folder = std::env::var_os(FOLDER).map(PathBuf::from).or_else(own).expect("a folder");
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let mut command = Arguments::command();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut offered(), "portalock", &folder)
            .expect("completions can be written");
    }
    command.build();
    manual(&command, &folder);
    println!("cargo:rustc-env={FOLDER}={}", folder.display());
}

/// The command without the options that are refused: the shells would offer them all the same.
fn offered() -> Command {
    Arguments::command().mut_subcommands(|subcommand| {
        let mut names = pages::SUBCOMMANDS.iter().map(|(name, _)| *name);
        let name = names.find(|name| *name == subcommand.get_name()).expect("it has a page");
        let about = subcommand.get_about().cloned().unwrap_or_default();
        let kept = subcommand.get_arguments().filter(|argument| !argument.is_hide_set()).cloned();
        Command::new(name).about(about).args(kept)
    })
}

/// A page for the command, and one for each subcommand.
fn manual(command: &Command, folder: &Path) {
    write(command, &pages::ALL, folder);
    for (name, page) in pages::SUBCOMMANDS {
        let subcommand = command.find_subcommand(name).expect("its page is of a subcommand");
        write(subcommand, page, folder);
    }
}

fn write(command: &Command, page: &Page, folder: &Path) {
    // What stands at the end of --help has sections of its own here.
    let command = command.clone().after_help(None::<&str>).after_long_help(None::<&str>);
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let command = command.clone().mut_args(with_aliases).override_usage(synopsis(&command));
    let source = concat!("portalock ", env!("CARGO_PKG_VERSION"));
    let mut text = Vec::new();
    Man::new(command).source(source).render(&mut text).expect("a page can be made");
    let rest = sections(page, &name).to_roff();
    text.extend(rest.as_bytes());
    std::fs::write(folder.join(format!("{name}.1")), text).expect("a page can be written");
}

/// An option whose other names stand in its text.
fn with_aliases(option: Arg) -> Arg {
    let short = option.get_visible_short_aliases().unwrap_or_default();
    let long = option.get_visible_aliases().unwrap_or_default();
    let short = short.into_iter().map(|name| format!("-{name}"));
    let names: Vec<_> = short.chain(long.iter().map(|name| format!("--{name}"))).collect();
    if names.is_empty() {
        return option;
    }
    let text = option.get_long_help().or(option.get_help()).cloned().unwrap_or_default();
    option.long_help(format!("{text}\n\nThe same: {}", names.join(", ")))
}

/// All options with their values, and what follows them.
fn synopsis(command: &Command) -> String {
    let mut words = vec![command.get_bin_name().unwrap_or(command.get_name()).to_owned()];
    let is_shown = |argument: &&Arg| !argument.is_hide_set() && !argument.is_positional();
    words.extend(command.get_arguments().filter(is_shown).map(|option| {
        let short = option.get_short().map(|name| format!("-{name}"));
        let long = option.get_long().map(|name| format!("--{name}"));
        let names: Vec<_> = short.into_iter().chain(long).collect();
        format!("[{}]", [vec![names.join("|")], values(option)].concat().join(" "))
    }));
    words.extend(command.get_positionals().map(|argument| {
        let dots =
            if argument.get_num_args().is_some_and(|n| n.max_values() > 1) { "..." } else { "" };
        let names = values(argument).join(" ") + dots;
        if argument.is_required_set() { names } else { format!("[{names}]") }
    }));
    if command.has_subcommands() {
        words.push("COMMAND ...".to_owned());
    }
    words.join(" ")
}

fn values(argument: &Arg) -> Vec<String> {
    let takes = argument.get_num_args().is_some_and(|number| number.takes_values());
    let names = argument.get_value_names().filter(|_| takes).unwrap_or_default();
    names.iter().map(|name| name.to_string()).collect()
}

fn sections(page: &Page, name: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for (code, what) in page.exits() {
        item(&mut roff, &code.to_string(), what);
    }
    roff.control("SH", ["ENVIRONMENT"]);
    for (variable, what) in page.environment {
        item(&mut roff, variable, what);
    }
    roff.control("SH", ["EXAMPLES"]);
    for (line, what) in page.examples {
        item(&mut roff, line, what);
    }
    roff.control("SH", ["SEE ALSO"]);
    let all = std::iter::once("portalock".to_owned());
    let all = all.chain(pages::SUBCOMMANDS.iter().map(|(name, _)| format!("portalock-{name}")));
    let others: Vec<_> = all.filter(|other| other != name).map(|name| name + "(1)").collect();
    roff.text([roman(others.join(", "))]);
    roff
}

fn item(roff: &mut Roff, name: &str, what: &str) {
    roff.control("TP", []);
    roff.text([bold(name)]);
    roff.text([roman(what)]);
}
