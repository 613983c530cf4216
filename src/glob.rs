//! Glob patterns of namespaces: `team-*`, `pr-[0-9]?`, `{shop,bank}-prod`.
//!
//! The grammar is the schema's [`NAMESPACE_PATTERN`], so the operator accepts the same patterns as the API server.
//! fast-glob matches the text itself, so a pattern takes no more memory than its characters. Compiled to regular
//! expressions, the patterns of a thousand objects would take kilobytes each.

use std::sync::LazyLock;

use regex::Regex;

use crate::api::{NAMESPACE_PATTERN, NAMESPACE_PATTERN_SYNTAX};

/// How many patterns the `{…}` groups of one pattern may expand to. Each is tried in turn, so this bounds the time of a
/// match; the schema cannot count them.
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
    /// fast-glob's own limit, which only groups of a single alternative can reach before [`MAX_ALTERNATIVES`].
    #[error("contains more than 10 groups in {{}}")]
    TooManyGroups,
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
        fast_glob::validate(pattern).map_err(|_| GlobError::TooManyGroups)?;
        Ok(Self(pattern.into()))
    }

    /// The alternatives without a wildcard: the namespaces that the pattern names.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        expand(&self.0).into_iter().filter(|alternative| !alternative.contains(['*', '?', '[']))
    }

    /// Whether the pattern matches the whole name.
    #[must_use]
    pub fn is_match(&self, name: &str) -> bool {
        fast_glob::glob_match(self.0.as_bytes(), name)
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
        let single_groups = "{a}".repeat(11);
        for (pattern, problem) in [
            ("a[0-9z-a]", "contains the range z-a, which is backwards"),
            ("[!9-0]", "contains the range 9-0, which is backwards"),
            ("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "expands to more than 64 alternatives"),
            (&single_groups, "contains more than 10 groups in {}"),
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

    /// The slowest patterns found by a random search take about a millisecond in a release build. Without the limit on
    /// alternatives the time would grow exponentially with the groups.
    #[test]
    fn bounds_the_cost_of_hostile_patterns() {
        let groups = "{a,b}".repeat(6);
        let name = "a".repeat(63);
        for pattern in [
            "*a".repeat(126),
            "*a*a*a*a*b".to_owned(),
            format!("{groups}{}b", "*a".repeat(111)),
            format!("{}b{groups}", "*a".repeat(111)),
            format!("{}*{}b", "{*,**}".repeat(6), "a".repeat(30)),
            format!("{{{}}}*{}b", ["*a"; 64].join(","), "a".repeat(30)),
        ] {
            let glob = Glob::new(&pattern).unwrap();
            let start = Instant::now();
            for _ in 0..8 {
                assert!(!glob.is_match(&name));
            }
            assert!(start.elapsed() < Duration::from_secs(5), "{pattern}: {:?}", start.elapsed());
        }
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
            name in "[ab-]{0,6}",
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
