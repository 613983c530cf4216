//! The compiled patterns, shared by all objects that have the same.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use super::{Automaton, PatternError};

/// The most bytes of all compiled patterns. If a pattern is needed that was evicted, it is compiled again, which takes
/// milliseconds, so objects with many patterns make each other slower, but invalid they never make each other.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// What an entry takes beside the pattern, in bytes.
const ENTRY_BYTES: usize = 128;

/// The cache of the process.
static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(|| Mutex::new(Cache::new(MAX_BYTES)));

#[derive(Debug)]
struct Cache {
    entries: HashMap<Box<str>, Entry>,
    bytes: usize,
    max_bytes: usize,
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    automaton: Arc<Automaton>,
    last_use: u64,
}

/// The compiled pattern. It is compiled if it is not in the cache.
pub(super) fn compiled(pattern: &str) -> Result<Arc<Automaton>, PatternError> {
    if let Some(automaton) = lock().get(pattern) {
        return Ok(automaton);
    }
    // Without the lock: compiling may take milliseconds.
    let automaton = Arc::new(Automaton::new(pattern)?);
    lock().insert(pattern, &automaton);
    Ok(automaton)
}

pub(super) fn contains(pattern: &str) -> bool {
    lock().get(pattern).is_some()
}

fn lock() -> std::sync::MutexGuard<'static, Cache> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cache {
    fn new(max_bytes: usize) -> Self {
        Self { entries: HashMap::new(), bytes: 0, max_bytes, uses: 0 }
    }

    fn get(&mut self, pattern: &str) -> Option<Arc<Automaton>> {
        self.uses += 1;
        let entry = self.entries.get_mut(pattern)?;
        entry.last_use = self.uses;
        Some(Arc::clone(&entry.automaton))
    }

    fn insert(&mut self, pattern: &str, automaton: &Arc<Automaton>) {
        let entry = Entry { automaton: Arc::clone(automaton), last_use: self.uses };
        self.bytes += bytes(pattern, automaton);
        if let Some(replaced) = self.entries.insert(pattern.into(), entry) {
            self.bytes -= bytes(pattern, &replaced.automaton);
        }
        while self.bytes > self.max_bytes {
            let oldest =
                self.entries.iter().min_by_key(|(_, entry)| entry.last_use).map(|(pattern, _)| pattern.clone());
            let Some(entry) = oldest.as_ref().and_then(|pattern| self.entries.remove(pattern)) else { break };
            self.bytes -= bytes(oldest.as_deref().unwrap_or_default(), &entry.automaton);
        }
    }
}

fn bytes(pattern: &str, automaton: &Automaton) -> usize {
    pattern.len() + automaton.memory() + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_equal_patterns() {
        let [one, other] = [0; 2].map(|_| compiled("shared-[0-9]+").unwrap());
        assert!(Arc::ptr_eq(&one, &other));
    }

    #[test]
    fn evicts_the_least_recently_used_pattern_beyond_its_bytes() {
        let automata: Vec<_> = (0..4).map(|index| format!("card{index} [0-9]+")).collect();
        let automata: Vec<_> =
            automata.iter().map(|pattern| (pattern, Arc::new(Automaton::new(pattern).unwrap()))).collect();
        let size = |index: usize| bytes(automata[index].0, &automata[index].1);
        let mut cache = Cache::new(size(0) + size(1) + size(2));
        for (pattern, automaton) in &automata[..3] {
            assert!(cache.get(pattern).is_none());
            cache.insert(pattern, automaton);
            cache.insert(pattern, automaton);
        }
        assert_eq!(cache.bytes, cache.max_bytes, "a pattern that is inserted twice counts once");
        assert!(cache.get(automata[0].0).is_some());
        cache.insert(automata[3].0, &automata[3].1);
        let kept: Vec<_> = automata.iter().map(|(pattern, _)| cache.get(pattern).is_some()).collect();
        assert_eq!(kept, [true, false, true, true], "the second was used least recently");
        assert_eq!(cache.bytes, size(0) + size(2) + size(3));
    }
}
