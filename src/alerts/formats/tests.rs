//! Every format with every kind of message: as checked in, and within limits whatever the text is.

use std::{env, fs, path::PathBuf};

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::render;
use crate::{
    alerts::{
        Alert, Notification, ObjectName, Storm,
        address::AddressPolicy,
        destination::{Destination, UrlPolicy},
        notification::count_reasons,
        text::units,
    },
    api::{Detail, MessageKind, Owner, WebhookFormat},
};

const FORMATS: [WebhookFormat; 7] = [
    WebhookFormat::Generic,
    WebhookFormat::Alertmanager,
    WebhookFormat::Slack,
    WebhookFormat::Discord,
    WebhookFormat::Teams,
    WebhookFormat::PagerDuty,
    WebhookFormat::CloudEvents,
];

fn destination(format: WebhookFormat) -> Destination {
    let policy = UrlPolicy { plain_http: false, addresses: AddressPolicy::default() };
    let url = "https://receiver.example.com/hook?routing_key=R012345678901234567890123456789A";
    Destination::new(format, url.as_bytes(), policy).unwrap()
}

fn body(format: WebhookFormat, notification: &Notification) -> Value {
    let request = render(notification, &destination(format));
    serde_json::from_slice(&request.body).unwrap()
}

fn at(time: &str) -> Timestamp {
    format!("2026-07-01T{time}Z").parse().unwrap()
}

fn alert(owner: &str, container: &str, reason: &str, pods: u64) -> Alert {
    let pod = |suffix: &str| format!("{owner}-5d9f7c-{suffix}");
    Alert {
        key: format!("key-of-{owner}"),
        namespace: "shop".to_owned(),
        owner: Owner { kind: "Deployment".to_owned(), name: owner.to_owned() },
        container: container.to_owned(),
        reason: reason.to_owned(),
        since: at("10:00:00"),
        ended: None,
        pods,
        example_pods: ["a1b2c", "d3e4f", "g5h6i"].iter().take(pods.min(3) as usize).map(|s| pod(s)).collect(),
        message: format!("container {container} was OOM-killed (exit 137), 7 restarts, limit 512Mi"),
        logs: "loading 40000 rows\nallocating <buffer> & index\nKilled".into(),
        log_note: String::new(),
    }
}

fn notification(kind: MessageKind) -> Notification {
    Notification {
        id: "0123456789abcdef0123456789abcdef".to_owned(),
        kind,
        object: ObjectName { namespace: "orchestr-system".to_owned(), name: "cluster".to_owned() },
        webhook: "ops".to_owned(),
        created: at("10:12:30"),
        now: at("10:12:34"),
        detail: Detail::Full,
        started: Vec::new(),
        ongoing: Vec::new(),
        ended: Vec::new(),
        storm: None,
        reasons: Vec::new(),
    }
}

fn counted(mut notification: Notification) -> Notification {
    let firing = notification.started.iter().chain(&notification.ongoing);
    notification.reasons = count_reasons(firing.map(|alert| alert.reason.as_str()));
    notification
}

fn ended(mut alert: Alert) -> Alert {
    alert.ended = Some(at("10:11:00"));
    alert.pods = 0;
    alert.example_pods.clear();
    alert.message.clear();
    alert.logs = "".into();
    alert
}

fn cases() -> Vec<(&'static str, Notification)> {
    let cart = || alert("cart", "app", "OOMKilled", 3);
    let train = || Alert {
        message: "0/12 nodes are available: 12 Insufficient nvidia.com/gpu.".to_owned(),
        logs: "".into(),
        log_note: "the container never started".to_owned(),
        ..alert("train", "", "Unschedulable", 1)
    };
    let mut firing = notification(MessageKind::Firing);
    firing.started = vec![cart()];
    let mut several = notification(MessageKind::Firing);
    several.started = vec![cart(), train()];
    several.ongoing = vec![alert("search", "init-db", "Error", 500)];
    several.ended = vec![ended(alert("mail", "smtp", "CrashLoopBackOff", 1))];
    let mut resolved = notification(MessageKind::Resolved);
    resolved.ended = vec![ended(cart())];
    let mut repeat = notification(MessageKind::Repeat);
    repeat.ongoing = vec![cart()];
    let mut storm = notification(MessageKind::Firing);
    storm.storm = Some(Storm { count: 900, since: at("10:05:00"), ended: None });
    storm.reasons = vec![("NotReady".to_owned(), 880), ("Unknown".to_owned(), 20)];
    let mut calm = notification(MessageKind::Resolved);
    calm.storm = Some(Storm { count: 0, since: at("10:05:00"), ended: Some(at("10:12:00")) });
    let mut counts = several.clone();
    counts.detail = Detail::Counts;
    let object = ObjectName { namespace: "orchestr-system".to_owned(), name: "cluster".to_owned() };
    let test = Notification::test("t-1".to_owned(), object, "ops".to_owned(), at("10:00:00"));
    vec![
        ("firing", counted(firing)),
        ("several", counted(several)),
        ("resolved", resolved),
        ("repeat", counted(repeat)),
        ("storm", storm),
        ("calm", calm),
        ("counts", counted(counts)),
        ("test", test.clone()),
        ("test-over", test.over("t-2".to_owned(), at("10:00:05"))),
    ]
}

/// Compares with the file of that name; with `UPDATE_SNAPSHOTS` set, writes it instead.
fn assert_snapshot(name: &str, made: &Value) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/alerts").join(name);
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("{made:#}\n")).unwrap();
    }
    let file = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; write it with UPDATE_SNAPSHOTS=1", path.display()));
    let kept: Value = serde_json::from_str(&file).unwrap();
    assert_eq!(*made, kept, "{name} is not as checked in; if that is meant, write it with UPDATE_SNAPSHOTS=1");
}

#[test]
fn messages_are_as_checked_in() {
    for format in FORMATS {
        let bodies: Map<String, Value> =
            cases().iter().map(|(name, notification)| ((*name).to_owned(), body(format, notification))).collect();
        assert_snapshot(&format!("{}.json", format!("{format:?}").to_lowercase()), &Value::Object(bodies));
    }
}

#[test]
fn people_read_what_where_since_why_how_many_and_the_log_in_that_order() {
    let (_, firing) = &cases()[0];
    for format in [WebhookFormat::Slack, WebhookFormat::Discord, WebhookFormat::Teams] {
        let text = match format {
            WebhookFormat::Slack => body(format, firing)["blocks"][1].to_string(),
            WebhookFormat::Discord => body(format, firing)["embeds"][0]["description"].to_string(),
            _ => body(format, firing)["attachments"][0]["content"]["body"].to_string(),
        };
        let order = ["What", "Where", "Since", "Why", "Pods", "Killed"];
        let places: Vec<_> =
            order.iter().map(|word| text.rfind(word).unwrap_or_else(|| panic!("{word}: {text}"))).collect();
        assert!(places.is_sorted(), "{format:?}: {places:?} in {text}");
    }
}

/// That a body has the fields, of the types, of the receiver's published example, and no others.
fn assert_shape(path: &str, example: &Value, made: &Value) {
    match (example, made) {
        (Value::Object(example), Value::Object(made)) => {
            if example.contains_key("*") {
                return made.values().for_each(|value| assert_shape(path, &example["*"], value));
            }
            let fields: Vec<_> = made.keys().collect();
            assert_eq!(fields, example.keys().collect::<Vec<_>>(), "fields of {path}");
            for (name, value) in made {
                assert_shape(&format!("{path}.{name}"), &example[name], value);
            }
        }
        (Value::Array(example), Value::Array(made)) => {
            made.iter().for_each(|value| assert_shape(path, &example[0], value));
        }
        (Value::String(_), Value::String(_)) | (Value::Number(_), Value::Number(_)) | (Value::Null, Value::Null) => {}
        _ => panic!("{path}: {made} is not like {example}"),
    }
}

#[test]
fn bodies_have_the_fields_that_receivers_publish() {
    let time = "2026-07-01T00:00:00Z";
    let text = json!({ "*": "" });
    let generic = json!({
        "version": "4", "groupKey": "", "truncatedAlerts": 0, "status": "", "receiver": "", "groupLabels": text,
        "commonLabels": text, "commonAnnotations": text, "externalURL": "",
        "alerts": [{
            "status": "", "labels": text, "annotations": text, "startsAt": time, "endsAt": time,
            "generatorURL": "", "fingerprint": ""
        }]
    });
    let alertmanager =
        json!([{ "labels": text, "annotations": text, "startsAt": time, "endsAt": time, "generatorURL": "" }]);
    let event = json!({
        "specversion": "1.0", "id": "", "source": "", "type": "", "subject": "", "time": time,
        "datacontenttype": "", "data": generic
    });
    let trigger = json!({
        "routing_key": "", "event_action": "", "dedup_key": "", "client": "",
        "payload": {
            "summary": "", "timestamp": time, "source": "", "severity": "", "component": "", "group": "",
            "class": "", "custom_details": text
        }
    });
    let teams = json!({
        "type": "message",
        "attachments": [{
            "contentType": "", "contentUrl": null,
            "content": {
                "$schema": "", "type": "AdaptiveCard", "version": "1.2", "fallbackText": "",
                "msteams": { "width": "" }, "body": [{ "*": null }]
            }
        }]
    });
    for (name, notification) in &cases() {
        let mut card = body(WebhookFormat::Teams, notification);
        card["attachments"][0]["content"]["body"] = json!([]);
        assert_shape("teams", &teams, &card);
        assert_shape("generic", &generic, &body(WebhookFormat::Generic, notification));
        assert_shape("alertmanager", &alertmanager, &body(WebhookFormat::Alertmanager, notification));
        assert_shape("cloudevents", &event, &body(WebhookFormat::CloudEvents, notification));
        if *name == "firing" || *name == "test" {
            assert_shape("pagerduty", &trigger, &body(WebhookFormat::PagerDuty, notification));
        }
    }
    let (_, resolved) = &cases()[2];
    let end = json!({ "routing_key": "", "event_action": "", "dedup_key": "", "client": "" });
    assert_shape("pagerduty", &end, &body(WebhookFormat::PagerDuty, resolved));
}

#[test]
fn the_end_of_an_incident_is_tied_to_its_beginning() {
    let cases = cases();
    let of = |format, case: usize, path: &str| body(format, &cases[case].1).pointer(path).unwrap().clone();
    let pagerduty = |case| of(WebhookFormat::PagerDuty, case, "/dedup_key");
    assert_eq!(pagerduty(0), pagerduty(2));
    assert_ne!(pagerduty(0), pagerduty(4));
    assert_eq!(pagerduty(4), pagerduty(5), "a storm and its end");
    let labels = |case| of(WebhookFormat::Alertmanager, case, "/0/labels");
    assert_eq!(labels(0), labels(2));
    assert_eq!(labels(4), labels(5), "a storm and its end");
    let fingerprint = |case| of(WebhookFormat::Generic, case, "/alerts/0/fingerprint");
    assert_eq!(fingerprint(0), fingerprint(2));
}

#[test]
fn alertmanager_takes_no_alert_that_ends_before_it_begins() {
    let mut early = notification(MessageKind::Resolved);
    early.ended = vec![Alert { since: at("12:00:00"), ..ended(alert("cart", "app", "Error", 1)) }];
    early.started = vec![Alert { since: at("23:00:00"), ..alert("late", "app", "Error", 1) }];
    for alert in body(WebhookFormat::Alertmanager, &early).as_array().unwrap() {
        let time = |field: &str| alert[field].as_str().unwrap().parse::<Timestamp>().unwrap();
        assert!(time("startsAt") <= time("endsAt"), "{alert}");
    }
}

/// Pieces of what people with bad intentions, or bad luck, write into logs and messages.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("<!channel> <@U012AB3CD> <https://evil.example|click>".to_owned()),
        Just("@everyone @here <@123456789012345678> <@&1> <#2>".to_owned()),
        Just("``` ` **bold** _it_ ~~s~~ ||spoiler|| > quote # head [x](https://evil.example)".to_owned()),
        Just("{{DATE(2026-01-01T00:00:00Z)}} {{{{ <at>boss@example.com</at> <<at>".to_owned()),
        Just("&lt;!channel&gt; &amp; <script>alert(1)</script> ]]>".to_owned()),
        Just("\u{202e}desrever\u{2066}\u{200b}\u{feff} \u{0}\u{1}\u{7f}\u{85}\u{2028}\r\n\t\u{1b}[2J".to_owned()),
        Just("\"\\\u{8}\u{c}'".to_owned()),
        Just("&".repeat(300)),
        Just("\\*x* \\_y_ \\@here \\".to_owned()),
        Just("😀é漢\u{10ffff}\u{fffd}".to_owned()),
        "[ -~\n]{0,80}",
        "\\PC{0,30}",
    ];
    let times = prop_oneof![4 => Just(1_usize), 1 => 1_usize..60];
    (prop::collection::vec(piece, 0..4), times).prop_map(|(pieces, times)| pieces.concat().repeat(times))
}

fn hostile_alert() -> impl Strategy<Value = Alert> {
    let texts = (hostile(), hostile(), hostile(), hostile(), hostile(), hostile());
    (texts, prop::collection::vec(hostile(), 0..5), any::<u64>(), -9_000_000_000_i64..9_000_000_000).prop_map(
        |((namespace, owner, container, reason, message, logs), example_pods, pods, since)| Alert {
            key: reason.clone(),
            namespace,
            owner: Owner { kind: container.clone(), name: owner },
            container,
            reason,
            since: Timestamp::from_second(since).unwrap(),
            ended: None,
            pods,
            example_pods,
            log_note: message.clone(),
            message,
            logs: logs.into(),
        },
    )
}

fn hostile_notification() -> impl Strategy<Value = Notification> {
    let kind = prop_oneof![
        Just(MessageKind::Firing),
        Just(MessageKind::Resolved),
        Just(MessageKind::Repeat),
        Just(MessageKind::Test)
    ];
    let detail = prop_oneof![4 => Just(Detail::Full), 1 => Just(Detail::NoLogs), 1 => Just(Detail::Counts)];
    let storm = prop::option::of((any::<u64>(), any::<bool>()));
    // A few incidents, repeated to many.
    let alerts = || (prop::collection::vec(hostile_alert(), 0..3), prop_oneof![3 => 1_usize..4, 1 => 4_usize..40]);
    (kind, detail, hostile(), storm, alerts(), alerts(), alerts()).prop_map(
        |(kind, detail, webhook, storm, started, ongoing, over)| {
            let many = |(alerts, times): (Vec<Alert>, usize)| -> Vec<Alert> {
                alerts.iter().cycle().take(alerts.len() * times).cloned().collect()
            };
            let mut made = notification(kind);
            made.detail = detail;
            made.webhook = webhook;
            made.storm = storm.map(|(count, over)| Storm {
                count: if over { 0 } else { count / 2 },
                since: at("10:00:00"),
                ended: over.then(|| at("10:10:00")),
            });
            (made.started, made.ongoing, made.ended) = (many(started), many(ongoing), many(over));
            for alert in &mut made.ended {
                alert.ended = Some(at("10:11:00"));
            }
            counted(made)
        },
    )
}

/// All texts of a value, with the name of their field.
fn texts<'a>(name: &'a str, value: &'a Value, found: &mut Vec<(&'a str, &'a str)>) {
    match value {
        Value::String(text) => found.push((name, text)),
        Value::Array(values) => values.iter().for_each(|value| texts(name, value, found)),
        Value::Object(values) => values.iter().for_each(|(name, value)| texts(name, value, found)),
        _ => {}
    }
}

/// What remains of a text in Markdown without its code.
fn without_code(text: &str) -> String {
    let outside_blocks: String = text.split("```").step_by(2).collect();
    outside_blocks.split('`').step_by(2).collect()
}

fn check_slack(body: &Value) {
    let blocks = body["blocks"].as_array().unwrap();
    assert!((1..=50).contains(&blocks.len()));
    assert!(units(blocks[0]["text"]["text"].as_str().unwrap()) <= 150);
    let mut found = Vec::new();
    texts("", body, &mut found);
    let mut total = 0;
    for (_, text) in found.iter().filter(|(name, _)| *name == "text") {
        total += units(text);
        assert!((1..=3_000).contains(&units(text)), "{text:?}");
    }
    assert!(total <= 12_000, "{total} characters");
    let mut markup = vec![body["text"].as_str().unwrap()];
    for block in blocks.iter().skip(1) {
        markup.extend(block["text"]["text"].as_str());
        markup.extend(block["elements"][0]["text"].as_str());
    }
    for text in markup {
        assert!(!text.contains(['<', '>']), "{text:?}");
        for entity in text.split('&').skip(1) {
            assert!(["amp;", "lt;", "gt;"].iter().any(|known| entity.starts_with(known)), "{text:?}");
        }
    }
    for block in blocks.iter().skip(1).filter(|block| block["type"] == "section") {
        let text = block["text"]["text"].as_str().unwrap();
        assert!(matches!(text.matches("```").count(), 0 | 2), "{text:?}");
        assert!(!without_code(text).contains(['_', '~', '{', '@']), "{text:?}");
    }
}

fn check_discord(body: &Value) {
    assert_eq!(body["allowed_mentions"], json!({ "parse": [] }));
    let content = body["content"].as_str().unwrap();
    assert!((1..=2_000).contains(&units(content)));
    let embeds = body["embeds"].as_array().unwrap();
    assert!((1..=10).contains(&embeds.len()));
    let mut total = 0;
    let mut titles = vec![content];
    for embed in embeds {
        let (title, text) = (embed["title"].as_str().unwrap_or_default(), embed["description"].as_str().unwrap());
        assert!(units(title) <= 256 && (1..=4_096).contains(&units(text)));
        total += units(title) + units(text);
        titles.push(title);
        assert!(matches!(text.matches("```").count(), 0 | 2), "{text:?}");
        assert!(!without_code(text).contains(['_', '~', '<', '@', '[', '|', '#', '\\']), "{text:?}");
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_text_is_receivers_can_take_it(notification in hostile_notification()) {
        for format in FORMATS {
            let request = render(&notification, &destination(format));
            let size = request.body.len();
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            match format {
                WebhookFormat::Slack => check_slack(&body),
                WebhookFormat::Discord => check_discord(&body),
                WebhookFormat::Teams => check_teams(&body, size),
                WebhookFormat::Generic => {
                    prop_assert!(size <= 60_000, "{} bytes", size);
                    let all = notification.started.len() + notification.ongoing.len() + notification.ended.len();
                    let shown = body["alerts"].as_array().unwrap().len() - usize::from(notification.storm.is_some());
                    let storm = notification.storm.as_ref().map_or(0, |storm| storm.count);
                    prop_assert_eq!(body["truncatedAlerts"].as_u64().unwrap(), (all - shown) as u64 + storm);
                }
                WebhookFormat::CloudEvents => {
                    prop_assert!(size <= 64 * 1024, "{} bytes", size);
                    prop_assert_eq!(&body["id"], &json!(notification.id));
                }
                WebhookFormat::Alertmanager => {
                    let all = notification.started.len() + notification.ongoing.len() + notification.ended.len();
                    let storm = usize::from(notification.storm.is_some());
                    prop_assert_eq!(body.as_array().unwrap().len(), all + storm, "none may be left out");
                    prop_assert!(size <= 1024 * 1024, "{} bytes", size);
                }
                WebhookFormat::PagerDuty => {
                    prop_assert!(size <= 512_000, "{} bytes", size);
                    prop_assert!(body["payload"]["summary"].as_str().unwrap_or_default().chars().count() <= 1_024);
                    prop_assert!(body["dedup_key"].as_str().unwrap_or_default().len() <= 255);
                }
            }
        }
    }
}
