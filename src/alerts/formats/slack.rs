//! A message for a Slack incoming webhook.
//!
//! Text from the cluster stands in code spans and code blocks, where Slack reads no formatting, and has
//! `&`, `<` and `>` escaped, which is what mentions and links are made of. It can't end its code span,
//! having no backticks.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    budget::{Shape, fit},
    message_text::{self, Piece, Selection},
};
use crate::alerts::{Alert, Notification, sanitize};

/// Slack's own limit is 3,000 for a section; ours leaves room for the markup.
const SECTION: usize = 3_000;
const HEADER: usize = 150;
const FALLBACK: usize = 500;
const FULL: Shape = Shape { detailed: 20, logs: 1_500, message: 300 };
/// Beyond this a message is hard to read, and at some point Slack cuts it.
const LIMIT: usize = 12_000;
/// What incidents may take of it at their shortest.
pub(super) const ROOM: usize = 7_000;

pub(super) fn render(notification: &Notification) -> Value {
    fit(notification, FULL, LIMIT, |shape| body(notification, shape), size)
}

/// How much an incident takes at its shortest, at most.
pub(super) fn needs(alert: &Alert, now: Timestamp) -> usize {
    sanitize::utf16_len(&line(alert, now)) + message_text::GROWTH
}

fn line(alert: &Alert, now: Timestamp) -> String {
    // One line must fit into a section, whatever was escaped in it.
    let mut line = format!("\n• {}", join(&message_text::brief(alert, now)));
    if sanitize::utf16_len(&line) > SECTION / 2 {
        line = format!("\n• {}", join(&message_text::clipped(alert, now)));
    }
    line
}

fn body(notification: &Notification, shape: Shape) -> Value {
    let selection = Selection::new(notification, shape);
    let headline = message_text::headline(notification);
    let mut blocks = vec![
        json!({ "type": "header", "text": { "type": "plain_text", "text": sanitize::truncate(&headline, HEADER), "emoji": false } }),
    ];
    blocks.extend(selection.detailed.iter().map(|alert| section(&detailed(notification, alert, shape))));
    for (title, alerts) in &selection.lists {
        blocks.extend(lists(notification, title, alerts));
    }
    for line in message_text::remainder(notification) {
        blocks.push(section(&join(&line)));
    }
    let sender = mrkdwn(&join(&message_text::sender(notification)));
    blocks.push(json!({ "type": "context", "elements": [sender] }));
    json!({
        // What is shown where blocks aren't: in notifications, to screen readers.
        "text": fallback(&headline),
        "mrkdwn": false,
        "blocks": blocks,
        "unfurl_links": false,
        "unfurl_media": false,
    })
}

fn detailed(notification: &Notification, alert: &Alert, shape: Shape) -> String {
    let facts = message_text::facts(alert, notification.now, shape.message);
    let mut lines: Vec<String> = facts.iter().map(|fact| format!("*{}:* {}", fact.name, join(&fact.value))).collect();
    let (logs, note) = message_text::logs(alert, shape.logs);
    if !note.is_empty() {
        lines.push(format!("*Log:* {}", code(&note)));
    }
    let mut made = lines.join("\n");
    if !logs.is_empty() {
        // Escaping makes some characters five: the log gets what room there is, not the other way round.
        let room = SECTION.saturating_sub(sanitize::utf16_len(&made) + 10);
        let mut logs = logs;
        let mut escaped = escape(&defused(&logs));
        while sanitize::utf16_len(&escaped) > room && !logs.is_empty() {
            logs = sanitize::tail(&logs, sanitize::utf16_len(&logs) * 3 / 4);
            escaped = escape(&defused(&logs));
        }
        if !escaped.is_empty() {
            made.push_str(&format!("\n```\n{escaped}\n```"));
        }
    }
    made
}

/// Lines about incidents, in as many sections as they need.
fn lists(notification: &Notification, title: &str, alerts: &[&Alert]) -> Vec<Value> {
    let mut sections = Vec::new();
    let mut made = format!("*{title}:*");
    for alert in alerts {
        let line = line(alert, notification.now);
        if sanitize::utf16_len(&made) + sanitize::utf16_len(&line) > SECTION {
            sections.push(section(&made));
            made = format!("*{title}:*");
        }
        made.push_str(&line);
    }
    if !alerts.is_empty() {
        sections.push(section(&made));
    }
    sections
}

/// A text that stays within a limit when it is escaped.
fn fallback(headline: &str) -> String {
    let mut limit = FALLBACK;
    loop {
        let text = escape(&sanitize::truncate(headline, limit));
        if sanitize::utf16_len(&text) <= FALLBACK {
            return text;
        }
        limit = limit * 3 / 4;
    }
}

fn section(text: &str) -> Value {
    json!({ "type": "section", "text": mrkdwn(text) })
}

fn mrkdwn(text: &str) -> Value {
    json!({ "type": "mrkdwn", "text": text, "verbatim": true })
}

fn join(pieces: &[Piece]) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Ours(text) => escape(text),
            Piece::Theirs(text) => code(text),
        })
        .collect()
}

fn code(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { format!("`{}`", escape(&defused(text))) }
}

fn defused(text: &str) -> String {
    text.replace('`', "\u{2cb}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The characters of all texts of a message; more than a message may have where it has too many blocks.
fn size(body: &Value) -> usize {
    const BLOCKS: usize = 50;
    let Some(blocks) = body["blocks"].as_array() else { return 0 };
    let texts = |value: &Value| value["text"].as_str().map_or(0, sanitize::utf16_len);
    let sections = |block: &Value| {
        texts(&block["text"]) + block["elements"].as_array().map_or(0, |elements| elements.iter().map(texts).sum())
    };
    let total = texts(body) + blocks.iter().map(sections).sum::<usize>();
    let long = blocks.iter().any(|block| texts(&block["text"]) > SECTION);
    if blocks.len() > BLOCKS || long { usize::MAX } else { total }
}
