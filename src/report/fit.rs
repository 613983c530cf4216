//! Fits the status into its size limit.
//!
//! Pods share the room that the conditions, counts and incidents leave. If it is too small, logs are shortened first and
//! evenly: each keeps its end, and long logs are shortened before short ones. Then the details of containers are reduced,
//! equally for all pods. Last, whole pods are left out. Sizes are added up piece by piece, and a draft is abandoned as
//! soon as it exceeds the limit, so no input costs more than a few times its size.

use arcstr::ArcStr;
use serde::Serialize;

use crate::{
    api::{ALERT_BYTES, ContainerIssue, PodProblem},
    diagnosis::LogChoice,
};

use super::{
    json_size,
    problem::{Detail, FindTail, Problem},
    truncate,
};

/// The largest status, as JSON in bytes.
pub(super) const STATUS_LIMIT: usize = 256 * 1024;
/// How much of it is kept free for changes that need no new status, such as times.
const SPARE: usize = 2 * 1024;
/// How much of it is kept free for the alerts' writer, if the object has webhooks: the state of ten webhooks with their
/// alerts, and the condition AlertsDelivered.
const WEBHOOKS: usize = ALERT_BYTES + 48 * 1024;

/// How much of it is kept free for the [history](super::history), which is added when the status is written. The level of
/// detail must not depend on the history, and what was cut from a history could not be found again.
pub(super) const HISTORY: usize = 24 * 1024;

/// The largest status that may be built here, in bytes.
pub(super) const fn budget(has_webhooks: bool) -> usize {
    STATUS_LIMIT - SPARE - HISTORY - if has_webhooks { WEBHOOKS } else { 0 }
}

/// The most incidents that the status lists.
pub(super) const MAX_INCIDENTS: usize = 100;
/// The most bytes that they may take, so that pods are listed as well, however long the names are.
pub(super) const INCIDENT_BYTES: usize = 96 * 1024;
/// The same with the most pods of each, which are added later.
pub(super) const STORED_INCIDENT_BYTES: usize = INCIDENT_BYTES + 4 * 1024;

/// The most bytes that common causes may take.
pub(super) const COMMON_CAUSE_BYTES: usize = 16 * 1024;

/// The levels of detail, tried in this order.
const DETAILS: [Detail; 6] = [
    Detail::FULL,
    Detail { container_message: 256, ..Detail::FULL },
    Detail { container_message: 256, containers: 3, ..Detail::FULL },
    Detail { container_message: 64, containers: 3, message: 256 },
    Detail { container_message: 64, containers: 1, message: 256 },
    LEAST,
];
const LEAST: Detail = Detail { container_message: 0, containers: 0, message: 256 };

/// The longest note on a log, in bytes, without the part that is added here.
const NOTE_LIMIT: usize = 256;
/// The JSON around a log.
const LOGS_FIELD: usize = r#""logs":"","#.len();
/// The size of a log that is cut, without its text: the field, and the note about the cut.
const CUT: usize = LOGS_FIELD + r#""logNote":"; shortened to 18446744073709551615 bytes to fit the status","#.len();

/// The room reserved for each container's log, before and after it is read: for its source, a note, and ten words. The
/// level of detail must not depend on which logs have been read: only the logs of listed containers are read, so details
/// would appear and disappear.
pub(super) const LOG_ROOM: usize = 256;

/// The longest prefix of the items that takes at most `budget` bytes in a list.
pub(super) fn prefix<T: Serialize>(items: impl Iterator<Item = T>, budget: usize) -> Vec<T> {
    let mut left = budget;
    items
        .map_while(|item| {
            left = left.checked_sub(listed(&item))?;
            Some(item)
        })
        .collect()
}

/// The room for pods.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    pub(super) bytes: usize,
    /// How much of it details do not use, so that they do not depend on which logs have been read. Logs may use it.
    pub(super) reserve: usize,
}

/// Converts as many of the problems into rows, in as much detail, as the budget allows. Earlier problems are preferred.
/// `logs` reserves room for logs
/// that are still to be read. Rows are returned in the order of the status, together with their problems.
pub(super) fn pods<'p, 'a>(
    problems: &[&'p Problem<'a>],
    logs: bool,
    find_tail: FindTail<'_>,
    budget: Budget,
) -> (Vec<PodProblem>, Vec<&'p Problem<'a>>) {
    let ordered = in_order(problems);
    match DETAILS.iter().find_map(|detail| Draft::new(&ordered, detail, logs, find_tail, budget)) {
        Some(draft) => (draft.with_logs(), ordered),
        None => {
            let fitting = prefix(problems.iter().map(|problem| problem.show(&LEAST)), budget.details()).len();
            let ordered = in_order(&problems[..fitting]);
            (ordered.iter().map(|problem| problem.show(&LEAST)).collect(), ordered)
        }
    }
}

impl Budget {
    /// The room for everything but logs.
    fn details(self) -> usize {
        self.bytes.saturating_sub(self.reserve)
    }
}

fn in_order<'p, 'a>(problems: &[&'p Problem<'a>]) -> Vec<&'p Problem<'a>> {
    let mut ordered = problems.to_vec();
    ordered.sort_by_key(|problem| problem.order());
    ordered
}

/// The size of an item in a list, including its comma.
pub(super) fn listed(item: &impl Serialize) -> usize {
    json_size::size(item).saturating_add(1)
}

/// The size of the fields that describe a log, of which the second is left out if it is empty.
fn source_and_note(issue: &ContainerIssue) -> usize {
    let source = r#""logSource":,"#.len().saturating_add(json_size::size(&issue.log_source));
    let note = if issue.log_note.is_empty() { 0 } else { r#""logNote":,"#.len() + json_size::size(&issue.log_note) };
    source.saturating_add(note)
}

/// The rows at one level of detail, and the logs that are still to be fitted into them.
struct Draft {
    pods: Vec<PodProblem>,
    logs: Vec<Log>,
    /// The room for all logs together, beyond [`CUT`] for each.
    left: usize,
}

/// A log that is not empty, and the indexes of its row and container.
struct Log {
    text: ArcStr,
    pod: usize,
    container: usize,
}

impl Draft {
    /// Returns `None` if the rows do not fit even with the shortest logs.
    fn new(
        problems: &[&Problem<'_>],
        detail: &Detail,
        logs: bool,
        find_tail: FindTail<'_>,
        budget: Budget,
    ) -> Option<Self> {
        let mut draft = Self { pods: Vec::with_capacity(problems.len()), logs: Vec::new(), left: budget.bytes };
        let mut room = budget.details();
        for problem in problems {
            let mut shown = problem.show(detail);
            let row = listed(&shown);
            let (mut kept, mut taken) = (row, row);
            for (container, (issue, finding)) in
                shown.container_issues.iter_mut().zip(&problem.finding.containers).enumerate()
            {
                if logs && finding.log != LogChoice::NeverStarted {
                    kept = kept.saturating_add(LOG_ROOM);
                }
                let Some(tail) = find_tail(problem.pod, finding) else { continue };
                issue.log_source = Some(tail.source);
                issue.log_note = truncate::with_ellipsis(&tail.note, NOTE_LIMIT).into_owned();
                taken = taken.saturating_add(source_and_note(issue));
                if !tail.text.is_empty() {
                    let log = Log { text: tail.text, pod: draft.pods.len(), container };
                    taken = taken.saturating_add(log.size_up_to(CUT).min(CUT));
                    draft.logs.push(log);
                }
            }
            draft.left = draft.left.checked_sub(taken)?;
            room = room.checked_sub(kept.max(taken))?;
            draft.pods.push(shown);
        }
        Some(draft)
    }

    fn with_logs(mut self) -> Vec<PodProblem> {
        // A character takes at least one byte, so the lengths limit how far the sizes need to be counted.
        let lengths = self.logs.iter().map(|log| (LOGS_FIELD + log.text.len()).saturating_sub(CUT)).collect();
        let enough = even_share(lengths, self.left).saturating_add(CUT);
        let sizes: Vec<usize> = self.logs.iter().map(|log| log.size_up_to(enough).saturating_sub(CUT)).collect();
        let share = even_share(sizes.clone(), self.left);

        for (log, size) in self.logs.into_iter().zip(sizes) {
            let issue = self.pods.get_mut(log.pod).and_then(|pod| pod.container_issues.get_mut(log.container));
            let Some(issue) = issue else { continue };
            if size <= share {
                issue.logs = log.text.to_string();
                continue;
            }
            let end = end_of(&log.text, share);
            if !issue.log_note.is_empty() {
                issue.log_note += "; ";
            }
            issue.log_note += &match end.len() {
                0 => "left out to fit the status".to_owned(),
                bytes => format!("shortened to {bytes} bytes to fit the status"),
            };
            issue.logs = end.to_owned();
        }
        self.pods
    }
}

impl Log {
    /// Its size including the field. Counting stops once the size exceeds `enough`.
    fn size_up_to(&self, enough: usize) -> usize {
        let mut size = LOGS_FIELD;
        for character in self.text.chars() {
            if size > enough {
                break;
            }
            size += json_size::escaped(character);
        }
        size
    }
}

/// The largest share such that all wants, each capped at the share, together do not exceed the supply.
pub(crate) fn even_share(mut wants: Vec<usize>, supply: usize) -> usize {
    wants.sort_unstable();
    let (mut left, mut takers) = (supply, wants.len());
    for want in wants {
        let share = left / takers;
        if want > share {
            return share;
        }
        left -= want;
        takers -= 1;
    }
    usize::MAX
}

/// The end of a text that takes at most `size` bytes in a JSON string. It begins with a whole line, unless that would
/// lose more than half of it.
fn end_of(text: &str, size: usize) -> &str {
    end_within(text, size, json_size::escaped)
}

/// The same for any encoding, of which `encoded` returns the bytes that a character takes.
pub(crate) fn end_within(text: &str, size: usize, encoded: impl Fn(char) -> usize) -> &str {
    let mut left = size;
    let mut start = text.len();
    for (index, character) in text.char_indices().rev() {
        let Some(rest) = left.checked_sub(encoded(character)) else { break };
        (left, start) = (rest, index);
    }
    let end = &text[start..];
    if start == 0 || text[..start].ends_with('\n') {
        return end;
    }
    match end.split_once('\n') {
        Some((_, lines)) if lines.len() * 2 >= end.len() => lines,
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shares_are_even_and_small_wants_are_met_in_full() {
        for (wants, supply, share) in [
            (vec![], 0, usize::MAX),
            (vec![5, 5], 10, usize::MAX),
            (vec![5, 5], 9, 4),
            (vec![100, 2, 100], 50, 24),
            (vec![100, 0], 0, 0),
            (vec![0, 0], 0, usize::MAX),
        ] {
            assert_eq!(even_share(wants.clone(), supply), share, "{wants:?} of {supply}");
        }
    }

    #[test]
    fn counts_the_fields_that_describe_a_log_exactly() {
        let row = |source: Option<&str>, note: &str| -> ContainerIssue {
            serde_json::from_value(json!({
                "name": "app", "type": "App", "state": "Waiting", "ready": false, "restarts": 1, "logSource": source,
                "logNote": note,
            }))
            .unwrap()
        };
        let without = listed(&row(None, ""));
        for (source, note) in [("Previous", ""), ("Unavailable", "a <note> with \u{1}, \u{2028} and \"quotes\"")] {
            let issue = row(Some(source), note);
            assert_eq!(without + source_and_note(&issue), listed(&issue), "{note}");
        }
    }

    #[test]
    fn cuts_the_beginning_of_a_log_preferably_at_a_line() {
        for (text, size, end) in [
            ("one\ntwo\nthree", 100, "one\ntwo\nthree"),
            ("one\ntwo\nthree", 5, "three"),
            ("one\ntwo\nthree", 8, "three"),
            ("one\ntwo\nthree", 10, "two\nthree"),
            ("a very long line\nx", 9, "g line\nx"),
            ("a long line\nthree", 11, "three"),
            ("a long line\nthree", 12, " line\nthree"),
            ("ééé", 5, "éé"),
            ("a💥", 3, ""),
            ("a\u{1}b", 6, "b"),
            ("a\u{1}b", 7, "\u{1}b"),
            ("a<b", 6, "b"),
            ("one\n", 0, ""),
        ] {
            assert_eq!(end_of(text, size), end, "{text:?} in {size}");
        }
    }

    #[test]
    fn a_prefix_stays_within_its_budget() {
        let items = ["aa", "bb", "c"];
        assert_eq!(prefix(items.into_iter(), 5 + 5 + 4), items);
        assert_eq!(prefix(items.into_iter(), 5 + 5 + 3), items[..2]);
        assert_eq!(prefix(items.into_iter(), 4), [""; 0]);
    }
}
