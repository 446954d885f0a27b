//! The documentation stays true: its links lead somewhere, and no snippet is there that nothing looks after.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::Server;
use support::program::{Program, library, root};

const SERVER: &str = "redis://127.0.0.1:6379";
/// Pages whose blocks in C stand in a function in which there are a client, a lock of it and an error.
const FRAGMENTS: [&str; 4] =
    ["docs/concepts.md", "docs/migrating.md", "docs/operations.md", "docs/timeouts.md"];

/// Every page that people read.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let docs = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(docs.filter(|path| path.extension().is_some_and(|end| end == "md")));
    pages.extend(["go", "ruby"].map(|name| root().join("bindings").join(name).join("README.md")));
    pages
}

/// The fenced blocks of a page, each with its language.
fn fences(page: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(page).unwrap();
    let mut fences = Vec::new();
    let mut parts = text.split("```");
    parts.next();
    while let Some(block) = parts.next() {
        let (language, body) = block.split_once('\n').unwrap();
        fences.push((language.to_owned(), body.to_owned()));
        parts.next().expect("a block that does not end");
    }
    fences
}

/// What looks after a block; none if nothing does.
fn guardian(page: &str, language: &str) -> Option<&'static str> {
    Some(match (page, language) {
        ("README.md", "c" | "ruby") | ("bindings/ruby/README.md", "ruby") => "tests/docs.rs",
        ("README.md", "cpp") => "tests/cpp_api.rs",
        ("README.md" | "docs/architecture.md", "") => "a drawing",
        ("docs/fencing.md", "c" | "sql") => "tests/redis/fence_doc.rs",
        ("docs/operations.md", "acl") => "tests/redis/acl.rs",
        ("docs/concepts.md", "text") => "tests/redis/concepts.rs",
        ("docs/operations.md", "console") => "tests/redis/settings.rs",
        ("docs/migrating.md", "python") => "tests/interop/users.rs",
        (page, "c") if FRAGMENTS.contains(&page) => "tests/docs.rs",
        // Fragments that go's own parser reads; they are not compiled.
        ("README.md" | "bindings/go/README.md", "go") => "tests/docs.rs",
        // Known gap: not run.
        ("README.md", "cmake") => "nobody yet",
        _ => return None,
    })
}

#[test]
fn no_block_is_without_somebody_to_look_after_it() {
    for page in pages() {
        let name = page.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        for (language, body) in fences(&page) {
            assert!(guardian(&name, &language).is_some(), "{name}: {language}\n{body}");
        }
    }
}

#[test]
fn local_links_lead_somewhere() {
    let mut seen = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let prose: String = text.split("```").step_by(2).collect();
        for link in prose.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            seen += 1;
            assert!(page.parent().unwrap().join(target).exists(), "{}: {target}", page.display());
        }
    }
    assert!(seen > 0);
}

#[test]
fn the_c_program_of_the_readme_runs() {
    let server = Server::start();
    let (_, body) = fences(&root().join("README.md")).into_iter().find(|(l, _)| l == "c").unwrap();
    assert!(body.contains(SERVER));
    let source = server.dir().join("readme.c");
    std::fs::write(&source, body.replace(SERVER, &server.url())).unwrap();
    let outcome =
        Program::compile(source.to_str().unwrap(), &["-lportalock"]).command().output().unwrap();
    assert_eq!(String::from_utf8_lossy(&outcome.stdout), "I am the only one here.\n");
}

#[test]
fn the_fragments_in_c_run() {
    let server = Server::start();
    for page in FRAGMENTS {
        let blocks = fences(&root().join(page)).into_iter().filter(|(l, _)| l == "c");
        for (number, (_, body)) in blocks.enumerate() {
            let source = server.dir().join(format!("fragment{number}.c"));
            std::fs::write(&source, frame(&body, &server.url())).unwrap();
            let program = Program::compile(source.to_str().unwrap(), &["-lportalock"]);
            let outcome = program.command().output().unwrap();
            assert!(outcome.status.success(), "{page}: {body}\n{outcome:?}");
        }
    }
}

/// A program around a fragment; it fails if the fragment ends with an error.
fn frame(fragment: &str, url: &str) -> String {
    format!(
        "#include <portalock.h>
#include <stdio.h>
int main(void)
{{
    pl_client *client = NULL;
    pl_lock *lock = NULL;
    pl_error *error = NULL;
    if (pl_client_new(\"{url}\", NULL, &client, &error) != PL_OK ||
        pl_lock_new(client, \"nightly-report\", NULL, &lock, &error) != PL_OK)
        return 2;
    {{
{fragment}
    }}
    if (error)
        fprintf(stderr, \"%s\\n\", pl_error_message(error));
    int failed = error != NULL;
    pl_error_free(error);
    pl_lock_free(lock);
    pl_client_free(client);
    return failed;
}}
"
    )
}

#[test]
fn what_is_shown_in_ruby_runs() {
    let server = Server::start();
    for page in ["README.md", "bindings/ruby/README.md"] {
        for (_, body) in fences(&root().join(page)).into_iter().filter(|(l, _)| l == "ruby") {
            assert!(body.contains(SERVER), "{page}");
            let program =
                format!("def build_report = nil\n{}", body.replace(SERVER, &server.url()));
            let mut ruby = Command::new("ruby");
            ruby.arg("-I").arg(root().join("bindings/ruby/lib")).args(["-e", &program]);
            let outcome = ruby.env("PORTALOCK_LIBRARY", library()).output().unwrap();
            assert!(
                outcome.status.success(),
                "{page}: {}",
                String::from_utf8_lossy(&outcome.stderr)
            );
        }
    }
}

#[test]
fn what_is_shown_in_go_parses() {
    let dir = tempfile::TempDir::new().unwrap();
    for page in ["README.md", "bindings/go/README.md"] {
        for (_, body) in fences(&root().join(page)).into_iter().filter(|(l, _)| l == "go") {
            let source = dir.path().join("fragment.go");
            std::fs::write(&source, format!("package p\n\nfunc f() error {{\n{body}\n}}\n"))
                .unwrap();
            let outcome = Command::new("gofmt").arg("-e").arg(&source).output().unwrap();
            assert!(
                outcome.status.success(),
                "{page}: {}",
                String::from_utf8_lossy(&outcome.stderr)
            );
        }
    }
}
