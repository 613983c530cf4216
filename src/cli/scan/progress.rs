//! How far a scan has come, for somebody who waits at a terminal.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

/// How often the line is drawn again. Nothing is drawn before that: most scans are over by then.
const EVERY: Duration = Duration::from_millis(200);
const CLEAR: &str = "\r\x1b[K";

/// One line on standard error that is drawn over itself, and gone when the scan is over.
pub(super) struct Progress {
    /// Absent where nobody looks on.
    last: Option<Instant>,
    drawn: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { last: io::stderr().is_terminal().then(Instant::now), drawn: false }
    }

    /// Tells how many pods were read.
    pub(super) fn tell(&mut self, pods: u64) {
        let Some(last) = &mut self.last else { return };
        if last.elapsed() < EVERY {
            return;
        }
        *last = Instant::now();
        self.drawn = true;
        // Where nobody can be told, the scan goes on.
        let _ = write!(io::stderr(), "{CLEAR}read {} pods…", thousands(pods));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn {
            let _ = write!(io::stderr(), "{CLEAR}");
        }
    }
}

/// A number with its digits in groups: `12,500`.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_from_the_right() {
        for (number, grouped) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_500, "12,500"), (1_234_567, "1,234,567")]
        {
            assert_eq!(thousands(number), grouped);
        }
    }
}
