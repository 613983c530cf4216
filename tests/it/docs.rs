//! Checks that the documentation names only existing code, every cause, and commands that are accepted, and runs its commands.

mod cluster;
mod commands;
mod examples;
mod limits;
mod links;
pub(crate) mod pages;
mod receivers;
mod reference;
mod shop;
mod walkthrough;

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use orchestr::api::Cause;
use regex::Regex;
use serde_json::Value;

/// A file under `src`, with the names of the items and enum variants that it defines.
struct Source {
    path: String,
    text: String,
    names: HashSet<String>,
}

fn sources() -> Vec<Source> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let definition =
        Regex::new(r"\b(?:fn|struct|enum|trait|type|const|static|mod) (\w+)|(?m:^\s+([A-Z]\w*)[,({])").unwrap();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let names = definition.captures_iter(&text).filter_map(|found| found.get(1).or(found.get(2)));
        let names = names.map(|name| name.as_str().to_owned()).collect();
        Source { path: path.strip_prefix(&src).unwrap().to_str().unwrap().to_owned(), text, names }
    };
    files(&src).into_iter().map(read).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Whether a file exists (`app.rs`), defines an item (`app.rs::run`), or any file does (`judge`, `Index::apply`). A citation
/// that is none of these must occur as it is in the source (`status.webhooks`).
fn exists(citation: &str, sources: &[Source]) -> bool {
    let (path, names) = match citation.split_once(".rs") {
        Some((path, names)) => (Some(format!("{path}.rs")), names.trim_start_matches("::")),
        None => (None, citation),
    };
    let mut candidates = sources.iter().filter(|source| path.as_ref().is_none_or(|path| source.path == *path));
    let is_name = |name: &str| name.chars().all(|character| character.is_alphanumeric() || character == '_');
    if names.split("::").all(is_name) {
        candidates.any(|source| names.is_empty() || names.split("::").all(|name| source.names.contains(name)))
    } else {
        candidates.any(|source| source.text.contains(names))
    }
}

#[test]
fn architecture_cites_only_names_that_exist() {
    let sources = sources();
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md");
    let document = fs::read_to_string(document).unwrap();
    let prose: String = document.split("```").step_by(2).collect();
    let citations: Vec<&str> = prose.split('`').skip(1).step_by(2).collect();
    assert!(citations.len() > 40, "{citations:?}");
    let wrong: Vec<&str> = citations.into_iter().filter(|citation| !exists(citation, &sources)).collect();
    assert!(wrong.is_empty(), "docs/architecture.md cites what is not in the source: {wrong:#?}");
}

#[test]
fn a_wrong_citation_is_noticed() {
    let sources = sources();
    for right in ["app.rs", "app.rs::run", "Index::apply", "judge"] {
        assert!(exists(right, &sources), "{right}");
    }
    for wrong in ["application.rs", "app.rs::judge", "Index::apply_all", "judge_all", "status.noSuchField"] {
        assert!(!exists(wrong, &sources), "{wrong}");
    }
}

/// docs/causes.md.
struct Causes {
    /// The example of a status.
    status: Value,
    /// The section about the codes.
    codes: String,
    /// The table of the exam.
    exam: String,
}

impl Causes {
    fn read() -> Self {
        let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/causes.md");
        let document = fs::read_to_string(document).unwrap();
        let between = |start, end| document.split_once(start).unwrap().1.split_once(end).unwrap().0.to_owned();
        Self {
            status: serde_yaml::from_str(&between("```yaml", "```")).unwrap(),
            codes: between("## The codes", "## Common causes"),
            exam: between("<!-- exam: begin -->", "<!-- exam: end -->"),
        }
    }
}

/// The cells of the rows with `columns` columns. In these tables, a bar within a cell is escaped.
fn rows(text: &str, columns: usize) -> Vec<Vec<&str>> {
    let cell = Regex::new(r"(?:\\.|[^|\\])+").unwrap();
    let row = |line| -> Vec<&str> { cell.find_iter(line).map(|cell| cell.as_str().trim()).collect() };
    let lines = text.lines().filter(|line| line.starts_with("| ")).map(row);
    lines.filter(|cells| cells.len() == columns).collect()
}

#[test]
fn causes_are_documented_each_in_one_row() {
    let Causes { codes, .. } = Causes::read();
    let codes = rows(&codes, 4).into_iter().filter_map(|row| row[0].strip_prefix('`')?.strip_suffix('`'));
    let mut documented: Vec<&str> = codes.collect();
    let mut known: Vec<&str> = Cause::ALL.iter().map(|cause| cause.as_str()).collect();
    documented.sort_unstable();
    known.sort_unstable();
    assert_eq!(documented, known);
}

#[test]
fn examples_of_causes_are_sentences_of_the_exam() {
    let Causes { status, codes, exam } = Causes::read();
    let exam: HashSet<_> = rows(&exam, 4).into_iter().map(|row| (row[2], row[3])).collect();
    assert!(exam.len() > 60, "{}", exam.len());
    for row in rows(&codes, 4).into_iter().filter(|row| row[0] != "code") {
        let (code, example) = (row[0].trim_matches('`'), row[2]);
        match exam.iter().any(|(cause, _)| *cause == code) {
            true => assert!(exam.contains(&(code, example)), "{code}: {example}"),
            false => assert!(example.starts_with("none: "), "{code}: {example}"),
        }
    }
    let unknown = codes.lines().filter_map(|line| line.strip_prefix("> ")).collect::<Vec<_>>().join(" ");
    assert!(exam.contains(&("Unknown", unknown.as_str())), "{unknown}");
    let incident = &status["incidents"][0];
    let (cause, message) = (incident["cause"].as_str().unwrap(), incident["message"].as_str().unwrap());
    assert!(exam.contains(&(cause, message)), "{cause}: {message}");
}
