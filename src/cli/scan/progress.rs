//! Shows on a terminal how far a scan has come.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

/// How often the line is updated. Most scans end before its first update and show nothing.
const INTERVAL: Duration = Duration::from_millis(200);
const CLEAR: &str = "\r\x1b[K";

/// A line on standard error that is updated in place and cleared when the value is dropped.
pub(super) struct Progress {
    /// Absent if standard error is not a terminal.
    last_update: Option<Instant>,
    drawn: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { last_update: io::stderr().is_terminal().then(Instant::now), drawn: false }
    }

    /// Shows how many pods were read so far.
    pub(super) fn update(&mut self, pods: u64) {
        self.show(|| format!("read {} pods…", thousands(pods)));
    }

    pub(super) fn show(&mut self, line: impl FnOnce() -> String) {
        let Some(last_update) = &mut self.last_update else { return };
        if last_update.elapsed() < INTERVAL {
            return;
        }
        *last_update = Instant::now();
        self.drawn = true;
        // If standard error is closed, the scan continues without progress.
        let _ = write!(io::stderr(), "{CLEAR}{}", line());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn {
            let _ = write!(io::stderr(), "{CLEAR}");
        }
    }
}

/// Formats a number with its digits in groups: `12,500`.
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
    fn groups_digits_from_the_right() {
        for (number, grouped) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_500, "12,500"), (1_234_567, "1,234,567")]
        {
            assert_eq!(thousands(number), grouped);
        }
    }
}
