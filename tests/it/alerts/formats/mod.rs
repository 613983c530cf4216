//! Renders every kind of message in every format, and compares with the snapshots and with published examples.

mod ownership;
pub mod reader;
mod share;
mod titles;
mod untrusted;

use std::{env, fs, path::PathBuf, sync::Arc};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::alerts::simulation::{Behaviour, Simulation, request};
use orchestr::{
    alerts::{Incident, Notification, Texts},
    api::{Cause, NamespacedName, Owner, ProblemKind, Revision, WebhookFormat},
};

fn body(format: WebhookFormat, notification: &Notification) -> Value {
    let request = request(notification, format);
    serde_json::from_slice(&request.body).unwrap()
}

fn at(time: &str) -> Timestamp {
    format!("2026-07-01T{time}Z").parse().unwrap()
}

fn incident(owner: &str, container: &str, reason: &str, pods: u64) -> Incident {
    let pod = |suffix: &str| format!("{owner}-5d9f7c-{suffix}");
    Incident {
        key: format!("key-of-{owner}").into(),
        namespace: "shop".into(),
        owner: Owner { kind: "Deployment".to_owned(), name: owner.to_owned() }.into(),
        container: container.into(),
        kind: ProblemKind::Crash,
        reason: reason.into(),
        since: at("10:00:00"),
        pods,
        texts: Arc::new(Texts {
            example_pods: ["a1b2c", "d3e4f", "g5h6i"].iter().take(pods.min(3) as usize).map(|s| pod(s)).collect(),
            message: format!("container {container} was OOM-killed (exit 137), 7 restarts, limit 512Mi"),
            logs: "loading 40000 rows\nallocating <buffer> & index\nKilled".into(),
            ..Texts::default()
        }),
        ..Incident::default()
    }
}

/// Builds a sequence of events. The test case is its last message.
struct Scenario {
    sim: Simulation,
}

impl Scenario {
    fn of(format: WebhookFormat) -> Self {
        let mut sim = Simulation::new(format);
        sim.source.cluster = "prod".to_owned();
        Self { sim }
    }

    fn incident(mut self, incident: Incident) -> Self {
        self.sim.set_incident(incident);
        self
    }

    fn end(mut self, key: &str) -> Self {
        self.sim.active.remove(key);
        self
    }

    fn without_cause(mut self) -> Self {
        self.sim.play("*=");
        self
    }

    fn advance(mut self, seconds: u64) -> Self {
        self.sim.advance(seconds);
        self
    }

    fn last(self) -> Notification {
        let mut last = self.sim.sent.last().unwrap().clone();
        // IDs depend on everything: any change of a case would change them.
        last.id = "0123456789abcdef0123456789abcdef".to_owned();
        last
    }
}

/// One message of each kind, as planned for a sequence of events.
fn cases(format: WebhookFormat) -> Vec<(&'static str, Notification)> {
    let cart = || incident("cart", "app", "OOMKilled", 3);
    let train = || {
        let incident = incident("train", "", "Unschedulable", 1);
        let texts = Texts {
            message: "0/12 nodes are available: 12 Insufficient nvidia.com/gpu.".to_owned(),
            logs: "".into(),
            log_note: "the container never started".into(),
            ..Texts::clone(&incident.texts)
        };
        Incident { kind: ProblemKind::Unschedulable, texts: texts.into(), ..incident }
    };
    let firing = || Scenario::of(format).incident(cart()).advance(40);
    let several = || {
        let known = Scenario::of(format)
            .incident(incident("search", "init-db", "Error", 500))
            .incident(incident("mail", "smtp", "CrashLoopBackOff", 1))
            .advance(40);
        let late = |incident| Incident { since: at("10:02:00"), ..incident };
        known.advance(60).end("key-of-mail").advance(20).incident(late(cart())).incident(late(train()))
    };
    let storm = || {
        let mut scenario = Scenario::of(format);
        scenario.sim.policy.pacing.max_incidents = 2;
        scenario.sim.active = (0..900).map(|number| (format!("storm{number}"), at("10:00:00"))).collect();
        scenario.advance(600)
    };
    let explained = || {
        let texts = Texts {
            message: "app was OOM-killed 31–34 s after its start, 7 restarts; limit 512Mi".to_owned(),
            revision: Some(Revision {
                name: "cart-5d9f7c".to_owned(),
                healthy_before: 7,
                changes: vec!["app: memory limit 1Gi → 512Mi".to_owned(), "app: env CACHE_SIZE added".to_owned()],
            }),
            evidence: vec!["Unhealthy ×41, last 10:00:30Z: Readiness probe failed: <timeout> & `503`".to_owned()],
            ..Texts::clone(&cart().texts)
        };
        Incident { cause: Cause::OutOfMemory, of: 10, texts: texts.into(), ..cart() }
    };
    let common = || {
        let mut scenario = Scenario::of(format);
        scenario.sim.play("+0..3 *=7");
        scenario
    };
    let mut names = several();
    names.sim.receiver = Behaviour::RejectsDetails;
    let mut cases = vec![
        ("firing", firing().last()),
        ("cause", Scenario::of(format).incident(explained()).advance(40).last()),
        ("ownership", ownership::scenario(format).advance(40).last()),
        ("common-cause", common().advance(40).last()),
        ("common-cause-over", common().advance(300).end("key0").end("key1").end("key2").advance(60).last()),
        ("common-cause-no-longer", common().advance(300).end("key0").without_cause().advance(60).last()),
        ("several", several().advance(120).last()),
        ("resolved", firing().advance(300).end("key-of-cart").advance(60).last()),
        ("storm", storm().last()),
        ("names", names.advance(120).last()),
        ("farewell", firing().sim.last_messages().remove(0)),
    ];
    cases.extend(
        firing().sim.policy.pacing.resend_interval.is_none().then(|| ("repeat", firing().advance(3_700).last())),
    );
    let mut calm = storm();
    calm.sim.active.clear();
    cases.push(("calm", calm.advance(100).last()));
    let object = NamespacedName { namespace: "orchestr-system".to_owned(), name: "cluster".to_owned() };
    let test = Notification::test("t-1".to_owned(), object, "ops".to_owned(), at("10:00:00"));
    cases.extend([("test", test.clone()), ("test-over", test.resolved("t-2".to_owned(), at("10:00:05")))]);
    for (_, message) in &mut cases {
        if message.farewell.is_some() {
            message.id = "0123456789abcdef0123456789abcdef-0".to_owned();
        }
    }
    cases
}

fn case(format: WebhookFormat, name: &str) -> Notification {
    cases(format).into_iter().find(|(known, _)| *known == name).unwrap().1
}

/// Compares with a snapshot. With `UPDATE_SNAPSHOTS` set, writes it.
fn assert_snapshot(name: &str, rendered: &Value) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/alerts").join(name);
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("{rendered:#}\n")).unwrap();
    }
    let file = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; write it with UPDATE_SNAPSHOTS=1", path.display()));
    let snapshot: Value = serde_json::from_str(&file).unwrap();
    assert_eq!(*rendered, snapshot, "{name} differs; if this is intended, write it with UPDATE_SNAPSHOTS=1");
}

#[test]
fn renders_messages_as_in_the_snapshots() {
    for format in WebhookFormat::ALL {
        let bodies: Map<String, Value> =
            cases(format).iter().map(|(name, sent)| ((*name).to_owned(), body(format, sent))).collect();
        assert_snapshot(&format!("{}.json", format!("{format:?}").to_lowercase()), &Value::Object(bodies));
    }
}

#[test]
fn shows_cause_sentence_pods_revision_and_evidence() {
    for format in WebhookFormat::ALL {
        let text = body(format, &case(format, "cause")).to_string();
        for part in [
            "OutOfMemory",
            "OOMKilled",
            "app was OOM-killed 31–34 s after its start, 7 restarts; limit 512Mi",
            "cart-5d9f7c",
            "memory limit 1Gi → 512Mi; app: env CACHE_SIZE added",
            "Unhealthy ×41, last 10:00:30Z: Readiness probe failed: ",
        ] {
            assert!(text.contains(part), "{format:?} lacks {part}: {text}");
        }
        let labelled = text.contains(r#""pods":"3""#) && text.contains(r#""of":"10""#);
        assert!(labelled || text.contains("3 of 10"), "{format:?}: {text}");
        assert!(!body(format, &case(format, "firing")).to_string().contains("Unknown"), "{format:?}");
    }
}

#[test]
fn keeps_the_labels_when_the_cause_becomes_known() {
    for format in [WebhookFormat::Alertmanager, WebhookFormat::Generic] {
        let labels = |name| {
            let body = body(format, &case(format, name));
            let alerts = if format == WebhookFormat::Generic { &body["alerts"] } else { &body };
            alerts[0]["labels"].clone()
        };
        assert_eq!(labels("firing"), labels("cause"), "{format:?}");
    }
}

#[test]
fn shows_the_facts_in_order() {
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

/// Checks that a body has exactly the fields and types of the receiver's published example.
fn assert_same_fields(path: &str, example: &Value, body: &Value) {
    match (example, body) {
        (Value::Object(example), Value::Object(body)) => {
            if example.contains_key("*") {
                return body.values().for_each(|value| assert_same_fields(path, &example["*"], value));
            }
            let fields: Vec<_> = body.keys().collect();
            assert_eq!(fields, example.keys().collect::<Vec<_>>(), "fields of {path}");
            for (name, value) in body {
                assert_same_fields(&format!("{path}.{name}"), &example[name], value);
            }
        }
        (Value::Array(example), Value::Array(body)) => {
            body.iter().for_each(|value| assert_same_fields(path, &example[0], value));
        }
        (Value::String(_), Value::String(_)) | (Value::Number(_), Value::Number(_)) | (Value::Null, Value::Null) => {}
        _ => panic!("{path}: {body} differs from {example}"),
    }
}

#[test]
fn renders_exactly_the_published_fields() {
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
    for format in WebhookFormat::ALL {
        for (name, notification) in &cases(format) {
            let mut rendered = body(format, notification);
            match format {
                WebhookFormat::Teams => {
                    rendered["attachments"][0]["content"]["body"] = json!([]);
                    assert_same_fields("teams", &teams, &rendered);
                }
                WebhookFormat::Generic => assert_same_fields("generic", &generic, &rendered),
                WebhookFormat::Alertmanager => assert_same_fields("alertmanager", &alertmanager, &rendered),
                WebhookFormat::CloudEvents => assert_same_fields("cloudevents", &event, &rendered),
                WebhookFormat::PagerDuty
                    if ["firing", "cause", "common-cause", "repeat", "names", "test"].contains(name) =>
                {
                    assert_same_fields("pagerduty", &trigger, &rendered);
                }
                _ => {}
            }
        }
    }
    let resolved = case(WebhookFormat::PagerDuty, "resolved");
    let end = json!({ "routing_key": "", "event_action": "", "dedup_key": "", "client": "" });
    assert_same_fields("pagerduty", &end, &body(WebhookFormat::PagerDuty, &resolved));
}

#[test]
fn identifies_the_start_and_the_end_of_an_incident_alike() {
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
fn renders_no_alert_that_ends_before_it_starts() {
    // The nodes' clocks are ahead, of the resolved incident and of the firing one.
    let ahead = |owner, since| Incident { since: at(since), ..incident(owner, "app", "Error", 1) };
    let scenario = Scenario::of(WebhookFormat::Alertmanager).incident(ahead("cart", "12:00:00")).advance(60);
    let early = scenario.end("key-of-cart").incident(ahead("late", "23:00:00")).advance(60).last();
    assert!(!early.resolved.is_empty());
    for alert in body(WebhookFormat::Alertmanager, &early).as_array().unwrap() {
        let time = |field: &str| alert[field].as_str().unwrap().parse::<Timestamp>().unwrap();
        assert!(time("startsAt") <= time("endsAt"), "{alert}");
    }
}
