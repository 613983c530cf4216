//! Messages for a Discord webhook.
//!
//! Untrusted text is put into code, where Discord ignores formatting, links and mentions. In titles it is escaped.
//! `allowed_mentions` disables all mentions in addition.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    facts::{self, Layout, shrink_to_fit},
    markup::Markup,
    message_text::{self, Selection},
    receiver::{Receiver, RenderError, Request},
};
use crate::alerts::{Alert, Notification, sanitize};

const CONTENT: usize = 2_000;
const TITLE: usize = 256;
const DESCRIPTION: usize = 4_096;
const RED: u32 = 0x00d0_3027;
const GREEN: u32 = 0x002e_a043;

/// Discord accepts ten embeds; incidents with one line and the totals need at most two. The facts leave room for the log in
/// a description.
const FULL: Layout = Layout { detailed: 8, logs: 1_500, message: 300, facts: 2_300 };
/// Discord's limit of the titles and descriptions of all embeds together.
const LIMIT: usize = 6_000;
/// The part of the limit for the names of incidents.
const NAMES_BUDGET: usize = 4_400;

/// In angle brackets, Discord shows no preview of a link.
const MARKUP: Markup = Markup { bold: "**", code: "`", link: ["<", ">"], escape: str::to_owned };

pub(super) struct Discord;

impl Receiver for Discord {
    fn names_budget(&self) -> usize {
        NAMES_BUDGET
    }

    fn min_size(&self, alert: &Alert, now: Timestamp) -> usize {
        sanitize::utf16_len(&line(alert, now)) + message_text::LINE_GROWTH
    }

    fn request(&self, notification: &Notification, _key: &str) -> Result<Request, RenderError> {
        let body = shrink_to_fit(notification, FULL, LIMIT, |layout| body(notification, layout), size);
        Ok(Request::json(&body))
    }
}

fn line(alert: &Alert, now: Timestamp) -> String {
    format!("\n• {}", MARKUP.join(&message_text::summary_line(alert, now)))
}

fn body(notification: &Notification, layout: Layout) -> Value {
    let selection = Selection::new(notification, layout.detailed);
    let mut embeds: Vec<Value> = selection
        .detailed
        .iter()
        .map(|alert| {
            json!({
                "title": title(&message_text::location(alert)),
                "description": detailed(notification, alert, layout),
                "color": RED,
                "timestamp": alert.since,
            })
        })
        .collect();
    let mut lines = Vec::new();
    for (title, alerts) in &selection.lists {
        lines.push(format!("\n{}", MARKUP.name(title)));
        lines.extend(alerts.iter().map(|alert| line(alert, notification.now)));
    }
    lines.extend(message_text::totals(notification).iter().map(|line| format!("\n{}", MARKUP.join(line))));
    lines.push(format!("\n{}", MARKUP.join(&message_text::sender(notification))));
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
        "content": sanitize::truncate(&escape(&message_text::headline(notification, 500)), CONTENT),
        "embeds": embeds,
        "allowed_mentions": { "parse": [] },
    })
}

fn detailed(notification: &Notification, alert: &Alert, layout: Layout) -> String {
    let mut lines = facts::fact_lines(alert, notification.now, layout, &MARKUP, sanitize::utf16_len);
    let (logs, note) = facts::logs(alert, layout.logs);
    if !note.is_empty() {
        lines.push(format!("{} {}", MARKUP.name("Log"), MARKUP.untrusted(&note)));
    }
    if !logs.is_empty() {
        lines.push(format!("```\n{}\n```", MARKUP.neutralized(&logs)));
    }
    lines.join("\n")
}

fn title(text: &str) -> String {
    // Escaping may double the length. Truncating after it could leave a visible backslash.
    sanitize::truncate(&escape(&sanitize::truncate(text, TITLE / 2 - 8)), TITLE)
}

/// Escapes formatting. Breaks up mentions and links, which need none.
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

/// The length of all embeds, or `usize::MAX` if another limit is exceeded.
fn size(body: &Value) -> usize {
    let Some(embeds) = body["embeds"].as_array() else { return 0 };
    let units = |embed: &Value, field: &str| embed[field].as_str().map_or(0, sanitize::utf16_len);
    let exceeds = embeds.len() > 10
        || embeds.iter().any(|embed| units(embed, "title") > TITLE || units(embed, "description") > DESCRIPTION);
    if exceeds {
        usize::MAX
    } else {
        embeds.iter().map(|embed| units(embed, "title") + units(embed, "description")).sum()
    }
}
