//! The Markdown files of the repository, and the blocks of code in them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The folders with pages, besides the root.
const FOLDERS: [&str; 2] = ["docs", "deploy"];

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A page of the documentation.
#[derive(Debug)]
pub struct Page {
    /// Relative to the root of the repository.
    pub path: String,
    pub text: String,
}

/// A block of code, or code in a sentence.
#[derive(Debug)]
pub struct Code {
    /// The words after the fence, such as `sh`. Empty for code in a sentence.
    pub language: String,
    pub text: String,
}

impl Page {
    pub fn read(path: &str) -> Self {
        let text = fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        Self { path: path.to_owned(), text }
    }

    /// The section with this heading, and the page without it.
    pub fn section(&self, heading: &str) -> (Self, Self) {
        let start = self.text.find(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("{}: {heading}", self.path));
        let next = self.text[start + 1..].find("\n## ");
        let end = next.map_or(self.text.len(), |length| start + 1 + length);
        let part = |text: String| Self { path: self.path.clone(), text };
        (part(self.text[start..end].to_owned()), part(self.text[..start].to_owned() + &self.text[end..]))
    }

    pub fn events(&self) -> impl Iterator<Item = Event<'_>> {
        Parser::new_ext(&self.text, Options::ENABLE_TABLES)
    }

    /// The blocks of code with a fence, in their order.
    pub fn blocks(&self) -> Vec<Code> {
        let mut blocks: Vec<Code> = Vec::new();
        let mut inside = false;
        for event in self.events() {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                    blocks.push(Code { language: language.into_string(), text: String::new() });
                    inside = true;
                }
                Event::End(TagEnd::CodeBlock) => inside = false,
                Event::Text(text) if inside => blocks.last_mut().unwrap().text.push_str(&text),
                _ => {}
            }
        }
        blocks
    }

    /// The code in sentences and tables.
    pub fn inline_code(&self) -> Vec<String> {
        let code = |event| if let Event::Code(code) = event { Some(code.into_string()) } else { None };
        self.events().filter_map(code).collect()
    }
}

/// All pages, in the order of their paths.
pub fn pages() -> Vec<Page> {
    let mut paths: Vec<PathBuf> = entries(root()).into_iter().filter(|path| path.is_file()).collect();
    paths.extend(FOLDERS.iter().flat_map(|folder| super::files(&root().join(folder))));
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut paths: Vec<&str> = paths.iter().map(|path| path.strip_prefix(root()).unwrap().to_str().unwrap()).collect();
    paths.sort_unstable();
    paths.into_iter().map(Page::read).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Compares a page with what it should contain. `UPDATE_SNAPSHOTS=1` writes it.
#[track_caller]
pub fn assert_is(path: &str, expected: &str) {
    let file = root().join(path);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&file, expected).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    let line = found.lines().zip(expected.lines()).position(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "{path} differs from the code in line {}; UPDATE_SNAPSHOTS=1 cargo test --test it docs:: writes it",
        line.unwrap_or_else(|| found.lines().count().min(expected.lines().count())) + 1
    );
}
