//! Checks that the pages about receivers show parts of the messages in `tests/snapshots/alerts`. There, `…` stands for anything.

use std::{collections::BTreeSet, fs};

use serde_json::{Value, json};

use super::pages::{Page, root};

const RECEIVERS: [&str; 7] = ["alertmanager", "cloudevents", "discord", "generic", "pagerduty", "slack", "teams"];

/// The messages of a format by their names.
fn messages(receiver: &str) -> Value {
    let path = root().join(format!("tests/snapshots/alerts/{receiver}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Adds the lines of text in a message without their markup, and its fields as `name: value` and `name=value`.
fn collect_lines(value: &Value, lines: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => lines.extend(text.lines().map(without_markup)),
        Value::Array(items) => items.iter().for_each(|item| collect_lines(item, lines)),
        Value::Object(fields) => {
            // Parts of a line in an Adaptive Card.
            let inlines = fields.get("inlines").and_then(Value::as_array);
            if let Some(inlines) = inlines {
                lines.insert(inlines.iter().filter_map(|part| part["text"].as_str()).collect());
            }
            for (name, value) in fields {
                collect_lines(value, lines);
                if let Some(text) = value.as_str() {
                    lines.extend([format!("{name}: {text}"), format!("{name}={text}")]);
                }
            }
        }
        _ => {}
    }
}

fn without_markup(line: &str) -> String {
    line.replace(['*', '`', '\\', '<', '>'], "").trim().to_owned()
}

/// Whether a message contains what an example shows of it.
fn contains(message: &Value, example: &Value) -> bool {
    match (message, example) {
        (message, Value::String(any)) if any == "…" => !message.is_null(),
        (Value::Object(fields), Value::Object(shown)) => {
            shown.iter().all(|(name, shown)| fields.get(name).is_some_and(|field| contains(field, shown)))
        }
        (Value::Array(items), Value::Array(shown)) => {
            shown.len() <= items.len() && items.iter().zip(shown).all(|(item, shown)| contains(item, shown))
        }
        (message, example) => message == example,
    }
}

#[test]
fn pages_show_messages_of_the_snapshots() {
    for receiver in RECEIVERS {
        let page = Page::read(&format!("docs/receivers/{receiver}.md"));
        let messages = messages(receiver);
        let mut lines = BTreeSet::new();
        collect_lines(&messages, &mut lines);
        let is_line = |shown: &str| match shown.strip_suffix('…') {
            Some(start) => lines.iter().any(|line| line.starts_with(start)),
            None => lines.contains(shown),
        };
        let examples: Vec<_> =
            page.blocks().into_iter().filter(|code| ["text", "json"].contains(&code.language.as_str())).collect();
        assert!(!examples.is_empty(), "{}", page.path);
        for code in examples {
            if code.language == "json" {
                let example: Value = serde_json::from_str(&code.text).unwrap();
                let is_shown = messages.as_object().unwrap().values().any(|message| contains(message, &example));
                assert!(is_shown, "{}: no message contains {example:#}", page.path);
            } else {
                // The labels of Alertmanager stand beside one another.
                let shown = code.text.lines().flat_map(|line| line.split("  ")).map(str::trim);
                let wrong: Vec<_> = shown.filter(|shown| !shown.is_empty() && !is_line(shown)).collect();
                assert!(wrong.is_empty(), "{}: no message contains {wrong:#?}", page.path);
            }
        }
    }
}

#[test]
fn an_example_with_another_value_is_noticed() {
    let message = json!({"labels": {"kind": "Crash", "team": "a"}, "alerts": [{"pods": "3"}]});
    for (example, expected) in [
        (json!({"labels": {"kind": "…"}, "alerts": ["…"]}), true),
        (json!({"labels": {"kind": "Image"}}), false),
        (json!({"labels": {"owner": "…"}}), false),
        (json!({"alerts": [{"pods": "3"}, "…"]}), false),
    ] {
        assert_eq!(contains(&message, &example), expected, "{example}");
    }
}
