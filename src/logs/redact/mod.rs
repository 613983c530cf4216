//! Masks credentials.
//!
//! Every rule looks at the same text and names the ranges it wants masked; the ranges are merged and
//! replaced once. A rule therefore never sees what another one left, and a caller can leave out the
//! head of a text and still have the rest masked as the whole demands.
//!
//! What is masked errs towards too much where a value can't be told from prose, but a line stays
//! readable: names of keys, schemes, users and hosts are kept.

mod keys;
mod pem;
mod shapes;
#[cfg(test)]
mod tests;

use std::ops::Range;

use regex::Regex;

/// What stands where a credential stood.
pub const MASK: &str = "[REDACTED]";

/// How often one pattern of a user's may match in a text. What follows is masked whole: a pattern that
/// matches everywhere would otherwise cost time quadratic in the text's length.
const PATTERN_MATCHES: usize = 4096;

/// What is to be masked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mask<'a> {
    /// Whether credentials are, by the rules of this module.
    pub credentials: bool,
    /// What else is.
    pub patterns: &'a [Regex],
    /// Whether the text's head may have been cut off, and the first line of a private key with it.
    pub cut: bool,
}

impl Mask<'_> {
    /// The text from byte `from` on, masked as the whole text demands.
    pub fn apply(self, text: &str, from: usize) -> String {
        let mut shown = String::with_capacity(text.len().saturating_sub(from));
        let mut at = from;
        for range in self.ranges(text) {
            if range.end <= at {
                continue;
            }
            shown.push_str(text.get(at..range.start.max(at)).unwrap_or_default());
            shown.push_str(MASK);
            at = range.end;
        }
        shown.push_str(text.get(at..).unwrap_or_default());
        shown
    }

    /// What is masked of the text: in order, neither empty nor touching.
    fn ranges(self, text: &str) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        if self.credentials {
            pem::find(text, self.cut, &mut ranges);
            keys::find(text, &mut ranges);
            shapes::find(text, &mut ranges);
        }
        for pattern in self.patterns {
            let mut matches = pattern.find_iter(text).map(|found| found.range());
            ranges.extend(matches.by_ref().take(PATTERN_MATCHES));
            if let Some(next) = matches.next() {
                ranges.push(next.start..text.len());
            }
        }
        ranges.retain(|range| !range.is_empty());
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        ranges.dedup_by(|next, last| {
            let joins = next.start <= last.end;
            if joins {
                last.end = last.end.max(next.end);
            }
            joins
        });
        ranges
    }
}
