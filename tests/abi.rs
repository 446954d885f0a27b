//! The binary interface that programs were compiled against: names, parameters, the layout of structures and
//! the numbers of constants, compared with what is checked in.
//!
//! Debug information of Rust differs from one compiler to the next, so the comparison is made with what a C
//! compiler makes of the header. That this is the header of the sources, tests/header.rs makes sure; that the
//! shared object exports these functions and no others, tests/c_api.rs.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use support::program::root;

const COMPILERS: [&str; 2] = ["gcc", "clang"];
/// Nothing that depends on where and when it was made.
const STABLE: [&str; 5] =
    ["--no-show-locs", "--no-comp-dir-path", "--no-corpus-path", "--type-id-style", "hash"];

fn header() -> String {
    std::fs::read_to_string(root().join("include/portalock.h")).unwrap()
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let mut left = parts.next().unwrap().to_owned();
    left.extend(parts.map(|part| part.split_once("*/").unwrap().1));
    left
}

/// The declarations of functions. They are all that is in the block for C++.
fn functions(header: &str) -> Vec<String> {
    let (_, rest) = header.split_once("extern \"C\" {\n#endif").unwrap();
    let (block, _) = rest.split_once("#ifdef __cplusplus").unwrap();
    let text = without_comments(block);
    let statements = text.split(';').map(|one| one.trim().trim_start_matches("// __cplusplus"));
    statements.filter(|one| one.contains('(')).map(|one| one.trim().to_owned()).collect()
}

fn name_of(function: &str) -> &str {
    let before = function.split('(').next().unwrap();
    before.rsplit([' ', '*', '\n']).next().unwrap()
}

/// `PL_TIMEOUT` of `#define PL_TIMEOUT 1`.
fn constants(header: &str) -> Vec<&str> {
    let defined = header.lines().filter_map(|line| line.strip_prefix("#define "));
    let pairs = defined.filter_map(|line| line.split_once(' '));
    pairs.filter(|(name, _)| name.starts_with("PL_")).map(|(name, _)| name).collect()
}

/// A library in C with every function of a header, and its constants in the one form that debug information
/// keeps.
fn stand_in(header: &str) -> String {
    let bodies =
        functions(header).into_iter().map(|one| format!("{one} {{ __builtin_trap(); }}\n"));
    let numbers =
        constants(header).into_iter().map(|one| format!("    NUMBER_OF_{one} = {one},\n"));
    format!(
        "#include \"portalock.h\"\n{}enum numbers {{\n{}}} pl_numbers;\n",
        bodies.collect::<String>(),
        numbers.collect::<String>()
    )
}

fn succeed(command: &mut Command) -> Output {
    let outcome = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(outcome.status.success(), "{command:?}: {outcome:?}");
    outcome
}

fn compile(dir: &Path, compiler: &str, header: &str) -> PathBuf {
    let (source, library) = (dir.join("portalock.c"), dir.join("libportalock.so"));
    std::fs::write(dir.join("portalock.h"), header).unwrap();
    std::fs::write(&source, stand_in(header)).unwrap();
    let mut command = Command::new(compiler);
    // In there, so that the file tells nothing of where that is.
    command.current_dir(dir).arg("portalock.c");
    command.args(["-std=c11", "-Wall", "-Werror", "-g", "-O0", "-shared", "-fPIC"]);
    succeed(command.arg("-Wl,-soname,libportalock.so.0").arg("-o").arg(&library));
    library
}

fn baseline() -> PathBuf {
    root().join("include/portalock.abi")
}

/// What abidiff says of a header; nothing if it is the interface that is checked in.
fn changes(compiler: &str, header: &str) -> String {
    let dir = TempDir::new().unwrap();
    let library = compile(dir.path(), compiler, header);
    let outcome = Command::new("abidiff").arg(baseline()).arg(library).output().unwrap();
    // 1 and 2 are errors of its own, 4 and 8 changes.
    let code = outcome.status.code().unwrap();
    assert!(code & 3 == 0, "{outcome:?}");
    match code {
        0 => String::new(),
        _ => String::from_utf8_lossy(&outcome.stdout).into_owned(),
    }
}

/// The file is of one architecture: elsewhere `int64_t` is another type of C.
fn can_compare() -> bool {
    let able = cfg!(all(target_arch = "x86_64", target_pointer_width = "64"))
        && Command::new("abidiff").arg("--version").output().is_ok();
    if !able {
        eprintln!("not compared: there is no abidiff here, or this is not x86-64");
    }
    able
}

#[test]
fn the_list_of_symbols_is_that_of_the_functions_in_the_header() {
    let header = header();
    let declared = functions(&header);
    let mut names: Vec<_> = declared.iter().map(|one| format!("{}\n", name_of(one))).collect();
    names.sort();
    let list = std::fs::read_to_string(root().join("include/portalock.symbols")).unwrap();
    assert_eq!(names.concat(), list);
}

#[test]
fn the_interface_is_the_checked_in_one() {
    if !can_compare() {
        return;
    }
    if std::env::var_os("PORTALOCK_UPDATE_HEADER").is_some() {
        let dir = TempDir::new().unwrap();
        let library = compile(dir.path(), COMPILERS[0], &header());
        succeed(Command::new("abidw").args(STABLE).arg("--out-file").arg(baseline()).arg(library));
    }
    for compiler in COMPILERS {
        let changes = changes(compiler, &header());
        assert_eq!(
            changes, "",
            "include/portalock.abi differs: run ./dev headers, if it is meant to"
        );
    }
}

/// That nothing is found in the header would mean little if nothing were found in others.
#[test]
fn whatever_breaks_programs_is_noticed() {
    if !can_compare() {
        return;
    }
    let header = header();
    for (old, new) in [
        (
            "pl_lock_release_wait(struct pl_lock *lock, int64_t",
            "pl_lock_release_wait(struct pl_lock *lock, int32_t",
        ),
        ("bool pl_lock_is_held(", "int pl_lock_is_held("),
        ("void pl_lock_cancel(struct pl_lock *lock);", ""),
        ("typedef int32_t pl_status;", "typedef int64_t pl_status;"),
        ("  int64_t pid;", "  int32_t pid;"),
        ("  int64_t pid;", "  int64_t pid;\n  int64_t new;"),
        ("#define PL_TIMEOUT 1\n", "#define PL_TIMEOUT 99\n"),
    ] {
        assert!(header.contains(old), "{old}");
        for compiler in COMPILERS {
            let changes = changes(compiler, &header.replacen(old, new, 1));
            assert_ne!(changes, "", "{compiler} notices nothing of {new}");
        }
    }
}
