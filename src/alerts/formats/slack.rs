//! Messages for a Slack incoming webhook.
//!
//! Untrusted text is put into code spans and blocks, where Slack ignores formatting. Its backticks are replaced, so that
//! it cannot end the code, and `&`, `<` and `>` are escaped, because mentions and links consist of them. Links contain only
//! characters that cannot end them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    facts::{self, Layout, shrink_to_fit},
    markup::Markup,
    message_text::{self, Selection},
    receiver::{MentionMarkup, REFUSED, Receiver, RenderError, Request},
};
use crate::{
    alerts::{Alert, Notification, sanitize},
    api::limits,
};

/// Slack's limit of a section's text.
const SECTION: usize = 3_000;
const HEADER: usize = 150;
const FALLBACK: usize = 500;
/// The facts leave some room for the log in a section.
const FULL: Layout = Layout { detailed: 20, logs: 1_500, message: 300, facts: SECTION - 300 };
/// Slack truncates very long messages, and people do not read them.
const LIMIT: usize = 12_000;
/// The part of the limit for the names of incidents.
const NAMES_BUDGET: usize = 7_000;

const MARKUP: Markup = Markup { bold: "*", code: "`", link: ["<", ">"], escape };

pub(super) struct Slack;

impl Receiver for Slack {
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

    fn mention_markup(&self) -> Option<MentionMarkup> {
        Some(mention)
    }

    /// Receivers that are compatible with Slack answer `{"ok": false, "error": …}` or `{"success": false, …}`.
    fn reported_status(&self, body: &[u8]) -> Option<u16> {
        let answer: Value = serde_json::from_slice(body).ok()?;
        let is_false = |field: &str| answer.get(field) == Some(&Value::Bool(false));
        let is_refused = is_false("ok") || is_false("success");
        is_refused.then(|| slack_status(answer["error"].as_str().unwrap_or_default()).unwrap_or(REFUSED))
    }

    fn hint(&self, status: u16) -> Option<&'static str> {
        matches!(status, 401 | 403).then_some("the Slack app may have been removed or restricted: make a new webhook")
    }
}

/// The status that Slack's error stands for, if it is not about the content of the message:
/// <https://docs.slack.dev/reference/methods/chat.postMessage#errors>.
fn slack_status(error: &str) -> Option<u16> {
    match error {
        "ratelimited" | "rate_limited" | "message_limit_exceeded" => Some(429),
        "invalid_auth" | "not_authed" | "account_inactive" | "token_revoked" | "token_expired" | "invalid_token" => {
            Some(401)
        }
        "no_permission"
        | "missing_scope"
        | "not_allowed_token_type"
        | "access_denied"
        | "action_prohibited"
        | "org_login_required"
        | "ekm_access_denied"
        | "team_access_not_granted"
        | "restricted_action"
        | "not_in_channel"
        | "posting_to_general_channel_denied" => Some(403),
        "channel_not_found"
        | "channel_is_archived"
        | "is_archived"
        | "no_service"
        | "no_service_id"
        | "no_active_hooks"
        | "no_team"
        | "team_disabled"
        | "user_not_found" => Some(404),
        "fatal_error" | "internal_error" | "service_unavailable" | "request_timeout" => Some(503),
        _ => None,
    }
}

/// The markup of a mention. IDs consist of upper-case letters and digits, so they cannot end it.
fn mention(mention: &str) -> Result<String, &'static str> {
    let is_id = mention.len() <= limits::MENTION_LENGTH
        && mention.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    match (mention, mention.as_bytes()) {
        ("@here", _) => Ok("<!here>".to_owned()),
        ("@channel", _) => Ok("<!channel>".to_owned()),
        (_, [b'U' | b'W', _, ..]) if is_id => Ok(format!("<@{mention}>")),
        (_, [b'S', _, ..]) if is_id => Ok(format!("<!subteam^{mention}>")),
        _ => Err("is not @here, @channel, or the ID of a user or a user group"),
    }
}

fn line(alert: &Alert, now: Timestamp) -> String {
    // The line must fit into a section after escaping.
    let mut line = format!("\n• {}", MARKUP.join(&message_text::summary_line(alert, now)));
    if sanitize::utf16_len(&line) > SECTION / 2 {
        line = format!("\n• {}", MARKUP.join(&message_text::short_summary_line(alert, now)));
    }
    line
}

fn body(notification: &Notification, layout: Layout) -> Value {
    let selection = Selection::new(notification, layout.detailed);
    let headline = message_text::headline(notification, HEADER);
    let mut blocks =
        vec![json!({ "type": "header", "text": { "type": "plain_text", "text": headline, "emoji": false } })];
    blocks.extend(selection.detailed.iter().map(|alert| section(&detailed(notification, alert, layout))));
    for (title, alerts) in &selection.lists {
        blocks.extend(lists(notification, title, alerts));
    }
    if !notification.mentions.is_empty() {
        blocks.push(section(&notification.mentions.join(" ")));
    }
    for line in message_text::totals(notification) {
        blocks.push(section(&MARKUP.join(&line)));
    }
    let sender = mrkdwn(&MARKUP.join(&message_text::sender(notification)));
    blocks.push(json!({ "type": "context", "elements": [sender] }));
    json!({
        // Shown in notifications, and read by screen readers.
        "text": fallback(notification),
        "mrkdwn": false,
        "blocks": blocks,
        "unfurl_links": false,
        "unfurl_media": false,
    })
}

fn detailed(notification: &Notification, alert: &Alert, layout: Layout) -> String {
    let mut text = facts::fact_lines(alert, notification.now, layout, &MARKUP, sanitize::utf16_len).join("\n");
    let (logs, note) = facts::logs(alert, layout.logs);
    let note = if note.is_empty() { note } else { format!("\n{} {}", MARKUP.name("Log"), MARKUP.untrusted(&note)) };
    if sanitize::utf16_len(&text) + sanitize::utf16_len(&note) <= SECTION {
        text.push_str(&note);
    }
    if !logs.is_empty() {
        // Escaping may turn one character into five: shorten the log until it fits into the section, and takes no more than
        // those of other incidents.
        let room = SECTION.saturating_sub(sanitize::utf16_len(&text) + 10).min(layout.logs);
        let mut logs = logs;
        let mut escaped = MARKUP.neutralized(&logs);
        while sanitize::utf16_len(&escaped) > room && !logs.is_empty() {
            logs = sanitize::tail(&logs, sanitize::utf16_len(&logs) * 3 / 4);
            escaped = MARKUP.neutralized(&logs);
        }
        if !escaped.is_empty() {
            text.push_str(&format!("\n```\n{escaped}\n```"));
        }
    }
    text
}

/// One line for each incident, in as many sections as needed.
fn lists(notification: &Notification, title: &str, alerts: &[&Alert]) -> Vec<Value> {
    let mut sections = Vec::new();
    let mut text = MARKUP.name(title);
    for alert in alerts {
        let line = line(alert, notification.now);
        if sanitize::utf16_len(&text) + sanitize::utf16_len(&line) > SECTION {
            sections.push(section(&text));
            text = MARKUP.name(title);
        }
        text.push_str(&line);
    }
    if !alerts.is_empty() {
        sections.push(section(&text));
    }
    sections
}

/// The headline, within the limit after escaping.
fn fallback(notification: &Notification) -> String {
    let mut limit = FALLBACK;
    loop {
        let text = escape(&message_text::headline(notification, limit));
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

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The length of all texts, or `usize::MAX` if there are too many blocks or a text is too long.
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
