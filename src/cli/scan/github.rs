//! `-o github`: annotations of a GitHub Actions job, as workflow commands on standard output.
//!
//! GitHub shows ten errors, ten warnings and ten notices of a step, and drops the others.

use std::fmt::Write;

use crate::cli::{
    printable::printable,
    workflow_command::{data, property},
};

use super::{
    incidents::{Entry, largest_first, lines, logs},
    scanned::{Results, Unscanned, older},
};

/// The most annotations of one kind.
const MOST: usize = 10;

/// One error for each of the largest incidents, and one warning for each cluster that could not be scanned.
pub(super) fn annotations(results: &Results) -> String {
    let reports = results.reports();
    let entries = largest_first(&reports);
    let mut out = String::new();
    for entry in entries.iter().take(MOST) {
        command(&mut out, "error", &title(entry), &message(entry));
    }
    let unscanned: Vec<_> = results.unscanned().collect();
    for Unscanned { context, why } in unscanned.iter().take(MOST) {
        command(&mut out, "warning", &format!("{} was not scanned", printable(context)), &why.to_string());
    }
    for (count, noun) in [(entries.len(), "incidents"), (unscanned.len(), "clusters that were not scanned")] {
        if let Some(more) = count.checked_sub(MOST).filter(|more| *more > 0) {
            command(&mut out, "notice", "Orchestr", &format!("and {more} more {noun}"));
        }
    }
    if results.older_pods() > 0 {
        command(&mut out, "notice", "Orchestr", &older(results.older_pods() as u64));
    }
    out
}

fn title(entry: &Entry<'_>) -> String {
    let context = entry.report.context.as_ref().map(|context| format!("{}: ", printable(context))).unwrap_or_default();
    format!("{context}{}: {}", entry.name(), printable(&entry.incident.reason))
}

fn message(entry: &Entry<'_>) -> String {
    let mut message = format!("{}: {}", entry.extent(), entry.message());
    for (heading, log) in entry.example.into_iter().flat_map(logs) {
        message += &format!("\n{heading}:");
        lines(log).for_each(|line| message += &format!("\n{line}"));
    }
    message
}

/// Writes a workflow command. Nothing in it can end the line or the title, which begin further commands and parameters.
fn command(out: &mut String, kind: &str, title: &str, message: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "::{kind} title={}::{}", property(title), data(message));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a line as the runner does.
    fn read(line: &str) -> (String, String, String) {
        let (kind, rest) = line.strip_prefix("::").unwrap().split_once(" title=").unwrap();
        let (title, message) = rest.split_once("::").unwrap();
        let unescape = |text: &str, codes: &[(&str, &str)]| {
            codes.iter().fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
        };
        let of_data = [("%0D", "\r"), ("%0A", "\n"), ("%25", "%")];
        let of_property = [("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")];
        (kind.to_owned(), unescape(title, &of_property), unescape(message, &of_data))
    }

    proptest! {
        #[test]
        fn any_text_stays_in_its_command(title in any::<String>(), message in any::<String>()) {
            let mut out = String::new();
            command(&mut out, "error", &title, &message);
            prop_assert_eq!(out.matches('\n').count(), 1);
            prop_assert_eq!(out.matches('\r').count(), 0);
            let defused = |text: String| text.replace("##[", "# #[");
            prop_assert_eq!(read(out.trim_end_matches('\n')), ("error".to_owned(), defused(title), defused(message)));
        }
    }
}
