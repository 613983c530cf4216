//! Titles, which are all that a phone shows.

use serde_json::Value;

use super::{Scenario, body, incident};
use orchestr::{
    alerts::Incident,
    api::{Cause, Severity, WebhookFormat},
};

/// What a notification on a phone shows of a message.
fn title(format: WebhookFormat, body: &Value) -> String {
    let title = match format {
        WebhookFormat::Slack => &body["text"],
        WebhookFormat::Discord => &body["content"],
        WebhookFormat::Teams => &body["attachments"][0]["content"]["fallbackText"],
        _ => &body["payload"]["summary"],
    };
    title.as_str().unwrap().to_owned()
}

const FORMATS: [WebhookFormat; 3] = [WebhookFormat::Slack, WebhookFormat::Discord, WebhookFormat::Teams];

fn two(format: WebhookFormat, name: &str) -> Scenario {
    let severe =
        Incident { severity: Severity::Critical, cause: Cause::OutOfMemory, ..incident(name, "app", "OOMKilled", 3) };
    Scenario::of(format).incident(incident("cart", "app", "Error", 1)).incident(severe)
}

#[test]
fn titles_name_the_most_severe_workload_and_count_the_others() {
    for format in FORMATS {
        let message = two(format, "db").advance(40).last();
        let title = title(format, &body(format, &message)).replace('\\', "");
        let expected =
            "FIRING in cluster prod: OutOfMemory (OOMKilled) in shop/Deployment db, container app, and 1 more";
        assert_eq!(title, expected, "{format:?}");
    }
    for format in FORMATS {
        let resolved = two(format, "db").advance(40).end("key-of-cart").end("key-of-db").advance(60).last();
        let title = title(format, &body(format, &resolved)).replace('\\', "");
        let expected =
            "RESOLVED in cluster prod: OutOfMemory (OOMKilled) in shop/Deployment db, container app, and 1 more";
        assert_eq!(title, expected, "{format:?}");
        let repeated = two(format, "db").advance(3_700).last();
        let title = self::title(format, &body(format, &repeated)).replace('\\', "");
        assert!(
            title.starts_with("STILL FIRING in cluster prod: OutOfMemory (OOMKilled) in shop/Deployment db"),
            "{title}"
        );
        assert!(title.ends_with(", and 1 more"), "{title}");
    }
}

#[test]
fn titles_with_long_names_still_count_the_others() {
    for format in FORMATS {
        let message = two(format, &"d".repeat(250)).advance(40).last();
        let body = body(format, &message);
        let title = title(format, &body);
        assert!(title.ends_with(", and 1 more"), "{format:?}: {title}");
        if format == WebhookFormat::Slack {
            let header = body["blocks"][0]["text"]["text"].as_str().unwrap();
            assert!(header.ends_with("…, and 1 more") && header.chars().count() <= 150, "{header}");
        }
    }
}
