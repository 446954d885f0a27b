//! What `cmake --install` leaves: programs find it by CMake and by pkg-config, from a folder that was moved
//! and whose path has spaces, and projects take the sources in.

mod support;

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::program::{Program, root};
use support::{Server, die_with_parent};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const LANGUAGES: [&str; 2] = ["c", "cpp"];

/// All builds of this file share one folder for cargo, and keep it from run to run.
fn work() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("portalock install");
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Runs a program to its end, which has to be a good one; what it says on standard output.
fn run(command: &mut Command) -> String {
    die_with_parent(command);
    // Cargo's own settings for this test are not those of somebody who builds.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name == "CARGO_TARGET_DIR" || name == "DESTDIR" {
            command.env_remove(&*name);
        }
    }
    let outcome = command.env("CARGO_NET_OFFLINE", "true").output().unwrap();
    let said = String::from_utf8_lossy(&outcome.stdout).into_owned();
    let errors = String::from_utf8_lossy(&outcome.stderr);
    assert!(outcome.status.success(), "{command:?}: {}: {said}{errors}", outcome.status);
    said
}

fn cmake(args: &[&dyn AsRef<OsStr>]) -> Command {
    let mut command = Command::new("cmake");
    command.args(args.iter().map(|arg| arg.as_ref()));
    command
}

fn setting(name: &str, value: &Path) -> String {
    format!("-D{name}={}", value.display())
}

/// Only one process may configure, build and install in the shared folders at a time.
fn alone() -> File {
    let file = File::create(work().join("taken")).unwrap();
    // SAFETY: a plain system call on a descriptor that is open.
    assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0);
    file
}

/// Configures and builds the library in a folder of that name.
fn build(name: &str, settings: &[&str]) -> PathBuf {
    let dir = work().join(name);
    let target = setting("PORTALOCK_CARGO_TARGET_DIR", &work().join("cargo"));
    let mut configure = cmake(&[&"-S", &root(), &"-B", &dir, &target]);
    run(configure.arg("-DCMAKE_BUILD_TYPE=Release").args(settings));
    run(&mut cmake(&[&"--build", &dir, &"--parallel", &"2"]));
    dir
}

/// Those of earlier processes. One that is in use is kept.
fn remove_old_prefixes() {
    for entry in std::fs::read_dir(work()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let owner = name.strip_prefix("a prefix ").and_then(|rest| rest.split(' ').next());
        let owner = owner.and_then(|pid| pid.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A prefix of this process, which was installed elsewhere and moved here.
fn installed(name: &str, settings: &[&str]) -> PathBuf {
    let _alone = alone();
    let prefix = work().join(format!("a prefix {} {name}", std::process::id()));
    if !prefix.exists() {
        remove_old_prefixes();
        let build = build(name, settings);
        let first = work().join("installed here");
        let _ = std::fs::remove_dir_all(&first);
        run(&mut cmake(&[&"--install", &build, &"--prefix", &first]));
        std::fs::rename(&first, &prefix).unwrap();
    }
    prefix
}

/// With the shared and the static library.
fn prefix() -> PathBuf {
    installed("both", &["-DPORTALOCK_BUILD_EXAMPLES=ON", "-DPORTALOCK_BUILD_TESTS=ON"])
}

fn static_prefix() -> PathBuf {
    installed("static", &["-DBUILD_SHARED_LIBS=OFF"])
}

/// Every file below a folder, as paths from there, links with where they lead.
fn files(dir: &Path) -> Vec<String> {
    fn visit(dir: &Path, top: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(top).unwrap().display().to_string();
            match std::fs::read_link(&path) {
                Ok(target) => found.push(format!("{name} -> {}", target.display())),
                Err(_) if path.is_dir() => visit(&path, top, found),
                Err(_) => found.push(name),
            }
        }
    }
    let mut found = Vec::new();
    visit(dir, dir, &mut found);
    found.sort();
    found
}

fn expected_files() -> Vec<String> {
    let mut names = vec![
        "bin/portalock".to_owned(),
        "include/portalock.h".to_owned(),
        "include/portalock.hpp".to_owned(),
        "lib/cmake/portalock/portalockConfig.cmake".to_owned(),
        "lib/cmake/portalock/portalockConfigVersion.cmake".to_owned(),
        "lib/libportalock.a".to_owned(),
        "lib/libportalock.so -> libportalock.so.0".to_owned(),
        format!("lib/libportalock.so.0 -> libportalock.so.{VERSION}"),
        format!("lib/libportalock.so.{VERSION}"),
        "lib/pkgconfig/portalock.pc".to_owned(),
        "share/bash-completion/completions/portalock".to_owned(),
        "share/doc/portalock/LICENSE".to_owned(),
        "share/fish/vendor_completions.d/portalock.fish".to_owned(),
        "share/zsh/site-functions/_portalock".to_owned(),
    ];
    let pages = ["", "-doctor", "-holders", "-reap", "-run", "-wait"];
    names.extend(pages.map(|page| format!("share/man/man1/portalock{page}.1")));
    names.sort();
    names
}

fn shared_object() -> PathBuf {
    prefix().join(format!("lib/libportalock.so.{VERSION}"))
}

fn holds(program: &Path, server: &Server) {
    let said = run(Command::new(program).arg(server.url()));
    assert_eq!(said, "holds\n", "{}", program.display());
}

fn needs_the_shared_object(program: &Path) -> bool {
    let dynamic = run(Command::new("readelf").arg("-d").arg(program));
    dynamic.contains("[libportalock.so.0]")
}

#[test]
fn the_files_are_where_they_belong() {
    assert_eq!(files(&prefix()), expected_files());
}

#[test]
fn destdir_is_honoured() {
    prefix();
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let stage = dir.path().join("the stage");
    let build = work().join("both");
    let mut command = cmake(&[&"--install", &build, &"--prefix", &"/opt/of its own"]);
    die_with_parent(&mut command);
    let outcome = command.env("DESTDIR", &stage).output().unwrap();
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(files(&stage.join("opt/of its own")), expected_files());
    assert!(!Path::new("/opt/of its own").exists());
}

#[test]
fn the_command_can_be_left_out() {
    let prefix = installed("bare", &["-DPORTALOCK_COMMAND=OFF"]);
    let names = files(&prefix);
    assert!(names.contains(&"lib/pkgconfig/portalock.pc".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("bin/")), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("/man") || name.contains("complet")));
}

#[test]
fn the_command_that_is_installed_runs() {
    let command = prefix().join("bin/portalock");
    let server = Server::start();
    let mut run = Command::new(&command);
    run.args(["run", "x", "-c", "echo \"$PORTALOCK_NAME\""]).env("PORTALOCK_URL", server.url());
    assert_eq!(self::run(&mut run), "x\n");
    let said = self::run(Command::new(&command).arg("--version"));
    assert_eq!(said.trim(), format!("portalock {VERSION}"));
    // It stands alone.
    assert!(!needs_the_shared_object(&command));
    let page = std::fs::read_to_string(prefix().join("share/man/man1/portalock-run.1")).unwrap();
    assert!(page.contains("EXIT STATUS"), "{page}");
}

#[test]
fn the_tests_and_examples_of_the_build_are_built_and_run() {
    prefix();
    let _alone = alone();
    let build = work().join("both");
    assert!(build.join("portalock_c_guarded_job").exists());
    run(Command::new("ctest")
        .args(["-R", "portalock_header", "--no-tests=error"])
        .arg("--test-dir")
        .arg(&build));
}

#[test]
fn the_shared_object_is_small_stripped_and_exports_the_list() {
    let path = shared_object();
    let size = std::fs::metadata(&path).unwrap().size();
    assert!(size < 4 << 20, "{size} bytes");
    let sections = run(Command::new("readelf").args(["-SW"]).arg(&path));
    assert!(!sections.contains(".symtab") && !sections.contains(".debug"), "{sections}");
    let table = run(Command::new("nm").args(["-D", "--defined-only"]).arg(&path));
    let names = table.lines().filter_map(|line| line.split(' ').nth(2));
    let mut exported: Vec<_> = names.map(|name| format!("{name}\n")).collect();
    exported.sort();
    let list = std::fs::read_to_string(root().join("include/portalock.symbols")).unwrap();
    assert_eq!(exported.concat(), list);
}

/// What a distribution ships may need the C library, what Rust unwinds with, and nothing else.
#[test]
fn the_shared_object_needs_nothing_unexpected() {
    let dynamic = run(Command::new("readelf").arg("-d").arg(shared_object()));
    let named = |kind: &str| -> Vec<&str> {
        let lines = dynamic.lines().filter(|line| line.contains(kind));
        lines.map(|line| line.split(['[', ']']).nth(1).unwrap()).collect()
    };
    assert_eq!(named("(SONAME)"), ["libportalock.so.0"]);
    let known = ["libc.so.", "libgcc_s.so.", "libm.so.", "libpthread.so.", "libdl.so.", "ld-linux"];
    for needed in named("(NEEDED)") {
        assert!(known.iter().any(|name| needed.starts_with(name)), "{needed}");
    }
    // Nothing is looked for where it happened to be built.
    assert!(!dynamic.contains("(RPATH)") && !dynamic.contains("(RUNPATH)"), "{dynamic}");
    assert!(!dynamic.contains("(TEXTREL)"), "{dynamic}");
}

#[test]
fn the_shared_object_is_loaded_in_ten_milliseconds() {
    let program = Program::compile("tests/c/load.c", &["-ldl"]);
    let path = shared_object();
    let once = |_| -> u64 { run(program.command().arg(&path)).trim().parse().unwrap() };
    let least = (0..10).map(once).min().unwrap();
    assert!(least < 10_000, "{least} us");
}

/// Builds the project of tests/install and runs all that comes of it.
fn consume(name: &str, settings: &[String], shared: bool) {
    let dir = work().join(format!("consumer by {name}"));
    let _ = std::fs::remove_dir_all(&dir);
    run(cmake(&[&"-S", &root().join("tests/install"), &"-B", &dir]).args(settings));
    run(&mut cmake(&[&"--build", &dir, &"--parallel", &"2"]));
    let server = Server::start();
    for language in LANGUAGES {
        let program = dir.join(format!("consumer_{language}"));
        holds(&program, &server);
        assert_eq!(needs_the_shared_object(&program), shared, "{name} {language}");
        let program = dir.join(format!("consumer_static_{language}"));
        holds(&program, &server);
        assert!(!needs_the_shared_object(&program), "{name} {language}");
    }
}

#[test]
fn find_package_finds_both_libraries() {
    let from = setting("CMAKE_PREFIX_PATH", &prefix());
    consume("find_package", &["-DHOW=find_package".into(), "-DWANTED=0.1".into(), from], true);
}

#[test]
fn find_package_finds_the_static_library_alone() {
    let from = setting("CMAKE_PREFIX_PATH", &static_prefix());
    consume("static find_package", &["-DHOW=find_package".into(), from], false);
}

#[test]
fn find_package_finds_what_cargo_c_installs() {
    // As it lays the files out, without its long build: headers and libraries are those of ours.
    let (from, prefix) = (prefix(), work().join("laid out as by cargo-c"));
    let _ = std::fs::remove_dir_all(&prefix);
    let package = prefix.join("share/portalock/cmake");
    std::fs::create_dir_all(&package).unwrap();
    run(Command::new("cp").arg("-a").args([from.join("lib"), from.join("include")]).arg(&prefix));
    std::fs::remove_dir_all(prefix.join("lib/cmake")).unwrap();
    for name in ["portalockConfig.cmake", "portalockConfigVersion.cmake"] {
        let source = root().join("cmake/cargo-c").join(name);
        std::fs::copy(source, package.join(name)).unwrap();
    }
    let from = setting("CMAKE_PREFIX_PATH", &prefix);
    refused_versions(&from);
    consume("cargo-c", &["-DHOW=find_package".into(), "-DWANTED=0.1".into(), from], true);
}

/// What cargo-c reads: it installs what is there, and under the names that CMake gives it.
#[test]
fn the_settings_for_cargo_c_name_what_there_is() {
    let mut cargo = Command::new(env!("CARGO"));
    let said =
        run(cargo.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(root()));
    let metadata: serde_json::Value = serde_json::from_str(&said).unwrap();
    let package = &metadata["packages"][0];
    let capi = &package["metadata"]["capi"];
    assert!(package["features"]["capi"].is_array(), "cargo-c switches it on");
    assert_eq!(package["targets"][0]["name"], "portalock");
    // The soname of build.rs and of CMakeLists.txt, at version 0 too.
    assert_eq!(capi["library"]["version_suffix_components"], 1);
    assert_eq!(capi["header"]["subdirectory"], false);
    assert_eq!(capi["header"]["generation"], false);
    assert_eq!(capi["pkg_config"]["filename"], "portalock");
    let mut assets = Vec::new();
    for kind in ["include", "data"] {
        let list = capi["install"][kind]["asset"].as_array().unwrap();
        assets.extend(list.iter().map(|asset| asset["from"].as_str().unwrap()));
    }
    assert!(assets.iter().all(|asset| root().join(asset).is_file()), "{assets:?}");
    let name = |path: &String| path.rsplit('/').next().unwrap().to_owned();
    let (ours, theirs) = (expected_files(), assets.concat());
    let sources = ours.iter().filter(|path| path.ends_with(".h") || path.ends_with(".hpp"));
    assert!(sources.map(name).all(|name| theirs.contains(&name)), "{assets:?}");
}

fn refused_versions(from: &str) {
    for wanted in ["0.0.9", "0.2", "1.0", "0.1.99"] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = cmake(&[&"-S", &root().join("tests/install"), &"-B", &dir.path(), &from]);
        command.args(["-DHOW=find_package", &format!("-DWANTED={wanted}")]);
        let outcome = command.output().unwrap();
        let said = String::from_utf8_lossy(&outcome.stderr).into_owned();
        assert!(!outcome.status.success(), "{wanted}");
        assert!(said.contains("compatible with requested version"), "{wanted}: {said}");
    }
}

#[test]
fn find_package_refuses_versions_that_do_not_fit() {
    refused_versions(&setting("CMAKE_PREFIX_PATH", &prefix()));
}

/// The settings of a project that takes the sources in.
fn embedded(how: &str) -> Vec<String> {
    vec![
        format!("-DHOW={how}"),
        "-DCMAKE_BUILD_TYPE=Release".into(),
        setting("PORTALOCK_SOURCE", &root()),
        setting("FETCHCONTENT_SOURCE_DIR_PORTALOCK", &root()),
        setting("PORTALOCK_CARGO_TARGET_DIR", &work().join("cargo")),
    ]
}

#[test]
fn a_project_may_add_the_sources_as_a_folder() {
    let _alone = alone();
    consume("add_subdirectory", &embedded("add_subdirectory"), true);
}

#[test]
fn a_project_may_fetch_the_sources() {
    let _alone = alone();
    consume("FetchContent", &embedded("FetchContent"), true);
}

/// Builds a consumer as a shell does, with what pkg-config says.
fn compile_with_pkg_config(prefix: &Path, language: &str, static_: &str, flags: &str) -> PathBuf {
    let (compiler, standard) = match language {
        "cpp" => ("c++", "c++17"),
        _ => ("cc", "c11"),
    };
    let program = work().join(format!("with pkg-config {static_}{language}"));
    let line = format!(
        "eval {compiler} -std={standard} '\"$SOURCE\"' -o '\"$PROGRAM\"' {flags} \
         \"$(pkg-config --cflags --libs {static_} portalock)\""
    );
    let source = root().join("tests/install").join(format!("consumer.{language}"));
    let mut shell = Command::new("sh");
    shell.args(["-ec", &line]).env("SOURCE", source).env("PROGRAM", &program);
    shell.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    run(shell.env("LIBRARIES", prefix.join("lib")));
    program
}

#[test]
fn pkg_config_finds_the_shared_library() {
    let prefix = prefix();
    let server = Server::start();
    for language in LANGUAGES {
        let flags = "'-Wl,-rpath,\"$LIBRARIES\"'";
        let program = compile_with_pkg_config(&prefix, language, "", flags);
        holds(&program, &server);
        assert!(needs_the_shared_object(&program));
    }
}

#[test]
fn pkg_config_finds_the_static_library() {
    let (both, alone) = (prefix(), static_prefix());
    let server = Server::start();
    for language in LANGUAGES {
        // Where there are both, it is -static that chooses.
        holds(&compile_with_pkg_config(&both, language, "--static", "-static"), &server);
        let program = compile_with_pkg_config(&alone, language, "--static", "");
        holds(&program, &server);
        assert!(!needs_the_shared_object(&program));
        holds(&compile_with_pkg_config(&alone, language, "", ""), &server);
    }
}

#[test]
fn pkg_config_tells_the_version() {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
    assert_eq!(run(command.args(["--modversion", "portalock"])).trim(), VERSION);
}
