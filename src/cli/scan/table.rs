//! Prints the pods with a problem as a table in the layout of kubectl's.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;

use crate::{
    diagnosis::{Finding, human_duration, ready_counts, restarts},
    logs::clean_text,
    pods::{Pod, TEXT_LIMIT},
};

use super::{
    grid::{self, Narrow},
    scanned::{Results, Scanned},
};

const REASON: Style = AnsiColor::Red.on_default();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Whether to print the CONTEXT column.
    pub(super) contexts: bool,
    /// Whether to print the NAMESPACE column.
    pub(super) namespaces: bool,
    pub(super) wide: bool,
    /// The maximum width of a line in terminal columns; absent if lines may be of any length.
    pub(super) width: Option<usize>,
}

/// Writes the table, sorted by cluster, namespace and name, always with colours: the stream removes them if it is not a terminal.
pub(super) fn write(out: &mut impl Write, results: &Results, layout: Layout) -> io::Result<()> {
    let columns = columns(layout);
    let mut rows = Vec::new();
    for Scanned { context, collector, .. } in results.scanned() {
        let (context, now) = (context.as_deref().unwrap_or_default(), collector.now());
        let mut pods: Vec<_> = collector.problems.iter().collect();
        pods.sort_by(|(a, _), (b, _)| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        rows.extend(pods.into_iter().map(|(pod, finding)| {
            let row = Row { context, pod, finding, now };
            columns.iter().map(|column| (column.cell)(&row)).collect()
        }));
    }
    grid::write(out, columns.into_iter().map(|column| column.column).collect(), rows, layout.width)
}

struct Row<'a> {
    context: &'a str,
    pod: &'a Pod,
    finding: &'a Finding,
    now: Timestamp,
}

struct Column {
    column: grid::Column,
    cell: fn(&Row<'_>) -> String,
}

fn columns(layout: Layout) -> Vec<Column> {
    let with = |column, cell| Column { column, cell };
    let column = |heading, cell| with(grid::Column::new(heading), cell);
    let optional = |heading, number, cell| with(grid::Column::new(heading).narrow(Narrow::LeaveOut(number)), cell);
    let name = |heading, cell| with(grid::Column::new(heading).narrow(Narrow::Shorten), cell);
    let mut columns = Vec::new();
    if layout.contexts {
        columns.push(name("CONTEXT", |row| row.context.to_owned()));
    }
    if layout.namespaces {
        columns.push(name("NAMESPACE", |row| row.pod.namespace.to_string()));
    }
    columns.extend([
        name("NAME", |row| row.pod.name.to_string()),
        optional("READY", 0, |row| {
            let (ready, total) = ready_counts(row.pod);
            format!("{ready}/{total}")
        }),
        optional("STATUS", 3, |row| row.finding.status.to_string()),
        optional("RESTARTS", 2, |row| restarts(row.pod, row.now)),
        optional("AGE", 1, |row| match row.pod.created {
            Some(created) => human_duration(row.now.duration_since(created)),
            None => "<unknown>".to_owned(),
        }),
        with(grid::Column::new("REASON").styled(REASON).narrow(Narrow::Shorten), |row| row.finding.reason.to_string()),
    ]);
    if layout.wide {
        columns.extend([
            column("CAUSE", |row| row.finding.explanation.cause.to_string()),
            column("CONTAINER", |row| or_none(&row.finding.container)),
            column("SINCE", |row| human_duration(row.now.duration_since(row.finding.since))),
            column("OWNER", |row| match &row.finding.owner {
                Some(owner) => format!("{}/{}", owner.kind, owner.name),
                None => or_none(""),
            }),
            column("NODE", |row| or_none(&row.pod.node)),
        ]);
    }
    columns.push(with(grid::Column::new("MESSAGE").narrow(Narrow::Sentence), |row| {
        clean_text(&row.finding.explanation.message, None, TEXT_LIMIT)
    }));
    columns
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            collector::{Collector, Filter},
            logs::Logs,
        },
        *,
    };
    use crate::{cli::live::ClusterView, diagnosis::Thresholds};

    fn pod(namespace: &str, name: &str, message: &str) -> (Pod, Finding) {
        let pod = crate::pods::from_json(&format!(
            r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","creationTimestamp":"2026-03-01T10:00:00Z"}},
                "spec":{{"nodeName":"node-7","containers":[{{"name":"app"}},{{"name":"log"}}]}},
                "status":{{"phase":"Running","containerStatuses":[{{"name":"app","restartCount":7,
                "state":{{"waiting":{{"reason":"CrashLoopBackOff"}}}}}}]}}}}"#
        ))
        .unwrap();
        let finding = Finding {
            status: "CrashLoopBackOff".into(),
            kind: crate::api::ProblemKind::Crash,
            reason: "OOMKilled".into(),
            container: "app".into(),
            message: "".into(),
            since: "2026-03-01T11:30:00Z".parse().unwrap(),
            tolerated: std::time::Duration::ZERO,
            owner: None,
            containers: Vec::new(),
            others: Vec::new(),
            explanation: crate::diagnosis::Explanation {
                cause: crate::api::Cause::OutOfMemory,
                message: message.into(),
                ..crate::diagnosis::Explanation::default()
            },
        };
        (pod, finding)
    }

    fn table(problems: &[(Pod, Finding)], layout: Layout) -> String {
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        let mut collector = Collector::new(ClusterView::default(), Thresholds::default(), now, Filter::default());
        collector.problems = problems.to_vec();
        let mut out = anstream::StripStream::new(Vec::new());
        let scanned = Scanned { context: None, collector, logs: Logs::default(), notes: Vec::new() };
        write(&mut out, &Results::one(scanned), layout).unwrap();
        String::from_utf8(out.into_inner()).unwrap()
    }

    const ALL: Layout = Layout { contexts: false, namespaces: true, wide: false, width: None };

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
            table(&[pod("shop", "cart", "killed")], Layout { namespaces: false, wide: true, ..ALL }),
            "NAME   READY   STATUS             RESTARTS   AGE    REASON      CAUSE         CONTAINER   SINCE   OWNER    NODE     MESSAGE\n\
             cart   0/2     CrashLoopBackOff   7          120m   OOMKilled   OutOfMemory   app         30m     <none>   node-7   killed\n"
        );
    }

    #[test]
    fn truncates_messages_to_the_width_of_the_terminal() {
        let problems = [pod("shop", "cart", &"é".repeat(99)), pod("shop", "note", "short")];
        for (width, expected) in [(150, 150), (136, 136), (135, 103), (80, 80), (500, 175)] {
            let table = table(&problems, Layout { width: Some(width), ..ALL });
            assert_eq!(table.lines().map(|line| line.chars().count()).max(), Some(expected), "{table}");
            assert!(table.contains("short"), "{table}");
        }
    }

    #[test]
    fn fits_into_80_columns_with_all_that_explains_a_problem() {
        let problems = [
            pod("shop", "checkout-7f9b4d6c58-4kq8n", "app exited with code 1, 1 s after its start"),
            pod("a-namespace-with-a-long-name", &"n".repeat(60), &"word ".repeat(50)),
        ];
        let table = table(&problems, Layout { width: Some(80), ..ALL });
        let row = |namespace: &str, name: &str, reason: &str| format!("{namespace:28}   {name:37}   {reason}");
        let words = ["word"; 15].join(" ");
        let expected = [
            row("NAMESPACE", "NAME", "REASON"),
            row("a-namespace-with-a-long-name", &format!("{0}…{0}", "n".repeat(18)), "OOMKilled"),
            format!("    {words}"),
            format!("    {words}"),
            format!("    {words}…"),
            row("shop", "checkout-7f9b4d6c58-4kq8n", "OOMKilled"),
            "    app exited with code 1, 1 s after its start".to_owned(),
        ];
        assert_eq!(table.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn masks_credentials_and_removes_control_characters() {
        let table = table(&[pod("shop", "cart", "a\u{1b}[2Jb\u{202e}c password=hunter2")], ALL);
        assert!(table.ends_with(&format!("abc password={}\n", crate::logs::MASK)), "{table:?}");
    }
}
