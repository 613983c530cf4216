//! Regular expressions that are part of the code.

use regex::Regex;

/// Compiles a constant pattern. An invalid one panics in every test that uses it.
#[expect(clippy::expect_used, reason = "a redaction rule that silently matches nothing would be worse")]
pub(super) fn constant(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a valid pattern")
}
