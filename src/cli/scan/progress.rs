//! Shows on a terminal how far a scan has come.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use crate::render::numbers::thousands;

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
