//! Every format with every kind of message: as checked in, and within limits whatever the text is.

use std::{env, fs, path::PathBuf};

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::render;
use crate::{
    alerts::{
        Incident, Notification,
        sanitize::utf16_len,
        simulation::{self, World, destination},
    },
    api::{NamespacedName, Owner, ProblemKind, WebhookFormat},
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

fn body(format: WebhookFormat, notification: &Notification) -> Value {
    let request = render(notification, &destination(format));
    serde_json::from_slice(&request.body).unwrap()
}

fn at(time: &str) -> Timestamp {
    format!("2026-07-01T{time}Z").parse().unwrap()
}

fn incident(owner: &str, container: &str, reason: &str, pods: u64) -> Incident {
    let pod = |suffix: &str| format!("{owner}-5d9f7c-{suffix}");
    Incident {
        key: format!("key-of-{owner}"),
        namespace: "shop".to_owned(),
        owner: Owner { kind: "Deployment".to_owned(), name: owner.to_owned() },
        container: container.to_owned(),
        kind: ProblemKind::Crash,
        reason: reason.to_owned(),
        since: at("10:00:00"),
        tolerated: std::time::Duration::ZERO,
        pods,
        example_pods: ["a1b2c", "d3e4f", "g5h6i"].iter().take(pods.min(3) as usize).map(|s| pod(s)).collect(),
        message: format!("container {container} was OOM-killed (exit 137), 7 restarts, limit 512Mi"),
        logs: "loading 40000 rows\nallocating <buffer> & index\nKilled".into(),
        log_note: String::new(),
    }
}

/// A receiver that was sent what there is, and what it is sent next.
struct Story {
    world: World,
}

impl Story {
    fn of(format: WebhookFormat) -> Self {
        let mut world = World::new(format);
        world.source.cluster = "prod".to_owned();
        Self { world }
    }

    fn is(mut self, incident: Incident) -> Self {
        self.world.is(incident);
        self
    }

    fn ends(mut self, key: &str) -> Self {
        self.world.present.remove(key);
        self
    }

    fn passes(mut self, seconds: u64) -> Self {
        self.world.pass(seconds);
        self
    }

    fn last(self) -> Notification {
        let mut last = self.world.sent.last().unwrap().clone();
        // Ids are hashes of everything: they would make each snapshot change with any other.
        last.id = "0123456789abcdef0123456789abcdef".to_owned();
        last
    }
}

/// One message of each kind, by way of `plan`: what no decision leads to is no case.
fn cases(format: WebhookFormat) -> Vec<(&'static str, Notification)> {
    let cart = || incident("cart", "app", "OOMKilled", 3);
    let train = || Incident {
        kind: ProblemKind::Unschedulable,
        message: "0/12 nodes are available: 12 Insufficient nvidia.com/gpu.".to_owned(),
        logs: "".into(),
        log_note: "the container never started".to_owned(),
        ..incident("train", "", "Unschedulable", 1)
    };
    let firing = || Story::of(format).is(cart()).passes(40);
    let several = || {
        let known = Story::of(format)
            .is(incident("search", "init-db", "Error", 500))
            .is(incident("mail", "smtp", "CrashLoopBackOff", 1))
            .passes(40);
        let late = |incident| Incident { since: at("10:02:00"), ..incident };
        known.passes(60).ends("key-of-mail").passes(20).is(late(cart())).is(late(train()))
    };
    let storm = || {
        let mut story = Story::of(format);
        story.world.policy.pace.tracked = 2;
        story.world.present = (0..900).map(|number| (format!("storm{number}"), at("10:00:00"))).collect();
        story.passes(600)
    };
    let mut names = several();
    names.world.receiver = simulation::Receiver::WantsLess;
    let mut cases = vec![
        ("firing", firing().last()),
        ("several", several().passes(120).last()),
        ("resolved", firing().passes(300).ends("key-of-cart").passes(60).last()),
        ("storm", storm().last()),
        ("names", names.passes(120).last()),
        ("farewell", firing().world.deletion_notices().remove(0)),
    ];
    cases.extend(firing().world.policy.pace.resend.is_none().then(|| ("repeat", firing().passes(3_700).last())));
    let mut calm = storm();
    calm.world.present.clear();
    cases.push(("calm", calm.passes(100).last()));
    let object = NamespacedName { namespace: "orchestr-system".to_owned(), name: "cluster".to_owned() };
    let test = Notification::test("t-1".to_owned(), object, "ops".to_owned(), at("10:00:00"));
    cases.extend([("test", test.clone()), ("test-over", test.resolved("t-2".to_owned(), at("10:00:05")))]);
    for (_, message) in &mut cases {
        if message.object_deleted {
            message.id = "0123456789abcdef0123456789abcdef-0".to_owned();
        }
    }
    cases
}

fn case(format: WebhookFormat, name: &str) -> Notification {
    cases(format).into_iter().find(|(known, _)| *known == name).unwrap().1
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
            cases(format).iter().map(|(name, sent)| ((*name).to_owned(), body(format, sent))).collect();
        assert_snapshot(&format!("{}.json", format!("{format:?}").to_lowercase()), &Value::Object(bodies));
    }
}

#[test]
fn people_read_what_where_since_why_how_many_and_the_log_in_that_order() {
    for format in [WebhookFormat::Slack, WebhookFormat::Discord, WebhookFormat::Teams] {
        let firing = &case(format, "firing");
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
    for format in FORMATS {
        for (name, notification) in &cases(format) {
            let mut made = body(format, notification);
            match format {
                WebhookFormat::Teams => {
                    made["attachments"][0]["content"]["body"] = json!([]);
                    assert_shape("teams", &teams, &made);
                }
                WebhookFormat::Generic => assert_shape("generic", &generic, &made),
                WebhookFormat::Alertmanager => assert_shape("alertmanager", &alertmanager, &made),
                WebhookFormat::CloudEvents => assert_shape("cloudevents", &event, &made),
                WebhookFormat::PagerDuty if ["firing", "repeat", "names", "test"].contains(name) => {
                    assert_shape("pagerduty", &trigger, &made);
                }
                _ => {}
            }
        }
    }
    let resolved = case(WebhookFormat::PagerDuty, "resolved");
    let end = json!({ "routing_key": "", "event_action": "", "dedup_key": "", "client": "" });
    assert_shape("pagerduty", &end, &body(WebhookFormat::PagerDuty, &resolved));
}

#[test]
fn the_end_of_an_incident_is_tied_to_its_beginning() {
    let of = |format, name: &str, path: &str| body(format, &case(format, name)).pointer(path).unwrap().clone();
    let pagerduty = |name| of(WebhookFormat::PagerDuty, name, "/dedup_key");
    assert_eq!(pagerduty("firing"), pagerduty("resolved"));
    assert_eq!(pagerduty("firing"), pagerduty("repeat"));
    assert_eq!(pagerduty("firing"), pagerduty("farewell"));
    assert_ne!(pagerduty("firing"), pagerduty("calm"));
    let labels = |name| of(WebhookFormat::Alertmanager, name, "/0/labels");
    assert_eq!(labels("firing"), labels("resolved"));
    assert_eq!(labels("firing"), labels("farewell"));
    let fingerprint = |name| of(WebhookFormat::Generic, name, "/alerts/0/fingerprint");
    assert_eq!(fingerprint("firing"), fingerprint("resolved"));
}

#[test]
fn alertmanager_takes_no_alert_that_ends_before_it_begins() {
    // The nodes' clocks are ahead: of what ends, and of what begins.
    let ahead = |owner, since| Incident { since: at(since), ..incident(owner, "app", "Error", 1) };
    let story = Story::of(WebhookFormat::Alertmanager).is(ahead("cart", "12:00:00")).passes(60);
    let early = story.ends("key-of-cart").is(ahead("late", "23:00:00")).passes(60).last();
    assert!(!early.resolved.is_empty());
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

fn hostile_incident() -> impl Strategy<Value = Incident> {
    let texts = (hostile(), hostile(), hostile(), hostile(), hostile(), hostile());
    (texts, prop::collection::vec(hostile(), 0..5), any::<u64>(), -9_000_000_000_i64..9_000_000_000).prop_map(
        |((namespace, owner, container, reason, message, logs), example_pods, pods, since)| Incident {
            key: reason.clone(),
            namespace,
            owner: Owner { kind: container.clone(), name: owner },
            container,
            kind: ProblemKind::Crash,
            reason,
            since: Timestamp::from_second(since).unwrap(),
            tolerated: std::time::Duration::ZERO,
            pods,
            example_pods,
            log_note: message.clone(),
            message,
            logs: logs.into(),
        },
    )
}

/// All messages of a course of events in which everything is hostile: what begins at first, what begins later, what
/// ends, and a receiver that may want less.
fn hostile_messages(format: WebhookFormat) -> impl Strategy<Value = Vec<Notification>> {
    // A few incidents, repeated to many.
    let incidents =
        || (prop::collection::vec(hostile_incident(), 1..3), prop_oneof![3 => 1_usize..4, 1 => 4_usize..90]);
    let less = prop_oneof![3 => Just(false), 1 => Just(true)];
    (hostile(), hostile(), incidents(), incidents(), less, 1_u64..200).prop_map(
        move |(name, cluster, first, second, less, seconds)| {
            let mut world = World::new(format);
            world.source.cluster = cluster;
            world.policy.name = name;
            let begin = |world: &mut World, (incidents, times): (Vec<Incident>, usize), part: &str| {
                for (number, incident) in incidents.iter().cycle().take(incidents.len() * times).enumerate() {
                    world.is(Incident { key: format!("{part}{number}"), ..incident.clone() });
                }
            };
            begin(&mut world, first, "first");
            world.pass(60);
            if less {
                world.receiver = simulation::Receiver::WantsLess;
            }
            begin(&mut world, second, "second");
            world.present.retain(|key, _| !key.ends_with('1'));
            world.pass(seconds);
            if world.policy.pace.resend.is_none() {
                world.pass(3_700);
            }
            world.present.clear();
            world.pass(100);
            world.sent.extend(world.deletion_notices());
            world.sent
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
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_text_is_receivers_can_take_it(
        messages in prop::sample::select(FORMATS.to_vec())
            .prop_flat_map(|format| hostile_messages(format).prop_map(move |messages| (format, messages))),
    ) {
        let (format, messages) = messages;
        for notification in messages {
            let request = render(&notification, &destination(format));
            let size = request.body.len();
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let named = notification.started.len() + notification.ongoing.len() + notification.resolved.len();
            let storm = notification.storm.as_ref().map_or(0, |storm| storm.count);
            let all = named + usize::from(notification.storm.is_some());
            match format {
                WebhookFormat::Slack => check_slack(&body),
                WebhookFormat::Discord => check_discord(&body),
                WebhookFormat::Teams => check_teams(&body, size),
                WebhookFormat::Generic => {
                    prop_assert!(size <= 64 * 1024, "{} bytes", size);
                    prop_assert_eq!(body["alerts"].as_array().unwrap().len(), all);
                    prop_assert_eq!(body["truncatedAlerts"].as_u64().unwrap(), notification.hidden + storm);
                }
                WebhookFormat::CloudEvents => {
                    prop_assert!(size <= 64 * 1024, "{} bytes", size);
                    prop_assert_eq!(&body["id"], &json!(notification.id));
                }
                WebhookFormat::Alertmanager => {
                    prop_assert_eq!(body.as_array().unwrap().len(), all, "none may be left out");
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
