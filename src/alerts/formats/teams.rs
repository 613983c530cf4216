//! Adaptive Cards for Microsoft Teams, posted by a workflow ("When a Teams webhook request is received").
//!
//! All text is in text runs, which contain no Markdown. Date functions in double braces and mentions of workflows, which
//! are interpreted even there, are broken up.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    facts::{self, Fact, Layout, shrink_to_fit},
    markup::{Markup, Segment},
    message_text::{self, Selection},
    receiver::{REFUSED, Receiver, RenderError, Request},
};
use crate::alerts::{Alert, Notification};

const FULL: Layout = Layout { detailed: 20, logs: 2_000, message: 500, facts: LIMIT };
/// Teams accepts about 28 KB, including what the workflow adds.
const LIMIT: usize = 20_000;
/// The part of the limit for the names of incidents.
const NAMES_BUDGET: usize = 12_000;

pub(super) struct Teams;

impl Receiver for Teams {
    fn names_budget(&self) -> usize {
        NAMES_BUDGET
    }

    fn min_size(&self, alert: &Alert, now: Timestamp) -> usize {
        line("No longer watched", alert, now, "Medium").to_string().len() + message_text::LINE_GROWTH
    }

    fn request(&self, notification: &Notification, _key: &str) -> Result<Request, RenderError> {
        let body = shrink_to_fit(
            notification,
            FULL,
            LIMIT,
            |layout| body(notification, layout),
            |body| body.to_string().len(),
        );
        Ok(Request::json(&body))
    }

    /// "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 413 with ContextId …"
    fn reported_status(&self, body: &[u8]) -> Option<(u16, &'static str)> {
        let text = String::from_utf8_lossy(body);
        let (_, error) = text.split_once("Webhook message delivery failed")?;
        let status = error.split_once("HTTP error ").and_then(|(_, rest)| rest.get(..3)?.parse().ok());
        Some((status.filter(|status| (400..600).contains(status)).unwrap_or(REFUSED), ""))
    }

    fn hint(&self, status: u16) -> Option<&'static str> {
        matches!(status, 401 | 403).then_some("the URL must hold its signature (sig=…): copy all of it")
    }
}

fn line(title: &str, alert: &Alert, now: Timestamp, spacing: &str) -> Value {
    block(vec![bold(&format!("{title}: ")), run(&Markup::PLAIN.join(&message_text::summary_line(alert, now)))], spacing)
}

fn body(notification: &Notification, layout: Layout) -> Value {
    let selection = Selection::new(notification, layout.detailed);
    let color = if notification.is_all_clear() { "Good" } else { "Attention" };
    let headline = neutralized(&message_text::headline(notification, 300));
    let mut blocks = vec![block(
        vec![json!({ "type": "TextRun", "text": headline, "weight": "Bolder", "size": "Medium", "color": color })],
        "None",
    )];
    for alert in &selection.detailed {
        blocks.extend(detailed(notification, alert, layout));
    }
    for (title, alerts) in &selection.lists {
        for (index, alert) in alerts.iter().enumerate() {
            blocks.push(line(title, alert, notification.now, if index == 0 { "Medium" } else { "None" }));
        }
    }
    for line in message_text::totals(notification) {
        blocks.push(block(vec![run(&Markup::PLAIN.join(&line))], "Medium"));
    }
    blocks.push(block(vec![run(&Markup::PLAIN.join(&message_text::sender(notification)))], "Medium"));
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.2",
                "fallbackText": headline,
                "msteams": { "width": "Full" },
                "body": blocks,
            },
        }],
    })
}

fn detailed(notification: &Notification, alert: &Alert, layout: Layout) -> Vec<Value> {
    let size = |fact: &Fact<'_>| fact_block(fact, "Medium").to_string().len() + 1;
    let shown = facts::facts_within(alert, notification.now, layout, size);
    let spacing = |index| if index == 0 { "Medium" } else { "None" };
    let mut blocks: Vec<Value> =
        shown.iter().enumerate().map(|(index, fact)| fact_block(fact, spacing(index))).collect();
    let (logs, note) = facts::logs(alert, layout.logs);
    if !note.is_empty() {
        blocks.push(block(vec![bold("Log: "), run(&note)], "None"));
    }
    // A text run ignores line breaks: each line of a log is a block.
    for (index, line) in logs.lines().enumerate() {
        let line = neutralized(if line.is_empty() { " " } else { line });
        let run = json!({ "type": "TextRun", "text": line, "fontType": "Monospace" });
        blocks.push(block(vec![run], if index == 0 { "Small" } else { "None" }));
    }
    blocks
}

fn fact_block(fact: &Fact<'_>, spacing: &str) -> Value {
    let mut text = run(&Markup::PLAIN.join(&fact.value));
    if let [Segment::Link(url)] = fact.value.as_slice() {
        text["selectAction"] = json!({ "type": "Action.OpenUrl", "url": url });
    }
    block(vec![bold(&format!("{}: ", fact.name)), text], spacing)
}

fn block(runs: Vec<Value>, spacing: &str) -> Value {
    json!({ "type": "RichTextBlock", "inlines": runs, "spacing": spacing })
}

fn bold(text: &str) -> Value {
    json!({ "type": "TextRun", "text": text, "weight": "Bolder" })
}

fn run(text: &str) -> Value {
    // An empty text run is invalid.
    let text = if text.is_empty() { "-" } else { text };
    json!({ "type": "TextRun", "text": neutralized(text) })
}

fn neutralized(text: &str) -> String {
    const SEPARATOR: char = '\u{200b}';
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '{' && out.ends_with('{') || matches!(c, 'a' | 'A' | '/') && out.ends_with('<') {
            out.push(SEPARATOR);
        }
        out.push(c);
    }
    out
}
