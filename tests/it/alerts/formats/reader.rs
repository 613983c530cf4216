//! What each receiver accepts. How a message is read is in `messages.rs` of the testbed. A new format extends both.

use std::collections::BTreeMap;

use jiff::Timestamp;
use orchestr::{alerts::Notification, api::WebhookFormat};
use orchestr_testbed::messages::{self, Named};
use serde_json::{Value, json};

/// A valid link with all characters that are markup elsewhere.
pub(super) const LINK: &str = "https://r.example/a_b*c~(d)[e](f)/@here/%3C!channel%3E?x=1&lt;='#$;,!";

fn utf16_len(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Reads the owners' names in a message that was sent `now`. `keys` are those of the events that PagerDuty was sent, by key.
pub(in crate::alerts) fn read(
    format: WebhookFormat,
    body: &Value,
    now: Timestamp,
    keys: &mut BTreeMap<String, String>,
) -> Named {
    messages::read(&format!("{format:?}"), body, now, keys)
}

/// All texts of a value with the names of their fields.
fn texts<'a>(name: &'a str, value: &'a Value, found: &mut Vec<(&'a str, &'a str)>) {
    match value {
        Value::String(text) => found.push((name, text)),
        Value::Array(values) => values.iter().for_each(|value| texts(name, value, found)),
        Value::Object(values) => values.iter().for_each(|(name, value)| texts(name, value, found)),
        _ => {}
    }
}

/// Removes code from a Markdown text.
fn without_code(text: &str) -> String {
    let outside_blocks: String = text.split("```").step_by(2).collect();
    outside_blocks.split('`').step_by(2).collect()
}

fn check_slack(body: &Value) {
    let blocks = body["blocks"].as_array().unwrap();
    assert!((1..=50).contains(&blocks.len()));
    assert!(utf16_len(blocks[0]["text"]["text"].as_str().unwrap()) <= 150);
    let mut found = Vec::new();
    texts("", body, &mut found);
    let mut total = 0;
    for (_, text) in found.iter().filter(|(name, _)| *name == "text") {
        total += utf16_len(text);
        assert!((1..=3_000).contains(&utf16_len(text)), "{text:?}");
    }
    assert!(total <= 12_000, "{total} characters");
    let mut markup = vec![body["text"].as_str().unwrap()];
    for block in blocks.iter().skip(1) {
        markup.extend(block["text"]["text"].as_str());
        markup.extend(block["elements"][0]["text"].as_str());
    }
    for text in markup {
        let text = &text.replace(&format!("<{}>", LINK.replace('&', "&amp;")), "");
        assert!(!text.contains(['<', '>']), "{text:?}");
        for entity in text.split('&').skip(1) {
            assert!(["amp;", "lt;", "gt;"].iter().any(|known| entity.starts_with(known)), "{text:?}");
        }
    }
    for block in blocks.iter().skip(1).filter(|block| block["type"] == "section") {
        let text = block["text"]["text"].as_str().unwrap();
        assert!(matches!(text.matches("```").count(), 0 | 2), "{text:?}");
        let text = without_code(text).replace(&format!("<{}>", LINK.replace('&', "&amp;")), "");
        assert!(!text.contains(['_', '~', '{', '@']), "{text:?}");
    }
}

fn check_discord(body: &Value) {
    assert_eq!(body["allowed_mentions"], json!({ "parse": [] }));
    let content = body["content"].as_str().unwrap();
    assert!((1..=2_000).contains(&utf16_len(content)));
    let embeds = body["embeds"].as_array().unwrap();
    assert!((1..=10).contains(&embeds.len()));
    let mut total = 0;
    let mut titles = vec![content];
    for embed in embeds {
        let (title, text) = (embed["title"].as_str().unwrap_or_default(), embed["description"].as_str().unwrap());
        assert!(utf16_len(title) <= 256 && (1..=4_096).contains(&utf16_len(text)));
        total += utf16_len(title) + utf16_len(text);
        titles.push(title);
        assert!(matches!(text.matches("```").count(), 0 | 2), "{text:?}");
        let text = without_code(text).replace(&format!("<{LINK}>"), "");
        assert!(!text.contains(['_', '~', '<', '@', '[', '|', '#', '\\']), "{text:?}");
    }
    assert!(total <= 6_000, "{total} characters");
    for title in titles {
        for banned in ["@everyone", "@here", "://"] {
            assert!(!title.contains(banned), "{title:?}");
        }
        let mut escaped = false;
        for c in title.chars() {
            assert!(escaped || !matches!(c, '*' | '_' | '~' | '`' | '|' | '<' | '[' | '#'), "{title:?}");
            escaped = c == '\\' && !escaped;
        }
    }
}

fn check_teams(body: &Value, size: usize) {
    assert!(size <= 20 * 1024, "{size} bytes");
    let blocks = body["attachments"][0]["content"]["body"].as_array().unwrap();
    assert!(!blocks.is_empty());
    for block in blocks {
        assert_eq!(block["type"], "RichTextBlock");
        for run in block["inlines"].as_array().unwrap() {
            assert_eq!(run["type"], "TextRun");
            assert!(!run["text"].as_str().unwrap().is_empty());
        }
    }
    let mut found = Vec::new();
    texts("", body, &mut found);
    for (_, text) in found {
        let lower = text.to_lowercase();
        assert!(!lower.contains("{{") && !lower.contains("<at") && !lower.contains("</at"), "{text:?}");
    }
}

/// Checks that the receiver accepts a message of this size, with everything that it must contain and without foreign markup.
pub(super) fn check(format: WebhookFormat, body: &Value, size: usize, notification: &Notification) {
    let named = notification.started.len() + notification.ongoing.len() + notification.resolved.len();
    let storm = notification.storm.as_ref().map_or(0, |storm| storm.count);
    let all = named + usize::from(notification.storm.is_some());
    match format {
        WebhookFormat::Slack => check_slack(body),
        WebhookFormat::Discord => check_discord(body),
        WebhookFormat::Teams => check_teams(body, size),
        WebhookFormat::Generic => {
            assert!(size <= 64 * 1024, "{} bytes", size);
            assert_eq!(body["alerts"].as_array().unwrap().len(), all);
            assert_eq!(body["truncatedAlerts"].as_u64().unwrap(), notification.omitted + storm);
        }
        WebhookFormat::CloudEvents => {
            assert!(size <= 64 * 1024, "{} bytes", size);
            assert_eq!(&body["id"], &json!(notification.id));
        }
        WebhookFormat::Alertmanager => {
            assert_eq!(body.as_array().unwrap().len(), all, "no alert may be omitted");
            assert!(size <= 1024 * 1024, "{} bytes", size);
        }
        WebhookFormat::Custom => {
            assert!(size <= 65_536, "{} bytes", size);
            assert!(!body["title"].as_str().unwrap().is_empty());
        }
        WebhookFormat::PagerDuty => {
            assert!(size <= 512_000, "{} bytes", size);
            assert!(body["payload"]["summary"].as_str().unwrap_or_default().chars().count() <= 1_024);
            assert!(body["dedup_key"].as_str().unwrap_or_default().len() <= 255);
        }
    }
}
