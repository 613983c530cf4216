//! What commands print. A command fills a [`Document`], and [`write`] turns it into a [`Format`], each of which is one file. A
//! format reads nothing but the width of the terminal. Tables of pods are apart, because they show more of a pod than a document.
//!
//! Texts from a cluster may come from anyone. [`safe`] makes them harmless for terminals, documents and GitHub's runner.

pub(crate) mod agent;
pub(crate) mod document;
pub(crate) mod explanation;
mod github;
mod grid;
pub(crate) mod groups;
mod html;
mod json;
mod junit;
mod markdown;
pub(crate) mod numbers;
pub(crate) mod safe;
pub(crate) mod sent;
pub(crate) mod table;
pub(crate) mod text;
mod timeline;

use std::error::Error;

use document::Document;
#[cfg(test)]
pub(crate) use timeline::tests as timeline_fixtures;
pub(crate) use timeline::{Timeline, stopped_at};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text for a terminal, with colours and the last lines of each log.
    Text {
        log_lines: usize,
    },
    Json,
    Yaml,
    Html,
    Markdown,
    Junit,
    Github,
}

/// The document in this format.
pub(crate) fn write(document: &Document, format: Format) -> Result<String, Box<dyn Error>> {
    Ok(match format {
        Format::Text { log_lines } => {
            let layout = text::Layout::of_terminal(log_lines);
            match &document.explanation {
                Some(explanation) => text::explanation::write(explanation, layout),
                None => text::write(document, layout),
            }
        }
        Format::Json => json::json(document)?,
        Format::Yaml => json::yaml(document)?,
        Format::Html => html::page(document),
        Format::Markdown => markdown::write(document),
        Format::Junit => junit::write(document)?,
        Format::Github => github::write(document),
    })
}

#[cfg(test)]
mod tests;
