//! The `go` command, and what it builds with the shared object that was built together with this test.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;

use super::die_with_parent;
use super::program::{library, root};

/// What the `go` command needs; kept from one run to the next, since its cache is worth minutes.
pub fn home() -> &'static Path {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    HOME.get_or_init(|| {
        let home = library().ancestors().nth(2).unwrap().join("go");
        std::fs::create_dir_all(home.join("lib")).unwrap();
        furnish(&home);
        home
    })
}

/// Other processes may do the same just now: everything is put in place whole, and alike.
fn furnish(home: &Path) {
    let lib = home.join("lib");
    let draft = TempDir::new_in(home).unwrap();
    for name in ["libportalock.so", "libportalock.so.0"] {
        symlink(library(), draft.path().join(name)).unwrap();
        std::fs::rename(draft.path().join(name), lib.join(name)).unwrap();
    }
    let package = format!(
        "Name: portalock\nDescription: distributed locks\nVersion: {}\n\
         Libs: -L\"{}\" -lportalock\nCflags: -I\"{}\"\n",
        env!("CARGO_PKG_VERSION"),
        lib.display(),
        root().join("include").display(),
    );
    std::fs::write(draft.path().join("portalock.pc"), package).unwrap();
    std::fs::rename(draft.path().join("portalock.pc"), lib.join("portalock.pc")).unwrap();
}

/// Nothing of the user's settings plays a part, and nothing is fetched from anywhere.
pub fn command(folder: &str) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(root().join(folder))
        .env("PKG_CONFIG_PATH", home().join("lib"))
        .env("LD_LIBRARY_PATH", home().join("lib"))
        .env("GOCACHE", home().join("cache"))
        .env("GOPATH", home().join("path"))
        .envs([("GOPROXY", "off"), ("GOENV", "off"), ("GOWORK", "off"), ("GOTOOLCHAIN", "local")])
        .envs([("CGO_ENABLED", "1"), ("GOFLAGS", "")]);
    command
}

pub fn output(command: &mut Command) -> String {
    die_with_parent(command);
    let outcome = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = text(&outcome);
    assert!(outcome.status.success(), "{command:?}: {}\n{said}", outcome.status);
    said
}

pub fn text(outcome: &Output) -> String {
    String::from_utf8_lossy(&outcome.stdout).into_owned()
        + &String::from_utf8_lossy(&outcome.stderr)
}

/// Puts the program of a package into a folder, under the package's name. It is to run with
/// `LD_LIBRARY_PATH` as [`command`] sets it.
pub fn build(folder: &str, package: &str, into: &Path) {
    output(command(folder).args(["build", "-o"]).arg(into).arg(package));
}
