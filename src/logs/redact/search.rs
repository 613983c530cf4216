//! Searches a text once for everything that the rules start from, and calls the rules.

use std::{collections::BTreeMap, ops::Range, sync::LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::{
    bytes::{BASE64, Class, DASH, DOT, UNDERSCORE, length, run, run_before},
    commands,
    encoded::{self, KEY_TYPE},
    found::Found,
    keys::{self, Keys},
    phrases::{self, Phrase},
    tokens::{self, Shape},
};

/// How many keys and phrases are examined before a position. A log has at most 1,000 lines, so few have more. What follows
/// further ones is masked to the end of the line, because texts that consist of them would take too long.
pub(super) fn most_examined(at: usize) -> usize {
    1024 + at / 128
}

/// What is examined where a needle was found.
enum Rule {
    Key,
    Token(Box<Shape>),
    Program(usize),
    Pipe,
    /// By its index.
    Phrase(usize),
    KeyType,
}

struct Rules {
    needles: AhoCorasick,
    /// By the index of the needle.
    rules: Vec<Vec<Rule>>,
    phrases: Vec<Phrase>,
}

/// None if the needles cannot be indexed. They are constant, so this happens never or always.
static RULES: LazyLock<Option<Rules>> = LazyLock::new(Rules::build);

impl Rules {
    fn build() -> Option<Self> {
        let mut all = BTreeMap::<String, Vec<Rule>>::new();
        let mut add = |needle: &str, rule| all.entry(needle.to_ascii_lowercase()).or_default().push(rule);
        keys::STEMS.iter().for_each(|stem| add(stem, Rule::Key));
        tokens::shapes()?.into_iter().for_each(|(prefix, shape)| add(prefix, Rule::Token(Box::new(shape))));
        commands::programs().for_each(|(name, program)| add(name, Rule::Program(program)));
        commands::PIPES.iter().for_each(|pipe| add(pipe, Rule::Pipe));
        let mut phrases = Vec::new();
        for (needles, phrase) in phrases::phrases()? {
            needles.split('|').for_each(|needle| add(needle, Rule::Phrase(phrases.len())));
            phrases.push(phrase);
        }
        add(KEY_TYPE, Rule::KeyType);
        // An automaton that is faster takes some megabytes.
        let kind = AhoCorasickKind::ContiguousNFA;
        let needles = AhoCorasick::builder().ascii_case_insensitive(true).kind(Some(kind)).build(all.keys()).ok()?;
        Some(Self { needles, rules: all.into_values().collect(), phrases })
    }
}

/// Indexes the needles, which otherwise takes the first text some time.
pub(super) fn prepare() {
    LazyLock::force(&RULES);
}

/// The credentials of a text, also those in base64.
pub(super) fn all(text: &str, ranges: &mut Vec<Range<usize>>) {
    plain(text, ranges);
    words(text, |word| {
        tokens::find_in_word(text, word.clone(), ranges);
        encoded::find(text, word, ranges);
    });
}

/// The credentials of a text that are not in base64.
pub(super) fn plain(text: &str, ranges: &mut Vec<Range<usize>>) {
    let Some(rules) = &*RULES else {
        // Without the rules, nothing is known to be harmless.
        ranges.push(0..text.len());
        return;
    };
    let mut keys = Keys::default();
    let mut searched = vec![0; rules.phrases.len()];
    let mut tokens_end = 0;
    let mut key_types_end = 0;
    let (mut examined, mut last_examined, mut masked_end) = (0, 0, 0);
    let found = rules.needles.find_overlapping_iter(text);
    let found = found.filter_map(|found| Some((found.range(), rules.rules.get(found.pattern().as_usize())?)));
    for (range, rule) in found.flat_map(|(range, rules)| rules.iter().map(move |rule| (range.clone(), rule))) {
        match rule {
            Rule::Key => keys.find(text, range, ranges),
            // The rest of a token is not searched again.
            Rule::Token(shape) if range.start >= tokens_end => {
                let count = ranges.len();
                tokens::find(text, range, shape, ranges);
                tokens_end =
                    ranges.get(count..).unwrap_or_default().iter().map(|token| token.end).fold(tokens_end, usize::max);
            }
            Rule::Program(program) => commands::find(text, range, *program, ranges),
            Rule::Pipe => commands::find_piped(text, range, ranges),
            Rule::Phrase(_) if range.start < masked_end => {}
            Rule::Phrase(phrase) => {
                let (Some(phrase), Some(searched)) = (rules.phrases.get(*phrase), searched.get_mut(*phrase)) else {
                    continue;
                };
                let found = Found { text, needle: range };
                if found.needle.start < *searched || !phrase.begins(&found) {
                    continue;
                }
                if found.is_in_sentence() && last_examined < found.needle.end {
                    examined += 1;
                    last_examined = found.needle.end;
                }
                if examined > most_examined(found.needle.start) {
                    masked_end = found.needle.end + length(text.as_bytes(), found.needle.end, |_| false);
                    ranges.push(found.needle.end..masked_end);
                } else {
                    ranges.extend(phrase.find(&found, searched));
                }
            }
            Rule::KeyType if range.start >= key_types_end => {
                key_types_end = encoded::find_key(text, range.start, key_types_end, ranges);
            }
            Rule::Token(_) | Rule::KeyType => {}
        }
    }
}

/// Letters, digits and the signs of base64, and of names.
const IN_WORD: Class = BASE64 | UNDERSCORE | DASH | DOT;

/// Calls `visit` with each long word of letters, digits and the signs of base64.
fn words(text: &str, mut visit: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    // No word extends over this position.
    let mut at = 0;
    while at + encoded::MIN_ENCODED <= bytes.len() {
        // Most words are short, so the end of a long one is examined first.
        let end = at + encoded::MIN_ENCODED;
        let last = run_before(bytes, end, IN_WORD, encoded::MIN_ENCODED);
        if last < encoded::MIN_ENCODED {
            at = end - last;
            continue;
        }
        let word = at..end + run(bytes, end, IN_WORD, usize::MAX);
        at = word.end;
        visit(word);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn visits_all_long_words(parts in prop::collection::vec("[aZ9+/_.-]{0,30}|[ =\n\"é]", 0..12)) {
            let text = parts.concat();
            let mut visited = Vec::new();
            words(&text, |word| visited.push(text.get(word).unwrap()));
            let in_word = |letter: char| letter.is_ascii_alphanumeric() || "+/_.-".contains(letter);
            let long: Vec<_> =
                text.split(|letter| !in_word(letter)).filter(|word| word.len() >= encoded::MIN_ENCODED).collect();
            prop_assert_eq!(visited, long);
        }
    }
}
