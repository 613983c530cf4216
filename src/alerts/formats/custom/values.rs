//! What a template can show: an alert, and nothing else. All texts are sanitized; what they quote was masked before.

use minijinja::{Value, value::Serde};
use serde_json::{Value as Json, json};

use super::super::{
    facts::{self, Layout, SHORT_MESSAGE},
    labels,
    markup::Markup,
    message_text::{self, NAME, Selection, duration},
};
use crate::{
    alerts::{Alert, Incident, Notification, Storm, sanitize, times::duration_between},
    api::{MessageKind, NamespacedName, Owner, Severity, TEAM_LENGTH},
};

/// Whether a message is about ends only.
pub(super) fn is_end(notification: &Notification) -> bool {
    match notification.kind {
        MessageKind::Resolved => true,
        MessageKind::Test => notification.is_resolved(),
        MessageKind::Firing | MessageKind::Repeat | MessageKind::Resend => false,
    }
}

/// The values of a message. One about a single incident has it as `incident`, others have a list.
pub(super) fn values(notification: &Notification, layout: Layout, is_single: bool) -> Value {
    let source = &notification.source;
    let all = || notification.started.iter().chain(&notification.resolved).chain(&notification.ongoing);
    let subject = notification.started.first().or(notification.ongoing.first()).or(notification.resolved.first());
    let storm = notification.storm.as_ref();
    let of_alerts = if notification.started.is_empty() { all().map(severity).max() } else { starting(notification) };
    let severity = of_alerts.max(storm.map(|storm| storm.severity)).unwrap_or_default();
    let id = match (is_single, subject) {
        (true, Some(alert)) => labels::dedup_key(notification, &[&alert.key]),
        (true, None) => labels::dedup_key(notification, &["storm", &notification.webhook]),
        (false, _) => labels::dedup_key(notification, &["webhook", &notification.webhook]),
    };
    let text = |markup| message(notification, layout, markup, is_single);
    let mut values = json!({
        // The same for the start and the end.
        "id": id,
        // Another one for each message, and the same for all attempts to send it.
        "messageId": notification.id,
        "status": status(is_end(notification)),
        "test": notification.kind == MessageKind::Test,
        "title": headline(notification, &Markup::PLAIN),
        "text": text(&Markup::PLAIN),
        "markdown": text(&MARKDOWN),
        "severity": severity.as_str(),
        "cluster": message_text::cluster(notification),
        "object": format!("{}/{}", source.object.namespace, source.object.name),
        "webhook": sanitize::single_line(&notification.webhook, 63),
        "time": notification.created.to_string(),
        "unixTime": notification.created.as_second(),
        "firing": notification.firing(),
    });
    match (is_single, subject) {
        (true, Some(alert)) => values["incident"] = incident(notification, alert, layout, layout.detailed > 0),
        (true, None) => values["incident"] = storm_incident(notification, layout, &id),
        (false, _) => {
            let all = all().enumerate();
            let list = all.map(|(index, alert)| incident(notification, alert, layout, index < layout.detailed));
            values["incidents"] = list.collect();
        }
    }
    Value::from(Serde(values))
}

fn severity(alert: &Alert) -> Severity {
    alert.severity
}

fn starting(notification: &Notification) -> Option<Severity> {
    notification.started.iter().map(severity).max()
}

fn status(is_over: bool) -> &'static str {
    if is_over { "resolved" } else { "firing" }
}

/// `is_detailed`: with more than names and counts.
fn incident(notification: &Notification, alert: &Alert, layout: Layout, is_detailed: bool) -> Json {
    let layout =
        if is_detailed { layout } else { Layout { logs: 0, message: layout.message.min(SHORT_MESSAGE), ..layout } };
    let (logs, log_note) = facts::logs(alert, layout.logs);
    let lines = |texts: &[String], limit: usize| -> Vec<String> {
        let shown = if layout.message == 0 { 0 } else { texts.len().min(8) };
        texts.iter().take(shown).map(|text| sanitize::single_line(text, limit)).collect()
    };
    let revision = alert.texts.revision.as_ref().filter(|_| layout.message > 0);
    let links = facts::links(alert).into_iter().filter(|_| is_detailed && layout.message > 0);
    let ended = alert.resolved_at.map(|ended| ended.max(alert.since));
    json!({
        "id": labels::dedup_key(notification, &[&alert.key]),
        "status": status(alert.resolved_at.is_some()),
        "title": message_text::title(alert, layout.message),
        "kind": message_text::kind(notification, alert),
        "reason": sanitize::single_line(&alert.reason, 128),
        "cause": message_text::cause(alert),
        "severity": alert.severity.as_str(),
        "team": sanitize::single_line(&alert.team, TEAM_LENGTH),
        "namespace": sanitize::single_line(&alert.namespace, 63),
        "ownerKind": sanitize::single_line(&alert.owner.kind, 63),
        "owner": sanitize::single_line(&alert.owner.name, NAME),
        "container": sanitize::single_line(&alert.container, 63),
        "message": sanitize::single_line(&alert.texts.message, layout.message),
        "pods": alert.pods,
        "of": alert.of,
        "examplePods": lines(&alert.texts.example_pods, NAME),
        "evidence": lines(&alert.texts.evidence, layout.message),
        "revision": revision.map_or_else(String::new, |revision| sanitize::single_line(&revision.name, NAME)),
        "changes": revision.map_or_else(Vec::new, |revision| lines(&revision.changes, layout.message)),
        "links": links.map(|(name, url)| json!({ "name": name, "url": url })).collect::<Vec<_>>(),
        "since": alert.since.min(notification.now).to_string(),
        "ended": ended.map_or_else(String::new, |ended| ended.to_string()),
        "duration": duration(duration_between(alert.since, alert.resolved_at.unwrap_or(notification.now))),
        "logs": logs,
        "logNote": log_note,
        "note": message_text::note(notification, alert),
    })
}

/// The problems that are too many to be sent one by one, as one incident.
fn storm_incident(notification: &Notification, layout: Layout, id: &str) -> Json {
    let Storm { since, severity, resolved_at, count, .. } = notification.storm.clone().unwrap_or_default();
    let NamespacedName { namespace, name } = &notification.source.object;
    let owner = Owner { kind: "Orchestr".to_owned(), name: name.clone() }.into();
    let namespace = namespace.as_str().into();
    let storm = Incident { namespace, owner, reason: "Storm".into(), since, severity, ..Incident::default() };
    let storm = Alert { incident: storm, resolved_at, ..Alert::default() };
    let mut values = incident(notification, &storm, layout, false);
    values["id"] = json!(id);
    values["kind"] = json!("Storm");
    values["title"] = json!(message_text::headline(notification, NAME));
    let reasons = message_text::reason_counts(&notification.reasons);
    if !reasons.is_empty() {
        values["message"] = json!(format!("{count} more problems: {reasons}"));
    }
    values
}

/// Markdown, where untrusted text is code, so that it is neither markup nor a mention.
const MARKDOWN: Markup = Markup { bold: "**", code: "`", ..Markup::PLAIN };
/// The limit of the headline, in UTF-16 code units.
const HEADLINE: usize = 300;

fn headline(notification: &Notification, markup: &Markup) -> String {
    markup.untrusted(&message_text::headline(notification, HEADLINE))
}

/// A whole message as text: the headline, the facts and the log of each incident that begins, one line for each other one, the
/// totals and the sender. A message about a single incident has no totals, because it says nothing about others.
fn message(notification: &Notification, layout: Layout, markup: &Markup, is_single: bool) -> String {
    let selection = Selection::new(notification, layout.detailed);
    let mut parts = vec![headline(notification, markup)];
    parts.extend(selection.detailed.iter().map(|alert| detailed(notification, alert, layout, markup)));
    for (title, alerts) in &selection.lists {
        let line = |alert: &&Alert| markup.join(&message_text::summary_line(alert, notification.now));
        let lines = alerts.iter().map(|alert| format!("• {}", line(alert)));
        parts.push([markup.name(title)].into_iter().chain(lines).collect::<Vec<_>>().join("\n"));
    }
    let mut last: Vec<String> = match is_single {
        true => message_text::held_back(notification).map(|text| format!("{text}.")).into_iter().collect(),
        false => message_text::totals(notification).iter().map(|line| markup.join(line)).collect(),
    };
    last.push(markup.join(&message_text::sender(notification)));
    parts.push(last.join("\n"));
    parts.join("\n\n")
}

fn detailed(notification: &Notification, alert: &Alert, layout: Layout, markup: &Markup) -> String {
    let mut lines = facts::fact_lines(alert, notification.now, layout, markup, str::len);
    let (logs, note) = facts::logs(alert, layout.logs);
    if !note.is_empty() {
        lines.push(format!("{} {}", markup.name("Log"), markup.untrusted(&note)));
    }
    if !logs.is_empty() {
        lines.push(match markup.code {
            "" => format!("{}\n{logs}", markup.name("The end of the log")),
            _ => format!("```\n{}\n```", markup.neutralized(&logs)),
        });
    }
    lines.join("\n")
}
