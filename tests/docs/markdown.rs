//! The pages, read as Markdown: blocks of code, links, headings, and what is set in code type.

use std::ops::Range;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::support::program::root;

/// A file that people read.
pub struct Page {
    /// Its path from the root of the sources.
    pub name: String,
    pub text: String,
}

/// A block of code.
pub struct Block {
    pub page: String,
    /// The line of the page at which its first line stands.
    pub line: usize,
    /// The first word after the fence; empty for a block without one, and for an indented one.
    pub language: String,
    /// The further words, of which the tests know `no-run`.
    pub words: Vec<String>,
    pub body: String,
}

/// All pages for those who use or change the library.
pub fn pages() -> Vec<Page> {
    let mut paths: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md"].map(PathBuf::from).into();
    paths.extend(files("docs").filter(|path| path.extension().is_some_and(|end| end == "md")));
    paths.extend(files("bindings").map(|path| path.join("README.md")));
    paths.sort();
    paths.iter().map(|path| Page::read(path)).collect()
}

fn files(folder: &str) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().path().strip_prefix(root()).unwrap().to_owned())
}

/// The blocks of all pages in a language.
pub fn blocks(language: &str) -> Vec<Block> {
    let all = pages().into_iter().flat_map(|page| page.blocks());
    all.filter(|block| block.language == language).collect()
}

impl Page {
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(root().join(path));
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { name: path.to_str().unwrap().to_owned(), text }
    }

    fn events(&self) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
        Parser::new_ext(&self.text, Options::ENABLE_TABLES).into_offset_iter()
    }

    fn line(&self, offset: usize) -> usize {
        self.text[..offset].matches('\n').count() + 1
    }

    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<Block> = None;
        for (event, range) in self.events() {
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    open = Some(self.begin(&kind, self.line(range.start)));
                }
                Event::Text(text) => {
                    if let Some(block) = &mut open {
                        block.body.push_str(&text);
                    }
                }
                Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
                _ => {}
            }
        }
        blocks
    }

    fn begin(&self, kind: &CodeBlockKind, line: usize) -> Block {
        let (info, line) = match kind {
            CodeBlockKind::Fenced(info) => (info.as_ref(), line + 1),
            CodeBlockKind::Indented => ("", line),
        };
        let mut words = info.split([' ', ',']).filter(|word| !word.is_empty()).map(str::to_owned);
        Block {
            page: self.name.clone(),
            line,
            language: words.next().unwrap_or_default(),
            words: words.collect(),
            body: String::new(),
        }
    }

    /// Where its links lead, each with its line.
    pub fn links(&self) -> Vec<(String, usize)> {
        let target = |event| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some(dest_url.to_string())
            }
            _ => None,
        };
        let links = self.events().filter_map(|(event, range)| Some((target(event)?, range.start)));
        links.map(|(link, offset)| (link, self.line(offset))).collect()
    }

    /// What stands in code type within its sentences, each with its line.
    pub fn code(&self) -> Vec<(String, usize)> {
        let code = self.events().filter_map(|(event, range)| match event {
            Event::Code(text) => Some((text.to_string(), self.line(range.start))),
            _ => None,
        });
        code.collect()
    }

    /// What a link may name after `#`, as GitHub makes it from the headings.
    pub fn anchors(&self) -> Vec<String> {
        let mut anchors = Vec::new();
        let mut heading: Option<String> = None;
        for (event, _) in self.events() {
            match (event, &mut heading) {
                (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
                (Event::Text(text) | Event::Code(text), Some(words)) => words.push_str(&text),
                (Event::End(TagEnd::Heading(_)), _) => {
                    anchors.extend(heading.take().map(|heading| anchor(&heading, &anchors)));
                }
                _ => {}
            }
        }
        anchors
    }
}

/// Of headings that are alike, or would be without their signs, all but the first get a number.
fn anchor(heading: &str, before: &[String]) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    let plain = kept.collect::<String>().to_lowercase().replace(' ', "-");
    let numbered = |number| format!("{plain}-{number}");
    let mut names = std::iter::once(plain.clone()).chain((1..).map(numbered));
    names.find(|name| !before.contains(name)).unwrap()
}

impl Block {
    pub fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }

    /// Whether it is shown for reading only, as it needs what no test has.
    pub fn is_not_run(&self) -> bool {
        self.words.iter().any(|word| word == "no-run")
    }
}
