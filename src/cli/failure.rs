//! The error that ends a command.

use std::{
    fmt::Display,
    io::{self, Write},
    process::ExitCode,
};

/// The exit code of a command that could not do its work; 1 means that `scan` found problems.
const FAILED: u8 = 2;

/// Why a command could not do its work, as one line for the user. It never contains the contents of a Secret, a log or
/// a response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl Failure {
    /// Line breaks and control characters, which come from names and from other errors, become spaces.
    pub fn new(message: impl Display) -> Self {
        let line = message.to_string();
        let words = line.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
        Self(words.collect::<Vec<_>>().join(" "))
    }

    /// Prints the failure to standard error.
    #[must_use]
    pub fn report(&self) -> ExitCode {
        // If standard error is closed too, the exit code is all that remains.
        let _ = writeln!(io::stderr(), "orchestr: {self}");
        ExitCode::from(FAILED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_one_line_without_control_characters() {
        assert_eq!(Failure::new("a\n  b\u{1b}[31m\tc ").to_string(), "a b [31m c");
    }
}
