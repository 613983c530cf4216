//! The history as a table.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use crate::{
    api::{Cause, NamespacedName},
    cli::{
        scan::grid::{self, Column, Narrow},
        timeline::{Past, Timeline, Unwatched, minute},
    },
};

const REASON: Style = AnsiColor::Red.on_default();

/// Writes a headline, the table and what it does not contain, always with colours: the stream removes them if it is not a
/// terminal. No line of the table is wider than `width`.
pub(super) fn write(
    out: &mut impl Write,
    object: &NamespacedName,
    timeline: &Timeline<'_>,
    width: Option<usize>,
) -> io::Result<()> {
    let NamespacedName { namespace, name } = object;
    writeln!(out, "{namespace}/{name}: {}", timeline.headline())?;
    timeline.limits().iter().try_for_each(|limit| writeln!(out, "{limit}"))?;
    let incidents = timeline.incidents.iter().map(|own| (own.began, incident(own, timeline)));
    let spans = timeline.unwatched.iter().map(|own| (own.from, span(own, timeline)));
    let mut rows: Vec<_> = incidents.chain(spans).collect();
    if rows.is_empty() {
        return Ok(());
    }
    // The sort is stable: of the same second, incidents come before spans.
    rows.sort_by_key(|(began, _)| std::cmp::Reverse(*began));
    writeln!(out)?;
    let columns = vec![
        Column::new("BEGAN (UTC)"),
        Column::new("LASTED"),
        Column::new("INCIDENT").narrow(Narrow::Shorten),
        Column::new("REASON").styled(REASON).narrow(Narrow::Shorten),
        Column::new("CAUSE").narrow(Narrow::LeaveOut(0)),
        Column::new("PODS"),
    ];
    grid::write(out, columns, rows.into_iter().map(|(_, row)| row).collect(), width)
}

fn incident(own: &Past<'_>, timeline: &Timeline<'_>) -> Vec<String> {
    let cause = if own.cause == Cause::Unknown { String::new() } else { own.cause.to_string() };
    let (began, lasted) = (minute(own.began), own.lasted(timeline.until));
    vec![began, lasted, own.workload(), own.reason.to_owned(), cause, own.pods.to_string()]
}

fn span(own: &Unwatched<'_>, timeline: &Timeline<'_>) -> Vec<String> {
    let (from, lasted) = (minute(own.from), own.lasted(timeline.until));
    vec![from, lasted, "not watched".to_owned(), own.reason.to_owned(), String::new(), String::new()]
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::{
        api::OrchestrStatus,
        cli::timeline::tests::{noon, status},
    };

    fn table(status: &OrchestrStatus, width: Option<usize>) -> String {
        let mut out = anstream::StripStream::new(Vec::new());
        let timeline = Timeline::of(status, None, noon());
        write(&mut out, &NamespacedName::new("ops", "cluster"), &timeline, width).unwrap();
        String::from_utf8(out.into_inner()).unwrap()
    }

    #[test]
    fn prints_incidents_and_spans_in_the_order_of_their_beginnings() {
        assert_eq!(
            table(&status(), None),
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
        let narrow = table(&status(), Some(80));
        assert!(narrow.lines().all(|line| line.width() <= 80), "{narrow}");
        assert!(narrow.contains("ImagePullBackOff") && !narrow.contains("CAUSE"), "{narrow}");
    }

    #[test]
    fn an_empty_history_says_which_time_it_covers() {
        let mut status = OrchestrStatus { history_since: status().history_since, ..OrchestrStatus::default() };
        assert_eq!(table(&status, None), "ops/cluster: no incident ended since 2026-02-27 08:00 UTC\n");
        status.history_since = None;
        assert_eq!(
            table(&status, None),
            "ops/cluster: no incident ended\nThe status has no history: the pods have not been watched yet.\n"
        );
    }

    #[test]
    fn control_characters_are_not_printed() {
        let mut status = status();
        status.history.items[0].reason = "a\u{1b}[2Jb\u{202e}".to_owned();
        let table = table(&status, None);
        assert!(table.contains("a\u{fffd}[2Jb\u{fffd}"), "{table}");
    }
}
