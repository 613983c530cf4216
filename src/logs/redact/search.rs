//! Searches a text once for everything that the rules start from, and calls the rules.

use std::{collections::BTreeMap, ops::Range, sync::LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::{
    commands,
    keys::{self, Keys, most_examined},
    phrases::PHRASES,
    private_keys::{self, KEY_TYPE},
    text::{Found, length},
    tokens::{self, Shape},
};

/// What is examined where a needle was found. Shapes, programs and phrases are given by their index.
#[derive(Clone, Copy)]
enum Rule {
    Key,
    Token(usize, &'static str),
    Program(usize),
    Phrase(usize),
    KeyType,
}

struct Rules {
    needles: AhoCorasick,
    /// By the index of the needle.
    rules: Vec<Vec<Rule>>,
    shapes: Vec<Shape>,
}

/// None if the needles cannot be indexed. They are constant, so this happens never or always.
static RULES: LazyLock<Option<Rules>> = LazyLock::new(Rules::build);

impl Rules {
    fn build() -> Option<Self> {
        let mut all = BTreeMap::<String, Vec<Rule>>::new();
        let mut add = |needle: &str, rule| all.entry(needle.to_ascii_lowercase()).or_default().push(rule);
        keys::STEMS.split_whitespace().for_each(|stem| add(stem, Rule::Key));
        let mut shapes = Vec::new();
        for (prefixes, shape) in tokens::shapes() {
            prefixes.split('|').for_each(|prefix| add(prefix, Rule::Token(shapes.len(), prefix)));
            shapes.push(shape);
        }
        commands::programs().for_each(|(name, program)| add(name, Rule::Program(program)));
        for (index, phrase) in PHRASES.iter().enumerate() {
            phrase.0.split('|').for_each(|needle| add(needle, Rule::Phrase(index)));
        }
        add(KEY_TYPE, Rule::KeyType);
        // An automaton that is faster takes some megabytes.
        let kind = AhoCorasickKind::ContiguousNFA;
        let needles = AhoCorasick::builder().ascii_case_insensitive(true).kind(Some(kind)).build(all.keys()).ok()?;
        Some(Self { needles, rules: all.into_values().collect(), shapes })
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
    let mut searched = vec![0; PHRASES.len()];
    let mut tokens_end = 0;
    let mut key_types_end = 0;
    let (mut examined, mut last_examined, mut masked_end) = (0, 0, 0);
    let (mut command_bytes, mut commands_end) = (0, 0);
    for needle in rules.needles.find_overlapping_iter(text) {
        let range = needle.range();
        for &rule in rules.rules.get(needle.pattern().as_usize()).into_iter().flatten() {
            match rule {
                Rule::Key => keys.find(text, range.clone(), ranges),
                // The rest of a token is not searched again.
                Rule::Token(shape, prefix) if range.start >= tokens_end => {
                    let count = ranges.len();
                    if let Some(shape) = rules.shapes.get(shape) {
                        shape.find(text, range.clone(), prefix, ranges);
                    }
                    let found = ranges.get(count..).unwrap_or_default();
                    tokens_end = found.iter().map(|token| token.end).fold(tokens_end, usize::max);
                }
                Rule::Program(program) if range.start >= commands_end && commands::is_command(text, &range) => {
                    if command_bytes > commands::most_examined(range.start) {
                        commands_end = range.end + length(text.as_bytes(), range.end, |_| false);
                        ranges.push(range.end..commands_end);
                    } else {
                        command_bytes += commands::find(text, range.clone(), program, ranges);
                    }
                }
                Rule::Phrase(phrase) if range.start >= masked_end => {
                    let (Some(phrase), Some(searched)) = (PHRASES.get(phrase), searched.get_mut(phrase)) else {
                        continue;
                    };
                    let found = Found { text, needle: range.clone() };
                    if range.start < *searched || !phrase.begins(&found) {
                        continue;
                    }
                    if (found.is_in_sentence() || phrase.reads_back()) && last_examined < range.end {
                        examined += 1;
                        last_examined = range.end;
                    }
                    if examined > most_examined(range.start) {
                        masked_end = range.end + length(text.as_bytes(), range.end, |_| false);
                        ranges.push(range.end..masked_end);
                    } else {
                        ranges.extend(phrase.find(&found, searched));
                    }
                }
                Rule::KeyType if range.start >= key_types_end => {
                    key_types_end = private_keys::find_in_web_key(text, range.start, key_types_end, ranges);
                }
                Rule::Token(..) | Rule::Program(_) | Rule::Phrase(_) | Rule::KeyType => {}
            }
        }
    }
}
