//! Glob patterns of namespaces: `team-*`, `pr-[0-9]?`, `{shop,bank}-prod`.
//!
//! The grammar is the schema's [`NAMESPACE_PATTERN`], so the operator accepts the same patterns as the API server.
//!
//! A pattern is matched in one pass over its text, without expanding or compiling it: the places in the name that the
//! pattern has reached are the bits of one word, because a namespace has at most 63 characters. So a pattern takes no more
//! memory than its characters, and a match no more steps than these, whatever the pattern and the name. None of the crates
//! for globs does that: they compile regular expressions, or backtrack.

use std::{
    collections::VecDeque,
    sync::{LazyLock, Mutex, PoisonError},
};

use regex::Regex;

use crate::api::{NAMESPACE_PATTERN, NAMESPACE_PATTERN_SYNTAX};

/// How many patterns the `{…}` groups of one pattern may expand to, which bounds the names in [`Glob::names`]. The schema
/// cannot count them.
const MAX_ALTERNATIVES: usize = 64;

/// A glob pattern of namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Box<str>);

/// Why a text cannot be used as a pattern, as the end of a sentence that begins with the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    #[error("is not {NAMESPACE_PATTERN_SYNTAX}")]
    Syntax,
    #[error("contains the range {0}-{1}, which is backwards")]
    BackwardsRange(char, char),
    #[error("expands to more than {MAX_ALTERNATIVES} alternatives")]
    TooManyAlternatives,
}

impl Glob {
    /// # Errors
    /// When the API server would reject the pattern, a range is backwards, or the pattern expands to too many
    /// alternatives.
    pub fn new(pattern: &str) -> Result<Self, GlobError> {
        static SYNTAX: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(NAMESPACE_PATTERN).ok());
        if !SYNTAX.as_ref().is_some_and(|syntax| syntax.is_match(pattern)) {
            return Err(GlobError::Syntax);
        }
        if let Some((low, high)) = backwards_range(pattern) {
            return Err(GlobError::BackwardsRange(low, high));
        }
        let alternatives = groups(pattern).map(|group| group.split(',').count()).try_fold(1, usize::checked_mul);
        if alternatives.is_none_or(|count| count > MAX_ALTERNATIVES) {
            return Err(GlobError::TooManyAlternatives);
        }
        Ok(Self(pattern.into()))
    }

    /// The alternatives without a wildcard: the namespaces that the pattern names.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        expand(&self.0).into_iter().filter(|alternative| !alternative.contains(['*', '?', '[']))
    }

    /// Whether the pattern matches the whole name.
    #[must_use]
    pub fn is_match(&self, name: &str) -> bool {
        Name::new(name).is_some_and(|name| self.matches(&name))
    }

    /// Whether the pattern matches the whole name, which several patterns can share.
    #[must_use]
    pub(crate) fn matches(&self, name: &Name) -> bool {
        // The places in the name up to which the pattern so far matches. Bit 0 is the beginning.
        let mut places = 1_u64;
        // In a group: the places at its beginning, and those at the ends of the alternatives so far.
        let (mut entered, mut left) = (0, 0);
        let mut rest = self.0.as_bytes();
        while let [first, following @ ..] = rest {
            rest = following;
            match first {
                b'*' => places = name.all_from_lowest(places),
                b'?' => places = (places & name.characters) << 1,
                b'{' => (entered, left) = (places, 0),
                b',' => (places, left) = (entered, left | places),
                b'}' => (places, entered, left) = (places | left, 0, 0),
                b'[' => {
                    let (class, length) = class(rest, name);
                    places = (places & class) << 1;
                    rest = rest.get(length..).unwrap_or_default();
                }
                &literal => places = (places & name.places_of(literal)) << 1,
            }
        }
        places & name.end != 0
    }
}

/// A name of a namespace, prepared to be matched.
#[derive(Debug)]
pub(crate) struct Name {
    /// For each ASCII character, the places before it.
    places: [u64; 128],
    /// The places before any character.
    characters: u64,
    /// The place at the end.
    end: u64,
}

impl Name {
    /// Absent for a name that is too long for a namespace, which no pattern matches.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let length = u32::try_from(name.len()).ok().filter(|length| *length < u64::BITS)?;
        let end = 1_u64 << length;
        let mut places = [0; 128];
        for (at, character) in name.bytes().enumerate() {
            if let Some(places) = places.get_mut(usize::from(character)) {
                *places |= 1 << at;
            }
        }
        Some(Self { places, characters: end - 1, end })
    }

    fn places_of(&self, character: u8) -> u64 {
        self.places.get(usize::from(character)).copied().unwrap_or_default()
    }

    /// All places from the lowest of some on.
    fn all_from_lowest(&self, places: u64) -> u64 {
        let lowest = places & places.wrapping_neg();
        // Without any place, `lowest` is 0, and so is the result.
        !lowest.wrapping_sub(1) & (self.characters | self.end)
    }
}

/// The places before a character of a class, whose text follows its `[`, and the length of that text.
fn class(text: &[u8], name: &Name) -> (u64, usize) {
    let length = text.iter().position(|&character| character == b']').map_or(text.len(), |at| at + 1);
    let class = text.get(..length).and_then(|class| class.strip_suffix(b"]")).unwrap_or_default();
    let (is_negated, mut rest) = class.strip_prefix(b"!").map_or((false, class), |rest| (true, rest));
    let mut places = 0;
    loop {
        let (low, high);
        (low, high, rest) = match rest {
            [low, b'-', high, rest @ ..] => (*low, *high, rest),
            [one, rest @ ..] => (*one, *one, rest),
            [] => break,
        };
        places = (low..=high).fold(places, |places, character| places | name.places_of(character));
    }
    (if is_negated { name.characters & !places } else { places }, length)
}

/// Remembers whether some patterns select the last namespaces that they were matched with. There may be 128 patterns, and a
/// hundred things in one namespace.
#[derive(Debug, Default)]
pub(crate) struct NamespaceCache(Mutex<VecDeque<(Box<str>, bool)>>);

impl NamespaceCache {
    const NAMESPACES: usize = 16;

    pub(crate) fn get(&self, namespace: &str, is_selected: impl FnOnce() -> bool) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, is_selected)) = known.iter().find(|(name, _)| **name == *namespace) {
            return *is_selected;
        }
        let is_selected = is_selected();
        if known.len() == Self::NAMESPACES {
            known.pop_front();
        }
        known.push_back((namespace.into(), is_selected));
        is_selected
    }
}

impl Clone for NamespaceCache {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// The contents of the `{…}` groups, which do not nest.
fn groups(pattern: &str) -> impl Iterator<Item = &str> {
    pattern.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}

/// The first range of a `[…]` class whose end comes before its start.
fn backwards_range(pattern: &str) -> Option<(char, char)> {
    let classes = pattern.split('[').skip(1).filter_map(|rest| rest.split(']').next());
    for class in classes {
        let mut rest = class.strip_prefix('!').unwrap_or(class).as_bytes();
        loop {
            rest = match rest {
                [low, b'-', high, ..] if low > high => return Some((char::from(*low), char::from(*high))),
                [_, b'-', _, rest @ ..] | [_, rest @ ..] => rest,
                [] => break,
            };
        }
    }
    None
}

/// The patterns that result from choosing one alternative of each `{…}` group.
fn expand(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else { return vec![pattern.to_owned()] };
    let (group, after) = rest.split_once('}').unwrap_or((rest, ""));
    let endings = expand(after);
    let choices = group.split(',').flat_map(|choice| endings.iter().map(move |ending| (choice, ending)));
    choices.map(|(choice, ending)| format!("{before}{choice}{ending}")).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn matches_whole_names() {
        for (pattern, matching, others) in [
            ("shop", &["shop"][..], &["shops", "a-shop", "sho", ""][..]),
            ("*", &["", "shop"], &[]),
            ("**", &["", "shop"], &[]),
            ("team-*", &["team-", "team-a"], &["team", "a-team-b"]),
            ("*-prod", &["shop-prod", "prod-prod"], &["prod", "shop-prod-2"]),
            ("a*b*c", &["abc", "axbxbxc"], &["axc", "abcd"]),
            ("pr-??", &["pr-12"], &["pr-1", "pr-123"]),
            ("pr-[0-9]", &["pr-7"], &["pr-x", "pr-", "pr-77"]),
            ("[!a-y]*", &["z", "0-a"], &["a", ""]),
            ("[a-]b", &["ab", "-b"], &["bb"]),
            ("{shop,bank}-{dev,prod}", &["shop-dev", "bank-prod"], &["shop", "shop-", "shopbank-dev"]),
            ("x{a*,[0-9]?}", &["xa", "xabc", "x0z"], &["x", "x0", "xb"]),
        ] {
            let glob = Glob::new(pattern).unwrap();
            for name in matching {
                assert!(glob.is_match(name), "{pattern} {name}");
            }
            for name in others {
                assert!(!glob.is_match(name), "{pattern} {name}");
            }
        }
    }

    #[test]
    fn rejects_patterns_that_the_schema_rejects() {
        for pattern in [
            "",
            "Team",
            "a/b",
            "!kube-*",
            "é",
            "[ab",
            "[]",
            "[!]",
            "[a*]",
            "a]",
            "{a,b",
            "{a,{b,c}}",
            "{a,}",
            "a,b",
            "a}",
        ] {
            assert_eq!(Glob::new(pattern), Err(GlobError::Syntax), "{pattern}");
        }
    }

    #[test]
    fn rejects_patterns_that_only_the_operator_can_judge() {
        for (pattern, problem) in [
            ("a[0-9z-a]", "contains the range z-a, which is backwards"),
            ("[!9-0]", "contains the range 9-0, which is backwards"),
            ("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "expands to more than 64 alternatives"),
        ] {
            assert_eq!(Glob::new(pattern).unwrap_err().to_string(), problem, "{pattern}");
        }
    }

    #[test]
    fn names_the_alternatives_without_a_wildcard() {
        let names = |pattern| Glob::new(pattern).unwrap().names().collect::<Vec<_>>();
        assert_eq!(names("shop"), ["shop"]);
        assert_eq!(names("{a,b*}-{x,y}"), ["a-x", "a-y"]);
        assert!(names("team-?").is_empty());
    }

    /// The patterns that a matcher which backtracks takes longest to match: about a millisecond each, in a release build. A spec
    /// may contain 128 of them. One pass takes some microseconds, also in a debug build.
    #[test]
    fn matches_hostile_patterns_in_one_pass() {
        let groups = "{a,b}".repeat(6);
        let name = Name::new(&"a".repeat(63)).unwrap();
        for pattern in [
            "*a".repeat(126),
            "*a*a*a*a*b".to_owned(),
            format!("{groups}{}b", "*a".repeat(111)),
            format!("{}b{groups}", "*a".repeat(111)),
            format!("{}*{}b", "{*,**}".repeat(6), "a".repeat(30)),
            format!("{{{}}}*{}b", ["*a"; 64].join(","), "a".repeat(30)),
        ] {
            let (glob, start) = (Glob::new(&pattern).unwrap(), Instant::now());
            let is_match = (0..1000).any(|_| glob.matches(&name));
            let took = start.elapsed();
            assert!(!is_match && took < Duration::from_secs(1), "{pattern}: {took:?}");
        }
    }

    #[test]
    fn remembers_the_last_namespaces() {
        let (cache, matched) = (NamespaceCache::default(), std::cell::Cell::new(0));
        let ask = |index: usize| {
            let is_selected = cache.get(&format!("team-{index}"), || {
                matched.set(matched.get() + 1);
                index.is_multiple_of(2)
            });
            assert_eq!(is_selected, index.is_multiple_of(2));
            matched.get()
        };
        for _ in 0..100 {
            for index in 0..NamespaceCache::NAMESPACES {
                assert!(ask(index) <= NamespaceCache::NAMESPACES);
            }
        }
        assert_eq!((ask(99), ask(99), ask(0)), (17, 17, 18), "the oldest was forgotten");
        assert_eq!(cache.0.lock().unwrap().len(), NamespaceCache::NAMESPACES);
    }

    #[test]
    fn matches_names_up_to_the_longest() {
        for length in [0, 1, 62, 63] {
            let name = "a".repeat(length);
            assert!(Glob::new("*").unwrap().is_match(&name) && !Glob::new("*b").unwrap().is_match(&name), "{length}");
            let exact = Glob::new(&"?".repeat(length.max(1))).unwrap();
            assert_eq!(exact.is_match(&name), length > 0, "{length}");
        }
        assert!(!Glob::new("*").unwrap().is_match(&"a".repeat(64)), "no namespace has 64 characters");
    }

    /// The same pattern as a regular expression.
    fn as_regex(pattern: &str) -> Regex {
        let mut regex = String::from("^(?s:");
        let mut in_class = false;
        for c in pattern.chars() {
            match c {
                '[' | ']' => {
                    in_class = c == '[';
                    regex.push(c);
                }
                '!' => regex.push('^'),
                _ if in_class => regex.push(c),
                '*' => regex.push_str(".*"),
                '?' => regex.push('.'),
                '{' => regex.push_str("(?:"),
                ',' => regex.push('|'),
                '}' => regex.push(')'),
                _ => regex.push(c),
            }
        }
        Regex::new(&(regex + ")$")).unwrap()
    }

    proptest! {
        #[test]
        fn matches_like_a_regular_expression(
            pattern in "([ab*?-]|\\[!?[ab]{1,3}\\]|\\[a-b\\]|\\{[ab*]{1,2}(,[ab?]{1,2}){0,2}\\}){1,5}",
            name in "[abc-]{0,6}",
        ) {
            if let Ok(glob) = Glob::new(&pattern) {
                prop_assert_eq!(glob.is_match(&name), as_regex(&pattern).is_match(&name));
            }
        }

        #[test]
        fn every_name_of_a_pattern_matches_it(pattern in "([ab-]|\\{[ab*]{1,2}(,[ab?]{1,2}){0,2}\\}){1,5}") {
            if let Ok(glob) = Glob::new(&pattern) {
                for name in glob.names() {
                    prop_assert!(glob.is_match(&name), "{}", name);
                }
            }
        }
    }
}
