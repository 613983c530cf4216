//! Reads the messages of all formats back, as a person or a program at the receiver does.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

/// The owners that a message names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    pub firing: BTreeSet<String>,
    pub resolved: BTreeSet<String>,
}

/// How the titles of sections of a text begin, and whether the section names what is over.
const TITLES: [(&str, bool); 5] =
    [("What", false), ("Firing", false), ("Over", true), ("No longer", true), ("Still firing", false)];

/// Reads a message in this format that was sent `now`. `keys` are the owners of the events that PagerDuty was sent, by key.
pub fn read(format: &str, body: &Value, now: Timestamp, keys: &mut BTreeMap<String, String>) -> Named {
    let mut named = Named::default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match format {
        "Generic" => of_alerts(&mut named, &body["alerts"], |alert| alert["status"] == "resolved"),
        "CloudEvents" => of_alerts(&mut named, &body["data"]["alerts"], |alert| alert["status"] == "resolved"),
        "Alertmanager" => of_alerts(&mut named, body, |alert| text(&alert["endsAt"]) <= now.to_string()),
        "Slack" => of_texts(&mut named, list(&body["blocks"]).skip(1).map(|block| text(&block["text"]["text"]))),
        "Discord" => of_texts(&mut named, list(&body["embeds"]).map(|embed| text(&embed["description"]))),
        "Teams" => {
            let line = |block: &Value| list(&block["inlines"]).map(|run| text(&run["text"])).collect::<String>();
            of_texts(&mut named, list(&body["attachments"][0]["content"]["body"]).skip(1).map(line));
        }
        // The first line is the title.
        "Custom" => of_texts(&mut named, text(&body["text"]).split_once('\n').map(|(_, rest)| rest.to_owned())),
        _ => {
            let key = text(&body["dedup_key"]);
            if body["event_action"] == "resolve" {
                named.resolved.extend(keys.get(&key).cloned());
            } else if let Some(name) = names(&text(&body["payload"]["source"])).next() {
                named.firing.insert(name.clone());
                keys.insert(key, name);
            }
        }
    }
    named
}

fn of_alerts(named: &mut Named, alerts: &Value, is_resolved: impl Fn(&Value) -> bool) {
    for alert in list(alerts) {
        let into = if is_resolved(alert) { &mut named.resolved } else { &mut named.firing };
        into.extend(names(alert["labels"]["owner_name"].as_str().unwrap_or_default()));
    }
}

/// Reads texts whose sections begin with titles. A section may continue in the next text.
fn of_texts(named: &mut Named, texts: impl IntoIterator<Item = String>) {
    let mut is_end = false;
    for text in texts {
        for line in text.lines() {
            let words = line.trim_start_matches('*');
            is_end = TITLES.iter().find(|(title, _)| words.starts_with(title)).map_or(is_end, |(_, is_end)| *is_end);
            let into = if is_end { &mut named.resolved } else { &mut named.firing };
            into.extend(names(line));
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The owners' names in a text. All are "work" and four digits.
fn names(text: &str) -> impl Iterator<Item = String> {
    text.match_indices("work").filter_map(|(at, _)| text.get(at..at + 8).map(str::to_owned))
}
