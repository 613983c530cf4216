//! Messages for a Slack incoming webhook, or for the method `chat.postMessage` of Slack's API, whose answers make threads.
//!
//! Untrusted text is put into code spans and blocks, where Slack ignores formatting. Its backticks are replaced, so that
//! it cannot end the code, and `&`, `<` and `>` are escaped, because mentions and links consist of them. Links contain only
//! characters that cannot end them.

use jiff::Timestamp;
use serde_json::{Value, json};
use url::Url;

use super::{
    facts::{self, Layout, shrink_to_fit},
    markup::Markup,
    message_text::{self, Selection},
    receiver::{MentionMarkup, REFUSED, Receiver, RenderError, Request, take_parameter},
};
use crate::{
    alerts::{Alert, Notification, sanitize, thread::is_timestamp},
    api::limits,
};

/// The end of the path of the API's method, and the parameter of the URL with the channel. Slack itself expects the channel in the
/// body.
const POST_MESSAGE: &str = "/chat.postMessage";
const CHANNEL: &str = "channel";
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

    /// An incoming webhook has its channel, but Slack's API must be told it.
    fn complete_url(&self, url: &mut Url) -> Result<String, &'static str> {
        if !url.path().ends_with(POST_MESSAGE) {
            return Ok(String::new());
        }
        take_parameter(url, CHANNEL)
            .filter(|channel| is_id(channel))
            .ok_or("lacks the channel: it must end with ?channel=<the channel's ID, such as C0123456789>")
    }

    fn request(&self, notification: &Notification, channel: &str) -> Result<Request, RenderError> {
        let mut body = shrink_to_fit(notification, FULL, LIMIT, |layout| body(notification, layout), size);
        if !channel.is_empty() {
            body[CHANNEL] = channel.into();
        }
        if let Some(thread) = &notification.thread {
            body["thread_ts"] = thread.as_str().into();
        }
        Ok(Request::json(&body))
    }

    fn mention_markup(&self) -> Option<MentionMarkup> {
        Some(mention)
    }

    /// Receivers that are compatible with Slack answer `{"ok": false, "error": …}` or `{"success": false, …}`.
    fn reported_status(&self, body: &[u8]) -> Option<(u16, &'static str)> {
        let answer: Value = serde_json::from_slice(body).ok()?;
        let is_false = |field: &str| answer.get(field) == Some(&Value::Bool(false));
        let is_refused = is_false("ok") || is_false("success");
        let error = answer["error"].as_str().unwrap_or_default();
        let known =
            ERRORS.iter().find_map(|(status, codes)| Some((*status, *codes.iter().find(|code| **code == error)?)));
        is_refused.then(|| known.unwrap_or((REFUSED, "")))
    }

    /// The answer repeats the message, so it may be longer than what was read of it. Texts in it cannot look like this field,
    /// because their quotation marks are escaped.
    fn thread(&self, body: &[u8]) -> Option<String> {
        let text = String::from_utf8_lossy(body);
        let (_, value) = text.split_once(r#""ts":"#)?;
        let (timestamp, _) = value.trim_start().strip_prefix('"')?.split_once('"')?;
        is_timestamp(timestamp).then(|| timestamp.to_owned())
    }

    fn hint(&self, status: u16) -> Option<&'static str> {
        match status {
            401 | 403 => Some(
                "the Slack app may have been removed or restricted: make a new webhook; a bot needs its token in headersFrom and \
                 the scope chat:write, and must be in the channel",
            ),
            _ => None,
        }
    }
}

/// The errors of Slack, and the status that they stand for: <https://docs.slack.dev/reference/methods/chat.postMessage#errors>.
/// Those about the content of a message, and others that are not listed, are refusals.
const ERRORS: [(u16, &[&str]); 6] = [
    (429, &["ratelimited", "rate_limited", "message_limit_exceeded"]),
    (401, &["invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "invalid_token"]),
    (
        403,
        &[
            "no_permission",
            "missing_scope",
            "not_allowed_token_type",
            "access_denied",
            "action_prohibited",
            "org_login_required",
            "ekm_access_denied",
            "team_access_not_granted",
            "restricted_action",
            "not_in_channel",
            "posting_to_general_channel_denied",
        ],
    ),
    (
        404,
        &[
            "channel_not_found",
            "channel_is_archived",
            "is_archived",
            "no_service",
            "no_service_id",
            "no_active_hooks",
            "no_team",
            "team_disabled",
            "user_not_found",
        ],
    ),
    (503, &["fatal_error", "internal_error", "service_unavailable", "request_timeout"]),
    (
        REFUSED,
        &[
            "invalid_blocks",
            "invalid_arguments",
            "invalid_payload",
            "msg_too_long",
            "msg_blocks_too_long",
            "no_text",
            "too_many_attachments",
            "message_not_found",
            "thread_not_found",
            "cannot_reply_to_message",
            "restricted_action_thread_locked",
            "restricted_action_non_threadable_channel",
        ],
    ),
];

/// The markup of a mention. IDs consist of upper-case letters and digits, so they cannot end it.
fn mention(mention: &str) -> Result<String, &'static str> {
    let is_id = is_id(mention);
    match (mention, mention.as_bytes()) {
        ("@here", _) => Ok("<!here>".to_owned()),
        ("@channel", _) => Ok("<!channel>".to_owned()),
        (_, [b'U' | b'W', _, ..]) if is_id => Ok(format!("<@{mention}>")),
        (_, [b'S', _, ..]) if is_id => Ok(format!("<!subteam^{mention}>")),
        _ => Err("is not @here, @channel, or the ID of a user or a user group"),
    }
}

/// Whether a text looks like the ID of a user, a group or a channel.
fn is_id(text: &str) -> bool {
    (2..=limits::MENTION_LENGTH).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(url: &str) -> Result<(String, String), &'static str> {
        let mut url = Url::parse(url).unwrap();
        let channel = Slack.complete_url(&mut url)?;
        Ok((url.to_string(), channel))
    }

    #[test]
    fn takes_the_channel_from_the_url_of_the_api() {
        let api = "https://slack.com/api/chat.postMessage";
        let whole = |url: &str, channel: &str| Ok((url.to_owned(), channel.to_owned()));
        assert_eq!(completed(&format!("{api}?channel=C0123456789")), whole(api, "C0123456789"));
        let webhook = "https://hooks.slack.com/services/T0/B0/x?channel=C1";
        assert_eq!(completed(webhook), whole(webhook, ""), "an incoming webhook has its own");
        for channel in ["", "?channel=", "?channel=%23ops", "?channel=c1", "?channel=C"] {
            assert!(completed(&format!("{api}{channel}")).is_err(), "{channel}");
        }
    }

    #[test]
    fn reads_the_thread_also_from_an_answer_that_was_cut_off() {
        let thread = |answer: &str| Slack.thread(answer.as_bytes());
        let whole = r#"{"ok":true,"channel":"C1","ts":"1503435956.000247","message":{"text":"\"ts\":\"1.1\""}}"#;
        for end in [whole.len(), whole.len() - 20, 60] {
            assert_eq!(thread(&whole[..end]).as_deref(), Some("1503435956.000247"), "{end}");
        }
        assert_eq!(thread(r#"{"message":{"text":"\"ts\":\"1.1\""}, "ts": "3.4"}"#).as_deref(), Some("3.4"));
        for answer in
            ["ok", "", r#"{"ok":true}"#, r#"{"ok":true,"ts":""}"#, r#"{"ok":true,"ts":7}"#, r#"{"ts":"<!here>"}"#]
        {
            assert_eq!(thread(answer), None, "{answer}");
        }
    }
}
