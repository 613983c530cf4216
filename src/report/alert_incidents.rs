//! Incidents as the alerts have them.

use std::sync::Arc;

use crate::{alerts, api::Owner, logs::clean_text};

use super::{Input, incidents, problem, text};

/// The longest message, in bytes.
const MESSAGE: usize = 1_024;
/// How much of a log's end is told, in bytes: no format shows more.
const LOGS: usize = 4_096;

/// Every incident there is, in the status' order, with the words and the log of its most recent pod. Unlike
/// the status' list it is never cut.
#[must_use]
pub fn alert_incidents(input: &Input<'_>) -> Vec<alerts::Incident> {
    let problems = problem::ordered(input);
    incidents::ordered(&problems, input.tracker).iter().map(|group| incident(group, input)).collect()
}

fn incident(group: &incidents::Group<'_>, input: &Input<'_>) -> alerts::Incident {
    let shown = group.incident();
    let (pod, finding) = group.example;
    let culprit = finding.containers.iter().find(|container| text::name(&container.name) == shown.container);
    let tail = culprit.or(finding.containers.first()).and_then(|container| (input.tail)(pod, container));
    let (logs, mut note) = tail.map_or_else(Default::default, |tail| (tail.text, tail.note));
    let shown_logs = end(&logs, LOGS);
    if shown_logs.len() < logs.len() {
        let separator = if note.is_empty() { "" } else { "; " };
        note += &format!("{separator}earlier lines are in the object's status");
    }
    alerts::Incident {
        key: shown.key,
        namespace: shown.namespace,
        owner: Owner { kind: shown.owner.kind, name: shown.owner.name },
        container: shown.container,
        kind: shown.kind,
        reason: shown.reason,
        since: shown.since.0,
        tolerated: finding.tolerated,
        pods: u64::try_from(shown.pods).unwrap_or_default(),
        example_pods: shown.example_pods,
        message: clean_text(&finding.message, input.masking, MESSAGE),
        logs: Arc::from(shown_logs),
        log_note: note,
    }
}

/// The last `limit` bytes, from the beginning of a line where one begins there.
fn end(text: &str, limit: usize) -> &str {
    let Some(mut from) = text.len().checked_sub(limit).filter(|from| *from > 0) else { return text };
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let cut = &text[from..];
    cut.split_once('\n').map_or(cut, |(_, lines)| lines)
}

#[cfg(test)]
mod tests {
    use super::end;

    #[test]
    fn the_end_of_a_log_begins_with_a_whole_line_where_there_is_one() {
        assert_eq!(end("one\ntwo\nthree", 100), "one\ntwo\nthree");
        assert_eq!(end("one\ntwo\nthree", 13), "one\ntwo\nthree");
        assert_eq!(end("one\ntwo\nthree", 11), "two\nthree");
        assert_eq!(end("one\ntwo\nthree", 7), "three");
        assert_eq!(end("äääää", 5), "ää");
    }
}
