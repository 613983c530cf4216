//! What is done with the bytes.

use std::sync::Arc;

use jiff::Timestamp;
use orchestr::{
    alerts::{Alert, Incident, Notification, Texts, render},
    api::{NamespacedName, OrchestrSpec, Owner, WebhookFormat},
    logs::{LogPolicy, clean},
    settings::Settings,
};

/// Longer inputs are slower, and find no more.
const LONGEST_CUT: usize = 256;

/// The file of `scan -f`, in JSON or YAML, to all formats of its answer.
pub fn pods(bytes: &[u8]) {
    orchestr::cli::scan_bytes(bytes);
}

/// A page of pods in protobuf as an API server sends it, and a page whose only pod consists of the bytes.
pub fn protobuf(bytes: &[u8]) {
    orchestr::cli::scan_protobuf(bytes);
    let list = [field(1, &[]), field(2, bytes)].concat();
    orchestr::cli::scan_protobuf(&[b"k8s\0".to_vec(), field(1, &field(2, b"PodList")), field(2, &list)].concat());
}

/// A field of a message that is itself a message, or text.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length > 0x7f {
        field.push(length as u8 | 0x80);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend(bytes);
    field
}

/// The end of a log, whole and cut at each byte. What is shown stays within the policy.
pub fn log(bytes: &[u8]) {
    let policy = LogPolicy { tail_lines: 5, max_bytes: 256, ..LogPolicy::default() };
    let check = |raw: &[u8], cut: bool| {
        let cleaned = clean(raw, cut, &policy);
        assert!(cleaned.text.len() <= 256 && cleaned.text.lines().count() <= 5, "{}", cleaned.text.len());
        assert!(!cleaned.text.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{:?}", cleaned.text);
    };
    check(bytes, false);
    for start in 0..bytes.len().min(LONGEST_CUT) {
        check(&bytes[start..], true);
    }
}

/// A spec with its patterns, selectors, quiet hours and templates.
pub fn spec(bytes: &[u8]) {
    if let Ok(spec) = serde_json::from_slice::<OrchestrSpec>(bytes) {
        _ = Settings::new(&spec);
    }
}

/// Arbitrary texts of incidents in each format: JSON that the receiver can read.
pub fn formats(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.split('\u{0}').map(str::to_owned);
    let mut next = || parts.next().unwrap_or_default();
    let now = Timestamp::UNIX_EPOCH;
    let object = NamespacedName { namespace: next(), name: next() };
    let mut notification = Notification::test("id".to_owned(), object, next(), now);
    let texts = Texts { example_pods: vec![next()], message: next(), logs: next().into(), ..Texts::default() };
    let incident = Incident {
        namespace: next().into(),
        owner: Arc::new(Owner { kind: next(), name: next() }),
        container: next().into(),
        reason: next().into(),
        team: next().into(),
        texts: texts.into(),
        ..notification.started[0].incident.clone()
    };
    notification.started = vec![Alert { incident, ..Alert::default() }; 1 + bytes.len() % 40];
    for notification in [notification.clone().resolved("end".to_owned(), now), notification] {
        for format in [
            WebhookFormat::Generic,
            WebhookFormat::Alertmanager,
            WebhookFormat::Slack,
            WebhookFormat::Discord,
            WebhookFormat::Teams,
            WebhookFormat::PagerDuty,
            WebhookFormat::CloudEvents,
        ] {
            let request = render(&notification, format, "key").unwrap();
            serde_json::from_slice::<serde_json::Value>(&request.body).unwrap();
        }
    }
}
