//! Converts incidents into the form that alerts are made from.

use std::sync::Arc;

use crate::{
    alerts,
    logs::{Masking, clean_text},
};

use super::{
    incidents::{Example, Group},
    input::FindTail,
    problem, truncate,
};

/// The longest message, in bytes.
const MESSAGE: usize = 1_024;
/// How much of the end of a log an alert gets, in bytes. No alert format shows more.
const LOGS: usize = 4_096;

/// One incident, with the message and the log of its most recent pod.
pub(super) fn alert_incident(
    group: &Group<'_>,
    masking: Option<&Masking<'_>>,
    find_tail: FindTail<'_>,
) -> alerts::Incident {
    let listed = group.incident();
    let (message, tail) = match group.example {
        Example::Pod(pod, finding) => {
            let culprit =
                finding.containers.iter().find(|container| truncate::name(&container.name) == listed.container);
            let tail = culprit.or(finding.containers.first()).and_then(|container| find_tail(pod, container));
            (&finding.message, tail)
        }
        Example::Missing(missing) => (&missing.explanation.message, None),
    };
    let explanation = group.explanation();
    let sentence = if explanation.message.is_empty() { message } else { &explanation.message };
    let (logs, mut log_note) = tail.map_or_else(Default::default, |tail| (tail.text, tail.note));
    let end = end_of(&logs, LOGS);
    if end.len() < logs.len() {
        let separator = if log_note.is_empty() { "" } else { "; " };
        log_note += &format!("{separator}earlier lines are in the object's status");
    }
    alerts::Incident {
        key: listed.key,
        namespace: listed.namespace,
        owner: listed.owner,
        container: listed.container,
        kind: listed.kind,
        reason: listed.reason,
        cause: listed.cause,
        since: listed.since.0,
        tolerated: group.example.tolerated(),
        pods: u64::try_from(listed.pods).unwrap_or_default(),
        of: u64::try_from(listed.of).unwrap_or_default(),
        example_pods: listed.example_pods,
        severity: group.severity(),
        team: listed.team.into(),
        runbook: listed.runbook.into(),
        dashboard: listed.dashboard.into(),
        message: clean_text(sentence, masking, MESSAGE),
        revision: listed.revision,
        evidence: problem::evidence(group.example.explanation(), masking),
        logs: Arc::from(end),
        log_note,
        ..alerts::Incident::default()
    }
}

/// The last `limit` bytes, from the beginning of a line if one begins within them.
fn end_of(text: &str, limit: usize) -> &str {
    let Some(mut from) = text.len().checked_sub(limit).filter(|from| *from > 0) else { return text };
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let cut = &text[from..];
    cut.split_once('\n').map_or(cut, |(_, lines)| lines)
}

#[cfg(test)]
mod tests {
    use super::end_of;

    #[test]
    fn a_cut_log_begins_with_a_whole_line_if_it_can() {
        assert_eq!(end_of("one\ntwo\nthree", 100), "one\ntwo\nthree");
        assert_eq!(end_of("one\ntwo\nthree", 13), "one\ntwo\nthree");
        assert_eq!(end_of("one\ntwo\nthree", 11), "two\nthree");
        assert_eq!(end_of("one\ntwo\nthree", 7), "three");
        assert_eq!(end_of("äääää", 5), "ää");
    }
}
