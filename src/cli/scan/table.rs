//! Prints the pods with a problem as a table in the layout of kubectl's.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::{
    cli::printable::printable,
    diagnosis::{Finding, human_duration, ready_counts, restarts},
    pods::Pod,
};

/// Spaces between columns, as in kubectl's tables.
const GAP: usize = 3;
/// The minimum width of the message column, in terminal columns, however narrow the terminal.
const MIN_MESSAGE_WIDTH: usize = 60;
const HEADING: Style = Style::new().bold();
const REASON: Style = AnsiColor::Red.on_default();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Whether to print the NAMESPACE column.
    pub(super) namespaces: bool,
    pub(super) wide: bool,
    /// The maximum width of a line in terminal columns; absent if lines may be of any length.
    pub(super) width: Option<usize>,
}

/// Writes the table, sorted by namespace and name, always with colours: the stream removes them if it is not a terminal.
pub(super) fn write(
    out: &mut impl Write,
    problems: &[(Pod, Finding)],
    layout: Layout,
    now: Timestamp,
) -> io::Result<()> {
    let mut pods: Vec<_> = problems.iter().collect();
    pods.sort_by(|(a, _), (b, _)| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let columns = columns(layout);
    let mut widths: Vec<usize> = columns.iter().map(|column| column.heading.len()).collect();
    let mut rows: Vec<Vec<String>> = pods
        .into_iter()
        .map(|(pod, finding)| columns.iter().map(|column| printable(&(column.cell)(pod, finding, now))).collect())
        .collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    if let (Some(width), Some((message, others))) = (layout.width, widths.split_last()) {
        let available = width.saturating_sub(others.iter().map(|width| width + GAP).sum()).max(MIN_MESSAGE_WIDTH);
        if available < *message {
            rows.iter_mut().filter_map(|row| row.last_mut()).for_each(|cell| truncate(cell, available));
        }
    }
    let headings: Vec<_> = columns.iter().map(|column| column.heading.to_owned()).collect();
    line(out, &headings, &widths, |_| HEADING)?;
    for row in &rows {
        line(out, row, &widths, |index| columns.get(index).map(|column| column.style).unwrap_or_default())?;
    }
    Ok(())
}

fn line(out: &mut impl Write, cells: &[String], widths: &[usize], style: impl Fn(usize) -> Style) -> io::Result<()> {
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let style = style(index);
        write!(out, "{style}{cell}{style:#}")?;
        if index + 1 < cells.len() {
            write!(out, "{:1$}", "", width - cell.width() + GAP)?;
        }
    }
    writeln!(out)
}

struct Column {
    heading: &'static str,
    style: Style,
    cell: fn(&Pod, &Finding, Timestamp) -> String,
}

fn columns(layout: Layout) -> Vec<Column> {
    let column = |heading, cell| Column { heading, style: Style::new(), cell };
    let mut columns = Vec::new();
    if layout.namespaces {
        columns.push(column("NAMESPACE", |pod, _, _| pod.namespace.to_string()));
    }
    columns.extend([
        column("NAME", |pod, _, _| pod.name.to_string()),
        column("READY", |pod, _, _| {
            let (ready, total) = ready_counts(pod);
            format!("{ready}/{total}")
        }),
        column("STATUS", |_, finding, _| finding.status.clone()),
        column("RESTARTS", |pod, _, now| restarts(pod, now)),
        column("AGE", |pod, _, now| match pod.created {
            Some(created) => human_duration(now.duration_since(created)),
            None => "<unknown>".to_owned(),
        }),
        Column { style: REASON, ..column("REASON", |_, finding, _| finding.reason.clone()) },
    ]);
    if layout.wide {
        columns.extend([
            column("CAUSE", |_, finding, _| finding.explanation.cause.to_string()),
            column("CONTAINER", |_, finding, _| or_none(&finding.container)),
            column("SINCE", |_, finding, now| human_duration(now.duration_since(finding.since))),
            column("OWNER", |_, finding, _| match &finding.owner {
                Some(owner) => format!("{}/{}", owner.kind, owner.name),
                None => or_none(""),
            }),
            column("NODE", |pod, _, _| or_none(&pod.node)),
        ]);
    }
    columns.push(column("MESSAGE", |_, finding, _| finding.explanation.message.clone()));
    columns
}

/// Shortens a text to this many terminal columns.
fn truncate(text: &mut String, width: usize) {
    if text.width() <= width {
        return;
    }
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or_default();
        used >= width
    });
    if let Some((end, _)) = end {
        text.truncate(end);
        text.push('…');
    }
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(namespace: &str, name: &str, message: &str) -> (Pod, Finding) {
        let pod = crate::pods::from_json(&format!(
            r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","creationTimestamp":"2026-03-01T10:00:00Z"}},
                "spec":{{"nodeName":"node-7","containers":[{{"name":"app"}},{{"name":"log"}}]}},
                "status":{{"phase":"Running","containerStatuses":[{{"name":"app","restartCount":7,
                "state":{{"waiting":{{"reason":"CrashLoopBackOff"}}}}}}]}}}}"#
        ))
        .unwrap();
        let finding = Finding {
            status: "CrashLoopBackOff".to_owned(),
            kind: crate::api::ProblemKind::Crash,
            reason: "OOMKilled".to_owned(),
            container: "app".to_owned(),
            message: String::new(),
            since: "2026-03-01T11:30:00Z".parse().unwrap(),
            tolerated: std::time::Duration::ZERO,
            owner: None,
            containers: Vec::new(),
            others: Vec::new(),
            explanation: crate::diagnosis::Explanation {
                cause: crate::api::Cause::OutOfMemory,
                message: message.to_owned(),
                ..crate::diagnosis::Explanation::default()
            },
        };
        (pod, finding)
    }

    fn table(problems: &[(Pod, Finding)], layout: Layout) -> String {
        let mut out = anstream::StripStream::new(Vec::new());
        write(&mut out, problems, layout, "2026-03-01T12:00:00Z".parse().unwrap()).unwrap();
        String::from_utf8(out.into_inner()).unwrap()
    }

    const ALL: Layout = Layout { namespaces: true, wide: false, width: None };

    #[test]
    fn sorts_rows_by_namespace_and_name() {
        let problems = [pod("shop", "cart-b", "killed"), pod("ml", "train", "gone"), pod("shop", "cart-a", "killed")];
        assert_eq!(
            table(&problems, ALL),
            "NAMESPACE   NAME     READY   STATUS             RESTARTS   AGE    REASON      MESSAGE\n\
             ml          train    0/2     CrashLoopBackOff   7          120m   OOMKilled   gone\n\
             shop        cart-a   0/2     CrashLoopBackOff   7          120m   OOMKilled   killed\n\
             shop        cart-b   0/2     CrashLoopBackOff   7          120m   OOMKilled   killed\n"
        );
    }

    #[test]
    fn omits_the_namespace_column_and_adds_the_wide_columns() {
        assert_eq!(
            table(&[pod("shop", "cart", "killed")], Layout { namespaces: false, wide: true, width: None }),
            "NAME   READY   STATUS             RESTARTS   AGE    REASON      CAUSE         CONTAINER   SINCE   OWNER    NODE     MESSAGE\n\
             cart   0/2     CrashLoopBackOff   7          120m   OOMKilled   OutOfMemory   app         30m     <none>   node-7   killed\n"
        );
    }

    #[test]
    fn truncates_messages_to_the_width_of_the_terminal() {
        let problems = [pod("shop", "cart", &"é".repeat(99)), pod("shop", "note", "short")];
        for (width, expected) in [(150, 150), (10, 136), (500, 175)] {
            let table = table(&problems, Layout { width: Some(width), ..ALL });
            assert_eq!(table.lines().map(|line| line.chars().count()).max(), Some(expected), "{table}");
            assert!(table.contains("short"), "{table}");
        }
    }

    #[test]
    fn counts_wide_characters_as_two_columns() {
        for (width, expected) in [(6, "容器…"), (5, "容器…"), (4, "容…"), (8, "容器失敗")] {
            let mut text = "容器失敗".to_owned();
            truncate(&mut text, width);
            assert_eq!(text, expected, "{width}");
        }
    }

    #[test]
    fn replaces_control_characters() {
        let table = table(&[pod("shop", "cart", "a\u{1b}[2Jb\u{202e}c\u{9b}1m")], ALL);
        assert!(table.ends_with("a\u{fffd}[2Jb\u{fffd}c\u{fffd}1m\n"), "{table:?}");
    }
}
