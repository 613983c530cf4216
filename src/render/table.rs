//! Tables in the layout of kubectl's: the pods with a problem, and the history of an object.

use std::{cmp::Reverse, io};

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;

use crate::{
    diagnosis::{Finding, human_duration, ready_counts, restarts},
    logs::clean_text,
    pods::{Pod, TEXT_LIMIT},
};

use super::{
    document::cause,
    grid::{self, Narrow},
    timeline::{Timeline, minute},
};

const REASON: Style = AnsiColor::Red.on_default();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Whether to print the CONTEXT column.
    pub(crate) contexts: bool,
    /// Whether to print the NAMESPACE column.
    pub(crate) namespaces: bool,
    pub(crate) wide: bool,
    /// The maximum width of a line in terminal columns; absent if lines may be of any length.
    pub(crate) width: Option<usize>,
}

/// The width of the terminal. Absent if standard output is not a terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0.into())
}

/// The pods with a problem in a cluster.
pub(crate) struct Pods<'a> {
    pub(crate) context: &'a str,
    pub(crate) problems: &'a [(Pod, Finding)],
    pub(crate) now: Timestamp,
    pub(crate) sentence: Sentence<'a>,
}

/// What explains the problem of a pod.
type Sentence<'a> = Box<dyn Fn(&Pod, &Finding) -> String + 'a>;

impl<'a> Pods<'a> {
    /// The sentence of the diagnosis.
    pub(crate) fn plain() -> Sentence<'a> {
        Box::new(|_, finding| finding.explanation.message.to_string())
    }
}

/// The pods of these clusters, sorted by cluster, namespace and name.
pub(crate) fn pods<'a>(clusters: impl Iterator<Item = Pods<'a>>, layout: Layout) -> String {
    let columns = columns(layout);
    let mut rows = Vec::new();
    for Pods { context, problems, now, sentence } in clusters {
        let mut pods: Vec<_> = problems.iter().collect();
        pods.sort_by(|(a, _), (b, _)| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        rows.extend(pods.into_iter().map(|(pod, finding)| {
            let row = Row { context, pod, finding, now, sentence: sentence(pod, finding) };
            columns.iter().map(|column| (column.cell)(&row)).collect()
        }));
    }
    grid::table(columns.into_iter().map(|column| column.column).collect(), rows, layout.width)
}

struct Row<'a> {
    context: &'a str,
    pod: &'a Pod,
    finding: &'a Finding,
    now: Timestamp,
    sentence: String,
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
        clean_text(&row.sentence, None, TEXT_LIMIT)
    }));
    columns
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text.to_owned() }
}

/// A headline, what the history does not contain, and a table of incidents and of times in which the pods were not watched. No
/// line of the table is wider than `width`.
pub(super) fn history(timeline: &Timeline, width: Option<usize>) -> String {
    let mut text = format!("{}: {}\n", timeline.object, timeline.headline());
    timeline.limits().iter().for_each(|limit| text += &format!("{limit}\n"));
    let incidents = timeline.incidents.iter().map(|own| {
        let (began, lasted, cause) = (minute(own.began), own.lasted(timeline.until), cause(own.cause).to_owned());
        (own.began, vec![began, lasted, own.workload(), own.reason.clone(), cause, own.pods.to_string()])
    });
    let spans = timeline.unwatched.iter().map(|own| {
        let (from, lasted, nothing) = (minute(own.from), own.lasted(timeline.until), String::new());
        (own.from, vec![from, lasted, "not watched".to_owned(), own.reason.clone(), nothing.clone(), nothing])
    });
    let mut rows: Vec<_> = incidents.chain(spans).collect();
    if rows.is_empty() {
        return text;
    }
    // The sort is stable: of the same second, incidents come before spans.
    rows.sort_by_key(|(began, _)| Reverse(*began));
    let columns = vec![
        grid::Column::new("BEGAN (UTC)"),
        grid::Column::new("LASTED"),
        grid::Column::new("INCIDENT").narrow(Narrow::Shorten),
        grid::Column::new("REASON").styled(REASON).narrow(Narrow::Shorten),
        grid::Column::new("CAUSE").narrow(Narrow::LeaveOut(0)),
        grid::Column::new("PODS"),
    ];
    text + "\n" + &grid::table(columns, rows.into_iter().map(|(_, row)| row).collect(), width)
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::{
        super::{
            text::plain,
            timeline::tests::{noon, status},
        },
        *,
    };
    use crate::api::{NamespacedName, OrchestrStatus};

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
            since_at_latest: false,
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
        plain(&pods([Pods { context: "", problems, now: noon(), sentence: Pods::plain() }].into_iter(), layout))
    }

    fn history_of(status: &OrchestrStatus, width: Option<usize>) -> String {
        plain(&history(&Timeline::of(&NamespacedName::new("ops", "cluster"), status, None, noon()), width))
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

    #[test]
    fn prints_incidents_and_spans_in_the_order_of_their_beginnings() {
        assert_eq!(
            history_of(&status(), None),
            "\
ops/cluster: 2 incidents ended since 2026-02-27 08:00 UTC, and 1 lasts

BEGAN (UTC)        LASTED        INCIDENT                        REASON             CAUSE         PODS
2026-03-01 11:26   34m so far    shop/cart                       OOMKilled          OutOfMemory   3
2026-03-01 10:00   34m           shop/mailer                     Error              ExitCode      2
2026-02-28 02:10   110m          not watched                     NotRunning                       \n\
2026-02-28 01:40   30m to 140m   ml/train-gpu-with-a-long-name   ImagePullBackOff                 1
"
        );
    }

    #[test]
    fn fits_the_width_of_a_terminal() {
        let narrow = history_of(&status(), Some(80));
        assert!(narrow.lines().all(|line| line.width() <= 80), "{narrow}");
        assert!(narrow.contains("ImagePullBackOff") && !narrow.contains("CAUSE"), "{narrow}");
    }

    #[test]
    fn an_empty_history_says_which_time_it_covers() {
        let mut status = OrchestrStatus { history_since: status().history_since, ..OrchestrStatus::default() };
        assert_eq!(history_of(&status, None), "ops/cluster: no incident ended since 2026-02-27 08:00 UTC\n");
        status.history_since = None;
        assert_eq!(
            history_of(&status, None),
            "ops/cluster: no incident ended\nThe status has no history: the pods have not been watched yet.\n"
        );
    }

    #[test]
    fn control_characters_are_not_printed() {
        let mut status = status();
        status.history.items[0].reason = "a\u{1b}[2Jb\u{202e}".to_owned();
        let table = history_of(&status, None);
        assert!(table.contains("a\u{fffd}[2Jb\u{fffd}"), "{table}");
    }
}
