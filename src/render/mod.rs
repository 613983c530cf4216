//! What commands print. A command fills a [`Document`], [`Outcome`]s, a [`Timeline`] or an [`Explanation`], and each
//! format is one file. A format turns values into text or bytes, which only the command prints. It reads nothing but
//! the width of the terminal.
//!
//! Texts from a cluster may come from anyone. [`safe`] makes them harmless for terminals, documents and GitHub's runner.

pub(crate) mod document;
pub(crate) mod explanation;
pub(crate) mod github;
mod grid;
pub(crate) mod groups;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod junit;
pub(crate) mod markdown;
pub(crate) mod numbers;
pub(crate) mod safe;
pub(crate) mod table;
pub(crate) mod text;
mod timeline;

#[cfg(doc)]
use document::{Document, Outcome};
#[cfg(doc)]
use explanation::Explanation;
#[cfg(test)]
pub(crate) use timeline::tests as timeline_fixtures;
pub(crate) use timeline::{Timeline, stopped_at};

#[cfg(test)]
mod tests;
