use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    super::{Receiver, RenderError, Request},
    CustomFormat, end, example,
    examples::examples,
};
use crate::{
    alerts::{Notification, Source},
    api::{CustomRequest, NamespacedName},
};

fn new(spec: Value) -> Result<CustomFormat, String> {
    let spec: CustomRequest = serde_json::from_value(spec).unwrap();
    CustomFormat::new(&spec).map_err(|error| format!("{}: {}", error.field, error.place_and_problem()))
}

fn error(spec: Value) -> String {
    new(spec).err().unwrap_or_else(|| "none".to_owned())
}

fn cart() -> Notification {
    let object = NamespacedName { namespace: "shop".to_owned(), name: "cluster".to_owned() };
    example(Source::from(object), "ops", Timestamp::UNIX_EPOCH)
}

fn rendered(spec: Value, message: &Notification) -> Request {
    new(spec).unwrap().render(message).unwrap()
}

fn text(request: &Request) -> String {
    String::from_utf8(request.body.clone()).unwrap()
}

#[test]
fn encodes_each_value_for_its_place() {
    let spec = |content_type: &str, body: &str| {
        json!({
            "contentType": content_type, "body": body, "per": "Incident",
            "path": "/a/{{ incident.ownerKind }} {{ 1 }}".replace(' ', "-"), "query": "q={{ incident.message }}",
            "headers": {"X-Owner": "{{ incident.owner }}"},
        })
    };
    let mut message = cart();
    message.started[0].incident.owner = crate::api::Owner { kind: "a/b?#".to_owned(), name: "x\"y".to_owned() }.into();
    for (content_type, header, body, expected) in [
        ("JSON", "application/json", r#"{"o": {{ incident.owner }}}"#, r#"{"o": "x\"y"}"#),
        ("Form", "application/x-www-form-urlencoded", "o={{ incident.owner }}&p=1\n", "o=x%22y&p=1"),
        ("Text", "text/plain; charset=utf-8", "o {{ incident.owner }}", "o x\"y"),
    ] {
        let request = rendered(spec(content_type, body), &message);
        assert_eq!((text(&request).as_str(), request.content_type.to_str().unwrap()), (expected, header));
        assert_eq!(request.path, "/a/a%2Fb%3F%23-1");
        assert!(request.query.starts_with("q=app+was+OOM-killed+31%E2%80%9334"), "{}", request.query);
        assert_eq!(request.headers["x-owner"], "x\"y");
    }
}

#[test]
fn start_and_end_have_the_same_id() {
    for per in ["Incident", "Message"] {
        let spec = json!({"body": r#"[{{ id }}, {{ messageId }}, {{ status }}]"#, "per": per});
        let of = |message: &Notification| -> Vec<String> {
            serde_json::from_slice(&rendered(spec.clone(), message).body).unwrap()
        };
        let (start, over) = (of(&cart()), of(&end(&cart())));
        assert_eq!((start[0].len(), &start[0]), (64, &over[0]), "{per}");
        assert_ne!(start[1], over[1]);
        assert_eq!([&start[2], &over[2]], ["firing", "resolved"]);
    }
}

#[test]
fn an_end_may_be_another_request() {
    let spec = json!({
        "body": r#"{"alias": {{ id }}}"#, "path": "/v2/alerts", "per": "Incident",
        "resolved": {"method": "PUT", "path": "/v2/alerts/{{ id }}/close", "query": "by=alias", "body": "{}"},
    });
    let over = rendered(spec.clone(), &end(&cart()));
    assert_eq!((over.method.as_str(), over.query.as_str(), text(&over).as_str()), ("PUT", "by=alias", "{}"));
    assert!(over.path.starts_with("/v2/alerts/") && over.path.ends_with("/close"), "{}", over.path);
    let start = rendered(spec, &cart());
    assert_eq!((start.method.as_str(), start.path.as_str(), start.query.as_str()), ("POST", "/v2/alerts", ""));
}

#[test]
fn a_wrong_template_is_refused_with_its_place() {
    let mut wrong = Vec::new();
    for (spec, expected) in [
        (json!({"body": "{\n  \"a\": {{ titel }}\n}"}), "body: line 2, column 11: there is no titel"),
        (json!({"body": "{{ title"}), "body: line 1, column 4: syntax error"),
        (
            json!({"body": "{\"a\": {{ title | md5 }}}"}),
            "body: line 1, column 18: unknown filter: filter md5 is unknown",
        ),
        (json!({"body": "{\"a\": {{ range(9) }}}"}), "body: line 1, column 10: there is no range"),
        (json!({"body": "{\"a\": {{ incident.owner }}}"}), "body: line 1, column 10: there is no incident"),
        (
            json!({"body": "{\"a\": {{ incident.ownr }}}", "per": "Incident"}),
            "body: line 1, column 10: there is no incident.ownr",
        ),
        (json!({"body": "{\"a\": {% if 1 > 2 %}{{ x }}{% endif %}1}"}), "body: line 1, column 24: there is no x"),
        (json!({"body": "{\n \"a\": \"{{ title }}\"}"}), "body: line 2, column 11: the body is not JSON here"),
        (json!({"body": "{\n \"a\": {{ title }},}"}), "body: line 2, column 19: the body is not JSON here"),
        (json!({"body": "{% include 'x' %}"}), "body: line 1, column 1: the block \"include\" is not available"),
        (json!({"body": "1", "path": "/a/../b"}), "path: line 1, column 4: this cannot stand in a URL"),
        (json!({"body": "1", "path": "/a/%2E%2e"}), "path: line 1, column 4: this cannot stand in a URL"),
        (json!({"body": "1", "path": "/a?b"}), "path: line 1, column 3: this cannot stand in a URL"),
        (json!({"body": "1", "path": "\\\\evil.example"}), "path: line 1, column 1: this cannot stand in a URL"),
        (json!({"body": "1", "query": "a=b#c"}), "query: line 1, column 4: this cannot stand in a URL"),
        (
            json!({"body": "1", "headers": {"X-A": "x{{ text }}"}}),
            "headers.X-A: line 1, column 5: this cannot be sent as a header: it has line breaks",
        ),
        (
            json!({"body": "1", "headers": {"X-A": "a\r\nX-B: c"}}),
            "headers.X-A: line 1, column 2: this cannot be sent as a header: it has line breaks",
        ),
        (json!({"body": "1", "headers": {"Host": "evil.example"}}), "headers.Host: host can't be set"),
        (
            json!({"body": "1", "headers": {"Content-Length": "1"}}),
            "headers.Content-Length: content-length can't be set",
        ),
        (json!({"body": "1", "headers": {"X A": "1"}}), "headers.X A: is not a header's name"),
        (
            json!({"body": "{{ incidents }}", "contentType": "Text"}),
            "body: line 1, column 4: invalid operation: only a text",
        ),
        (json!({"body": "1", "maxBytes": 1}), "maxBytes: must be from 1000 to 65536, not 1"),
        (json!({"body": "x".repeat(8193)}), "body: may have at most 8192 characters, not 8193"),
        (
            json!({"body": format!("\"{}\"", "x".repeat(1500)), "maxBytes": 1000}),
            "body: the smallest body has 1502 bytes, more than maxBytes",
        ),
        (json!({"body": "1", "resolved": {"body": "{{ x }}"}}), "resolved.body: line 1, column 4: there is no x"),
        (json!({"body": "1", "resolved": {"path": "/.."}}), "resolved.path: line 1, column 2: this cannot stand"),
    ] {
        let found = error(spec.clone());
        if !found.starts_with(expected) {
            wrong.push(format!("{spec}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_template_cannot_take_much_time_or_memory() {
    let nested = "{% for a in text %}{% for b in text %}{% for c in text %}{% endfor %}{% endfor %}{% endfor %}1";
    let doubled = format!("{{% set a = text %}}{}{{{{ a }}}}", "{% set a = a ~ a %}".repeat(60));
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(4_000), ")".repeat(4_000));
    for (body, expected) in [
        (nested.to_owned(), "body: it takes too long"),
        (doubled, "body: it takes too long"),
        ("{{ 'x' * 100000000 }}".to_owned(), "body: line 1, column 8: * is not available: texts cannot be repeated"),
        ("{% for i in incidents recursive %}{{ loop(incidents) }}{% endfor %}".to_owned(), "body: "),
        (deep, "body: "),
        ("{{ 'x' | join(text) | join(text) }}".to_owned(), "body: "),
    ] {
        let begun = Instant::now();
        let found = error(json!({"contentType": "Text", "body": body}));
        assert!(found.starts_with(expected), "{found}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{found}: {:?}", begun.elapsed());
    }
}

#[test]
fn trying_out_the_worst_template_ends_soon() {
    // Almost all of the fuel, in each example. The bound is for a debug build on a busy machine.
    let doubled = format!("{{% set a = '{}' %}}{}1", "x".repeat(500), "{% set a = a ~ a %}".repeat(10));
    let begun = Instant::now();
    new(json!({"body": doubled})).unwrap();
    let texts = begun.elapsed();
    let steps = "{% for a in 'abcdefghijklmnopqrstuvwxyz' %}".repeat(2) + "{{ '' ~ a }}{% endfor %}{% endfor %}";
    new(json!({"contentType": "Text", "body": steps})).unwrap();
    println!("texts: {texts:?}, steps: {:?}", begun.elapsed() - texts);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_value_cannot_be_a_template_or_leave_its_text() {
    let format =
        new(json!({"body": r#"{"a": {{ title }}, "b": [{{ text }}, {{ markdown }}, {{ incidents }}]}"#, "maxBytes": 65_536})).unwrap();
    for message in examples(false) {
        let request = format.render(&message).unwrap();
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body.as_object().unwrap().len(), 2);
        assert!(request.body.len() <= 65_536, "{} bytes", request.body.len());
    }
    // What a template has captured is not encoded twice, and cannot be changed into something that is not encoded.
    let spec = json!({"body": "{% set a %}[{{ title }}]{% endset %}{{ a }}"});
    assert!(text(&rendered(spec, &cart())).starts_with(r#"["FIRING: "#));
    let spec = json!({"body": "{% set a %}{{ title }}{% endset %}{{ a[1:] }}"});
    assert!(text(&rendered(spec, &cart())).starts_with(r#""FIRING: "#));
}

#[test]
fn leaves_out_logs_first_and_then_messages() {
    let sizes = |max: u32| {
        let mut message = cart();
        let mut texts = (*message.started[0].incident.texts).clone();
        texts.logs = "log ".repeat(1_000).into();
        texts.message = "why ".repeat(100);
        message.started[0].incident.texts = texts.into();
        let body = text(&rendered(json!({"body": r#"{"text": {{ text }}}"#, "maxBytes": max}), &message));
        assert!(body.len() <= max as usize);
        assert!(body.contains("shop"));
        [body.matches("log ").count(), body.matches("why ").count()]
    };
    let [least, less, more, most] = [1_000, 1_500, 2_000, 8_000].map(sizes);
    assert!(least[0] < less[0] && less[0] < more[0] && more[0] < most[0], "{least:?} {less:?} {more:?} {most:?}");
    assert_eq!([less[1], most[1]], [99, 99], "logs are cut before messages");
}

#[test]
fn a_failure_while_rendering_names_no_values() {
    let format = new(json!({
        "per": "Incident", "body": "{{ {\"OOMKilled\": 1, \"x\": 2, \"Storm\": 3, \"Test\": 4}[incident.reason] or 5 }}",
    }));
    // An unknown reason fails in the examples already.
    assert!(format.is_err());
    let format = new(json!({"body": "{% if \"secret\" in text %}{{ incidents[7].x }}{% endif %}1"})).unwrap();
    let mut message = cart();
    message.started[0].incident.reason = "secret".into();
    let error: RenderError = format.request(&message, "").unwrap_err();
    assert_eq!(error.to_string(), "custom.body: line 1, column 38: undefined value");
}
