//! The header is what the sources say, and compiles wherever C and C++ programs will want it.

use std::path::PathBuf;
use std::process::Command;

const WARNINGS: &[&str] = &["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn generated() -> String {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).unwrap();
    let builder = cbindgen::Builder::new().with_crate(root()).with_config(with_version(config));
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

/// The version macros come from Cargo.toml and nowhere else.
fn with_version(mut config: cbindgen::Config) -> cbindgen::Config {
    let part = |name, value, words| {
        format!("\n/**\n * {words}\n */\n#define PORTALOCK_VERSION_{name} {value}\n")
    };
    let text = format!("\"{}\"", env!("CARGO_PKG_VERSION"));
    config.after_includes = Some(
        [
            part(
                "MAJOR",
                env!("CARGO_PKG_VERSION_MAJOR"),
                "The version of this header: goes up when programs have to be built anew, but while it is 0.",
            ),
            part("MINOR", env!("CARGO_PKG_VERSION_MINOR"), "Goes up when something is added."),
            part("PATCH", env!("CARGO_PKG_VERSION_PATCH"), "Goes up when something is mended."),
            part("STRING", &text, "All three, as `pl_version` has them of the library that runs."),
        ]
        .concat(),
    );
    config
}

#[test]
fn the_checked_in_header_is_the_generated_one() {
    let path = root().join("include/portalock.h");
    let new = generated();
    if std::env::var_os("PORTALOCK_UPDATE_HEADER").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &new).unwrap();
    }
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(old == new, "include/portalock.h is out of date: run ./dev headers");
}

#[test]
fn every_function_is_documented() {
    let text = generated();
    let lines: Vec<_> = text.lines().collect();
    let mut functions = 0;
    for (at, line) in lines.iter().enumerate() {
        let starts = line.contains(" pl_") || line.contains("*pl_");
        if !starts || !line.contains('(') || line.starts_with([' ', '#', '*']) {
            continue;
        }
        functions += 1;
        assert_eq!(lines[at - 1].trim(), "*/", "undocumented: {line}");
    }
    assert!(functions > 30, "{functions} functions found");
}

fn compiles(compiler: &str, language: &str, standard: &str) {
    let source =
        "#include \"portalock.h\"\n#include \"portalock.h\"\nint main(void) { return PL_OK; }\n";
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("alone");
    std::fs::write(&file, source).unwrap();
    let outcome = Command::new(compiler)
        .args(["-x", language, &format!("-std={standard}"), "-I"])
        .arg(root().join("include"))
        .args(WARNINGS)
        .arg(&file)
        .output()
        .unwrap_or_else(|error| panic!("{compiler} cannot be run: {error}"));
    let words = String::from_utf8_lossy(&outcome.stderr);
    assert!(outcome.status.success(), "{compiler} {standard}: {words}");
}

fn compiles_everywhere(c: &str, cpp: &str) {
    for standard in ["c99", "c11", "c17"] {
        compiles(c, "c", standard);
    }
    for standard in ["c++11", "c++17", "c++20"] {
        compiles(cpp, "c++", standard);
    }
}

#[test]
fn compiles_alone_and_twice_with_gcc() {
    compiles_everywhere("gcc", "g++");
}

#[test]
fn compiles_alone_and_twice_with_clang() {
    compiles_everywhere("clang", "clang++");
}
