//! Why the command could not do what it was asked.

use std::{
    fmt::Display,
    io::{self, Write},
    process::ExitCode,
};

/// The exit code of a command that could not do what it was asked: 1 is `scan`'s "there are problems".
const FAILED: u8 = 2;

/// Why the command could not do what it was asked: one line for the person who asked, which never
/// holds what a Secret, a log or an answer held.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl Failure {
    /// A failure with this sentence. Line breaks and control characters in it, which come from names
    /// and from others' errors, become spaces.
    pub fn new(sentence: impl Display) -> Self {
        let line = sentence.to_string();
        let words = line.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
        Self(words.collect::<Vec<_>>().join(" "))
    }

    /// Tells the failure on standard error.
    #[must_use]
    pub fn report(&self) -> ExitCode {
        // Where standard error is gone too, the exit code has to do.
        let _ = writeln!(io::stderr(), "orchestr: {self}");
        ExitCode::from(FAILED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_without_escapes() {
        assert_eq!(Failure::new("a\n  b\u{1b}[31m\tc ").to_string(), "a b [31m c");
    }
}
