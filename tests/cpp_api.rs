//! The library as C++ programs see it: compiled with both compilers, as C++17 and C++20, with and without
//! exceptions, and run against a real server.

mod support;

use std::os::unix::process::ExitStatusExt;
use std::process::{Output, Stdio};

use support::Server;
use support::program::{Program, Recipe, attend};

const GCC: &str = "g++";
const CLANG: &str = "clang++";
const STRICT: &[&str] = &["-O0", "-Wshadow", "-Wconversion", "-Wnon-virtual-dtor"];
const BARE: &[&str] = &["-O0", "-fno-exceptions", "-fno-rtti"];

fn build(compiler: &str, standard: &str, flags: &[&str], sources: &[&str]) -> Program {
    let recipe = Recipe { compiler, standard, flags, libraries: &["-lportalock"] };
    Program::compile_by(&recipe, sources)
}

fn runs(compiler: &str, standard: &str, flags: &[&str], source: &str) {
    let program = build(compiler, standard, flags, &[source]);
    let server = Server::start();
    program.run(&server, &[&server.url()]);
}

#[test]
fn the_header_compiles_alone_and_in_two_units_of_a_program() {
    for compiler in [GCC, CLANG] {
        for standard in ["c++17", "c++20"] {
            for flags in [STRICT, BARE] {
                let sources = ["tests/cpp/alone.cpp", "tests/cpp/other.cpp"];
                let program = build(compiler, standard, flags, &sources);
                assert!(program.command().status().unwrap().success(), "{compiler} {standard}");
            }
        }
    }
}

#[test]
fn a_lock_goes_through_its_life_with_gcc() {
    runs(GCC, "c++17", &[], "tests/cpp/lifecycle.cpp");
}

#[test]
fn a_lock_goes_through_its_life_with_clang() {
    runs(CLANG, "c++20", &[], "tests/cpp/lifecycle.cpp");
}

#[test]
fn threads_share_a_lock_with_gcc() {
    runs(GCC, "c++20", &[], "tests/cpp/threads.cpp");
}

#[test]
fn threads_share_a_lock_with_clang() {
    runs(CLANG, "c++20", &[], "tests/cpp/threads.cpp");
}

#[test]
fn callables_are_called_and_destroyed_with_gcc() {
    runs(GCC, "c++20", &[], "tests/cpp/callbacks.cpp");
}

#[test]
fn callables_are_called_and_destroyed_with_clang() {
    runs(CLANG, "c++17", &[], "tests/cpp/callbacks.cpp");
}

#[test]
fn odd_orders_harm_nothing_with_gcc() {
    runs(GCC, "c++20", &[], "tests/cpp/trouble.cpp");
}

#[test]
fn odd_orders_harm_nothing_with_clang() {
    runs(CLANG, "c++17", &[], "tests/cpp/trouble.cpp");
}

#[test]
fn nothing_needs_exceptions_with_gcc() {
    runs(GCC, "c++17", BARE, "tests/cpp/nothrow.cpp");
}

#[test]
fn nothing_needs_exceptions_with_clang() {
    runs(CLANG, "c++20", BARE, "tests/cpp/nothrow.cpp");
}

#[test]
fn a_child_is_refused_what_it_inherits() {
    runs(GCC, "c++20", &[], "tests/cpp/fork.cpp");
}

fn end_of(flags: &[&str], what: &str) -> Output {
    let program = build(GCC, "c++17", flags, &["tests/cpp/fatal.cpp"]);
    let server = Server::start();
    let mut command = program.command();
    command.args([&server.url(), what]).stderr(Stdio::piped());
    if what != "callback" {
        return command.output().unwrap();
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    attend(command.spawn().unwrap(), &server)
}

#[test]
fn a_callback_that_throws_ends_the_program() {
    for what in ["callback", "acquired", "log"] {
        let outcome = end_of(&[], what);
        assert_eq!(outcome.status.signal(), Some(libc::SIGABRT), "{what}: {outcome:?}");
        // It is C++ that ends it, where it was thrown: nothing has gone through C.
        let said = String::from_utf8_lossy(&outcome.stderr);
        assert!(said.contains("terminate called after throwing"), "{what}: {said}");
    }
}

#[test]
fn an_error_that_cannot_be_thrown_ends_the_program_and_says_why() {
    let outcome = end_of(BARE, "error");
    assert_eq!(outcome.status.signal(), Some(libc::SIGABRT), "{outcome:?}");
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert!(said.contains("PL_ACTIVE"), "{said}");
}
