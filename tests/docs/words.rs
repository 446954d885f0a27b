//! What the pages name is there: commands, files, sections, functions and constants.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::markdown::{Block, Page, pages};
use crate::support::program::root;

/// Languages of blocks that are read as text: commands, sessions, drawings.
const TEXT: [&str; 4] = ["", "sh", "console", "text"];

/// Languages that tests of their own compile or run.
const CODE: [&str; 9] = ["c", "cpp", "go", "rust", "ruby", "python", "sql", "acl", "cmake"];

fn all_blocks() -> Vec<Block> {
    pages().iter().flat_map(Page::blocks).collect()
}

#[test]
fn every_block_is_of_a_language_that_a_test_knows() {
    let blocks = all_blocks();
    assert!(blocks.len() > 20, "{} blocks found", blocks.len());
    for block in blocks {
        let language = block.language.as_str();
        assert!(TEXT.contains(&language) || CODE.contains(&language), "{}", block.place());
        let known = block.words.iter().all(|word| word == "no-run");
        assert!(known, "{}: {:?}", block.place(), block.words);
    }
}

/// An indented block has no language, so nothing could compile it: commands and the like only.
#[test]
fn no_c_hides_in_blocks_without_a_language() {
    for block in all_blocks().iter().filter(|block| TEXT.contains(&block.language.as_str())) {
        let is_code = block.body.lines().any(|line| line.trim_end().ends_with(';'));
        assert!(!is_code, "{}: give it a fence with its language", block.place());
    }
}

/// What `./dev help` lists.
fn subcommands() -> BTreeSet<String> {
    let outcome = Command::new("./dev").arg("help").current_dir(root()).output().unwrap();
    assert!(outcome.status.success());
    let help = String::from_utf8(outcome.stdout).unwrap();
    let lines = help.lines().filter_map(|line| line.strip_prefix("  "));
    let names = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
    names.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

/// The words after each `./dev`: in blocks, and in code type within sentences.
fn dev_commands() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for page in pages() {
        for block in page.blocks().iter().filter(|block| TEXT.contains(&block.language.as_str())) {
            let lines = block.body.lines().map(|line| line.trim_start().trim_start_matches("$ "));
            found.extend(lines.map(|line| (block.place(), line.to_owned())));
        }
        let name = &page.name;
        found.extend(page.code().into_iter().map(|(code, line)| (format!("{name}:{line}"), code)));
    }
    let argument = |(place, line): (String, String)| {
        let rest = line.strip_prefix("./dev")?.split_whitespace().next();
        Some((place, rest?.to_owned()))
    };
    found.into_iter().filter_map(argument).collect()
}

#[test]
fn commands_of_dev_are_listed_by_its_help() {
    let known = subcommands();
    assert!(known.contains("test") && known.contains("demo"), "{known:?}");
    let named = dev_commands();
    assert!(named.len() > 8, "{named:?}");
    for (place, command) in named {
        assert!(known.contains(&command), "{place}: ./dev {command}");
    }
}

#[test]
fn local_links_lead_to_files_and_headings() {
    for page in pages() {
        for (link, line) in page.links().iter().filter(|(link, _)| !link.contains("://")) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let folder = Path::new(&page.name).parent().unwrap();
            let target = if path.is_empty() { page.name.clone().into() } else { folder.join(path) };
            let is_there = root().join(&target).exists();
            assert!(is_there, "{}:{line}: there is no {link}", page.name);
            let found =
                heading.is_empty() || Page::read(&target).anchors().contains(&heading.into());
            assert!(found, "{}:{line}: no heading makes {link}", page.name);
        }
    }
}

/// A path in code type, from the root of the sources. `tests/redis` and `tests/redis/loss.rs` are meant, a
/// pattern is not.
#[test]
fn files_and_folders_that_are_named_exist() {
    let folders = ["docs/", "tests/", "examples/", "include/", "bindings/", "dev.d/"];
    for page in pages() {
        for (code, line) in page.code() {
            let is_path = folders.iter().any(|folder| code.starts_with(folder));
            if is_path && !code.contains([' ', '<', '*', '{']) {
                assert!(root().join(&code).exists(), "{}:{line}: there is no {code}", page.name);
            }
        }
    }
}

/// The words of a text that begin so, each with its line and the character behind it.
fn words<'a>(text: &'a str, prefix: &'a str) -> impl Iterator<Item = (&'a str, usize, char)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let at = move |(offset, _): (usize, &str)| {
        let is_inside = text[..offset].ends_with(is_part);
        let rest = &text[offset..];
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let behind = rest[end..].chars().next().unwrap_or(' ');
        (!is_inside).then(|| (&rest[..end], text[..offset].matches('\n').count() + 1, behind))
    };
    text.match_indices(prefix).filter_map(at)
}

/// A name that goes on as `<option>`, `…` or `*` stands for all that begin like it.
fn is_known(word: &str, behind: char, known: &BTreeSet<&str>) -> bool {
    known.contains(word)
        || ("<*…".contains(behind) && known.iter().any(|name| name.starts_with(word)))
}

#[test]
fn functions_and_constants_that_are_named_exist() {
    let header = std::fs::read_to_string(root().join("include/portalock.h")).unwrap();
    let symbols = std::fs::read_to_string(root().join("include/portalock.symbols")).unwrap();
    for prefix in ["pl_", "PL_"] {
        let from_header = words(&header, prefix).map(|(word, _, _)| word);
        let known: BTreeSet<_> = from_header.chain(symbols.lines()).collect();
        let mut seen = 0;
        for page in pages() {
            for (word, line, behind) in words(&page.text, prefix) {
                let place = format!("{}:{line}", page.name);
                assert!(is_known(word, behind, &known), "{place}: there is no {word}");
                seen += 1;
            }
        }
        assert!(seen > 20, "{seen} names found");
    }
}
