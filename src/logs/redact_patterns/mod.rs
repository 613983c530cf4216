//! The regular expressions of `spec.logs.redactPatterns`.
//!
//! Every tenant may write them, so nothing about them is trusted: not how long they take to compile, not how large they
//! become, and not how long they search. The size of one is limited when it is validated ([`Pattern::new`]), the memory of
//! all is that of a bounded cache ([`COMPILED`]), and the search of a text has a budget of processor time ([`find`]).
//! They are never compiled or searched on the thread of the event loop.

mod automaton;

use std::{
    hash::Hash,
    ops::Range,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

pub use automaton::PatternError;

use self::automaton::{Automaton, Search};
use crate::bounded::WeightedCache;

/// The most bytes of the compiled patterns of one object.
pub(crate) const MAX_BYTES_OF_OBJECT: usize = 256 * 1024;

/// How long the patterns of an object may search a text, for each of its bytes, at least and at most. Ordinary patterns
/// take 1 to 10 ns for a byte.
const TIME_PER_BYTE: Duration = Duration::from_micros(2);
const MIN_TIME: Duration = Duration::from_millis(2);
const MAX_TIME: Duration = Duration::from_millis(100);
/// How many matches are searched before the clock is read, which takes as long as some short searches.
const MATCHES_PER_READING: usize = 16;

/// The most bytes of all compiled patterns. If a pattern is needed that was evicted, it is compiled again, which takes
/// milliseconds, so objects with many patterns make each other slower, but invalid they never make each other.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// What an entry takes beside the pattern, in bytes.
const ENTRY_BYTES: usize = 128;

type Cache = WeightedCache<Pattern, Arc<Automaton>>;

/// The compiled patterns, shared by all objects that have the same. All count for one namespace, so that those go first that
/// were used least recently.
static COMPILED: LazyLock<Mutex<Cache>> = LazyLock::new(|| Mutex::new(Cache::new(MAX_BYTES, 0)));

fn compiled_patterns() -> std::sync::MutexGuard<'static, Cache> {
    COMPILED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cached(cache: &mut Cache, pattern: &Pattern) -> Option<Arc<Automaton>> {
    cache.touch(pattern, "");
    cache.get(pattern).cloned()
}

fn remember(cache: &mut Cache, pattern: &Pattern, automaton: &Arc<Automaton>) {
    let bytes = pattern.0.len() + automaton.memory() + ENTRY_BYTES;
    cache.insert(pattern.clone(), Arc::clone(automaton), bytes, "");
    while let Some(oldest) = cache.excess() {
        cache.remove(&oldest);
    }
}

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
        self.compiled().map(|automaton| automaton.bytes())
    }

    /// The compiled pattern. It is compiled if it is not in the cache.
    fn compiled(&self) -> Result<Arc<Automaton>, PatternError> {
        if let Some(automaton) = cached(&mut compiled_patterns(), self) {
            return Ok(automaton);
        }
        // Without the lock: compiling may take milliseconds.
        let automaton = Arc::new(Automaton::new(&self.0)?);
        remember(&mut compiled_patterns(), self, &automaton);
        Ok(automaton)
    }

    /// Whether the pattern has been compiled, and is thus valid.
    pub(crate) fn is_compiled(&self) -> bool {
        cached(&mut compiled_patterns(), self).is_some()
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
    /// Whether the patterns took too long. The rest of the text counts as a match.
    pub(super) is_cut: bool,
}

/// How long patterns may search a text of this length.
pub(crate) fn budget(length: usize) -> Duration {
    TIME_PER_BYTE.saturating_mul(u32::try_from(length).unwrap_or(u32::MAX)).clamp(MIN_TIME, MAX_TIME)
}

/// Finds the matches of patterns in a text, as `Regex::find_iter` does, within the [`budget`] of the text. Each pattern has
/// an equal share of what those before it left.
pub(super) fn find(patterns: &[Pattern], text: &str) -> Matches {
    let automata = patterns.iter().map(Pattern::compiled);
    find_in(automata, text, processor_time)
}

/// The processor time of this thread. On a busy machine, a text is masked like on a quiet one.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

fn find_in(
    automata: impl ExactSizeIterator<Item = Result<Arc<Automaton>, PatternError>>,
    text: &str,
    mut now: impl FnMut() -> Duration,
) -> Matches {
    let mut matches = Matches::default();
    // The text from here on is masked whole, so the patterns need not search it.
    let mut end = text.len();
    let count = automata.len();
    if count == 0 {
        return matches;
    }
    let last = now() + budget(text.len());
    for (index, automaton) in automata.enumerate() {
        // It compiled when the spec was validated. If it does not now, nothing is known to be harmless.
        let Ok(automaton) = automaton else {
            matches.is_cut = true;
            end = 0;
            break;
        };
        let begin = now();
        let share = last.saturating_sub(begin) / u32::try_from(count - index).unwrap_or(u32::MAX);
        let mut search = Search::new(&automaton, text);
        let mut at = 0;
        for number in 1.. {
            match search.next(at) {
                Ok(Some(found)) if found.start < end => {
                    at = found.end;
                    push(&mut matches.ranges, found);
                }
                Ok(_) => break,
                Err(_) => {
                    matches.is_cut = true;
                    end = at;
                    break;
                }
            }
            let is_read = search.is_slow() || number % MATCHES_PER_READING == 0;
            if is_read && now() > begin + share {
                matches.is_cut = true;
                end = at;
                break;
            }
        }
        merge(&mut matches.ranges);
    }
    matches.ranges.push(end..text.len());
    merge(&mut matches.ranges);
    matches
}

/// Adds the next match of a pattern. Adjacent matches become one, so that their number stays small.
fn push(ranges: &mut Vec<Range<usize>>, found: Range<usize>) {
    match ranges.last_mut() {
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
