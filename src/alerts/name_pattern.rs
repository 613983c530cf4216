//! Patterns of names: a name, or with one `*` in place of any text.
//!
//! Names of owners and teams may be longer and have more characters than those of namespaces, which [`crate::glob`] matches.

use std::collections::HashSet;

use crate::spec_error::{SpecError, invalid, short_enough};

/// The patterns of a list in the spec.
#[derive(Clone, Debug, Default)]
pub(super) struct NameSet {
    /// Those without a `*`.
    names: HashSet<String>,
    patterns: Vec<NamePattern>,
}

impl NameSet {
    /// `what` is what has such a name, such as "an owner", and `longest` is in characters.
    pub fn new(field: &str, texts: &[String], what: &str, longest: usize) -> Result<Self, SpecError> {
        let mut set = Self::default();
        for (index, text) in texts.iter().enumerate() {
            let pattern = NamePattern::new(&format!("{field}[{index}]"), text, what, longest)?;
            match pattern.end {
                None => _ = set.names.insert(pattern.start),
                Some(_) => set.patterns.push(pattern),
            }
        }
        Ok(set)
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.patterns.is_empty()
    }

    pub fn matches(&self, name: &str) -> bool {
        self.names.contains(name) || self.patterns.iter().any(|pattern| pattern.matches(name))
    }
}

/// A name, or what a name begins and ends with.
#[derive(Clone, Debug)]
struct NamePattern {
    start: String,
    /// Absent without a `*`.
    end: Option<String>,
}

impl NamePattern {
    fn new(field: &str, text: &str, what: &str, longest: usize) -> Result<Self, SpecError> {
        short_enough(field, text, longest)?;
        let (start, end) = match text.split_once('*') {
            Some((start, end)) => (start, Some(end)),
            None => (text, None),
        };
        if text.is_empty() || end.is_some_and(|end| end.contains('*')) {
            return Err(invalid(field, format!("{text:?} is not the name of {what} with at most one *")));
        }
        Ok(Self { start: start.to_owned(), end: end.map(str::to_owned) })
    }

    fn matches(&self, name: &str) -> bool {
        match &self.end {
            None => name == self.start,
            Some(end) => name.strip_prefix(self.start.as_str()).is_some_and(|rest| rest.ends_with(end.as_str())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_names_exactly_and_by_both_ends() {
        let new = |pattern: &str| NameSet::new("f", &["other".to_owned(), pattern.to_owned()], "an owner", 20);
        for (pattern, matching, others) in [
            ("cart", &["cart"][..], &["carts", "a-cart", ""][..]),
            ("cart-*", &["cart-", "cart-api"], &["cart", "my-cart-api"]),
            ("*-api", &["cart-api", "-api"], &["cart-api-2", "api"]),
            ("cart*cart", &["cartcart", "cart-1-cart"], &["cart", "carcart"]),
            ("*", &["", "cart"], &[]),
        ] {
            let compiled = new(pattern).unwrap();
            for name in matching {
                assert!(compiled.matches(name), "{pattern} and {name}");
            }
            assert!(compiled.matches("other") && !compiled.is_empty());
            for name in others {
                assert!(!compiled.matches(name), "{pattern} and {name}");
            }
        }
        for pattern in ["", "a*b*c", "**", "a-pattern-of-21-chars"] {
            assert!(new(pattern).is_err(), "{pattern:?}");
        }
        let error = new("**").unwrap_err().to_string();
        assert_eq!(error, r#"f[1]: "**" is not the name of an owner with at most one *"#);
    }
}
