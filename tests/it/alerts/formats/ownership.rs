//! Severity, team, links and mentions in messages.

use serde_json::json;

use super::*;
use crate::alerts::simulation::webhook;
use orchestr::{
    alerts::{LinkTemplate, NotificationPolicy},
    api::{Link, Mentions, Severity, Webhook},
};

const RUNBOOK: &str = "https://runbooks.example/cart";
const LOGS: &str = "https://grafana.example/explore?ns=shop&owner=cart";

fn owned() -> Incident {
    Incident {
        severity: Severity::Critical,
        team: "checkout".into(),
        runbook: RUNBOOK.into(),
        dashboard: "https://grafana.example/d/cart".into(),
        ..incident("cart", "app", "OOMKilled", 3)
    }
}

/// An incident with a team and links, whose spec has a link, and mentions if it is for Slack.
pub(super) fn scenario(format: WebhookFormat) -> Scenario {
    let list = |mention: &str| Some(vec![mention.to_owned()]);
    let mentions = Mentions { critical: list("S0614TZR7"), warning: list("@here"), info: None };
    let mentions = (format == WebhookFormat::Slack).then_some(mentions);
    let mut scenario = Scenario::of(format);
    scenario.sim.policy = NotificationPolicy::new(0, &Webhook { mentions, ..webhook(format) }).unwrap();
    let url = "https://grafana.example/explore?ns={namespace}&owner={owner}".to_owned();
    let links = LinkTemplate::validate_all(&[Link { name: "Logs".to_owned(), url }], &mut Vec::new());
    scenario.sim.policy.links = links.into();
    scenario.incident(owned())
}

fn with_severity(scenario: Scenario, severity: Severity) -> Scenario {
    scenario.incident(Incident { severity, ..owned() })
}

#[test]
fn shows_severity_team_and_links_in_every_format() {
    for format in WebhookFormat::ALL {
        let text = body(format, &case(format, "ownership")).to_string().replace("&amp;", "&");
        for part in ["critical", "checkout", RUNBOOK, "https://grafana.example/d/cart", LOGS] {
            assert!(text.contains(part), "{format:?} lacks {part}: {text}");
        }
        let resolved = scenario(format).advance(60).end("key-of-cart").advance(60).last();
        assert!(!body(format, &resolved).to_string().contains(RUNBOOK), "{format:?}: the incident is gone");
    }
}

#[test]
fn links_can_be_clicked() {
    let slack = body(WebhookFormat::Slack, &case(WebhookFormat::Slack, "ownership")).to_string();
    assert!(slack.contains(&format!("*Runbook:* <{RUNBOOK}>")), "{slack}");
    assert!(slack.contains("*Logs:* <https://grafana.example/explore?ns=shop&amp;owner=cart>"), "{slack}");
    let discord = body(WebhookFormat::Discord, &case(WebhookFormat::Discord, "ownership")).to_string();
    assert!(discord.contains(&format!("**Runbook:** <{RUNBOOK}>")), "{discord}");
    let teams = body(WebhookFormat::Teams, &case(WebhookFormat::Teams, "ownership"));
    let blocks = teams["attachments"][0]["content"]["body"].as_array().unwrap();
    let actions: Vec<_> = blocks.iter().map(|block| &block["inlines"][1]["selectAction"]).collect();
    assert!(actions.contains(&&json!({"type": "Action.OpenUrl", "url": RUNBOOK})), "{teams:#}");
    let pagerduty = body(WebhookFormat::PagerDuty, &case(WebhookFormat::PagerDuty, "ownership"));
    let links = json!([
        {"href": RUNBOOK, "text": "Runbook"},
        {"href": "https://grafana.example/d/cart", "text": "Dashboard"},
        {"href": LOGS, "text": "Logs"},
    ]);
    assert_eq!(pagerduty["links"], links);
}

#[test]
fn pagerduty_is_sent_the_severity() {
    for severity in [Severity::Critical, Severity::Warning, Severity::Info] {
        let format = WebhookFormat::PagerDuty;
        let sent = with_severity(Scenario::of(format), severity).advance(40).last();
        assert_eq!(body(format, &sent)["payload"]["severity"], severity.as_str());
    }
}

#[test]
fn labels_stay_and_annotations_are_current() {
    for format in [WebhookFormat::Alertmanager, WebhookFormat::Generic] {
        let alert = |message: &Notification| {
            let body = body(format, message);
            if format == WebhookFormat::Generic { body["alerts"][0].clone() } else { body[0].clone() }
        };
        let first = scenario(format).advance(40);
        let first = alert(&first.last());
        assert_eq!([&first["labels"]["severity"], &first["labels"]["team"]], ["critical", "checkout"]);
        let annotations = &first["annotations"];
        assert_eq!([&annotations["runbook_url"], &annotations["current_severity"]], [&json!(RUNBOOK), &json!(null)]);
        assert_eq!(annotations["links"], format!("Logs: {LOGS}"));
        let later = with_severity(scenario(format).advance(40), Severity::Warning).advance(3_700).last();
        let later = alert(&later);
        assert_eq!((&later["labels"], &later["fingerprint"]), (&first["labels"], &first["fingerprint"]), "{format:?}");
        assert_eq!(later["annotations"]["current_severity"], "warning");
    }
}

#[test]
fn mentions_only_when_the_severity_is_announced() {
    let format = WebhookFormat::Slack;
    let mentioned = |sent: &Notification| {
        let text = body(format, sent).to_string();
        ["<!subteam^S0614TZR7>", "<!here>"].map(|mention| text.contains(mention))
    };
    let firing = || scenario(format).advance(40);
    assert_eq!(mentioned(&firing().last()), [true, false], "critical");
    let warning = with_severity(scenario(format), Severity::Warning).advance(40);
    assert_eq!(mentioned(&warning.last()), [false, true], "warning");
    let info = with_severity(scenario(format), Severity::Info).advance(40);
    assert_eq!(mentioned(&info.last()), [false, false], "info");
    assert_eq!(mentioned(&firing().advance(3_700).last()), [false, false], "a repetition");
    assert_eq!(mentioned(&firing().end("key-of-cart").advance(60).last()), [false, false], "the end");
    let escalated = with_severity(with_severity(scenario(format), Severity::Warning).advance(40), Severity::Critical);
    assert_eq!(mentioned(&escalated.advance(3_700).last()), [false, false], "a repetition of a changed one");
    for (severity, expected) in [(Severity::Critical, [true, false]), (Severity::Info, [false, false])] {
        let mut storm = Scenario::of(format);
        storm.sim.policy = scenario(format).sim.policy;
        storm.sim.policy.pacing.max_incidents = 1;
        let many = (0..9).map(|number| Incident { key: format!("many{number}").into(), severity, ..owned() });
        let storm = many.fold(storm, Scenario::incident).advance(40).last();
        assert!(storm.storm.is_some());
        assert_eq!(mentioned(&storm), expected, "a storm of {severity:?}");
    }
}

#[test]
fn counts_links_that_are_too_long() {
    let owner = Owner { kind: "Deployment".to_owned(), name: "ä".repeat(250) }.into();
    let long = Incident { owner, ..owned() };
    let sent = scenario(WebhookFormat::Slack).incident(long).advance(40).last();
    let text = body(WebhookFormat::Slack, &sent).to_string();
    assert!(text.contains("1 link too long to show") && !text.contains("explore"), "{text}");
}
