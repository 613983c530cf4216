//! Finds values again that were masked once: an error often repeats the value that its first words named.

use std::{collections::HashSet, ops::Range};

use aho_corasick::{AhoCorasick, MatchKind};

use super::{
    looks::is_secret_like,
    text::{ALNUM, is_at},
};
use crate::logs::redact_patterns;

/// The longest value that is searched for, in bytes. A longer one is a block, which nothing repeats.
const MAX_VALUE: usize = 512;

/// Adds the further occurrences of the values in these ranges. A plain word such as `postgres` stays, because it also occurs
/// where it is no password.
pub(super) fn find(text: &str, ranges: &mut Vec<Range<usize>>) {
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
