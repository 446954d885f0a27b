//! Ruby, Python, SQL, commands of Redis, and CMake.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::markdown::{Block, blocks};
use crate::run::{SERVER, at, run, run_program};
use crate::support::program::{library, root, ruby};
use crate::support::{Server, peers};

// --- Ruby -----------------------------------------------------------------------------------------

/// A fragment finds a client and a lock, which a program makes for itself.
fn ruby_source(server: &Server, block: &Block) -> String {
    let text = at(server, block);
    if block.body.contains(SERVER) {
        return text;
    }
    let url = server.tcp_url();
    format!(
        "require \"portalock\"; client = Portalock::Client.new({url:?}); \
         lock = client.lock(\"snippet\"); {text}"
    )
}

#[test]
fn ruby_runs() {
    let blocks = blocks("ruby");
    assert!(blocks.iter().any(|block| block.body.contains(SERVER)), "no page shows a program");
    for block in &blocks {
        let server = Server::start();
        let source = server.dir().join("snippet.rb");
        std::fs::write(&source, ruby_source(&server, block)).unwrap();
        if block.is_not_run() {
            run(&block.place(), Command::new("ruby").arg("-c").arg(&source));
            continue;
        }
        let said = run_program(block, &mut ruby(source.to_str().unwrap()));
        let is_clean = !said.contains("warning:") || !block.body.contains(SERVER);
        assert!(is_clean, "{}: {said}", block.place());
    }
}

// --- Python ---------------------------------------------------------------------------------------

/// The newest portalocker of those that the tests know.
fn python() -> Command {
    Command::new(peers::python("4.4.2"))
}

/// Compiles it, and looks whether there is what it imports.
const CHECK: &str = "import ast, sys; \
    tree = ast.parse(open(sys.argv[1]).read(), sys.argv[1]); \
    compile(tree, sys.argv[1], 'exec'); \
    tree.body = [each for each in tree.body if isinstance(each, (ast.Import, ast.ImportFrom))]; \
    exec(compile(tree, sys.argv[1], 'exec'))";

#[test]
fn python_compiles_and_programs_run() {
    for block in blocks("python") {
        let server = Server::start();
        let source = server.dir().join("snippet.py");
        std::fs::write(&source, at(&server, &block)).unwrap();
        run(&block.place(), python().args(["-c", CHECK]).arg(&source));
        if block.body.contains(SERVER) && !block.is_not_run() {
            run_program(&block, python().arg(&source));
        }
    }
}

// --- SQL, and commands of Redis -------------------------------------------------------------------

/// There is one table, `report`, and statements take what they need by the names of its columns.
const STATEMENT: &str = "import sqlite3, sys; \
    db = sqlite3.connect(':memory:'); \
    db.execute('CREATE TABLE report (id INTEGER, body TEXT, fence INTEGER)'); \
    db.execute(sys.argv[1], {'id': 1, 'body': '', 'fence': 1, 'token': 1})";

#[test]
fn sql_is_understood() {
    for block in blocks("sql") {
        run(&block.place(), Command::new("python3").args(["-c", STATEMENT, &block.body]));
    }
}

/// Rules for users of the server: it takes them.
#[test]
fn a_server_takes_the_rules_for_its_users() {
    for block in blocks("acl") {
        let server = Server::start();
        for line in block.body.lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            let answer: String = server.run(&words);
            assert_eq!(answer, "OK", "{}: {line}", block.place());
        }
    }
}

// --- CMake ----------------------------------------------------------------------------------------

/// What is installed, as cargo-c lays it out. That CMake's own installation is found tests/install.rs shows.
fn installed(dir: &Path) -> PathBuf {
    let prefix = dir.join("prefix");
    for folder in ["lib", "share/portalock"] {
        std::fs::create_dir_all(prefix.join(folder)).unwrap();
    }
    symlink(root().join("include"), prefix.join("include")).unwrap();
    std::fs::create_dir(prefix.join("share/portalock/cmake")).unwrap();
    for name in ["portalockConfig.cmake", "portalockConfigVersion.cmake"] {
        let target = prefix.join("share/portalock/cmake").join(name);
        std::fs::copy(root().join("cmake/cargo-c").join(name), target).unwrap();
    }
    for (end, name) in
        [("so", "libportalock.so"), ("so", "libportalock.so.0"), ("a", "libportalock.a")]
    {
        symlink(library().with_extension(end), prefix.join("lib").join(name)).unwrap();
    }
    prefix
}

/// The fragment stands in a project that has the program `my_program`, and the sources as a folder.
fn cmake_configures(block: &Block) -> TempDir {
    let dir = TempDir::new().unwrap();
    let prefix = installed(dir.path());
    let project = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject(snippet C)\n\
         add_executable(my_program main.c)\n{}",
        block.body
    );
    std::fs::write(dir.path().join("CMakeLists.txt"), project).unwrap();
    std::fs::copy(root().join("examples/c/hello.c"), dir.path().join("main.c")).unwrap();
    symlink(root(), dir.path().join("portalock")).unwrap();
    let mut command = Command::new("cmake");
    command.arg("-S").arg(dir.path()).arg("-B").arg(dir.path().join("build"));
    command.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    command.arg(format!("-DFETCHCONTENT_SOURCE_DIR_PORTALOCK={}", root().display()));
    run(&block.place(), &mut command);
    dir
}

/// Where the library would be built anew, tests/install.rs does that.
#[test]
fn cmake_configures_and_builds_with_what_is_installed() {
    for block in blocks("cmake") {
        let dir = cmake_configures(&block);
        if block.body.contains("find_package") {
            let mut command = Command::new("cmake");
            run(&block.place(), command.arg("--build").arg(dir.path().join("build")));
        }
    }
}
