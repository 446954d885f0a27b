//! C, C++, Go and Rust: programs are built with the library and run, fragments are compiled.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::markdown::{Block, Page, blocks};
use crate::run::{at, run, run_program};
use crate::support::Server;
use crate::support::go::{command as go, home};
use crate::support::program::{Program, library, root};

/// Pages that show no program in one of the languages would make its test an empty one.
fn programs<'a>(blocks: &'a [Block], main: &'a str) -> impl Iterator<Item = &'a Block> {
    assert!(blocks.iter().any(|block| block.body.contains(main)), "no page shows a program");
    blocks.iter().filter(move |block| block.body.contains(main) && !block.is_not_run())
}

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

// --- C and C++ ------------------------------------------------------------------------------------

/// A language that the system's compiler takes.
struct Compiled {
    language: &'static str,
    compiler: &'static str,
    standard: &'static str,
    /// The beginning of a function of which a fragment is the body.
    begin: &'static str,
}

const C: Compiled = Compiled {
    language: "c",
    compiler: "cc",
    standard: "-std=c11",
    begin: "#include <poll.h>\n\
            #include <portalock.h>\n\
            #include <stdatomic.h>\n\
            #include <stdio.h>\n\
            #include <stdlib.h>\n\
            #include <string.h>\n\
            int snippet(pl_client *client, pl_lock *lock, pl_error *error, int fd, pl_event *event);\n\
            int snippet(pl_client *client, pl_lock *lock, pl_error *error, int fd, pl_event *event)\n",
};

const CPP: Compiled = Compiled {
    language: "cpp",
    compiler: "c++",
    standard: "-std=c++17",
    begin: "#include <atomic>\n\
            #include <chrono>\n\
            #include <iostream>\n\
            #include <mutex>\n\
            #include <portalock.hpp>\n\
            #include <shared_mutex>\n\
            using namespace std::chrono_literals;\n\
            int snippet(portalock::client &client, portalock::lock &lock);\n\
            int snippet(portalock::client &client, portalock::lock &lock)\n",
};

impl Compiled {
    /// A block that includes what it needs stands for itself, and so does one with functions, which are
    /// known by a brace at the beginning of a line. Any other is the body of a function.
    fn source(&self, block: &Block) -> String {
        let here = format!("#line {} \"{}\"\n", block.line, block.page);
        let body = &block.body;
        if body.contains("#include") {
            here + body
        } else if body.starts_with('{') || body.contains("\n{") {
            let includes = self.begin.lines().filter(|line| !line.starts_with("int "));
            includes.map(|line| format!("{line}\n")).collect::<String>() + &here + body
        } else {
            format!("{}{{\n{{\n{here}{body}}}\nreturn 0;\n}}\n", self.begin)
        }
    }

    fn compiles(&self, block: &Block) {
        let dir = TempDir::new().unwrap();
        let source = write(dir.path(), &format!("snippet.{}", self.language), &self.source(block));
        let mut command = Command::new(self.compiler);
        command.args([self.standard, "-D_GNU_SOURCE", "-fsyntax-only", "-pthread"]);
        command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-unused"]);
        command.args(["-Wno-unused-parameter", "-I"]).arg(root().join("include"));
        run(&block.place(), command.arg(source));
    }

    fn runs(&self, block: &Block) {
        let server = Server::start();
        let name = format!("snippet.{}", self.language);
        let source = write(server.dir(), &name, &at(&server, block));
        let program = Program::compile(source.to_str().unwrap(), &["-lportalock"]);
        run_program(block, program.command().current_dir(server.dir()));
    }

    fn all_stand(&self) {
        let blocks = blocks(self.language);
        programs(&blocks, "int main").for_each(|block| self.runs(block));
        let fragments = blocks.iter().filter(|block| !block.body.contains("int main"));
        fragments.for_each(|block| self.compiles(block));
    }
}

#[test]
fn c_compiles_and_runs() {
    C.all_stand();
}

/// There is one smallest program.
#[test]
fn the_first_program_of_the_readme_is_the_smallest_example() {
    let blocks = Page::read(Path::new("README.md")).blocks();
    let first = blocks.iter().find(|block| block.language == "c").unwrap();
    let example = std::fs::read_to_string(root().join("examples/c/hello.c")).unwrap();
    assert_eq!(first.body, example);
}

/// The commands as they stand on the page, with the library that is there.
#[test]
fn the_commands_to_link_by_hand_do_so() {
    let dir = TempDir::new().unwrap();
    for (end, name) in [("so", "libportalock.so"), ("a", "libportalock.a")] {
        symlink(library().with_extension(end), dir.path().join(name)).unwrap();
    }
    let here = dir.path().to_str().unwrap();
    let blocks = Page::read(Path::new("docs/building.md")).blocks();
    let lines = blocks.iter().flat_map(|block| block.body.lines());
    let by_hand = |line: &&str| line.contains("target/release") && !line.starts_with("cargo ");
    let lines: Vec<_> = lines.filter(by_hand).collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    for line in lines {
        let line = line.replace("$PWD/target", "target").replace("target/release", here);
        let line = line.replace("-o hello", &format!("-o {here}/hello"));
        run("docs/building.md", Command::new("sh").args(["-ec", &line]).current_dir(root()));
    }
}

#[test]
fn cpp_compiles_and_runs() {
    CPP.all_stand();
}

// --- Go -------------------------------------------------------------------------------------------

/// The packages of the standard library that a fragment may name.
const GO_PACKAGES: [&str; 9] =
    ["context", "errors", "fmt", "log", "os", "os/signal", "sync", "syscall", "time"];

/// A fragment becomes the body of a function. Go takes no import that is not used.
fn go_source(block: &Block) -> String {
    let body = &block.body;
    let names = |package: &&&str| {
        let name = package.rsplit('/').next().unwrap();
        name == "context" || body.contains(&format!("{name}."))
    };
    let imports = GO_PACKAGES.iter().filter(names).map(|name| format!("import {name:?}\n"));
    format!(
        "package main\n\
         {}import portalock \"github.com/portalock/portalock-go\"\n\
         func report(ctx context.Context, token ...uint64) error {{ return ctx.Err() }}\n\
         func snippet(ctx context.Context, client *portalock.Client, lock *portalock.Mutex) error {{\n\
         {{\n//line {}:{}\n{body}}}\nreturn nil\n}}\n\
         func main() {{ _, _ = snippet, report }}\n",
        imports.collect::<String>(),
        block.page,
        block.line,
    )
}

/// Made with the commands of the page, but for where the checkout is.
fn make_module(dir: &Path) {
    write(dir, "go.mod", "module snippets\n\ngo 1.19\n");
    let blocks = Page::read(Path::new("README.md")).blocks();
    let lines = blocks.iter().flat_map(|block| block.body.lines());
    let lines: Vec<_> = lines.filter_map(|line| line.strip_prefix("go mod edit ")).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in lines {
        let argument = line.replace("../portalock", root().to_str().unwrap());
        run("README.md", go(dir.to_str().unwrap()).args(["mod", "edit", &argument]));
    }
}

#[test]
fn go_compiles_and_runs() {
    let server = Server::start();
    let dir = TempDir::new().unwrap();
    make_module(dir.path());
    let blocks = blocks("go");
    for (number, block) in blocks.iter().enumerate() {
        let is_program = block.body.contains("package main");
        let text = if is_program { at(&server, block) } else { go_source(block) };
        let package = dir.path().join(format!("snippet{number}"));
        std::fs::create_dir(&package).unwrap();
        write(&package, "main.go", &text);
        let folder = dir.path().to_str().unwrap();
        let package = format!("./snippet{number}");
        run(&block.place(), go(folder).args(["build", "-o", "program", &package]));
        if is_program && !block.is_not_run() {
            let mut program = Command::new(dir.path().join("program"));
            run_program(block, program.env("LD_LIBRARY_PATH", home().join("lib")));
        }
    }
    assert!(programs(&blocks, "package main").count() > 0);
}

// --- Rust -----------------------------------------------------------------------------------------

/// A fragment becomes the body of a function that may fail.
fn rust_source(block: &Block) -> String {
    format!(
        "#![allow(unused)]\nuse portalock::*;\nuse std::time::Duration;\n\
         fn snippet(client: &Client, lock: &Lock) -> std::result::Result<(), Box<dyn std::error::Error>> {{\n\
         {{\n{}}}\nOk(())\n}}\nfn main() {{}}\n",
        block.body
    )
}

fn build_rust(place: &str, dir: &Path, text: &str) -> PathBuf {
    let source = write(dir, "snippet.rs", text);
    let program = dir.join("program");
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    command.args(["--edition", "2024", "--extern"]);
    command.arg(format!("portalock={}", library().with_extension("rlib").display()));
    command.arg("-L").arg(format!("dependency={}", library().parent().unwrap().display()));
    run(place, command.arg(source).arg("-o").arg(&program));
    program
}

#[test]
fn rust_compiles_and_runs() {
    let blocks = blocks("rust");
    for block in &blocks {
        let server = Server::start();
        let is_program = block.body.contains("fn main");
        let text = if is_program { at(&server, block) } else { rust_source(block) };
        let program = build_rust(&block.place(), server.dir(), &text);
        if is_program && !block.is_not_run() {
            run_program(block, &mut Command::new(program));
        }
    }
    assert!(programs(&blocks, "fn main").count() > 0);
}
