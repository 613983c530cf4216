//! Prints the results of a scan, and shows on a terminal how far it has come.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use crate::{
    cli::{
        Failure,
        process::{self, StatusLine},
    },
    render::{
        Format,
        document::{Document, Unchecked},
        groups,
        numbers::thousands,
        table::{Layout, terminal_width},
        text,
    },
};

use super::{
    counted,
    flags::{Output, ScanFlags},
    scanned::Results,
};

/// How often the line is updated. Most scans end before its first update and show nothing.
const INTERVAL: Duration = Duration::from_millis(200);

pub(super) fn print(results: &Results, flags: &ScanFlags) -> Result<(), Failure> {
    let format = match flags.output {
        Output::Table => return print_table(results, flags, false),
        Output::Wide => return print_table(results, flags, true),
        Output::Json => Format::Json,
        Output::Yaml => Format::Yaml,
        Output::Html => Format::Html,
        Output::Markdown => Format::Markdown,
        Output::Junit => Format::Junit,
        Output::Github => Format::Github,
    };
    process::print_document(&Document { by: flags.by, ..results.document() }, format)
}

fn print_table(results: &Results, flags: &ScanFlags, wide: bool) -> Result<(), Failure> {
    let layout = Layout {
        contexts: results.are_named,
        namespaces: results
            .scanned()
            .next()
            .is_none_or(|scanned| scanned.collector.filter.namespaces.single().is_none()),
        wide,
        // A wrapped line cannot be read as a row. `-o wide` shows the whole text.
        width: terminal_width().filter(|_| !wide),
    };
    if results.problems() > 0 {
        let table = match flags.by {
            Some(by) => groups::table(by, &results.document(), layout.width),
            None => results.table(layout),
        };
        let logs = match flags.logs {
            true => text::pods_with_logs(&results.document(), text::Layout::of_terminal(usize::MAX)),
            false => String::new(),
        };
        process::print_text(&(table + &logs))?;
    }
    print_to_stderr(&results.summary());
    Ok(())
}

/// Prints what was not checked or read.
pub(super) fn print_notes(results: &Results) {
    for scanned in results.scanned() {
        scanned.unseen().iter().for_each(|text| match &scanned.context {
            Some(context) => note(&format!("{context}: {text}")),
            None => note(text),
        });
    }
    for Unchecked { context, why } in results.unchecked() {
        note(&format!("{context}: {why}"));
    }
    match results.unchecked().count() {
        0 => {}
        failed => {
            let all = counted(results.clusters.len() as u64, "cluster");
            note(&format!("{failed} of {all} could not be checked"));
        }
    }
}

/// Prints a note to standard error in the form of a failure.
pub(super) fn note(message: &str) {
    print_to_stderr(&format!("orchestr: {}", Failure::new(message)));
}

pub(super) fn print_to_stderr(line: &str) {
    // If standard error is closed, the output and the exit code remain.
    let _ = writeln!(io::stderr(), "{line}");
}

/// How far a scan has come, on a terminal.
pub(super) struct Progress {
    /// Absent if standard error is not a terminal.
    last_update: Option<Instant>,
    line: StatusLine,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { last_update: io::stderr().is_terminal().then(Instant::now), line: StatusLine::default() }
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
        self.line.draw(&line());
    }
}
