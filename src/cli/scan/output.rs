//! Prints the results of a scan.

use std::io::{self, Write};

use clap::ValueEnum;

use crate::cli::{Failure, ignore_broken_pipe, show, workflow_command::without_commands};

use super::{
    ScanFlags, counted, github,
    groups::{self, groups},
    html,
    json::Document,
    junit, markdown,
    scanned::{Results, Unscanned},
    summary::summary,
    table::{self, Layout},
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// A table
    #[default]
    Table,
    /// A table with all columns
    Wide,
    /// JSON with the incidents and pods of an Orchestr object's status
    Json,
    /// The same as YAML
    Yaml,
    /// A page for a browser, in one file
    Html,
    /// A summary in Markdown, such as for $GITHUB_STEP_SUMMARY; at most 1 MB
    Markdown,
    /// A JUnit test report with one failed test for each incident
    Junit,
    /// Annotations of a GitHub Actions job, one for each of the ten largest incidents
    Github,
}

impl Output {
    /// Whether `--by` has a meaning.
    pub(super) fn has_groups(self) -> bool {
        matches!(self, Self::Table | Self::Wide | Self::Json | Self::Yaml)
    }
}

pub(super) fn print(results: &Results, flags: &ScanFlags) -> Result<(), Failure> {
    let document = || Document::of(results, flags.by);
    match flags.output {
        Output::Table => print_table(results, flags, false),
        Output::Wide => print_table(results, flags, true),
        Output::Json => print_text(serde_json::to_string_pretty(&document()).map_err(Failure::new)? + "\n"),
        Output::Yaml => print_text(serde_yaml::to_string(&document()).map_err(Failure::new)?),
        Output::Html => print_text(html::page(results)),
        Output::Markdown => print_text(markdown::document(results)),
        Output::Junit => print_text(junit::document(results).map_err(Failure::new)?),
        Output::Github => print_text(github::annotations(results)),
    }
}

fn print_text(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    ignore_broken_pipe(out.write_all(text.as_ref()).and_then(|()| out.flush()))
}

fn print_table(results: &Results, flags: &ScanFlags, wide: bool) -> Result<(), Failure> {
    let layout = Layout {
        contexts: results.are_named,
        namespaces: results.scanned().next().is_none_or(|scanned| scanned.collector.namespaces().single().is_none()),
        wide,
        // A wrapped line cannot be read as a row. `-o wide` shows the whole text.
        width: terminal_size::terminal_size_of(io::stdout()).filter(|_| !wide).map(|(width, _)| width.0.into()),
    };
    if results.problems() > 0 {
        let mut text = Vec::new();
        let table = match (flags.by, results.scanned().map(|scanned| scanned.collector.now()).max()) {
            (Some(by), Some(now)) => groups::write(&mut text, groups(by, &results.reports()), now, layout.width),
            _ => table::write(&mut text, results, layout),
        };
        let written = table.and_then(|()| if flags.logs { write_logs(&mut text, results) } else { Ok(()) });
        let text = without_commands(&String::from_utf8_lossy(&text));
        let mut out = anstream::AutoStream::auto(io::stdout().lock());
        ignore_broken_pipe(written.and_then(|()| out.write_all(text.as_bytes())).and_then(|()| out.flush()))?;
    }
    print_to_stderr(&summary(results));
    Ok(())
}

/// Writes the pods whose logs were to be read, in the order of the table.
fn write_logs(out: &mut impl Write, results: &Results) -> io::Result<()> {
    for mut report in results.reports() {
        let pods = &mut report.problematic_pods;
        pods.retain(|pod| pod.container_issues.iter().any(|issue| issue.log_source.is_some()));
        if pods.is_empty() {
            continue;
        }
        pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        let heading = report.context.map_or("Pods".to_owned(), |context| format!("Pods of {context}"));
        let layout = show::text::Layout::of_terminal(usize::MAX);
        show::text::write_pods(out, &heading, &report.problematic_pods, layout, report.now)?;
    }
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
