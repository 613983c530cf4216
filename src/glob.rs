//! Glob patterns of namespaces: `team-*`, `pr-[0-9]?`, `{shop,bank}-prod`.
//!
//! A matcher of its own: a pattern here is some dozens of bytes and its match at worst some hundred steps,
//! whatever was written. Compiled to regular expressions, the patterns of a thousand objects would hold a
//! thousand automata, and a hostile one would grow its own without need.

/// The syntax of a pattern as a regular expression, for the API server; it can't count the alternatives, nor see a range
/// that is backwards.
pub(crate) const SYNTAX: &str =
    r"^([a-z0-9*?-]|\[!?[a-z0-9-]+\]|\{([a-z0-9*?-]|\[!?[a-z0-9-]+\])+(,([a-z0-9*?-]|\[!?[a-z0-9-]+\])+)*\})+$";

/// How many patterns the groups of one pattern may expand to.
const MAX_ALTERNATIVES: usize = 64;

/// A glob pattern of namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    alternatives: Vec<Vec<Token>>,
}

/// Why a text is not a glob pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// Nothing.
    #[error("is empty")]
    Empty,
    /// A character that no namespace's name holds and that has no meaning in a pattern.
    #[error("holds {0:?}, which is in no namespace's name")]
    Character(char),
    /// `[` without `]`.
    #[error("lacks the ] for its [")]
    UnclosedClass,
    /// `[]`.
    #[error("holds an empty []")]
    EmptyClass,
    /// `[z-a]`.
    #[error("holds the range {0}-{1}, which is backwards")]
    BackwardsRange(char, char),
    /// `{` without `}`.
    #[error("lacks the }} for its {{")]
    UnclosedGroup,
    /// `{a,{b,c}}`.
    #[error("holds a {{ within {{ }}")]
    NestedGroup,
    /// `{a,}`.
    #[error("holds {{ }} with an empty alternative")]
    EmptyAlternative,
    /// `]`, `}` or `,` where nothing is open.
    #[error("holds {0:?} with nothing open before it")]
    Unopened(char),
    /// `{a,b}{c,d}…`
    #[error("stands for more than {MAX_ALTERNATIVES} alternatives")]
    TooManyAlternatives,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// `?`
    AnyByte,
    /// `*`
    AnyBytes,
    /// `[a-z]`, `[!a-z]`
    Class {
        negated: bool,
        ranges: Vec<(u8, u8)>,
    },
}

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    /// When it isn't one, or its groups multiply to more than 64 alternatives.
    pub fn new(pattern: &str) -> Result<Self, GlobError> {
        if pattern.is_empty() {
            return Err(GlobError::Empty);
        }
        let mut alternatives = vec![Vec::new()];
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            let choices = match c {
                '{' => group(&mut chars)?,
                '}' | ',' => return Err(GlobError::Unopened(c)),
                _ => vec![vec![token(c, &mut chars)?]],
            };
            if alternatives.len() * choices.len() > MAX_ALTERNATIVES {
                return Err(GlobError::TooManyAlternatives);
            }
            alternatives = alternatives
                .iter()
                .flat_map(|begun| choices.iter().map(move |choice| [begun.as_slice(), choice].concat()))
                .collect();
        }
        Ok(Self { alternatives })
    }

    /// The names among the alternatives: those without a wildcard.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        let byte = |token: &Token| if let Token::Byte(byte) = token { Some(char::from(*byte)) } else { None };
        self.alternatives.iter().filter_map(move |tokens| tokens.iter().map(byte).collect())
    }

    /// Whether the whole name is as the pattern says.
    #[must_use]
    pub fn is_match(&self, name: &str) -> bool {
        self.alternatives.iter().any(|tokens| matches(tokens, name.as_bytes()))
    }
}

/// Reads what follows a `{`.
fn group(chars: &mut std::str::Chars<'_>) -> Result<Vec<Vec<Token>>, GlobError> {
    let mut choices = vec![];
    let mut choice = vec![];
    loop {
        match chars.next().ok_or(GlobError::UnclosedGroup)? {
            '{' => return Err(GlobError::NestedGroup),
            ',' | '}' if choice.is_empty() => return Err(GlobError::EmptyAlternative),
            ',' => choices.push(std::mem::take(&mut choice)),
            '}' => {
                choices.push(choice);
                return Ok(choices);
            }
            c => choice.push(token(c, chars)?),
        }
    }
}

/// Reads the token that `first` begins.
fn token(first: char, chars: &mut std::str::Chars<'_>) -> Result<Token, GlobError> {
    match first {
        '*' => Ok(Token::AnyBytes),
        '?' => Ok(Token::AnyByte),
        '[' => class(chars),
        ']' => Err(GlobError::Unopened(first)),
        _ => name_byte(first).map(Token::Byte),
    }
}

/// Reads what follows a `[`.
fn class(chars: &mut std::str::Chars<'_>) -> Result<Token, GlobError> {
    let (content, rest) = chars.as_str().split_once(']').ok_or(GlobError::UnclosedClass)?;
    *chars = rest.chars();
    let (negated, content) = content.strip_prefix('!').map_or((false, content), |content| (true, content));
    let bytes = content.chars().map(name_byte).collect::<Result<Vec<u8>, _>>()?;
    let mut ranges = vec![];
    let mut rest = bytes.as_slice();
    loop {
        rest = match rest {
            [] if ranges.is_empty() => return Err(GlobError::EmptyClass),
            [] => return Ok(Token::Class { negated, ranges }),
            [low, b'-', high, ..] if low > high => {
                return Err(GlobError::BackwardsRange(char::from(*low), char::from(*high)));
            }
            [low, b'-', high, rest @ ..] => {
                ranges.push((*low, *high));
                rest
            }
            [byte, rest @ ..] => {
                ranges.push((*byte, *byte));
                rest
            }
        };
    }
}

fn name_byte(c: char) -> Result<u8, GlobError> {
    match c {
        'a'..='z' | '0'..='9' | '-' => u8::try_from(c).map_err(|_| GlobError::Character(c)),
        _ => Err(GlobError::Character(c)),
    }
}

/// Each `*` takes as little as it can; where the rest then fails, the last `*` alone takes one more: at most
/// as many steps as tokens times bytes.
fn matches(tokens: &[Token], name: &[u8]) -> bool {
    let (mut at_token, mut at_byte) = (0, 0);
    let mut last_star = None;
    loop {
        match (tokens.get(at_token), name.get(at_byte)) {
            (None, None) => return true,
            (Some(Token::AnyBytes), _) => {
                at_token += 1;
                last_star = Some((at_token, at_byte));
            }
            (Some(token), Some(&byte)) if token.takes(byte) => {
                at_token += 1;
                at_byte += 1;
            }
            _ => match last_star {
                Some((after_star, taken)) if taken < name.len() => {
                    last_star = Some((after_star, taken + 1));
                    (at_token, at_byte) = (after_star, taken + 1);
                }
                _ => return false,
            },
        }
    }
}

impl Token {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Self::Byte(own) => *own == byte,
            Self::AnyByte | Self::AnyBytes => true,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (low..=high).contains(&&byte)) != *negated
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    #[test]
    fn matches_whole_names() {
        for (pattern, matching, others) in [
            ("shop", &["shop"][..], &["shops", "a-shop", "sho", ""][..]),
            ("*", &["", "shop"], &[]),
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
    fn says_what_is_wrong() {
        for (pattern, problem) in [
            ("", "is empty"),
            ("Team", "holds 'T', which is in no namespace's name"),
            ("a/b", "holds '/', which is in no namespace's name"),
            ("!kube-*", "holds '!', which is in no namespace's name"),
            ("é", "holds 'é', which is in no namespace's name"),
            ("[ab", "lacks the ] for its ["),
            ("[]", "holds an empty []"),
            ("[!]", "holds an empty []"),
            ("[z-a]", "holds the range z-a, which is backwards"),
            ("[a*]", "holds '*', which is in no namespace's name"),
            ("a]", "holds ']' with nothing open before it"),
            ("{a,b", "lacks the } for its {"),
            ("{a,{b,c}}", "holds a { within { }"),
            ("{a,}", "holds { } with an empty alternative"),
            ("a,b", "holds ',' with nothing open before it"),
            ("a}", "holds '}' with nothing open before it"),
            ("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "stands for more than 64 alternatives"),
        ] {
            assert_eq!(Glob::new(pattern).unwrap_err().to_string(), problem, "{pattern}");
        }
    }

    /// The worst that 253 characters can ask for.
    #[test]
    fn a_hostile_pattern_is_no_work() {
        let glob = Glob::new(&"*a".repeat(126)).unwrap();
        let name = "a".repeat(63) + "b";
        for _ in 0..1_000 {
            assert!(!glob.is_match(&name));
        }
    }

    /// The same by a regular expression.
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
        fn matches_what_a_regular_expression_does(
            pattern in "([ab*?-]|\\[!?[ab]{1,3}\\]|\\[a-b\\]|\\{[ab*]{1,2},[ab?]{1,2}\\}){1,5}",
            name in "[ab-]{0,6}",
        ) {
            prop_assert_eq!(Glob::new(&pattern).unwrap().is_match(&name), as_regex(&pattern).is_match(&name));
        }

        /// What the API server lets pass is read, but for what its rule can't count or compare.
        #[test]
        fn reads_what_the_schema_allows(pattern in "[ab*?,!\\[\\]{}A-]{0,8}") {
            let allowed = Regex::new(SYNTAX).unwrap().is_match(&pattern);
            match Glob::new(&pattern) {
                Ok(_) => prop_assert!(allowed),
                Err(GlobError::BackwardsRange(..) | GlobError::TooManyAlternatives) => {}
                Err(error) => prop_assert!(!allowed, "{}", error),
            }
        }
    }
}
