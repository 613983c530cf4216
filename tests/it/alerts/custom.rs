//! Requests that a spec describes: the recipes of docs/receivers/custom.md against the documented rules of their services, and
//! templates that fail.

use std::{
    collections::BTreeMap,
    env, fs,
    path::PathBuf,
    sync::{Arc, LazyLock},
    time::Duration,
};

use orchestr::{
    alerts::{CustomFormat, Incident, Notification, Texts, delivery::DeliveryTimings},
    api::{CustomPer, CustomRequest, Owner, Severity, WebhookFormat},
    config::Timings,
};
use orchestr_testbed::{Received, Receiver};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    simulation::Simulation,
    support::{delivery, spec, webhook},
};
use crate::{
    command::{ends, orchestr},
    pod_statuses::crash_looping,
    support::TIMEOUT,
    test_env::{TestEnv, condition},
};

/// What a service documents about its requests; see tests/fixtures/receivers.yaml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Service {
    name: String,
    method: String,
    content_type: String,
    header: Option<String>,
    path: String,
    fields: BTreeMap<String, String>,
    values: BTreeMap<String, Vec<String>>,
    end: End,
    same: String,
    bytes: usize,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct End {
    path: Option<String>,
    fields: Option<BTreeMap<String, String>>,
    values: Option<BTreeMap<String, Vec<String>>>,
}

const JSON: &str = "application/json";

impl Default for Service {
    fn default() -> Self {
        Self {
            name: String::new(),
            method: "POST".to_owned(),
            content_type: JSON.to_owned(),
            header: None,
            path: String::new(),
            fields: BTreeMap::new(),
            values: BTreeMap::new(),
            end: End::default(),
            same: String::new(),
            bytes: 65_536,
        }
    }
}

static SERVICES: LazyLock<Vec<Service>> = LazyLock::new(|| {
    let services: Vec<Service> = serde_yaml::from_str(include_str!("../../fixtures/receivers.yaml")).unwrap();
    assert_eq!(services.len(), 13);
    assert!(services.iter().all(|service| !service.fields.is_empty()));
    services
});

/// A request as a service reads it.
struct Read {
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Read {
    fn fields(&self, service: &Service) -> Value {
        if service.content_type == JSON {
            return serde_json::from_slice(&self.body).unwrap();
        }
        let pairs = form_urlencoded::parse(&self.body).into_owned();
        Value::Object(pairs.map(|(name, value)| (name, Value::from(value))).collect())
    }

    /// The value of `same` in a rule.
    fn identity(&self, service: &Service) -> String {
        match service.same.as_str() {
            "path" => {
                self.path.split("/alerts/").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or("").to_owned()
            }
            name if name.starts_with("x-") => self.headers[name].clone(),
            name => field(&self.fields(service), name),
        }
    }
}

fn field(fields: &Value, path: &str) -> String {
    match fields.pointer(&format!("/{}", path.replace('.', "/"))) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

/// Checks a request as the service would.
fn check(service: &Service, request: &Read, is_end: bool) {
    let name = &service.name;
    let Service { path, fields: required, values, end, .. } = service;
    let path = end.path.as_ref().filter(|_| is_end).unwrap_or(path);
    let required = end.fields.as_ref().filter(|_| is_end).unwrap_or(required);
    let values = end.values.as_ref().filter(|_| is_end).unwrap_or(values);
    assert_eq!(request.method, service.method, "{name}");
    let path = regex::escape(path).replace("ID", "[0-9A-Za-z-]+");
    let ends = regex::Regex::new(&format!("{path}$")).unwrap();
    assert!(ends.is_match(&request.path), "{name}: {} does not end with {path}", request.path);
    let content_type = &request.headers["content-type"];
    assert!(content_type.starts_with(&service.content_type), "{name}: {content_type}");
    if let Some(header) = &service.header {
        assert!(request.headers.get(header).is_some_and(|value| !value.is_empty()), "{name} lacks {header}");
    }
    assert!(request.body.len() <= service.bytes, "{name}: {} bytes", request.body.len());
    let fields = request.fields(service);
    for (path, most) in required {
        let value = field(&fields, path);
        let (most, unit) = most.split_once(' ').unwrap();
        let length = if unit == "bytes" { value.len() } else { value.encode_utf16().count() };
        let most = most.parse().unwrap();
        assert!((1..=most).contains(&length), "{name}: {path} has {length}, at most {most} are accepted");
    }
    for (path, accepted) in values {
        let value = field(&fields, path);
        assert!(accepted.contains(&value), "{name}: {path} is {value:?}");
    }
}

fn sample(name: &str) -> (PathBuf, Value) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("samples/custom-{name}.yaml"));
    let object = serde_yaml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    (path, object)
}

fn custom(name: &str) -> CustomRequest {
    serde_json::from_value(sample(name).1["spec"]["webhooks"][0]["custom"].clone()).unwrap()
}

/// Long and hostile texts, of many problems at once.
fn large_messages(custom: &CustomRequest, format: CustomFormat) -> Vec<Notification> {
    let mut sim = Simulation::new(WebhookFormat::Custom);
    sim.policy.pacing = CustomFormat::pacing_of(custom);
    sim.policy.custom = Some(Arc::new(format));
    sim.source.cluster = "prod".to_owned();
    let text = |length: usize| "\"a\\`é😀</b>{{x}}@here&=".chars().cycle().take(length).collect::<String>();
    for number in 0..60 {
        let texts = Texts { message: text(2_000), logs: text(9_000).into(), ..Texts::default() };
        sim.set_incident(Incident {
            key: format!("key{number}").into(),
            namespace: "shop".into(),
            owner: Owner { kind: "Deployment".to_owned(), name: format!("{}{number}", "x".repeat(240)) }.into(),
            container: text(63).into(),
            reason: text(128).into(),
            since: sim.now,
            pods: 3,
            severity: [Severity::Critical, Severity::Warning, Severity::Info][number % 3],
            texts: texts.into(),
            ..Incident::default()
        });
    }
    sim.advance(600);
    sim.active.clear();
    sim.advance(600);
    sim.sent
}

#[test]
fn recipes_stay_within_the_rules_of_their_services() {
    for service in &*SERVICES {
        let custom = custom(&service.name);
        let format = CustomFormat::new(&custom).unwrap_or_else(|error| panic!("{}: {error}", service.name));
        let sent = large_messages(&custom, CustomFormat::new(&custom).unwrap());
        assert!(sent.len() > 2, "{}", service.name);
        let mut ids: BTreeMap<bool, Vec<String>> = BTreeMap::new();
        for message in &sent {
            let request = format.render(message).unwrap_or_else(|error| panic!("{}: {error}", service.name));
            let url = request.url(&"https://service.example/secret".parse().unwrap());
            let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
            let mut headers: BTreeMap<String, String> =
                request.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
            headers.insert("content-type".to_owned(), text(&request.content_type));
            headers.insert("authorization".to_owned(), "of a Secret".to_owned());
            let path = url[url::Position::BeforePath..].to_owned();
            let read = Read { method: request.method.to_string(), path, headers, body: request.body.clone() };
            let is_end = message.kind == orchestr::api::MessageKind::Resolved;
            check(service, &read, is_end);
            if !service.same.is_empty() && (service.same != "path" || is_end) {
                ids.entry(is_end).or_default().push(read.identity(service));
            }
            if service.same == "path" && !is_end {
                ids.entry(false).or_default().push(field(&read.fields(service), "alias"));
            }
        }
        if custom.per == Some(CustomPer::Incident) && !service.same.is_empty() {
            let ended = &ids[&true];
            assert!(ended.iter().all(|id| ids[&false].contains(id)), "{}: an end is of no start", service.name);
        }
    }
}

#[test]
fn recipes_are_rendered_as_in_the_snapshot() {
    let mut all = String::new();
    for service in &*SERVICES {
        let (path, _) = sample(&service.name);
        for more in [&[][..], &["--resolved"]] {
            let mut args = vec!["webhook", "render", "-f", path.to_str().unwrap()];
            args.extend(more);
            let (code, output, error) = ends(&mut orchestr(&args));
            assert_eq!((code, error.as_str()), (0, ""), "{output}");
            all += &format!("## custom-{}.yaml {}\n{output}\n", service.name, more.join(" "));
        }
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/alerts/recipes.txt");
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &all).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(all == expected, "the recipes differ from {}; UPDATE_SNAPSHOTS=1 writes it", path.display());
}

#[test]
fn render_names_the_place_of_a_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("object.yaml");
    let (_, mut object) = sample("telegram");
    object["spec"]["webhooks"][0]["custom"]["body"] = json!("{\n \"text\": {{ titel }}\n}");
    fs::write(&file, object.to_string()).unwrap();
    let render = |more: &[&str]| {
        let mut args = vec!["webhook", "render", "-f", file.to_str().unwrap()];
        args.extend(more);
        ends(&mut orchestr(&args))
    };
    let problem = "orchestr: spec.webhooks[0].custom.body: line 2, column 13: there is no titel\n";
    assert_eq!(render(&[]), (2, String::new(), problem.to_owned()));
    let (code, _, error) = render(&["--webhook", "other"]);
    assert_eq!(
        (code, error.as_str()),
        (2, "orchestr: orchestr-system/telegram-alerts has no webhook \"other\": it has ops\n")
    );
    fs::write(&file, "kind: Pod").unwrap();
    let (code, _, error) = render(&[]);
    assert!(code == 2 && error.ends_with("is not an Orchestr object in JSON or YAML\n"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn recipes_are_accepted_by_receivers_with_the_rules() {
    let env = TestEnv::new("recipes").await;
    let receiver = Receiver::start().await.unwrap();
    env.secret("auth", &[("Authorization", "Bearer t0k3n-of-the-test")]).await;
    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap().to_owned();
    for (number, services) in SERVICES.chunks(8).enumerate() {
        let mut webhooks = Vec::new();
        for service in services {
            env.secret(&service.name, &[("url", &receiver.url(&format!("/{}/t0k3n", service.name)))]).await;
            let mut changes = sample(&service.name).1["spec"]["webhooks"][0].clone();
            let own = changes.as_object_mut().unwrap();
            own.retain(|name, _| ["custom", "headersFrom"].contains(&name.as_str()));
            if own.contains_key("headersFrom") {
                own.insert("headersFrom".to_owned(), json!({"secretRef": {"name": "auth-webhook"}}));
            }
            webhooks.push(webhook(&service.name, "Custom", changes));
        }
        let name = format!("recipes{number}");
        env.object(&name, spec(&webhooks)).await;
        let object = format!("{}/{name}", env.namespace);
        let args = ["webhook", "test", &object, "--kubeconfig", &kubeconfig];
        let (_, output, error) =
            ends(&mut orchestr(&[&args[..], &["--webhook-allow-http", "--webhook-allow-loopback"]].concat()));
        assert_eq!(error, "", "{output}");
        for service in services {
            for kind in ["test alert", "resolved alert"] {
                let line = format!("{} (Custom): {kind}: delivered, 200", service.name);
                assert!(output.contains(&line), "{output}");
            }
        }
    }
    for service in &*SERVICES {
        let is_own = |request: &&Received| request.path.starts_with(&format!("/{}/t0k3n", service.name));
        let received: Vec<Received> = receiver.received().iter().filter(is_own).cloned().collect();
        assert_eq!(received.len(), 2, "{}", service.name);
        for (request, is_end) in received.into_iter().zip([false, true]) {
            let Received { method, path, headers, body, .. } = request;
            check(service, &Read { method, path, headers, body }, is_end);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_template_holds_up_no_other_incident() {
    let env = TestEnv::new("unrendered").await;
    let receiver = Receiver::start().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/base?k=s3cr3t"))]).await;
    let body = "{\"owner\": {{ incident.owner }}\
        {% if incident.owner == \"bad-0\" %}{{ incident.evidence[99].x }}{% endif %}}";
    let custom = json!({"per": "Incident", "path": "/{{ incident.owner }}", "body": body});
    env.pod("bad-0", crash_looping(7)).await;
    env.object("cluster", spec(&[webhook("ops", "Custom", json!({"custom": custom}))])).await;
    let alerts = DeliveryTimings { pacing_divisor: 15, ..DeliveryTimings::default() };
    let timings = Timings { status_write_interval: Duration::from_millis(200), alerts, ..Timings::default() };
    let _operator = env.operator().timings(timings).start();
    // Nothing shows yet that other messages can be sent.
    env.until("nothing can be sent", |status| condition(status, "AlertsDelivered").1 == "DeliveryFailing").await;
    env.pod("cart-0", crash_looping(7)).await;
    let received = receiver.wait_for(1, TIMEOUT).await.unwrap();
    assert_eq!((received[0].json(), received[0].path.as_str()), (json!({"owner": "cart-0"}), "/base/cart-0?k=s3cr3t"));
    let status = env
        .until("the failure is reported", |status| condition(status, "AlertsDelivered").1 == "IncidentsRefused")
        .await;
    let message = serde_json::to_value(&status).unwrap()["conditions"].to_string();
    let place = "the message cannot be rendered: custom.body: line 1, column ";
    assert!(message.contains(place) && message.contains("bad-0"), "{message}");
    assert!(delivery(&status, "ops").is_some_and(|ops| ops.last_success.is_some()));
    let wrong = json!({"custom": {"body": "{{ titel }}"}});
    let ops = webhook("ops", "Custom", json!({"custom": custom}));
    env.update_spec("cluster", json!({"webhooks": [ops, webhook("wrong", "Custom", wrong)]})).await;
    let status = env.until("the mistake is named", |status| condition(status, "Ready").1 == "InvalidSpec").await;
    let message = serde_json::to_value(&status).unwrap()["conditions"].to_string();
    assert!(message.contains("spec.webhooks[1].custom.body: line 1, column 4: there is no titel"), "{message}");
}
