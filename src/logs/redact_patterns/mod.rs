//! The regular expressions of `spec.logs.redactPatterns`.
//!
//! Every tenant may write them, so nothing about them is trusted: not how long they take to compile, not how large they
//! become, and not how long they search. The size of one is limited when it is validated ([`Pattern::new`]), the memory of
//! all is that of a bounded [cache](automaton::compiled), and the work on a text is counted in steps ([`find`]). They are
//! never compiled or searched on the thread of the event loop.

mod automaton;
mod cache;
mod coarse;
mod search;

use std::{hash::Hash, ops::Range, sync::Arc};

pub use automaton::PatternError;

use self::{automaton::Automaton, search::Search};

/// The most bytes of one compiled pattern.
pub(crate) const MAX_BYTES: usize = 128 * 1024;
/// The most bytes of the compiled patterns of one object.
pub(crate) const MAX_BYTES_OF_OBJECT: usize = 256 * 1024;

/// How many steps the patterns of an object may take for each byte of a text. A step visits one state of an automaton, or
/// skips one byte at which no match can begin. Ordinary patterns take one to four steps for a byte.
const STEPS_PER_BYTE: u64 = 256;
/// The least and the most steps for one text. A step takes about 8 ns, so a text takes less than a tenth of a second.
const MIN_STEPS: u64 = 16 * 1024;
const MAX_STEPS: u64 = 8 * 1024 * 1024;

/// A valid pattern. It holds only its text, because most patterns are rarely needed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern(Arc<str>);

impl Pattern {
    /// Compiles a pattern, and returns it with the bytes that it takes when compiled. This may take milliseconds.
    ///
    /// # Errors
    /// When the text is not a regular expression, matches the empty text, or is too large or too slow to compile.
    pub fn new(text: &str) -> Result<(Self, usize), PatternError> {
        let pattern = Self::unchecked(text);
        let bytes = pattern.compile()?;
        Ok((pattern, bytes))
    }

    /// A pattern that may be invalid. An invalid one masks whole texts.
    pub(crate) fn unchecked(text: &str) -> Self {
        Self(text.into())
    }

    /// One that is wrong, and so masks every text whole.
    pub(crate) fn masks_everything() -> Self {
        Self::unchecked("")
    }

    /// Compiles the pattern, and returns the bytes that it takes then.
    pub(crate) fn compile(&self) -> Result<usize, PatternError> {
        cache::compiled(&self.0).map(|automaton| automaton.bytes())
    }

    /// Whether the pattern has been compiled, and is thus valid.
    pub(crate) fn is_compiled(&self) -> bool {
        cache::contains(&self.0)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The parts of a text that patterns match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Matches {
    /// Sorted; neither empty, nor adjacent.
    pub(super) ranges: Vec<Range<usize>>,
    /// Whether the patterns took too many steps. The rest of the text counts as a match.
    pub(super) is_cut: bool,
    pub(super) steps: u64,
}

/// How many steps patterns may take for a text of this length.
pub(crate) fn budget(length: usize) -> u64 {
    (length as u64).saturating_mul(STEPS_PER_BYTE).clamp(MIN_STEPS, MAX_STEPS)
}

/// Finds the matches of patterns in a text, each from its start to its end as `Regex::find_iter` does, within the
/// [`budget`] of the text. Each pattern has an equal share of what those before it left.
pub(super) fn find(patterns: &[Pattern], text: &str) -> Matches {
    let automata = patterns.iter().map(|pattern| cache::compiled(&pattern.0));
    find_in(automata, text, budget(text.len()))
}

fn find_in(
    automata: impl ExactSizeIterator<Item = Result<Arc<Automaton>, PatternError>>,
    text: &str,
    budget: u64,
) -> Matches {
    let mut matches = Matches::default();
    // The text from here on is masked whole, so the patterns need not search it.
    let mut end = text.len();
    let count = automata.len();
    for (index, automaton) in automata.enumerate() {
        // It compiled when the spec was validated. If it does not now, nothing is known to be harmless.
        let Ok(automaton) = automaton else {
            matches.is_cut = true;
            end = 0;
            break;
        };
        let share = (budget - matches.steps) / (count - index).max(1) as u64;
        let mut search = Search::new(&automaton, text, share);
        let mut at = 0;
        while at < end {
            match search.next_from(at, end) {
                Ok(Some(found)) => {
                    at = if found.is_empty() { text.ceil_char_boundary(found.end + 1) } else { found.end };
                    push(&mut matches.ranges, found);
                }
                Ok(None) => break,
                Err(place) => {
                    matches.is_cut = true;
                    end = place;
                    break;
                }
            }
        }
        matches.steps += search.steps();
        merge(&mut matches.ranges);
    }
    matches.ranges.push(end..text.len());
    merge(&mut matches.ranges);
    matches
}

/// Adds the next match of a pattern. Adjacent matches become one, so that their number stays small.
fn push(ranges: &mut Vec<Range<usize>>, found: Range<usize>) {
    match ranges.last_mut() {
        _ if found.is_empty() => {}
        Some(last) if last.end == found.start => last.end = found.end,
        _ => ranges.push(found),
    }
}

/// Sorts ranges, and merges those that overlap or touch.
pub(super) fn merge(ranges: &mut Vec<Range<usize>>) {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    ranges.dedup_by(|next, last| {
        let joins = next.start <= last.end;
        if joins {
            last.end = last.end.max(next.end);
        }
        joins
    });
}

#[cfg(test)]
mod tests;
