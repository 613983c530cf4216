//! Regular expressions that are part of the code.

use regex::{Regex, RegexBuilder};

/// Compiles a constant pattern. An invalid one panics in every test that uses it.
#[expect(clippy::expect_used, reason = "a redaction rule that silently matches nothing would be worse")]
pub(super) fn constant(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a valid pattern")
}

/// Compiles a constant pattern that is one of many, and searches little text: its cache is small.
#[expect(clippy::expect_used, reason = "as above")]
pub(super) fn small(pattern: &str) -> Regex {
    RegexBuilder::new(pattern).dfa_size_limit(128 * 1024).build().expect("a valid pattern")
}
