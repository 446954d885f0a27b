//! Part of the build script alone: what is made of the command line's definition.

use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
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
        clap_complete::generate_to(shell, &mut command, "portalock", &folder)
            .expect("completions can be written");
    }
    command.build();
    manual(&command, &folder);
    println!("cargo:rustc-env={FOLDER}={}", folder.display());
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
    let mut text = Vec::new();
    Man::new(command).render(&mut text).expect("a page can be made");
    let rest = sections(page, &name).to_roff();
    text.extend(rest.as_bytes());
    std::fs::write(folder.join(format!("{name}.1")), text).expect("a page can be written");
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
