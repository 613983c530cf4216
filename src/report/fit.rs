//! What the status has room for.
//!
//! Pods share what the conditions, the counts and the incidents leave. Where that isn't enough, logs are
//! shortened first, evenly: each keeps its end, and short ones stay whole while long ones pay. Next go
//! the containers' details, of all pods alike, and last whole pods. Sizes are added up piece by piece
//! and given up as soon as they exceed the budget: no input costs more than a few times its bytes.

use serde::Serialize;

use crate::{alerts::ALERT_BYTES, api::PodProblem, diagnosis::LogChoice};

use super::{
    Input, json,
    problem::{Detail, Problem},
    text,
};

/// The largest status, as JSON in bytes.
pub(super) const STATUS_LIMIT: usize = 256 * 1024;
/// What of it is left for what changes without a new status, such as times.
const SPARE: usize = 2 * 1024;
/// What is left to the writer of webhooks if there are any: the state of ten of them with their alerts, and
/// AlertsDelivered.
const WEBHOOKS: usize = ALERT_BYTES + 24 * 1024;

/// What a status made here may take.
pub(super) const fn budget(has_webhooks: bool) -> usize {
    STATUS_LIMIT - SPARE - if has_webhooks { WEBHOOKS } else { 0 }
}

/// How many incidents are listed.
pub(super) const MAX_INCIDENTS: usize = 100;
/// What they may take, so that pods are shown beside them whatever their names.
pub(super) const INCIDENT_BYTES: usize = 96 * 1024;

/// What is left of a pod's details, step by step.
const DETAILS: [Detail; 6] = [
    Detail::FULL,
    Detail { container_message: 256, ..Detail::FULL },
    Detail { container_message: 256, containers: 3, ..Detail::FULL },
    Detail { container_message: 64, containers: 3, message: 256 },
    Detail { container_message: 64, containers: 1, message: 256 },
    LEAST,
];
const LEAST: Detail = Detail { container_message: 0, containers: 0, message: 256 };

/// The longest note on a log that is kept beside ours, in bytes.
const NOTE_LIMIT: usize = 256;
/// The JSON around a log.
const LOGS_FIELD: usize = r#""logs":"","#.len();
/// What a log that is cut takes beside its text: the field, and the note that says so.
const CUT: usize = LOGS_FIELD + r#""logNote":"; shortened to 18446744073709551615 bytes to fit the status","#.len();

/// The room kept for a container's log, read or not: for its source, a note, and ten words. How much
/// of a pod is shown must not depend on which logs are there already, since only the logs of what is
/// shown are read: details would come and go.
pub(super) const LOG_ROOM: usize = 256;

/// The first of the items that take at most `budget` bytes in a list.
pub(super) fn prefix<T: Serialize>(items: impl Iterator<Item = T>, budget: usize) -> Vec<T> {
    let mut left = budget;
    items
        .map_while(|item| {
            left = left.checked_sub(listed(&item))?;
            Some(item)
        })
        .collect()
}

/// The pods, as many and in as much detail as `budget` bytes have room for: those that come first here go before
/// others. In the status they stand in the order of all problems.
pub(super) fn pods(problems: &[&Problem<'_>], input: &Input<'_>, budget: usize) -> Vec<PodProblem> {
    let ordered = in_order(problems);
    DETAILS.iter().find_map(|detail| Draft::new(&ordered, detail, input, budget)).map_or_else(
        || {
            let fitting = prefix(problems.iter().map(|problem| problem.show(&LEAST)), budget).len();
            in_order(&problems[..fitting]).iter().map(|problem| problem.show(&LEAST)).collect()
        },
        Draft::with_logs,
    )
}

fn in_order<'p, 'a>(problems: &[&'p Problem<'a>]) -> Vec<&'p Problem<'a>> {
    let mut ordered = problems.to_vec();
    ordered.sort_by_key(|problem| problem.order());
    ordered
}

/// With its comma.
fn listed(item: &impl Serialize) -> usize {
    json::size(item).saturating_add(1)
}

/// Pods in some detail, and the logs that have yet to find room in them.
struct Draft {
    pods: Vec<PodProblem>,
    logs: Vec<Log>,
    /// What the logs may take together beyond [`CUT`] for each.
    left: usize,
}

/// A log that is not empty, and where it goes.
struct Log {
    text: String,
    pod: usize,
    container: usize,
}

impl Draft {
    /// None where not even the shortest logs would leave it within the budget.
    fn new(problems: &[&Problem<'_>], detail: &Detail, input: &Input<'_>, budget: usize) -> Option<Self> {
        let mut draft = Self { pods: Vec::with_capacity(problems.len()), logs: Vec::new(), left: budget };
        let mut room = budget;
        for problem in problems {
            let mut shown = problem.show(detail);
            let mut kept = listed(&shown);
            let mut taken = 0;
            for (container, (issue, finding)) in
                shown.container_issues.iter_mut().zip(&problem.finding.containers).enumerate()
            {
                if input.logs && finding.log != LogChoice::NeverStarted {
                    kept = kept.saturating_add(LOG_ROOM);
                }
                let Some(tail) = (input.tail)(problem.pod, finding) else { continue };
                issue.log_source = Some(tail.source);
                issue.log_note = text::shortened(&tail.note, NOTE_LIMIT).into_owned();
                if !tail.text.is_empty() {
                    let log = Log { text: tail.text, pod: draft.pods.len(), container };
                    taken += log.size_up_to(CUT).min(CUT);
                    draft.logs.push(log);
                }
            }
            let taken = listed(&shown).saturating_add(taken);
            draft.left = draft.left.checked_sub(taken)?;
            room = room.checked_sub(kept.max(taken))?;
            draft.pods.push(shown);
        }
        Some(draft)
    }

    fn with_logs(mut self) -> Vec<PodProblem> {
        // A character takes a byte at least: from the lengths follows how far it can matter to look.
        let lengths = self.logs.iter().map(|log| (LOGS_FIELD + log.text.len()).saturating_sub(CUT)).collect();
        let enough = even_share(lengths, self.left).saturating_add(CUT);
        let sizes: Vec<usize> = self.logs.iter().map(|log| log.size_up_to(enough).saturating_sub(CUT)).collect();
        let share = even_share(sizes.clone(), self.left);

        for (log, size) in self.logs.into_iter().zip(sizes) {
            let issue = self.pods.get_mut(log.pod).and_then(|pod| pod.container_issues.get_mut(log.container));
            let Some(issue) = issue else { continue };
            if size <= share {
                issue.logs = log.text;
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
    /// What it takes with its field; some more than `enough` where that is exceeded.
    fn size_up_to(&self, enough: usize) -> usize {
        let mut size = LOGS_FIELD;
        for character in self.text.chars() {
            if size > enough {
                break;
            }
            size += json::escaped(character);
        }
        size
    }
}

/// The largest share such that, if none takes more than that, all together take no more than the
/// supply.
fn even_share(mut wants: Vec<usize>, supply: usize) -> usize {
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

/// The end of a text that takes at most `size` bytes within a JSON string. It begins with a whole line,
/// unless that would lose more than half of it.
fn end_of(text: &str, size: usize) -> &str {
    let mut left = size;
    let mut start = text.len();
    for (index, character) in text.char_indices().rev() {
        let Some(rest) = left.checked_sub(json::escaped(character)) else { break };
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
    use super::*;

    #[test]
    fn shares_are_even_and_small_wants_stay_whole() {
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
    fn a_log_is_cut_at_its_beginning_between_characters_and_preferably_lines() {
        for (text, size, end) in [
            ("one\ntwo\nthree", 100, "one\ntwo\nthree"),
            ("one\ntwo\nthree", 5, "three"),
            ("one\ntwo\nthree", 8, "three"),
            ("one\ntwo\nthree", 10, "two\nthree"),
            ("a very long line\nx", 9, "g line\nx"),
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
    fn a_list_takes_what_has_room() {
        let items = ["aa", "bb", "c"];
        assert_eq!(prefix(items.into_iter(), 5 + 5 + 4), items);
        assert_eq!(prefix(items.into_iter(), 5 + 5 + 3), items[..2]);
        assert_eq!(prefix(items.into_iter(), 4), [""; 0]);
    }
}
