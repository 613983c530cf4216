//! Masks the texts that a status shows on one line: messages of states, termination messages, evidence.
//!
//! A status shows the same texts again and again, so each is masked once and remembered. Patterns of users are not even
//! searched then: a text that is not remembered is shown as a mask, and the caller has it masked on another thread.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
};

use ring::digest::{self, SHA256};

use super::{
    LogPolicy, MASK,
    clean::{mask_line, shorten},
};
use crate::bounded::WeightedCache;

/// A text is remembered up to this length if the status shows no more of it than that, and otherwise up to the other
/// length, in bytes.
const SHORT: usize = 1024;
const LONG: usize = 8 * 1024;
/// Shorter texts take less time to mask than to look up, unless there are patterns.
const WORTHWHILE: usize = 512;
/// What a line counts beside its text for a report, and what it takes in memory, in bytes.
const ENTRY_BYTES: usize = 96;
const MEMORY_BYTES: usize = 256;
/// How many bytes of lines one report may use: its share of those of all, within these limits. A status has 256 KiB.
const LEAST_BYTES: usize = 8 * 1024;
const MOST_BYTES: usize = 128 * 1024;
/// The most texts that are masked at once, and the most bytes of them beside the first. With the budgets of the patterns for
/// one text, these take at most 1.2 s.
const BATCH_TEXTS: usize = 512;
const BATCH_BYTES: usize = 32 * 1024;

/// Cleans a text that is shown on one line, such as the message of a state: redacts it, and cuts its end off after `limit`
/// bytes. Without a masking, credentials are redacted.
#[must_use]
pub(crate) fn clean_text(text: &str, masking: Option<&Masking<'_>>, limit: usize) -> String {
    match masking {
        Some(masking) => masking.line(text, limit),
        None => shorten(&mask_line(text, true, &[]).0, limit),
    }
}

/// Masks texts by a policy.
#[derive(Debug)]
pub struct Masking<'a> {
    policy: Option<&'a LogPolicy>,
    memory: Option<Memory<'a>>,
    wanted: RefCell<Wanted>,
}

/// Where the lines of an object are remembered.
#[derive(Debug)]
struct Memory<'a> {
    lines: &'a RefCell<MaskedLines>,
    namespace: &'a str,
    rules: Digest,
}

/// What a report lacks.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// The texts to mask on another thread.
    pub(crate) texts: Vec<WantedText>,
    /// Whether texts stay masked whole, because the patterns take too long or the texts too much memory.
    pub(crate) is_cut: bool,
    asked: HashSet<TextKey>,
    bytes: usize,
}

/// A text to mask.
#[derive(Debug)]
pub(crate) struct WantedText {
    key: TextKey,
    text: Box<str>,
}

/// A text that was masked.
#[derive(Debug)]
pub(crate) struct MaskedText {
    key: TextKey,
    line: Box<str>,
    is_cut: bool,
}

type Digest = [u8; 16];

/// The digests of what masks a text and of the text, and how much of it to remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct TextKey {
    rules: Digest,
    text: Digest,
    kept: usize,
}

impl<'a> Masking<'a> {
    /// Masks every text immediately; without a policy, credentials only. Not for the event loop.
    #[must_use]
    pub fn immediate(policy: Option<&'a LogPolicy>) -> Self {
        Self { policy, memory: None, wanted: RefCell::default() }
    }

    /// Masks the texts of one report on an object in this namespace.
    pub(crate) fn remembering(
        policy: Option<&'a LogPolicy>,
        namespace: &'a str,
        lines: &'a RefCell<MaskedLines>,
    ) -> Self {
        let rules = rules(namespace, policy);
        lines.borrow_mut().begin_report(rules);
        Self { policy, memory: Some(Memory { lines, namespace, rules }), wanted: RefCell::default() }
    }

    /// What the texts so far lack.
    pub(crate) fn take_wanted(&self) -> Wanted {
        self.wanted.take()
    }

    /// The text as one line of at most `limit` bytes.
    fn line(&self, text: &str, limit: usize) -> String {
        let patterns = self.policy.map_or(&[][..], |policy| &policy.redact_patterns);
        let credentials = self.policy.is_none_or(|policy| policy.redact);
        let Some(memory) = &self.memory else { return shorten(&mask_line(text, credentials, patterns).0, limit) };
        if limit == 0 || text.trim().is_empty() {
            return String::new();
        }
        if patterns.is_empty() && text.len() < WORTHWHILE {
            return shorten(&mask_line(text, credentials, &[]).0, limit);
        }
        let Memory { lines, namespace, rules } = *memory;
        let (mut lines, mut wanted) = (lines.borrow_mut(), self.wanted.borrow_mut());
        let key = TextKey { rules, text: digest(text), kept: if limit <= SHORT { SHORT } else { LONG } };
        if let Some(remembered) = lines.get(key, namespace) {
            wanted.is_cut |= remembered.is_cut;
            return shorten(&remembered.line, limit);
        }
        if patterns.is_empty() {
            let (line, _) = mask_line(text, credentials, &[]);
            let shown = shorten(&line, limit);
            lines.insert(namespace, MaskedText { key, line: key.kept_of(&line), is_cut: false });
            return shown;
        }
        wanted.ask(key, text, &lines);
        shorten(MASK, limit)
    }
}

impl Wanted {
    fn ask(&mut self, key: TextKey, text: &str, lines: &MaskedLines) {
        if self.asked.contains(&key) {
            return;
        }
        if !lines.has_room(self.bytes + size(text.len().min(key.kept))) {
            self.is_cut = true;
            return;
        }
        let bytes = self.texts.iter().map(|wanted| wanted.text.len()).sum::<usize>();
        if self.texts.is_empty() || self.texts.len() < BATCH_TEXTS && bytes + text.len() <= BATCH_BYTES {
            self.asked.insert(key);
            self.bytes += size(text.len().min(key.kept));
            self.texts.push(WantedText { key, text: text.into() });
        }
    }
}

impl WantedText {
    /// Masks the text. This may take a tenth of a second.
    pub(crate) fn mask(&self, policy: &LogPolicy) -> MaskedText {
        let (line, is_cut) = mask_line(&self.text, policy.redact, &policy.redact_patterns);
        MaskedText { key: self.key, line: self.key.kept_of(&line), is_cut }
    }

    /// The text masked whole, if it could not be masked.
    pub(crate) fn mask_whole(&self) -> MaskedText {
        MaskedText { key: self.key, line: MASK.into(), is_cut: true }
    }
}

impl TextKey {
    /// The part to remember: a bit more than the status shows, so that a cut is marked.
    fn kept_of(self, line: &str) -> Box<str> {
        line.get(..line.floor_char_boundary(self.kept + 4)).unwrap_or_default().into()
    }
}

fn digest(text: &str) -> Digest {
    let mut short = Digest::default();
    digest::digest(&SHA256, text.as_bytes()).as_ref().iter().zip(&mut short).for_each(|(from, to)| *to = *from);
    short
}

/// What masks the texts of objects: their policy, for the namespace that the lines count for.
fn rules(namespace: &str, policy: Option<&LogPolicy>) -> Digest {
    let credentials = policy.is_none_or(|policy| policy.redact);
    let patterns = policy.map(|policy| &policy.redact_patterns[..]).unwrap_or_default();
    digest(&format!("{namespace} {credentials} {patterns:?}"))
}

/// The masked lines that are remembered. Of the namespace whose lines take most, those go first that it has not used for
/// longest.
#[derive(Debug)]
pub(crate) struct MaskedLines {
    lines: WeightedCache<TextKey, Remembered>,
    /// What the reports of all objects may use together, in bytes. At most four times as many are kept.
    bytes: usize,
    /// What masks texts, and the last report that it did so for.
    rules: HashMap<Digest, u64>,
    /// The number of the present report, and of the one before the last sweep.
    report: u64,
    swept: u64,
    /// The bytes that this report uses.
    used: usize,
}

#[derive(Debug)]
struct Remembered {
    line: Box<str>,
    is_cut: bool,
    /// The last report that used it.
    report: u64,
}

/// What a line counts for a report.
fn size(length: usize) -> usize {
    length + ENTRY_BYTES
}

impl MaskedLines {
    pub(crate) fn new(bytes: usize) -> Self {
        let lines = WeightedCache::new(4 * bytes, 0);
        Self { lines, bytes, rules: HashMap::new(), report: 0, swept: 0, used: 0 }
    }

    fn begin_report(&mut self, rules: Digest) {
        self.report += 1;
        self.used = 0;
        self.rules.insert(rules, self.report);
    }

    fn get(&mut self, key: TextKey, namespace: &str) -> Option<&Remembered> {
        let remembered = self.lines.get_mut(&key)?;
        if remembered.report != self.report {
            remembered.report = self.report;
            self.used += size(remembered.line.len());
            self.lines.touch(&key, namespace);
        }
        self.lines.get(&key)
    }

    /// Whether this report may use so many bytes more.
    fn has_room(&self, bytes: usize) -> bool {
        self.used + bytes <= (self.bytes / self.rules.len().max(1)).clamp(LEAST_BYTES, MOST_BYTES)
    }

    /// Remembers a line for the objects of a namespace.
    pub(crate) fn insert(&mut self, namespace: &str, MaskedText { key, line, is_cut }: MaskedText) {
        let bytes = line.len() + MEMORY_BYTES;
        self.lines.insert(key, Remembered { line, is_cut, report: self.report }, bytes, namespace);
        while let Some(oldest) = self.lines.excess() {
            self.lines.remove(&oldest);
        }
    }

    /// Forgets the lines of policies that no report has used since the last sweep.
    pub(crate) fn sweep(&mut self) {
        let swept = std::mem::replace(&mut self.swept, self.report);
        self.rules.retain(|_, report| *report > swept);
        let rules = &self.rules;
        self.lines.retain(|key, _, _| rules.contains_key(&key.rules));
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lines.values().count()
    }

    /// Whether a text is remembered.
    #[cfg(test)]
    pub(crate) fn has(&self, namespace: &str, text: &str) -> bool {
        let key = TextKey { rules: rules(namespace, None), text: digest(text), kept: LONG };
        self.lines.get(&key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::{Pattern, clean_text};

    fn policy(patterns: &[&str]) -> LogPolicy {
        let redact_patterns = patterns.iter().map(|text| Pattern::new(text).unwrap().0).collect();
        LogPolicy { tail_lines: 20, max_bytes: 4096, redact: true, redact_patterns }
    }

    fn memory() -> RefCell<MaskedLines> {
        RefCell::new(MaskedLines::new(64 * 1024))
    }

    /// The line, and the texts that are masked before it can be shown.
    fn show(memory: &RefCell<MaskedLines>, policy: &LogPolicy, text: &str, limit: usize) -> (String, Wanted) {
        let masking = Masking::remembering(Some(policy), "team", memory);
        let line = clean_text(text, Some(&masking), limit);
        (line, masking.take_wanted())
    }

    #[test]
    fn a_text_is_searched_for_patterns_once_and_not_by_the_report() {
        let policy = policy(&["card [0-9]+"]);
        let memory = memory();
        let text = "card 4711 of\n password=hunter2";
        let (line, wanted) = show(&memory, &policy, text, 100);
        assert_eq!((line.as_str(), wanted.texts.len()), (MASK, 1), "masked whole until it was searched");
        memory.borrow_mut().insert("team", wanted.texts[0].mask(&policy));
        for limit in [100, 20] {
            let (line, wanted) = show(&memory, &policy, text, limit);
            assert_eq!(line, clean_text(text, Some(&Masking::immediate(Some(&policy))), limit));
            assert!(wanted.texts.is_empty() && !wanted.is_cut && line.starts_with(MASK));
        }
        let (_, wanted) = show(&memory, &policy, "another text", 100);
        assert_eq!(wanted.texts.len(), 1);
    }

    #[test]
    fn marks_a_cut_as_without_memory() {
        let (policy, memory) = (policy(&["card [0-9]+"]), memory());
        let text = "é ".repeat(3000);
        for limit in [64, SHORT, SHORT + 1, LONG - 1, LONG] {
            let (_, wanted) = show(&memory, &policy, &text, limit);
            wanted.texts.iter().for_each(|wanted| memory.borrow_mut().insert("team", wanted.mask(&policy)));
            let expected = clean_text(&text, Some(&Masking::immediate(Some(&policy))), limit);
            assert_eq!(show(&memory, &policy, &text, limit).0, expected, "{limit}");
        }
    }

    #[test]
    fn says_if_a_text_stays_masked_whole() {
        let wrong = vec![Pattern::masks_everything()];
        let (policy, memory) = (LogPolicy { redact_patterns: wrong, ..policy(&[]) }, memory());
        let text = "x ".repeat(2048);
        let (_, wanted) = show(&memory, &policy, &text, 100);
        assert!(!wanted.is_cut, "not known yet");
        memory.borrow_mut().insert("team", wanted.texts[0].mask(&policy));
        let (line, wanted) = show(&memory, &policy, &text, 100);
        assert!(wanted.is_cut && wanted.texts.is_empty() && !line.contains('x'), "{line}");
    }

    #[test]
    fn bounds_a_batch_and_the_memory() {
        const MAX: usize = 100 * 1024;
        let (policy, memory) = (policy(&["card [0-9]+"]), RefCell::new(MaskedLines::new(MAX)));
        for round in 0..20 {
            let mut batches = 0;
            loop {
                let masking = Masking::remembering(Some(&policy), "team", &memory);
                for index in 0..2_000 {
                    let text = format!("text {index} of round {round} {}", "x".repeat(200));
                    let line = clean_text(&text, Some(&masking), 1000);
                    assert!(line == MASK || line == text);
                }
                let wanted = masking.take_wanted();
                assert!(wanted.texts.len() <= BATCH_TEXTS);
                assert!(wanted.texts.iter().map(|text| text.text.len()).sum::<usize>() <= BATCH_BYTES);
                let masked: Vec<_> = wanted.texts.iter().map(|text| text.mask(&policy)).collect();
                masked.into_iter().for_each(|text| memory.borrow_mut().insert("team", text));
                assert!(memory.borrow().lines.total() <= 4 * MAX);
                if wanted.texts.is_empty() {
                    assert!(wanted.is_cut, "there are more texts than fit");
                    break;
                }
                batches += 1;
            }
            assert!((2..=5).contains(&batches), "{batches} batches");
        }
    }

    #[test]
    fn remembers_long_texts_without_patterns_as_well() {
        let (policy, memory) = (policy(&[]), memory());
        let text = "token=abc123 ".repeat(100);
        for (text, remembered) in [("token=abc123", 0), (text.as_str(), 1)] {
            let (line, wanted) = show(&memory, &policy, text, 1000);
            assert_eq!(line, clean_text(text, None, 1000));
            assert_eq!((memory.borrow().len(), wanted.texts.len()), (remembered, 0));
        }
    }
}
