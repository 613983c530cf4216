//! How much a message shows, and the facts that a message for people shows about an incident: what, where, since when, why, and
//! how to go on.

use jiff::Timestamp;

use super::{
    markup::{Markup, Segment, literal, untrusted},
    message_text::{
        NAME, caption_segments, duration, join, location_segments, members, no_longer_common, pluralize, ratio,
        timestamp,
    },
};
use crate::{
    alerts::{Alert, Notification, sanitize, times::duration_between},
    api::{Detail, ProblemKind, Revision, TEAM_LENGTH, is_link},
};

/// How much is shown in addition to the names of the incidents, which are never cut, and exact counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// How many incidents are shown with all facts. The others have one line each.
    pub detailed: usize,
    /// The limit of each incident's log, in UTF-16 code units.
    pub logs: usize,
    /// The limit of each incident's message, in UTF-16 code units.
    pub message: usize,
    /// The most that the facts about one incident may take without its log, in the unit in which the message is measured;
    /// 0 if the format has no such limit.
    pub facts: usize,
}

impl Layout {
    pub const NAMES_ONLY: Self = Self { detailed: 0, logs: 0, message: 0, facts: 0 };
}

/// A log that would be cut further than this is left out.
const MIN_LOGS: usize = 200;
/// Messages are cut to this before they are left out.
pub(super) const SHORT_MESSAGE: usize = 100;
/// The facts about an incident may take this part of a message before logs are cut.
const PARTS: usize = 8;

/// Renders a message as large as its limit allows. Incidents whose facts take more than their share lose links first, so that
/// they do not displace the logs of others. Then logs are cut, then messages, then facts.
pub(super) fn shrink_to_fit<T>(
    notification: &Notification,
    full: Layout,
    limit: usize,
    render: impl Fn(Layout) -> T,
    measure: impl Fn(&T) -> usize,
) -> T {
    let mut layout = match notification.detail {
        Detail::Full => full,
        Detail::NoLogs => Layout { logs: 0, ..full },
        Detail::Names => Layout::NAMES_ONLY,
    };
    let named = notification.started.len() + notification.ongoing.len() + notification.resolved.len();
    loop {
        let rendered = render(layout);
        if layout == Layout::NAMES_ONLY || measure(&rendered) <= limit {
            return rendered;
        }
        // Before logs are left out, all incidents have the same share.
        let parts = if layout.logs > MIN_LOGS { named.min(PARTS) } else { named };
        let share = limit / parts.max(1);
        if layout.facts > share {
            layout.facts = share;
        } else if layout.logs > 0 {
            layout.logs = if layout.logs > MIN_LOGS { layout.logs / 2 } else { 0 };
        } else if layout.message > 0 {
            layout.message = if layout.message > SHORT_MESSAGE { SHORT_MESSAGE } else { 0 };
        } else {
            layout.detailed /= 2;
            if layout.detailed == 0 {
                layout = Layout::NAMES_ONLY;
            }
        }
    }
}

/// A name and its value, such as "Why".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact<'a> {
    pub name: &'a str,
    pub value: Vec<Segment>,
}

/// The facts about an incident, without its log.
pub(super) fn facts(alert: &Alert, now: Timestamp, message: usize) -> Vec<Fact<'_>> {
    let mut what = caption_segments(alert);
    if !alert.container.is_empty() {
        what.extend([literal(" in container "), untrusted(&alert.container, 63)]);
    }
    let mut facts = vec![
        Fact { name: "What", value: what },
        Fact { name: "Where", value: location_segments(alert) },
        Fact { name: "Since", value: vec![literal(time_range(alert, now))] },
    ];
    facts.push(Fact { name: "Severity", value: severity(alert) });
    if alert.remaining > 0 {
        facts.push(Fact { name: "Note", value: vec![literal(no_longer_common(alert))] });
    }
    let why = sanitize::single_line(&alert.texts.message, message);
    if !why.is_empty() {
        facts.push(Fact { name: "Why", value: vec![Segment::Untrusted(why)] });
    }
    // The incident is gone, or the current incidents are unknown.
    if alert.pods == 0 {
        return facts;
    }
    let missing = if alert.kind == ProblemKind::Missing { " missing" } else { "" };
    let mut pods = vec![literal(ratio(alert) + missing)];
    for (index, pod) in alert.texts.example_pods.iter().take(3).enumerate() {
        pods.extend([literal(if index == 0 { ": " } else { ", " }), untrusted(pod, NAME)]);
    }
    if alert.pods > 3 && !alert.texts.example_pods.is_empty() {
        pods.push(literal(", …"));
    }
    facts.push(Fact { name: "Pods", value: pods });
    if !alert.members.is_empty() && message > 0 {
        // As long as a message and an example pod together.
        facts.push(Fact { name: "Affected", value: vec![Segment::Untrusted(members(alert, message + NAME))] });
    }
    if let Some(revision) = alert.texts.revision.as_ref().filter(|_| message > 0) {
        facts.push(Fact { name: "Revision", value: revision_text(revision, message) });
    }
    let evidence = join(&alert.texts.evidence, message);
    if !evidence.is_empty() {
        facts.push(Fact { name: "Evidence", value: vec![Segment::Untrusted(evidence)] });
    }
    if message > 0 {
        let links = links(alert).into_iter();
        facts.extend(links.map(|(name, url)| Fact { name, value: vec![Segment::Link(url.to_owned())] }));
        facts.extend(omitted_links(alert.omitted_links));
    }
    facts
}

/// The facts about an incident within the part of a message that it may take. If they take more, the links are left out first,
/// and then texts are cut, so that one incident does not displace what is shown of others. `size` is that of a fact in the
/// message.
pub(super) fn facts_within<'a>(
    alert: &'a Alert,
    now: Timestamp,
    layout: Layout,
    size: impl Fn(&Fact<'_>) -> usize,
) -> Vec<Fact<'a>> {
    let fits = |facts: &[Fact<'_>]| facts.iter().map(&size).fold(0, usize::saturating_add) <= layout.facts;
    let whole = facts(alert, now, layout.message);
    if fits(&whole) {
        return whole;
    }
    let is_link = |fact: &Fact<'_>| matches!(fact.value.as_slice(), [Segment::Link(_)]);
    let links = whole.iter().filter(|fact| is_link(fact)).count();
    let without_links = |mut facts: Vec<Fact<'a>>| {
        facts.retain(|fact| !is_link(fact) && fact.name != OMITTED_LINKS);
        facts.extend(omitted_links(alert.omitted_links + links));
        facts
    };
    let mut shown = without_links(whole);
    for message in [SHORT_MESSAGE, 0] {
        if message < layout.message && !fits(&shown) {
            shown = without_links(facts(alert, now, message));
        }
    }
    shown
}

/// A line for each of these facts.
pub(super) fn fact_lines(
    alert: &Alert,
    now: Timestamp,
    layout: Layout,
    markup: &Markup,
    size: impl Fn(&str) -> usize,
) -> Vec<String> {
    let line = |fact: &Fact<'_>| format!("{} {}", markup.name(fact.name), markup.join(&fact.value));
    facts_within(alert, now, layout, |fact| size(&line(fact)) + 1).iter().map(line).collect()
}

/// The name of the fact that counts the links that are not shown.
const OMITTED_LINKS: &str = "Links";

fn omitted_links<'a>(number: usize) -> Option<Fact<'a>> {
    let text = || format!("{} too long to show", pluralize(number as u64, "link"));
    (number > 0).then(|| Fact { name: OMITTED_LINKS, value: vec![literal(text())] })
}

/// The severity, and the team that is responsible.
fn severity(alert: &Alert) -> Vec<Segment> {
    let mut severity = vec![literal(alert.severity.as_str())];
    if !alert.team.is_empty() {
        severity.extend([literal(", team "), untrusted(&alert.team, TEAM_LENGTH)]);
    }
    severity
}

/// The links of an incident, with their names.
pub(super) fn links(alert: &Alert) -> Vec<(&str, &str)> {
    let own = [("Runbook", alert.runbook.as_str()), ("Dashboard", alert.dashboard.as_str())];
    let of_spec = alert.links.iter().map(|(name, url)| (name.as_str(), url.as_str()));
    own.into_iter().chain(of_spec).filter(|(_, url)| is_link(url)).collect()
}

fn revision_text(revision: &Revision, limit: usize) -> Vec<Segment> {
    let healthy = u64::try_from(revision.healthy_before).unwrap_or_default();
    let before = format!(" fails, {} of the revision before healthy", pluralize(healthy, "pod"));
    let mut text = vec![untrusted(&revision.name, NAME), literal(before)];
    let changes = join(&revision.changes, limit);
    if !changes.is_empty() {
        text.extend([literal("; changed: "), Segment::Untrusted(changes)]);
    }
    text
}

/// The end of an incident's log, and the note about it.
pub(super) fn logs(alert: &Alert, limit: usize) -> (String, String) {
    let note = sanitize::single_line(&alert.texts.log_note, 200);
    if limit == 0 { (String::new(), String::new()) } else { (sanitize::tail(&alert.texts.logs, limit), note) }
}

fn time_range(alert: &Alert, now: Timestamp) -> String {
    let lasted = duration(duration_between(alert.since, alert.resolved_at.unwrap_or(now)));
    match alert.resolved_at {
        Some(ended) => format!("{}, until {}, {lasted}", timestamp(alert.since), timestamp(ended)),
        None => format!("{}, for {lasted}", timestamp(alert.since)),
    }
}
