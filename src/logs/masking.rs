//! Masks the texts that a status shows on one line: messages of states, termination messages, evidence.
//!
//! A status shows the same texts again and again, so each is masked once and remembered. Patterns of users are not even
//! searched then: a text that is not remembered is shown as a mask, and the caller has it masked on another thread.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
};

use ring::digest::{SHA256, digest};

use super::{
    LogPolicy, MASK, Pattern,
    clean::{mask_line, shorten},
};

/// A text is remembered up to this length if the status shows no more of it than that, and otherwise up to the other
/// length, in bytes.
const SHORT: usize = 1024;
const LONG: usize = 8 * 1024;
/// Shorter texts take less time to mask than to look up, unless there are patterns.
const WORTHWHILE: usize = 512;
/// What a remembered line takes beside its text, in bytes.
const ENTRY_BYTES: usize = 96;
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
    memory: Option<&'a RefCell<MaskedLines>>,
    wanted: RefCell<Wanted>,
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

/// The digest of a text, and how much of it to remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct TextKey {
    digest: [u8; 16],
    kept: usize,
}

impl<'a> Masking<'a> {
    /// Masks every text immediately; without a policy, credentials only. Not for the event loop.
    #[must_use]
    pub fn immediate(policy: Option<&'a LogPolicy>) -> Self {
        Self { policy, memory: None, wanted: RefCell::default() }
    }

    /// Masks the texts of one report.
    pub(crate) fn remembering(policy: Option<&'a LogPolicy>, memory: &'a RefCell<MaskedLines>) -> Self {
        memory.borrow_mut().begin_report();
        Self { policy, memory: Some(memory), wanted: RefCell::default() }
    }

    /// What the texts so far lack.
    pub(crate) fn take_wanted(&self) -> Wanted {
        self.wanted.take()
    }

    /// The text as one line of at most `limit` bytes.
    fn line(&self, text: &str, limit: usize) -> String {
        let patterns = self.policy.map_or(&[][..], |policy| &policy.redact_patterns);
        let credentials = self.policy.is_none_or(|policy| policy.redact);
        let Some(memory) = self.memory else { return shorten(&mask_line(text, credentials, patterns).0, limit) };
        if limit == 0 || text.trim().is_empty() {
            return String::new();
        }
        if patterns.is_empty() && text.len() < WORTHWHILE {
            return shorten(&mask_line(text, credentials, &[]).0, limit);
        }
        let (mut memory, mut wanted) = (memory.borrow_mut(), self.wanted.borrow_mut());
        let key = TextKey::new(text, limit);
        if let Some(entry) = memory.get(key) {
            wanted.is_cut |= entry.is_cut;
            return shorten(&entry.line, limit);
        }
        if patterns.is_empty() {
            let (line, _) = mask_line(text, credentials, &[]);
            let shown = shorten(&line, limit);
            memory.insert(MaskedText { key, line: key.kept_of(&line), is_cut: false });
            return shown;
        }
        wanted.ask(key, text, &memory);
        shorten(MASK, limit)
    }
}

impl Wanted {
    fn ask(&mut self, key: TextKey, text: &str, memory: &MaskedLines) {
        if self.asked.contains(&key) {
            return;
        }
        if !memory.has_room(self.bytes + size(text.len().min(key.kept))) {
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
    fn new(text: &str, limit: usize) -> Self {
        let mut short = [0; 16];
        digest(&SHA256, text.as_bytes()).as_ref().iter().zip(&mut short).for_each(|(from, to)| *to = *from);
        Self { digest: short, kept: if limit <= SHORT { SHORT } else { LONG } }
    }

    /// The part to remember: a bit more than the status shows, so that a cut is marked.
    fn kept_of(self, line: &str) -> Box<str> {
        line.get(..line.floor_char_boundary(self.kept + 4)).unwrap_or_default().into()
    }
}

/// Identifies a memory of masked lines: what masks them, and the namespace of the objects, so that no tenant can evict what
/// another one needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MaskingKey {
    namespace: Box<str>,
    credentials: bool,
    patterns: Vec<Pattern>,
}

impl MaskingKey {
    pub(crate) fn new(namespace: &str, policy: Option<&LogPolicy>) -> Self {
        let patterns = policy.map(|policy| policy.redact_patterns.clone()).unwrap_or_default();
        Self { namespace: namespace.into(), credentials: policy.is_none_or(|policy| policy.redact), patterns }
    }
}

/// Masked lines. Those that no report has used for some time are dropped when there are too many.
#[derive(Debug)]
pub(crate) struct MaskedLines {
    lines: HashMap<TextKey, Entry>,
    bytes: usize,
    /// The most bytes that one report may use. At most four times as many are kept.
    max_bytes: usize,
    /// The number of the present report, and of the one before which lines were dropped.
    report: u64,
    dropped_at: u64,
    /// The bytes that this report uses.
    used: usize,
}

#[derive(Debug)]
struct Entry {
    line: Box<str>,
    is_cut: bool,
    /// The last report that used it.
    report: u64,
}

/// The size of a remembered line.
fn size(length: usize) -> usize {
    length + ENTRY_BYTES
}

impl MaskedLines {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { lines: HashMap::new(), bytes: 0, max_bytes, report: 0, dropped_at: 0, used: 0 }
    }

    pub(crate) fn set_limit(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes;
    }

    fn begin_report(&mut self) {
        self.report += 1;
        self.used = 0;
        if self.bytes > 2 * self.max_bytes {
            // Several objects share the lines, so one is kept that any report since the last time has used.
            self.lines.retain(|_, entry| entry.report >= self.dropped_at);
            self.bytes = self.lines.values().map(|entry| size(entry.line.len())).sum();
            self.dropped_at = self.report;
        }
    }

    fn get(&mut self, key: TextKey) -> Option<&Entry> {
        let entry = self.lines.get_mut(&key)?;
        if entry.report != self.report {
            entry.report = self.report;
            self.used += size(entry.line.len());
        }
        Some(entry)
    }

    /// Whether this report may use so many bytes more.
    fn has_room(&self, bytes: usize) -> bool {
        self.used + bytes <= self.max_bytes
    }

    /// Remembers a line, if there is room for it.
    pub(crate) fn insert(&mut self, MaskedText { key, line, is_cut }: MaskedText) {
        let bytes = size(line.len());
        if self.bytes + bytes <= 4 * self.max_bytes && !self.lines.contains_key(&key) {
            self.bytes += bytes;
            self.lines.insert(key, Entry { line, is_cut, report: self.report });
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::clean_text;

    fn policy(patterns: &[&str]) -> LogPolicy {
        let redact_patterns = patterns.iter().map(|text| Pattern::new(text).unwrap().0).collect();
        LogPolicy { tail_lines: 20, max_bytes: 4096, redact: true, redact_patterns }
    }

    fn memory() -> RefCell<MaskedLines> {
        RefCell::new(MaskedLines::new(64 * 1024))
    }

    /// The line, and the texts that are masked before it can be shown.
    fn show(memory: &RefCell<MaskedLines>, policy: &LogPolicy, text: &str, limit: usize) -> (String, Wanted) {
        let masking = Masking::remembering(Some(policy), memory);
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
        memory.borrow_mut().insert(wanted.texts[0].mask(&policy));
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
            wanted.texts.iter().for_each(|wanted| memory.borrow_mut().insert(wanted.mask(&policy)));
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
        memory.borrow_mut().insert(wanted.texts[0].mask(&policy));
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
                let masking = Masking::remembering(Some(&policy), &memory);
                for index in 0..2_000 {
                    let text = format!("text {index} of round {round} {}", "x".repeat(200));
                    let line = clean_text(&text, Some(&masking), 1000);
                    assert!(line == MASK || line == text);
                }
                let wanted = masking.take_wanted();
                assert!(wanted.texts.len() <= BATCH_TEXTS);
                assert!(wanted.texts.iter().map(|text| text.text.len()).sum::<usize>() <= BATCH_BYTES);
                let masked: Vec<_> = wanted.texts.iter().map(|text| text.mask(&policy)).collect();
                masked.into_iter().for_each(|text| memory.borrow_mut().insert(text));
                assert!(memory.borrow().bytes <= 4 * MAX, "{} bytes", memory.borrow().bytes);
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
