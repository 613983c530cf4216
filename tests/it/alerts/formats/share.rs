//! One incident takes no more than its share of a message.

use super::*;

const RUNBOOK: &str = "https://runbooks.example/cart";

/// Everything that the author of a pod decides, as long as it is kept.
fn hostile(number: usize) -> Incident {
    let text = |length: usize| "&".repeat(length);
    let link = format!("https://evil.example/{}", "x".repeat(490));
    Incident {
        key: format!("hostile-{number}").into(),
        owner: Owner { kind: text(253), name: text(253) }.into(),
        reason: text(128).into(),
        runbook: link.as_str().into(),
        dashboard: link.as_str().into(),
        texts: Arc::new(Texts {
            evidence: vec![text(512); 4],
            message: text(1_024),
            log_note: text(200).into(),
            logs: text(4_096).into(),
            ..Texts::clone(&incident("evil", "app", "Error", 3).texts)
        }),
        ..incident("evil", "app", "Error", 3)
    }
}

/// All texts of a message, without escapes.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.replace("&amp;", "&"),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join("\n"),
        Value::Object(values) => values.values().map(text).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

fn sent(format: WebhookFormat, incidents: impl IntoIterator<Item = Incident>) -> String {
    let cart = incident("cart", "app", "OOMKilled", 3);
    let texts = Texts { evidence: vec!["Unhealthy ×41".to_owned()], ..Texts::clone(&cart.texts) };
    let victim = Incident { runbook: RUNBOOK.into(), texts: texts.into(), ..cart };
    let scenario = incidents.into_iter().fold(Scenario::of(format).incident(victim), Scenario::incident);
    let sent = scenario.advance(40).last();
    assert!(sent.started.iter().any(|alert| alert.owner.name == "cart"));
    text(&body(format, &sent))
}

const CHAT: [WebhookFormat; 3] = [WebhookFormat::Slack, WebhookFormat::Discord, WebhookFormat::Teams];

#[test]
fn an_incident_with_long_links_leaves_others_whole() {
    for format in CHAT {
        for number in [1, 2, 4] {
            let shown = sent(format, (0..number).map(hostile));
            // The end of its log, its message, its evidence and its link.
            for part in ["Killed", "7 restarts, limit 512Mi", "Unhealthy ×41", RUNBOOK] {
                assert!(shown.contains(part), "{format:?}, {number}: {part:?} is missing in {shown}");
            }
        }
    }
}

#[test]
fn an_oversized_incident_loses_and_counts_its_links_first() {
    for format in CHAT {
        let shown = sent(format, (0..4).map(hostile));
        assert!(!shown.contains("https://evil.example"), "{format:?}: {shown}");
        assert_eq!(shown.matches("2 links too long to show").count(), 4, "{format:?}: {shown}");
    }
    // Long links alone fit if there is room.
    for format in CHAT {
        let links = Incident { runbook: hostile(0).runbook, ..incident("web", "app", "Error", 1) };
        let shown = sent(format, [links]);
        assert!(shown.contains("https://evil.example") && shown.contains("Killed"), "{format:?}: {shown}");
    }
}

#[test]
fn ordinary_incidents_lose_logs_before_links() {
    for format in CHAT {
        let ordinary = |number: usize| {
            let incident = incident(&format!("web-{number}"), "app", "Error", 3);
            let logs = "a line of a log\n".repeat(200).as_str().into();
            Incident {
                key: format!("ordinary-{number}").into(),
                runbook: format!("https://runbooks.example/{number}").as_str().into(),
                dashboard: format!("https://grafana.example/{number}").as_str().into(),
                texts: Arc::new(Texts { logs, ..Texts::clone(&incident.texts) }),
                ..incident
            }
        };
        let shown = sent(format, (0..5).map(ordinary));
        assert!(!shown.contains("too long to show"), "{format:?}: {shown}");
        for number in 0..5 {
            assert!(shown.contains(&format!("https://grafana.example/{number}")), "{format:?}: {shown}");
        }
        assert!(shown.contains("a line of a log") && shown.contains("Killed"), "{format:?}: {shown}");
    }
}
