//! Prints the results of a scan.

use std::io::{self, Write};

use crate::{
    cli::{Failure, process},
    render::{
        Format,
        document::Document,
        groups,
        table::{Layout, terminal_width},
        text,
    },
};

use super::{
    counted,
    flags::{Output, ScanFlags},
    scanned::{Results, Unscanned},
};

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
        namespaces: results.scanned().next().is_none_or(|scanned| scanned.collector.namespaces().single().is_none()),
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
    for Unscanned { context, why } in results.unscanned() {
        note(&format!("{context}: {why}"));
    }
    match results.unscanned().count() {
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
