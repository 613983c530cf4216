//! Shows on standard error how far the targets are: one line that is redrawn on a terminal, otherwise a line for each change.

use std::{
    collections::HashMap,
    io::{self, IsTerminal, Write},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    cli::process::StatusLine,
    render::{
        document::length,
        safe::{cut, without_commands},
    },
};

/// How often the elapsed time on a terminal is updated.
const TICK: Duration = Duration::from_secs(1);
/// The shortest time between two lines about a target in a pipe.
const INTERVAL: Duration = Duration::from_secs(1);
/// The width if that of the terminal is unknown, in columns.
const WIDTH: usize = 80;

/// What is shown of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) target: String,
    pub(super) what: String,
    pub(super) is_done: bool,
    /// Whether everything about it was read once.
    pub(super) is_read: bool,
}

pub(super) struct Progress {
    is_terminal: bool,
    begun: Instant,
    /// What was printed last of each target, and when.
    printed: HashMap<usize, (Line, Instant)>,
    line: StatusLine,
}

impl Progress {
    pub(super) fn new(begun: Instant) -> Self {
        let (is_terminal, line) = (io::stderr().is_terminal(), StatusLine::default());
        Self { is_terminal, begun, printed: HashMap::new(), line }
    }

    /// Shows the targets, and returns when to call this again although nothing changes.
    pub(super) fn show(&mut self, lines: &[Line], now: Instant) -> Option<Instant> {
        let mut again = None;
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.is_read) {
            let known = self.printed.get(&index);
            // On a terminal, only what lasts gets a line of its own.
            let is_new = match known {
                Some((known, _)) if self.is_terminal => line.is_done && !known.is_done,
                None if self.is_terminal => line.is_done,
                known => known.is_none_or(|(known, _)| known != line),
            };
            if !is_new {
                if self.is_terminal && known.is_some_and(|(known, _)| known.is_done && !line.is_done) {
                    self.printed.remove(&index);
                }
                continue;
            }
            if let Some((known, at)) = known
                && known.is_done == line.is_done
                && now < *at + INTERVAL
            {
                again = Some(again.map_or(*at + INTERVAL, |again: Instant| again.min(*at + INTERVAL)));
                continue;
            }
            let text = if line.is_done {
                format!("{}: healthy, {}", line.target, line.what)
            } else {
                format!("{}: {}", line.target, line.what)
            };
            self.note(&text);
            self.printed.insert(index, (line.clone(), now));
        }
        if !self.is_terminal {
            return again;
        }
        self.draw(lines, now);
        Some(now + TICK)
    }

    /// Prints a line that stays.
    pub(super) fn note(&mut self, text: &str) {
        self.line.clear();
        // If standard error is closed, the output and the exit code remain.
        let _ = writeln!(io::stderr(), "{}", without_commands(text));
    }

    fn draw(&mut self, lines: &[Line], now: Instant) {
        let waiting: Vec<&Line> = lines.iter().filter(|line| !line.is_done).collect();
        let Some(first) = waiting.first() else { return };
        let elapsed = length(now.saturating_duration_since(self.begun));
        let others = match lines.len() {
            1 => String::new(),
            all => format!("{} of {all} healthy; ", all - waiting.len()),
        };
        let width = terminal_size::terminal_size_of(io::stderr()).map_or(WIDTH, |(width, _)| width.0.into());
        let line = format!("[{elapsed}] {others}{}: {}", first.target, first.what);
        self.line.draw(&cut(&without_commands(&line), width.saturating_sub(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_how_often_a_target_gets_a_line_in_a_pipe() {
        let now = Instant::now();
        let mut progress = Progress { is_terminal: false, ..Progress::new(now) };
        let line = |what: &str, is_done| Line {
            target: "deployment/cart".to_owned(),
            what: what.to_owned(),
            is_done,
            is_read: true,
        };
        let shown = |progress: &Progress| progress.printed.get(&0).map(|(line, _)| line.what.clone()).unwrap();
        assert_eq!(progress.show(&[line("a", false)], now), None);
        assert_eq!(progress.show(&[line("b", false)], now), Some(now + INTERVAL));
        assert_eq!(shown(&progress), "a");
        assert_eq!(progress.show(&[line("c", false)], now + INTERVAL), None);
        assert_eq!(shown(&progress), "c");
        // That a target is healthy is shown immediately.
        assert_eq!(progress.show(&[line("d", true)], now + INTERVAL), None);
        assert_eq!(shown(&progress), "d");
    }
}
