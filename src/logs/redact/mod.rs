//! Redacts credentials.
//!
//! Every rule searches the same text and returns ranges. The ranges are merged and replaced once, so no rule sees the
//! result of another, and a caller can drop the head of a text after it has served as context.
//!
//! When a value cannot be distinguished from prose, it is redacted. The names of keys, schemes, users and hosts are kept,
//! so that lines stay readable.

mod commands;
mod connections;
mod encoded;
mod headless;
mod keys;
mod looks;
mod pattern;
mod phrases;
mod private_keys;
mod search;
mod shapes;
#[cfg(test)]
mod tests;
mod text;
mod tokens;

use std::{collections::HashSet, ops::Range};

use aho_corasick::{AhoCorasick, MatchKind};

use self::{
    looks::is_secret_like,
    text::{ALNUM, is_at},
};
use super::redact_patterns;

/// Replaces a credential.
pub const MASK: &str = "[REDACTED]";

/// Prepares the rules, which the first text would otherwise wait for.
pub(crate) fn prepare() {
    search::prepare();
}

/// What to redact.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mask<'a> {
    /// Whether to apply the rules of this module.
    pub credentials: bool,
    /// Further ranges to redact.
    pub patterns: &'a [Range<usize>],
    /// Whether the head of the text may be missing, and with it the first line of a private key.
    pub cut: bool,
}

impl Mask<'_> {
    /// Redacts the text and returns it from byte `from` on.
    pub(crate) fn apply(self, text: &str, from: usize) -> String {
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

    /// The ranges to redact: sorted, not empty, not adjacent.
    fn ranges(self, text: &str) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        if self.credentials {
            private_keys::find_pem(text, &mut ranges);
            search::find(text, &mut ranges);
            encoded::find(text, &mut ranges);
            if self.cut {
                headless::find(text, &mut ranges);
            }
        }
        ranges.extend_from_slice(self.patterns);
        redact_patterns::merge(&mut ranges);
        if self.credentials {
            add_repeats(text, &mut ranges);
        }
        ranges
    }
}

/// The longest value that is searched for, in bytes. A longer one is a block, which nothing repeats.
const MAX_VALUE: usize = 512;

/// Adds the further occurrences of the values in these ranges: an error often repeats the value that its first words named. A plain word such as `postgres` stays, because it also occurs
/// where it is no password.
fn add_repeats(text: &str, ranges: &mut Vec<Range<usize>>) {
    let values = ranges.iter().filter_map(|range| text.get(range.clone()));
    // A masked line may consist of a value and a remark: `password=… refused`.
    let values: HashSet<&str> = values
        .flat_map(|value| [value, value.split_whitespace().next().unwrap_or_default()])
        .map(|value| value.trim_matches(['"', '\'', ' ', '\n']).trim_end_matches(['.', ',', ';', ':']))
        .filter(|value| value.len() <= MAX_VALUE && is_secret_like(value))
        .collect();
    if values.is_empty() {
        return;
    }
    let Ok(values) = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(values) else { return };
    let count = ranges.len();
    let bytes = text.as_bytes();
    let whole = |found: &Range<usize>| {
        !is_at(bytes, found.end, ALNUM) && !found.start.checked_sub(1).is_some_and(|before| is_at(bytes, before, ALNUM))
    };
    ranges.extend(values.find_iter(text).map(|found| found.range()).filter(whole));
    if ranges.len() > count {
        redact_patterns::merge(ranges);
    }
}
