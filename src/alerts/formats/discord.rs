//! A message for a Discord webhook.
//!
//! Text from the cluster stands in code, where Discord reads no formatting, no links and no mentions;
//! in titles it is escaped. Mentions are switched off besides.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    budget::{Shape, fit},
    message_text::{self, Piece, Selection},
};
use crate::alerts::{Alert, Notification, sanitize};

const CONTENT: usize = 2_000;
const TITLE: usize = 256;
const DESCRIPTION: usize = 4_096;
const RED: u32 = 0x00d0_3027;
const GREEN: u32 = 0x002e_a043;

/// Ten embeds in all: what has a line only takes two at most, with the numbers.
const FULL: Shape = Shape { detailed: 8, logs: 1_500, message: 300 };
/// Titles and descriptions of all embeds together may have 6,000 characters.
const LIMIT: usize = 6_000;
/// What incidents may take of it at their shortest.
pub(super) const ROOM: usize = 4_400;

pub(super) fn render(notification: &Notification) -> Value {
    fit(notification, FULL, LIMIT, |shape| body(notification, shape), size)
}

/// How much an incident takes at its shortest, at most.
pub(super) fn needs(alert: &Alert, now: Timestamp) -> usize {
    sanitize::utf16_len(&line(alert, now)) + message_text::GROWTH
}

fn line(alert: &Alert, now: Timestamp) -> String {
    format!("\n• {}", join(&message_text::brief(alert, now)))
}

fn body(notification: &Notification, shape: Shape) -> Value {
    let selection = Selection::new(notification, shape);
    let mut embeds: Vec<Value> = selection
        .detailed
        .iter()
        .map(|alert| {
            json!({
                "title": title(&message_text::place(alert)),
                "description": detailed(notification, alert, shape),
                "color": RED,
                "timestamp": alert.since,
            })
        })
        .collect();
    let mut lines = Vec::new();
    for (title, alerts) in &selection.lists {
        lines.push(format!("\n**{title}:**"));
        lines.extend(alerts.iter().map(|alert| line(alert, notification.now)));
    }
    lines.extend(message_text::remainder(notification).iter().map(|line| format!("\n{}", join(line))));
    lines.push(format!("\n{}", join(&message_text::sender(notification))));
    let mut descriptions = vec![String::new()];
    for line in lines {
        if let Some(last) = descriptions.last_mut()
            && sanitize::utf16_len(last) + sanitize::utf16_len(&line) <= DESCRIPTION
        {
            last.push_str(&line);
        } else {
            descriptions.push(line);
        }
    }
    let color = if notification.is_all_clear() { GREEN } else { RED };
    let embed = |text: &String| json!({ "description": text.trim_start(), "color": color });
    embeds.extend(descriptions.iter().map(embed));
    json!({
        "content": sanitize::truncate(&escape(&sanitize::truncate(&message_text::headline(notification), 500)), CONTENT),
        "embeds": embeds,
        "allowed_mentions": { "parse": [] },
    })
}

fn detailed(notification: &Notification, alert: &Alert, shape: Shape) -> String {
    let facts = message_text::facts(alert, notification.now, shape.message);
    let mut lines: Vec<String> = facts.iter().map(|fact| format!("**{}:** {}", fact.name, join(&fact.value))).collect();
    let (logs, note) = message_text::logs(alert, shape.logs);
    if !note.is_empty() {
        lines.push(format!("**Log:** {}", code(&note)));
    }
    if !logs.is_empty() {
        lines.push(format!("```\n{}\n```", defused(&logs)));
    }
    lines.join("\n")
}

fn title(text: &str) -> String {
    // Escaping may double a text. A cut inside an escape would leave a backslash, which shows.
    sanitize::truncate(&escape(&sanitize::truncate(text, TITLE / 2 - 8)), TITLE)
}

fn join(pieces: &[Piece]) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Ours(text) => text.clone(),
            Piece::Theirs(text) => code(text),
        })
        .collect()
}

fn code(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { format!("`{}`", defused(text)) }
}

fn defused(text: &str) -> String {
    text.replace('`', "\u{2cb}")
}

/// Escapes what Discord reads as formatting, and breaks what it reads without any: mentions and links.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '*' | '_' | '~' | '`' | '|' | '>' | '<' | '#' | '[' | ']' | '(' | ')' => out.extend(['\\', c]),
            '@' => out.extend(['@', '\u{200b}']),
            '/' if out.ends_with('/') => out.extend(['\u{200b}', '/']),
            c => out.push(c),
        }
    }
    out
}

/// The characters that count against the limit of all embeds; more than it where another one is broken.
fn size(body: &Value) -> usize {
    let Some(embeds) = body["embeds"].as_array() else { return 0 };
    let units = |embed: &Value, field: &str| embed[field].as_str().map_or(0, sanitize::utf16_len);
    let broken = embeds.len() > 10
        || embeds.iter().any(|embed| units(embed, "title") > TITLE || units(embed, "description") > DESCRIPTION);
    if broken {
        usize::MAX
    } else {
        embeds.iter().map(|embed| units(embed, "title") + units(embed, "description")).sum()
    }
}
