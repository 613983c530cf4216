//! An Adaptive Card for Microsoft Teams, by way of a workflow ("When a Teams webhook request is
//! received").
//!
//! All text is in text runs, in which an Adaptive Card reads no Markdown. What is read even there is
//! broken up: date functions in double braces, and a workflow's mentions.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    budget::{Shape, fit},
    message_text::{self, Piece, Selection},
};
use crate::alerts::{Alert, Notification, sanitize};

const FULL: Shape = Shape { detailed: 20, logs: 2_000, message: 500 };
/// A message may have about 28 KB, what the workflow adds included.
const LIMIT: usize = 20_000;
/// What incidents may take of it at their shortest.
pub(super) const ROOM: usize = 12_000;

pub(super) fn render(notification: &Notification) -> Value {
    fit(notification, FULL, LIMIT, |shape| body(notification, shape), |body| body.to_string().len())
}

/// How much an incident takes at its shortest, at most.
pub(super) fn needs(alert: &Alert, now: Timestamp) -> usize {
    line("No longer watched", alert, now, "Medium").to_string().len() + message_text::GROWTH
}

fn line(title: &str, alert: &Alert, now: Timestamp, spacing: &str) -> Value {
    block(vec![bold(&format!("{title}: ")), run(&join(&message_text::brief(alert, now)))], spacing)
}

fn body(notification: &Notification, shape: Shape) -> Value {
    let selection = Selection::new(notification, shape);
    let color = if notification.is_all_clear() { "Good" } else { "Attention" };
    let headline = defused(&sanitize::truncate(&message_text::headline(notification), 300));
    let mut blocks = vec![block(
        vec![json!({ "type": "TextRun", "text": headline, "weight": "Bolder", "size": "Medium", "color": color })],
        "None",
    )];
    for alert in &selection.detailed {
        blocks.extend(detailed(notification, alert, shape));
    }
    for (title, alerts) in &selection.lists {
        for (index, alert) in alerts.iter().enumerate() {
            blocks.push(line(title, alert, notification.now, if index == 0 { "Medium" } else { "None" }));
        }
    }
    for line in message_text::remainder(notification) {
        blocks.push(block(vec![run(&join(&line))], "Medium"));
    }
    blocks.push(block(vec![run(&join(&message_text::sender(notification)))], "Medium"));
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

fn detailed(notification: &Notification, alert: &Alert, shape: Shape) -> Vec<Value> {
    let mut blocks = Vec::new();
    for (index, fact) in message_text::facts(alert, notification.now, shape.message).iter().enumerate() {
        let runs = vec![bold(&format!("{}: ", fact.name)), run(&join(&fact.value))];
        blocks.push(block(runs, if index == 0 { "Medium" } else { "None" }));
    }
    let (logs, note) = message_text::logs(alert, shape.logs);
    if !note.is_empty() {
        blocks.push(block(vec![bold("Log: "), run(&note)], "None"));
    }
    // A text run has no lines of its own: each line of a log is a block.
    for (index, line) in logs.lines().enumerate() {
        let line = defused(if line.is_empty() { " " } else { line });
        let run = json!({ "type": "TextRun", "text": line, "fontType": "Monospace" });
        blocks.push(block(vec![run], if index == 0 { "Small" } else { "None" }));
    }
    blocks
}

fn block(runs: Vec<Value>, spacing: &str) -> Value {
    json!({ "type": "RichTextBlock", "inlines": runs, "spacing": spacing })
}

fn join(pieces: &[Piece]) -> String {
    let texts = pieces.iter().map(|piece| match piece {
        Piece::Ours(text) | Piece::Theirs(text) => text.as_str(),
    });
    texts.collect()
}

fn bold(text: &str) -> Value {
    json!({ "type": "TextRun", "text": text, "weight": "Bolder" })
}

fn run(text: &str) -> Value {
    // A run without text is not valid.
    let text = if text.is_empty() { "-" } else { text };
    json!({ "type": "TextRun", "text": defused(text) })
}

fn defused(text: &str) -> String {
    const APART: char = '\u{200b}';
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '{' && out.ends_with('{') || matches!(c, 'a' | 'A' | '/') && out.ends_with('<') {
            out.push(APART);
        }
        out.push(c);
    }
    out
}
