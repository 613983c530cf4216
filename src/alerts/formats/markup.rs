//! How a format writes a text, so that nothing untrusted in it becomes markup.

use crate::alerts::sanitize;

/// A part of a text: a literal, or untrusted text from the cluster, which a format must escape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Literal(String),
    Untrusted(String),
    /// A URL that consists of the characters of URLs, see [`is_link`](crate::api::is_link). It is shown itself, because a
    /// text in its place could hide where it leads.
    Link(String),
}

pub(super) fn literal(text: impl Into<String>) -> Segment {
    Segment::Literal(text.into())
}

pub(super) fn untrusted(text: &str, limit: usize) -> Segment {
    Segment::Untrusted(sanitize::single_line(text, limit))
}

/// The markup of a format. Untrusted text is code, where receivers ignore formatting, links and mentions. Its backticks are
/// replaced, so that it cannot end the code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Markup {
    /// Encloses what is bold.
    pub bold: &'static str,
    /// Encloses code in a line; empty if texts have no markup.
    pub code: &'static str,
    /// Precedes and follows a link.
    pub link: [&'static str; 2],
    /// Replaces characters that have a meaning even in code.
    pub escape: fn(&str) -> String,
}

impl Markup {
    /// Texts without any markup.
    pub const PLAIN: Self = Self { bold: "", code: "", link: ["", ""], escape: str::to_owned };

    pub fn join(&self, segments: &[Segment]) -> String {
        let segment = |segment: &Segment| match segment {
            Segment::Literal(text) => (self.escape)(text),
            Segment::Untrusted(text) => self.untrusted(text),
            Segment::Link(url) => format!("{}{}{}", self.link[0], (self.escape)(url), self.link[1]),
        };
        segments.iter().map(segment).collect()
    }

    pub fn untrusted(&self, text: &str) -> String {
        match (self.code, text) {
            ("", text) => (self.escape)(text),
            (_, "") => "-".to_owned(),
            (code, text) => format!("{code}{}{code}", self.neutralized(text)),
        }
    }

    /// A name and a colon.
    pub fn name(&self, name: &str) -> String {
        format!("{}{name}:{}", self.bold, self.bold)
    }

    /// Untrusted text without what could end code.
    pub fn neutralized(&self, text: &str) -> String {
        (self.escape)(&text.replace('`', "\u{2cb}"))
    }
}
