//! A notification in words, for people: what broke, where, since when, why, how many, and what it said
//! last, in that order. Without any markup: each format adds its own.

use std::time::Duration;

use jiff::Timestamp;

use super::budget::Shape;
use crate::{
    alerts::{Alert, Notification, Source, Storm, incident::between, notification::count_reasons, sanitize},
    api::MessageKind,
};

/// A value of a fact: text of ours, or text from the cluster, which a format must set apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Ours(String),
    Theirs(String),
}

/// A named part of the description of an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub name: &'static str,
    pub value: Vec<Piece>,
}

/// What of a notification is shown.
pub(super) struct Selection<'a> {
    /// With all facts.
    pub detailed: Vec<&'a Alert>,
    /// Lists of incidents in a line each, with their titles.
    pub lists: Vec<(&'static str, Vec<&'a Alert>)>,
}

impl<'a> Selection<'a> {
    /// Chooses which incidents have all facts; every other one has a line.
    pub fn new(notification: &'a Notification, shape: Shape) -> Self {
        let repeats = notification.kind == MessageKind::Repeat && notification.started.is_empty();
        let (fresh, ongoing): (&[Alert], &[Alert]) =
            if repeats { (&notification.ongoing, &[]) } else { (&notification.started, &notification.ongoing) };
        let (detailed, more) = fresh.split_at(fresh.len().min(shape.detailed));
        let over = if notification.object_deleted { "No longer watched" } else { "Over" };
        let more_title = if repeats { "Still firing" } else { "Firing" };
        let lists = [(more_title, more), (over, &notification.resolved), ("Still firing", ongoing)];
        let lists = lists.into_iter().filter(|(_, alerts)| !alerts.is_empty());
        Self {
            detailed: detailed.iter().collect(),
            lists: lists.map(|(title, alerts)| (title, alerts.iter().collect())).collect(),
        }
    }
}

/// Why an alert ends without a recovery: the object was deleted.
pub(super) const FAREWELL: &str = "no longer watched: the Orchestr was deleted";

/// How a message begins: what it is about, and in which cluster.
pub(super) fn mark(notification: &Notification) -> String {
    let mark = match notification.kind {
        MessageKind::Test if notification.is_resolved() => "TEST OVER",
        MessageKind::Test => "TEST",
        MessageKind::Firing => "FIRING",
        MessageKind::Repeat | MessageKind::Resend => "STILL FIRING",
        MessageKind::Resolved if notification.object_deleted => "NO LONGER WATCHED",
        MessageKind::Resolved => "RESOLVED",
    };
    let cluster = sanitize::single_line(&notification.source.cluster, 63);
    if cluster.is_empty() { mark.to_owned() } else { format!("{mark} in cluster {cluster}") }
}

fn ours(text: impl Into<String>) -> Piece {
    Piece::Ours(text.into())
}

fn theirs(text: &str, limit: usize) -> Piece {
    Piece::Theirs(sanitize::single_line(text, limit))
}

/// The longest name in a line, in UTF-16 code units; Kubernetes' own limit is 253.
const NAME: usize = 253;
/// The longest reason.
const REASON: usize = 128;

/// What a message says in one line. It holds text from the cluster.
pub(super) fn headline(notification: &Notification) -> String {
    let mark = mark(notification);
    let subjects = match notification.kind {
        MessageKind::Test if notification.is_resolved() => &notification.resolved,
        MessageKind::Test | MessageKind::Firing => &notification.started,
        // A message for one incident has it among what it is about.
        MessageKind::Repeat | MessageKind::Resend if notification.started.is_empty() => &notification.ongoing,
        MessageKind::Repeat | MessageKind::Resend => &notification.started,
        MessageKind::Resolved => &notification.resolved,
    };
    let resolved = notification.kind == MessageKind::Resolved;
    let storm = notification.storm.as_ref().filter(|storm| storm.resolved_at.is_some() == resolved);
    let what = match (subjects.as_slice(), storm) {
        ([alert], None) => format!("{} in {}", sanitize::single_line(&alert.reason, REASON), place(alert)),
        ([], Some(_)) if notification.object_deleted => "problems that were too many to be told one by one".to_owned(),
        ([], Some(_)) if resolved => "all problems that were too many to be told one by one".to_owned(),
        (_, Some(_)) if !resolved => {
            format!("{}: {}", count(notification.firing(), "problem"), reasons(&notification.reasons))
        }
        (alerts, _) => {
            let counted = count_reasons(alerts.iter().map(|alert| alert.reason.as_str()));
            format!("{}: {}", count(alerts.len() as u64, "problem"), reasons(&counted))
        }
    };
    format!("{mark}: {what}")
}

/// Where an incident is: namespace, kind and name of the owner, container.
pub(super) fn place(alert: &Alert) -> String {
    let container = sanitize::single_line(&alert.container, 63);
    let container = if container.is_empty() { container } else { format!(", container {container}") };
    format!(
        "{}/{} {}{container}",
        sanitize::single_line(&alert.namespace, 63),
        sanitize::single_line(&alert.owner.kind, 63),
        sanitize::single_line(&alert.owner.name, NAME)
    )
}

/// Reasons and how often each: the most frequent by name, the others together.
pub(super) fn reasons(counts: &[(String, u64)]) -> String {
    const NAMED: usize = 5;
    let mut parts: Vec<String> = counts
        .iter()
        .take(NAMED)
        .map(|(reason, count)| format!("{count} {}", sanitize::single_line(reason, 64)))
        .collect();
    let others: u64 = counts.iter().skip(NAMED).map(|(_, count)| count).sum();
    if others > 0 {
        parts.push(format!("{others} others"));
    }
    parts.join(", ")
}

/// What there is to say of an incident, but its log.
pub(super) fn facts(alert: &Alert, now: Timestamp, message: usize) -> Vec<Fact> {
    let mut what = vec![theirs(&alert.reason, REASON)];
    if !alert.container.is_empty() {
        what.extend([ours(" in container "), theirs(&alert.container, 63)]);
    }
    let mut facts = vec![
        Fact { name: "What", value: what },
        Fact {
            name: "Where",
            value: vec![
                theirs(&alert.namespace, 63),
                ours(", "),
                theirs(&alert.owner.kind, 63),
                ours(" "),
                theirs(&alert.owner.name, NAME),
            ],
        },
        Fact { name: "Since", value: vec![ours(span(alert, now))] },
    ];
    let why = sanitize::single_line(&alert.message, message);
    if !why.is_empty() {
        facts.push(Fact { name: "Why", value: vec![Piece::Theirs(why)] });
    }
    // An incident whose pods are gone for the moment, or that is not seen yet, says nothing of them.
    if alert.pods == 0 {
        return facts;
    }
    let mut pods = vec![ours(alert.pods.to_string())];
    for (index, pod) in alert.example_pods.iter().take(3).enumerate() {
        pods.extend([ours(if index == 0 { ": " } else { ", " }), theirs(pod, NAME)]);
    }
    if alert.pods > 3 && !alert.example_pods.is_empty() {
        pods.push(ours(", …"));
    }
    facts.push(Fact { name: "Pods", value: pods });
    facts
}

/// The end of an incident's log, and what there is to say of it.
pub(super) fn logs(alert: &Alert, limit: usize) -> (String, String) {
    let note = sanitize::single_line(&alert.log_note, 200);
    if limit == 0 { (String::new(), String::new()) } else { (sanitize::tail(&alert.logs, limit), note) }
}

/// An incident in a line.
pub(super) fn brief(alert: &Alert, now: Timestamp) -> Vec<Piece> {
    let mut line = vec![
        theirs(&alert.reason, REASON),
        ours(" in "),
        theirs(&alert.namespace, 63),
        ours(", "),
        theirs(&alert.owner.kind, 63),
        ours(" "),
        theirs(&alert.owner.name, NAME),
    ];
    if !alert.container.is_empty() {
        line.extend([ours(", container "), theirs(&alert.container, 63)]);
    }
    line.push(ours(format!(", {}", if alert.resolved_at.is_some() { "lasted " } else { "for " })));
    line.push(ours(duration(between(alert.since, alert.resolved_at.unwrap_or(now)))));
    if alert.pods > 0 {
        line.push(ours(format!(", {}", count(alert.pods, "pod"))));
    }
    line
}

/// An incident in a line that stays short whatever is escaped in it.
pub(super) fn clipped(alert: &Alert, now: Timestamp) -> Vec<Piece> {
    const PART: usize = 40;
    let shorten = |piece: Piece| match piece {
        Piece::Theirs(text) => Piece::Theirs(sanitize::truncate(&text, PART)),
        ours => ours,
    };
    brief(alert, now).into_iter().map(shorten).collect()
}

/// By how much a line may get longer from one attempt to the next: the time that it lasted, and the number of pods.
pub(super) const GROWTH: usize = 24;

/// What is said of incidents that aren't named: exact numbers.
pub(super) fn remainder(notification: &Notification) -> Vec<Vec<Piece>> {
    let mut lines = Vec::new();
    if notification.hidden > 0 {
        lines.push(vec![ours(format!("{}, known already.", count(notification.hidden, "more problem")))]);
    }
    match &notification.storm {
        Some(Storm { count: more, resolved_at: None, since }) => lines.push(vec![ours(format!(
            "{}, since {}, too many to be told one by one.",
            count(*more, "more problem"),
            stamp(*since)
        ))]),
        Some(Storm { resolved_at: Some(_), .. }) if notification.object_deleted => {}
        Some(Storm { resolved_at: Some(ended), since, .. }) => lines.push(vec![ours(format!(
            "The problems that were too many to be told one by one are over: from {} to {}.",
            stamp(*since),
            stamp(*ended)
        ))]),
        None => {}
    }
    if notification.unsent > 0 {
        lines.push(vec![ours(format!(
            "{}, too young to be sent or in the next message.",
            count(notification.unsent, "other problem")
        ))]);
    }
    let firing = notification.firing();
    if notification.object_deleted {
        lines.push(vec![ours("The Orchestr was deleted: nobody watches this any more, and it may go on.")]);
    } else if notification.is_all_clear() {
        lines.push(vec![ours("Nothing is broken now.")]);
    } else if firing > 0 {
        let all = reasons(&notification.reasons);
        lines.push(vec![ours(format!("{} in all: ", count(firing, "problem"))), Piece::Theirs(all)]);
    }
    lines
}

/// Who says so.
pub(super) fn sender(notification: &Notification) -> Vec<Piece> {
    let Source { object, cluster, .. } = &notification.source;
    let mut sender = vec![
        ours("Orchestr "),
        Piece::Theirs(format!(
            "{}/{}",
            sanitize::single_line(&object.namespace, 63),
            sanitize::single_line(&object.name, NAME)
        )),
        ours(", webhook "),
        theirs(&notification.webhook, 63),
    ];
    if !cluster.is_empty() {
        sender.extend([ours(", cluster "), theirs(cluster, 63)]);
    }
    sender
}

fn span(alert: &Alert, now: Timestamp) -> String {
    let lasted = duration(between(alert.since, alert.resolved_at.unwrap_or(now)));
    match alert.resolved_at {
        Some(ended) => format!("{}, until {}, {lasted}", stamp(alert.since), stamp(ended)),
        None => format!("{}, for {lasted}", stamp(alert.since)),
    }
}

fn stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A length of time in its two largest units.
fn duration(length: Duration) -> String {
    let seconds = length.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m{}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h{minutes}m"),
        (days, hours, _) => format!("{days}d{hours}h"),
    }
}

fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_told_in_two_units() {
        let told = [0, 59, 60, 754, 3_600, 86_399, 86_400, 200_000].map(|s| duration(Duration::from_secs(s)));
        assert_eq!(told, ["0s", "59s", "1m0s", "12m34s", "1h0m", "23h59m", "1d0h", "2d7h"]);
    }
}
