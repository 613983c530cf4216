//! The text of messages for people: headline, lines about incidents, totals and sender. Without markup, which each format
//! adds. The facts about one incident are in [`facts`](super::facts).

use std::{cmp::Reverse, time::Duration};

use jiff::Timestamp;

use super::markup::{Markup, Segment, literal, untrusted};
use crate::{
    alerts::{Alert, Farewell, Notification, Source, Storm, sanitize, times::duration_between},
    api::{Cause, MessageKind},
};

/// Which incidents are shown, and how.
pub(super) struct Selection<'a> {
    /// Incidents with all facts.
    pub detailed: Vec<&'a Alert>,
    /// Titles, and incidents with one line each.
    pub lists: Vec<(&'static str, Vec<&'a Alert>)>,
}

impl<'a> Selection<'a> {
    /// `detailed` is how many incidents may have all facts.
    pub fn new(notification: &'a Notification, detailed: usize) -> Self {
        let repeats = notification.kind == MessageKind::Repeat && notification.started.is_empty();
        let (changed, ongoing): (&[Alert], &[Alert]) =
            if repeats { (&notification.ongoing, &[]) } else { (&notification.started, &notification.ongoing) };
        let (detailed, more) = changed.split_at(changed.len().min(detailed));
        let over = match notification.farewell {
            None => "Over",
            Some(Farewell::ObjectDeleted) => "No longer watched",
            Some(Farewell::ReceiverLeft) => "No longer sent here",
        };
        let more_title = if repeats { "Still firing" } else { "Firing" };
        let (remaining, ended) = notification.resolved.iter().partition(|alert| alert.remaining > 0);
        let lists = [
            (more_title, more.iter().collect()),
            (over, ended),
            ("No longer a common cause", remaining),
            ("Still firing", ongoing.iter().collect()),
        ];
        let lists = lists.into_iter().filter(|(_, alerts): &(_, Vec<&Alert>)| !alerts.is_empty());
        Self { detailed: detailed.iter().collect(), lists: lists.collect() }
    }
}

/// Why an alert ends although its incident may continue.
pub(in crate::alerts) fn farewell(farewell: Farewell) -> &'static str {
    match farewell {
        Farewell::ObjectDeleted => "no longer watched: the Orchestr was deleted",
        Farewell::ReceiverLeft => "no longer sent here: the webhook was removed or has another receiver",
    }
}

/// Why an alert about a common cause ends although some of its incidents continue; empty if none does.
pub(super) fn no_longer_common(alert: &Alert) -> String {
    match alert.remaining {
        0 => String::new(),
        remaining => format!("no longer a common cause: {}", problems_continue(remaining)),
    }
}

/// Why an alert ends although what it is about continues; empty if it does not.
pub(super) fn note(notification: &Notification, alert: &Alert) -> String {
    notification.farewell.map_or_else(|| no_longer_common(alert), |reason| farewell(reason).to_owned())
}

/// The kind of an alert's problem.
pub(super) fn kind(notification: &Notification, alert: &Alert) -> &'static str {
    if notification.kind == MessageKind::Test { "Test" } else { alert.kind.as_str() }
}

/// The cause; empty if it is not known.
pub(super) fn cause(alert: &Alert) -> &'static str {
    if alert.cause == Cause::Unknown { "" } else { alert.cause.as_str() }
}

fn problems_continue(number: u64) -> String {
    let verb = if number == 1 { "continues" } else { "continue" };
    format!("{number} of its problems {verb}")
}

/// How a message begins: with the state of its alerts, and the cluster.
pub(super) fn status_prefix(notification: &Notification) -> String {
    let state = match notification.kind {
        MessageKind::Test if notification.is_resolved() => "TEST OVER",
        MessageKind::Test => "TEST",
        MessageKind::Firing => "FIRING",
        MessageKind::Repeat | MessageKind::Resend => "STILL FIRING",
        MessageKind::Resolved => match notification.farewell {
            Some(Farewell::ObjectDeleted) => "NO LONGER WATCHED",
            Some(Farewell::ReceiverLeft) => "NO LONGER SENT HERE",
            None if has_only_remaining(notification) => "NO LONGER A COMMON CAUSE",
            None => "RESOLVED",
        },
    };
    let cluster = cluster(notification);
    if cluster.is_empty() { state.to_owned() } else { format!("{state} in cluster {cluster}") }
}

/// The name of the cluster; empty if it has none.
pub(super) fn cluster(notification: &Notification) -> String {
    sanitize::single_line(&notification.source.cluster, 63)
}

/// Whether a message reports only ends of common causes some of whose incidents continue.
fn has_only_remaining(notification: &Notification) -> bool {
    let resolved = &notification.resolved;
    notification.storm.is_none() && !resolved.is_empty() && resolved.iter().all(|alert| alert.remaining > 0)
}

/// The limit of a name, in UTF-16 code units, which is that of Kubernetes.
pub(super) const NAME: usize = 253;
/// The limit of a reason, in UTF-16 code units.
const REASON: usize = 128;

/// The message in one line of at most `limit` UTF-16 code units, as a phone shows it: the most severe alert, and how many
/// more there are. It contains untrusted text.
pub(super) fn headline(notification: &Notification, limit: usize) -> String {
    let prefix = status_prefix(notification);
    let subjects = match notification.kind {
        MessageKind::Test if notification.is_resolved() => &notification.resolved,
        MessageKind::Test | MessageKind::Firing => &notification.started,
        // A repetition for a single incident lists it as started.
        MessageKind::Repeat | MessageKind::Resend if notification.started.is_empty() => &notification.ongoing,
        MessageKind::Repeat | MessageKind::Resend => &notification.started,
        MessageKind::Resolved => &notification.resolved,
    };
    // If something is over, the headline is about that only.
    let is_over = |alert: &&Alert| alert.remaining == 0 || has_only_remaining(notification);
    let subjects: Vec<&Alert> = subjects.iter().filter(is_over).collect();
    let resolved = notification.kind == MessageKind::Resolved;
    let storm = notification.storm.as_ref().filter(|storm| storm.resolved_at.is_some() == resolved);
    // They are sorted by time: of equally severe ones, the oldest.
    let (subject, more) = match (subjects.iter().min_by_key(|alert| Reverse(alert.severity)), storm) {
        (Some(first), _) => (title(first, TITLE_MESSAGE), more(notification, subjects.len(), storm)),
        (None, Some(_)) if notification.farewell.is_some() => ("problems that were too many to list".to_owned(), 0),
        (None, Some(_)) if resolved => ("all problems that were too many to list".to_owned(), 0),
        (None, _) => (counted(notification), 0),
    };
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let room = limit.saturating_sub(sanitize::utf16_len(&prefix) + ": ".len() + sanitize::utf16_len(&more));
    sanitize::truncate(&format!("{prefix}: {}{more}", sanitize::truncate(&subject, room)), limit)
}

/// How many problems a headline counts beside the first of these `subjects`.
fn more(notification: &Notification, subjects: usize, storm: Option<&Storm>) -> u64 {
    let all = match notification.kind {
        MessageKind::Repeat | MessageKind::Resend => notification.firing(),
        _ => (subjects as u64).saturating_add(storm.map_or(0, |storm| storm.count)),
    };
    all.saturating_sub(1)
}

/// The number of problems that are firing, and their reasons if the message may name them.
fn counted(notification: &Notification) -> String {
    let problems = pluralize(notification.firing(), "problem");
    match reason_counts(&notification.reasons) {
        reasons if reasons.is_empty() => problems,
        reasons => format!("{problems}: {reasons}"),
    }
}

/// The limit of a sentence in a headline, in UTF-16 code units.
const TITLE_MESSAGE: usize = 300;

/// What is wrong, and where. Contains untrusted text. `message` limits the sentence about a common cause, in UTF-16 code
/// units.
pub(super) fn title(alert: &Alert, message: usize) -> String {
    let sentence =
        if alert.is_common_cause { sanitize::single_line(&alert.texts.message, message) } else { String::new() };
    if sentence.is_empty() { format!("{} in {}", caption(alert), location(alert)) } else { sentence }
}

/// The cause, if it is known, and the reason. Contains untrusted text.
pub(super) fn caption(alert: &Alert) -> String {
    Markup::PLAIN.join(&caption_segments(alert))
}

pub(super) fn caption_segments(alert: &Alert) -> Vec<Segment> {
    let reason = untrusted(&alert.reason, REASON);
    let cause = alert.cause.as_str();
    match alert.cause {
        Cause::Unknown => vec![reason],
        _ if alert.reason == cause => vec![literal(cause)],
        _ => vec![literal(format!("{cause} (")), reason, literal(")")],
    }
}

/// Texts in one line of at most `limit` UTF-16 code units. Contains untrusted text.
pub(super) fn join(texts: &[String], limit: usize) -> String {
    sanitize::single_line(&texts.join("; "), limit)
}

/// The namespace, the owner's kind and name, and the container. Contains untrusted text.
pub(super) fn location(alert: &Alert) -> String {
    let container = sanitize::single_line(&alert.container, 63);
    let container = if container.is_empty() { container } else { format!(", container {container}") };
    let namespace = sanitize::single_line(&alert.namespace, 63);
    let slash = if alert.is_common_cause && namespace.is_empty() { "" } else { "/" };
    format!(
        "{namespace}{slash}{} {}{container}",
        sanitize::single_line(&alert.owner.kind, 63),
        sanitize::single_line(&alert.owner.name, NAME)
    )
}

/// The same in segments, without the container.
pub(super) fn location_segments(alert: &Alert) -> Vec<Segment> {
    let mut segments = Vec::new();
    if !(alert.is_common_cause && alert.namespace.is_empty()) {
        segments.extend([untrusted(&alert.namespace, 63), literal(", ")]);
    }
    segments.extend([untrusted(&alert.owner.kind, 63), literal(" "), untrusted(&alert.owner.name, NAME)]);
    segments
}

/// How many members of a common cause are named at most.
const MEMBERS: usize = 20;

/// The members of a common cause with their pods, and how many are not named. Contains untrusted text. `limit` is in
/// UTF-16 code units; the first member is always named.
pub(super) fn members(alert: &Alert, limit: usize) -> String {
    let mut text = String::new();
    let mut named = 0;
    for member in alert.members.iter().take(MEMBERS) {
        let (namespace, kind) =
            (sanitize::single_line(&member.namespace, 63), sanitize::single_line(&member.owner.kind, 63));
        let name = sanitize::single_line(&member.owner.name, NAME);
        let next = format!("{namespace}/{kind} {name} ({})", pluralize(member.pods, "pod"));
        if named > 0 && sanitize::utf16_len(&text) + sanitize::utf16_len(&next) > limit {
            break;
        }
        if named > 0 {
            text.push_str(", ");
        }
        text.push_str(&next);
        named += 1;
    }
    let left = alert.members.len() - named;
    if left > 0 { format!("{text}, and {left} more") } else { text }
}

/// The most frequent reasons with their counts, and the count of all others. Contains untrusted text.
pub(super) fn reason_counts(counts: &[(String, u64)]) -> String {
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

/// How many pods are affected, and of how many, as far as that is known.
pub(super) fn ratio(alert: &Alert) -> String {
    if alert.of == 0 { alert.pods.to_string() } else { format!("{} of {}", alert.pods, alert.of) }
}

/// An incident in one line.
pub(super) fn summary_line(alert: &Alert, now: Timestamp) -> Vec<Segment> {
    let mut line = caption_segments(alert);
    line.push(literal(" in "));
    line.extend(location_segments(alert));
    if !alert.container.is_empty() {
        line.extend([literal(", container "), untrusted(&alert.container, 63)]);
    }
    line.push(literal(format!(", {}", if alert.resolved_at.is_some() { "lasted " } else { "for " })));
    line.push(literal(duration(duration_between(alert.since, alert.resolved_at.unwrap_or(now)))));
    if alert.remaining > 0 {
        line.push(literal(format!(", {}", problems_continue(alert.remaining))));
    }
    if alert.pods > 0 {
        let noun = if alert.of.max(alert.pods) == 1 { "pod" } else { "pods" };
        line.push(literal(format!(", {} {noun}", ratio(alert))));
    }
    if !alert.members.is_empty() {
        line.push(literal(format!(" of {}", pluralize(alert.members.len() as u64, "problem"))));
    }
    line
}

/// An incident in one line that stays short even if every character is escaped.
pub(super) fn short_summary_line(alert: &Alert, now: Timestamp) -> Vec<Segment> {
    const PART: usize = 40;
    let shorten = |segment: Segment| match segment {
        Segment::Untrusted(text) => Segment::Untrusted(sanitize::truncate(&text, PART)),
        literal => literal,
    };
    summary_line(alert, now).into_iter().map(shorten).collect()
}

/// By how much a line may grow between two attempts, because its duration and number of pods do.
pub(super) const LINE_GROWTH: usize = 24;

/// The namespaces of the critical incidents that joined a storm.
pub(super) fn critical_namespaces(storm: &Storm) -> Option<String> {
    let named = storm.critical.iter().map(|name| if name.is_empty() { "several namespaces" } else { name });
    let named = named.collect::<Vec<_>>().join(", ");
    (!named.is_empty()).then(|| sanitize::truncate(&named, 200))
}

/// Lines with the exact numbers of incidents that the message does not name, and of all that are firing.
pub(super) fn totals(notification: &Notification) -> Vec<Vec<Segment>> {
    let mut lines = Vec::new();
    if notification.omitted > 0 {
        lines.push(vec![literal(format!("{}, reported before.", pluralize(notification.omitted, "more problem")))]);
    }
    match &notification.storm {
        Some(storm @ Storm { count: more, resolved_at: None, since, .. }) => {
            lines.push(vec![literal(format!(
                "{} since {}, too many to list.",
                pluralize(*more, "more problem"),
                timestamp(*since)
            ))]);
            let critical = critical_namespaces(storm).map(Segment::Untrusted);
            lines.extend(critical.map(|namespaces| vec![literal("New critical problems among them: "), namespaces]));
        }
        Some(Storm { resolved_at: Some(_), .. }) if notification.farewell.is_some() => {}
        Some(Storm { resolved_at: Some(ended), since, .. }) => lines.push(vec![literal(format!(
            "The problems that were too many to list are over: from {} to {}.",
            timestamp(*since),
            timestamp(*ended)
        ))]),
        None => {}
    }
    if notification.unsent > 0 {
        lines.push(vec![literal(format!(
            "{}, too young to be sent or in the next message.",
            pluralize(notification.unsent, "other problem")
        ))]);
    }
    if notification.ending > 0 {
        let ended = pluralize(notification.ending, "problem");
        lines.push(vec![literal(format!("{ended} ended just now, and may return."))]);
    }
    if notification.refused > 0 {
        let refused = pluralize(notification.refused, "other problem");
        lines
            .push(vec![literal(format!("{refused}, which this receiver refuses: see the condition AlertsDelivered."))]);
    }
    lines.extend(held_back(notification).map(|text| vec![literal(format!("{text}."))]));
    let firing = notification.firing();
    if let Some(farewell) = notification.farewell {
        lines.push(vec![literal(match farewell {
            Farewell::ObjectDeleted => "The Orchestr was deleted: this is no longer watched, and may continue.",
            Farewell::ReceiverLeft => {
                "The webhook was removed or has another receiver: this is no longer sent here, and may continue."
            }
        })]);
    } else if notification.is_all_clear() {
        lines.push(vec![literal("Nothing is broken now.")]);
    } else if firing > 0 {
        let all = pluralize(firing, "problem");
        lines.push(match reason_counts(&notification.reasons) {
            reasons if reasons.is_empty() => vec![literal(format!("{all} in all."))],
            reasons => vec![literal(format!("{all} in all: ")), Segment::Untrusted(reasons)],
        });
    }
    lines
}

/// What silences and quiet hours hold back now, and what ended meanwhile; `None` if there is nothing.
pub(super) fn held_back(notification: &Notification) -> Option<String> {
    let now = match notification.muted {
        0 => None,
        1 => Some("1 other problem is held back by silences or quiet hours".to_owned()),
        many => Some(format!("{many} other problems are held back by silences or quiet hours")),
    };
    let ended = ended_while_held_back(notification.ended_while_muted);
    let texts: Vec<String> = now.into_iter().chain(ended).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// How many problems began and ended while they were held back; `None` if there are none.
pub(super) fn ended_while_held_back(ended: u64) -> Option<String> {
    (ended > 0).then(|| {
        let held_back = if ended == 1 { "it was held back" } else { "they were held back" };
        format!("{} began and ended while {held_back}", pluralize(ended, "problem"))
    })
}

/// The object, webhook and cluster that the message comes from.
pub(super) fn sender(notification: &Notification) -> Vec<Segment> {
    let Source { object, cluster, .. } = &notification.source;
    let mut sender = vec![
        literal("Orchestr "),
        Segment::Untrusted(format!(
            "{}/{}",
            sanitize::single_line(&object.namespace, 63),
            sanitize::single_line(&object.name, NAME)
        )),
        literal(", webhook "),
        untrusted(&notification.webhook, 63),
    ];
    if !cluster.is_empty() {
        sender.extend([literal(", cluster "), untrusted(cluster, 63)]);
    }
    sender
}

pub(super) fn timestamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A duration in its two largest units.
pub(super) fn duration(length: Duration) -> String {
    let seconds = length.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m{}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h{minutes}m"),
        (days, hours, _) => format!("{days}d{hours}h"),
    }
}

pub(super) fn pluralize(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_durations_in_two_units() {
        let formatted = [0, 59, 60, 754, 3_600, 86_399, 86_400, 200_000].map(|s| duration(Duration::from_secs(s)));
        assert_eq!(formatted, ["0s", "59s", "1m0s", "12m34s", "1h0m", "23h59m", "1d0h", "2d7h"]);
    }
}
