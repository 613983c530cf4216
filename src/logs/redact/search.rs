//! Searches a text once for everything that the rules start from, and calls the rules.

use std::{collections::BTreeMap, ops::Range, sync::LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::{
    bytes::length,
    commands,
    found::Found,
    keys::{self, Keys, most_examined},
    phrases::{self, Phrase},
    private_keys::{self, KEY_TYPE},
    tokens::{self, Shape},
};

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

/// The credentials of a text that are not in base64.
pub(super) fn find(text: &str, ranges: &mut Vec<Range<usize>>) {
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
                key_types_end = private_keys::find_in_web_key(text, range.start, key_types_end, ranges);
            }
            Rule::Token(_) | Rule::KeyType => {}
        }
    }
}
