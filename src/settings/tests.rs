use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::api::ProblemKind;

fn settings(spec: Value) -> Result<Settings, SpecError> {
    Settings::new(&serde_json::from_value(spec).unwrap())
}

fn with_pods(pods: Value) -> Value {
    json!({"alerts": {"checkRunningPods": true}, "pods": pods})
}

/// Why the spec, or the first part of it, is wrong.
fn error(spec: Value) -> String {
    match settings(spec) {
        Err(error) => error.to_string(),
        Ok(settings) => settings.wrong.first().expect("a part of the spec is wrong").to_string(),
    }
}

#[test]
fn the_shortest_spec_has_the_documented_defaults() {
    for spec in [
        json!({"alerts": {"checkRunningPods": true}}),
        json!({"alerts": {"checkRunningPods": true}, "pods": null, "thresholds": null, "logs": null, "report": null}),
        json!({"alerts": {"checkRunningPods": true}, "pods": {"namespaces": [], "selector": {}}, "thresholds": {},
               "logs": {}, "report": {}}),
    ] {
        let settings = settings(spec).unwrap();
        assert!(settings.enabled);
        assert!(settings.scope.selects("any", &Vec::<(String, String)>::new()));
        assert_eq!(settings.ignore_reasons, Vec::<String>::new());
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        assert_eq!(
            settings.thresholds,
            Thresholds {
                pending: minutes(1),
                initializing: minutes(5),
                not_ready: minutes(2),
                terminating: minutes(1),
                restarted: minutes(10),
                failed: minutes(60),
            }
        );
        let logs = LogPolicy { tail_lines: 20, max_bytes: 4096, redact: true, redact_patterns: vec![] };
        assert_eq!(settings.logs.as_deref(), Some(&logs));
        assert_eq!(logs, LogPolicy::default());
        assert_eq!(settings.max_pods, 50);
    }
}

#[test]
fn uses_the_given_values() {
    let settings = settings(json!({
        "alerts": {"checkRunningPods": false},
        "pods": {"ignoreReasons": ["Evicted"]},
        "thresholds": {"pending": "90s", "initializing": "1h30m", "notReady": "0", "terminating": "5m", "restarted": "168h", "failed": "2h"},
        "logs": {"tailLines": 1000, "maxBytes": 256, "redact": false, "redactPatterns": ["acct-[0-9]+"]},
        "report": {"maxPods": 500},
    }))
    .unwrap();
    assert!(!settings.enabled);
    assert_eq!(settings.ignore_reasons, ["Evicted"]);
    assert_eq!(
        settings.thresholds,
        Thresholds {
            pending: Duration::from_secs(90),
            initializing: Duration::from_secs(5_400),
            not_ready: Duration::ZERO,
            terminating: Duration::from_secs(300),
            restarted: Duration::from_secs(604_800),
            failed: Duration::from_secs(7_200),
        }
    );
    let logs = settings.logs.unwrap();
    assert_eq!((logs.tail_lines, logs.max_bytes, logs.redact), (1000, 256, false));
    assert_eq!(logs.redact_patterns[0].as_str(), "acct-[0-9]+");
    assert_eq!(settings.max_pods, 500);
}

#[test]
fn validates_logs_even_if_they_are_disabled() {
    let logs = |logs: Value| json!({"alerts": {"checkRunningPods": true}, "logs": logs});
    assert!(settings(logs(json!({"enabled": false}))).unwrap().logs.is_none());
    assert_eq!(
        error(logs(json!({"enabled": false, "tailLines": 0}))),
        "spec.logs.tailLines: must be from 1 to 1000, not 0"
    );
}

#[test]
fn rejects_a_spec_without_alerts() {
    for spec in
        [json!({}), json!({"alerts": null}), json!({"alerts": {}}), json!({"alerts": {"checkRunningPods": null}})]
    {
        assert_eq!(settings(spec).unwrap_err(), SpecError::AlertsNotSet);
    }
    assert_eq!(SpecError::AlertsNotSet.to_string(), "spec.alerts.checkRunningPods must be set");
}

#[test]
fn names_the_field_of_an_invalid_value() {
    let many = |count: usize| (0..count).map(|number| format!("x{number}")).collect::<Vec<_>>();
    let labels = |count: usize| many(count).into_iter().map(|key| (key, json!("v"))).collect::<serde_json::Map<_, _>>();
    let expression = |expression: Value| json!({"selector": {"matchExpressions": [expression]}});
    for (pods, problem) in [
        (
            json!({"namespaces": ["shop", ""]}),
            r#"spec.pods.namespaces[1]: "" is not a glob pattern of namespaces: lower-case letters, digits, -, *, ?, [a-z], [!a-z] and {one,other}"#,
        ),
        (
            json!({"excludeNamespaces": ["[ab"]}),
            r#"spec.pods.excludeNamespaces[0]: "[ab" is not a glob pattern of namespaces: lower-case letters, digits, -, *, ?, [a-z], [!a-z] and {one,other}"#,
        ),
        (json!({"namespaces": many(65)}), "spec.pods.namespaces: may have at most 64 items, not 65"),
        (json!({"namespaces": ["a".repeat(254)]}), "spec.pods.namespaces[0]: may have at most 253 characters, not 254"),
        (json!({"ignoreReasons": many(65)}), "spec.pods.ignoreReasons: may have at most 64 items, not 65"),
        (
            json!({"ignoreReasons": ["a".repeat(129)]}),
            "spec.pods.ignoreReasons[0]: may have at most 128 characters, not 129",
        ),
        (
            expression(json!({"key": "app", "operator": "Equals", "values": ["a"]})),
            r#"spec.pods.selector.matchExpressions[0].operator: must be In, NotIn, Exists or DoesNotExist, not "Equals""#,
        ),
        (
            expression(json!({"key": "app", "operator": "In"})),
            "spec.pods.selector.matchExpressions[0].values: must not be empty with the operator In",
        ),
        (
            expression(json!({"key": "app", "operator": "NotIn", "values": []})),
            "spec.pods.selector.matchExpressions[0].values: must not be empty with the operator NotIn",
        ),
        (
            expression(json!({"key": "app", "operator": "Exists", "values": ["a"]})),
            "spec.pods.selector.matchExpressions[0].values: must be empty with the operator Exists",
        ),
        (
            expression(json!({"key": "app", "operator": "In", "values": many(65)})),
            "spec.pods.selector.matchExpressions[0].values: may have at most 64 items, not 65",
        ),
        (
            json!({"selector": {"matchExpressions": vec![json!({"key": "app", "operator": "Exists"}); 33]}}),
            "spec.pods.selector.matchExpressions: may have at most 32 items, not 33",
        ),
        (
            json!({"selector": {"matchLabels": labels(33)}}),
            "spec.pods.selector.matchLabels: may have at most 32 items, not 33",
        ),
    ] {
        assert_eq!(error(with_pods(pods)), problem);
    }
    for (field, value, problem) in [
        (
            "thresholds",
            json!({"pending": "5"}),
            r#"spec.thresholds.pending: "5" is not a duration such as 90s, 5m or 1h30m"#,
        ),
        (
            "thresholds",
            json!({"notReady": "-5m"}),
            r#"spec.thresholds.notReady: "-5m" is not a duration such as 90s, 5m or 1h30m"#,
        ),
        (
            "thresholds",
            json!({"terminating": "1d"}),
            r#"spec.thresholds.terminating: "1d" is not a duration such as 90s, 5m or 1h30m"#,
        ),
        (
            "thresholds",
            json!({"initializing": "9999999h"}),
            r#"spec.thresholds.initializing: "9999999h" is longer than a duration can be"#,
        ),
        ("thresholds", json!({"restarted": "169h"}), "spec.thresholds.restarted: must be from 0s to 168h, not 169h"),
        ("logs", json!({"tailLines": 1001}), "spec.logs.tailLines: must be from 1 to 1000, not 1001"),
        ("logs", json!({"tailLines": -1}), "spec.logs.tailLines: must be from 1 to 1000, not -1"),
        ("logs", json!({"maxBytes": 255}), "spec.logs.maxBytes: must be from 256 to 65536, not 255"),
        ("logs", json!({"maxBytes": 65537}), "spec.logs.maxBytes: must be from 256 to 65536, not 65537"),
        ("logs", json!({"redactPatterns": many(17)}), "spec.logs.redactPatterns: may have at most 16 items, not 17"),
        (
            "logs",
            json!({"redactPatterns": ["a".repeat(257)]}),
            "spec.logs.redactPatterns[0]: may have at most 256 characters, not 257",
        ),
        (
            "logs",
            json!({"redactPatterns": ["a", "(b"]}),
            "spec.logs.redactPatterns[1]: is not a regular expression: unclosed group",
        ),
        (
            "logs",
            json!({"redactPatterns": [r"(\w{50}){50}"]}),
            "spec.logs.redactPatterns[0]: is too large once compiled",
        ),
        ("logs", json!({"redactPatterns": ["x*"]}), "spec.logs.redactPatterns[0]: matches the empty text"),
        ("logs", json!({"redactPatterns": [r"\b"]}), "spec.logs.redactPatterns[0]: matches the empty text"),
        ("report", json!({"maxPods": 0}), "spec.report.maxPods: must be from 1 to 500, not 0"),
        ("report", json!({"maxPods": 501}), "spec.report.maxPods: must be from 1 to 500, not 501"),
    ] {
        assert_eq!(error(json!({"alerts": {"checkRunningPods": true}, field: value})), problem);
    }
}

#[test]
fn reports_selected_namespaces_that_are_not_watched() {
    let watched = ["bank", "shop"];
    for (pods, named) in [
        (json!({}), None),
        (json!({"namespaces": ["s*", "team-?"]}), None),
        (json!({"namespaces": ["{bank,shop}"]}), None),
        (json!({"namespaces": ["shop", "ml"], "excludeNamespaces": ["m*"]}), None),
        (json!({"namespaces": ["shop", "ml"]}), Some("the namespace ml is not watched")),
        (json!({"namespaces": ["{shop,ml}"]}), Some("the namespace ml is not watched")),
        (json!({"namespaces": ["ml"]}), Some("no namespace that is watched")),
        (json!({"namespaces": ["team-*"]}), Some("no namespace that is watched")),
        (json!({"excludeNamespaces": ["bank", "shop"]}), Some("no namespace that is watched")),
    ] {
        let case = pods.to_string();
        let outside = settings(with_pods(pods)).unwrap().scope.outside(&watched);
        assert_eq!(outside.is_some(), named.is_some(), "{case}: {outside:?}");
        let names =
            |text: &str| text.contains(named.unwrap_or_default()) && text.ends_with("--namespaces is bank,shop");
        assert!(outside.is_none_or(|text| names(&text)), "{case}");
    }
}

#[test]
fn a_scope_selects_by_namespace_and_labels() {
    let labels = |labels: &[(&str, &str)]| {
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
    };
    let cart = labels(&[("app", "cart"), ("tier", "web")]);
    let bare = labels(&[]);
    for (pods, namespace, labels, selected) in [
        (json!({"namespaces": ["shop", "team-*"]}), "shop", &bare, true),
        (json!({"namespaces": ["shop", "team-*"]}), "team-a", &bare, true),
        (json!({"namespaces": ["shop", "team-*"]}), "bank", &bare, false),
        (json!({"excludeNamespaces": ["kube-*"]}), "kube-system", &bare, false),
        (json!({"excludeNamespaces": ["kube-*"]}), "shop", &bare, true),
        (json!({"namespaces": ["*"], "excludeNamespaces": ["shop"]}), "shop", &bare, false),
        (json!({"selector": {"matchLabels": {"app": "cart"}}}), "shop", &cart, true),
        (json!({"selector": {"matchLabels": {"app": "cart"}}}), "shop", &bare, false),
        (json!({"selector": {"matchLabels": {"app": "cart", "tier": "db"}}}), "shop", &cart, false),
        (json!({"selector": {"matchLabels": {"app": "cart"}}, "namespaces": ["bank"]}), "shop", &cart, false),
    ] {
        let case = format!("{pods} {namespace} {labels:?}");
        assert_eq!(settings(with_pods(pods)).unwrap().scope.selects(namespace, labels), selected, "{case}");
    }
    for (operator, values, of_cart, of_none) in [
        ("In", json!(["cart", "till"]), true, false),
        ("In", json!(["till"]), false, false),
        ("NotIn", json!(["cart"]), false, true),
        ("NotIn", json!(["till"]), true, true),
        ("Exists", json!(null), true, false),
        ("DoesNotExist", json!([]), false, true),
    ] {
        let expression = json!({"key": "app", "operator": operator, "values": values});
        let scope = settings(with_pods(json!({"selector": {"matchExpressions": [expression]}}))).unwrap().scope;
        assert_eq!(scope.selects("shop", &cart), of_cart, "{expression}");
        assert_eq!(scope.selects("shop", &bare), of_none, "{expression}");
    }
}

#[test]
fn warns_of_unknown_reasons_and_treats_synonyms_as_one() {
    let with = |reasons: serde_json::Value| {
        settings(json!({"alerts": {"checkRunningPods": true}, "pods": {"ignoreReasons": reasons}})).unwrap()
    };
    let settings = with(json!(["Evicted", "Image", "ErrImagePull", "CrashLoopBackof"]));
    assert_eq!(
        settings.warnings,
        [r#"spec.pods.ignoreReasons: "CrashLoopBackof" is not a known kind or reason; is it CrashLoopBackOff?"#]
    );
    assert!(settings.ignores(ProblemKind::Start, "Evicted") && settings.ignores(ProblemKind::Image, "Any"));
    assert!(!settings.ignores(ProblemKind::Crash, "OOMKilled"));
    let pull = with(json!(["ErrImagePull"]));
    assert!(pull.ignores(ProblemKind::Image, "ImagePullBackOff") && pull.warnings.is_empty());
}

#[test]
fn names_the_unknown_reasons_of_every_list() {
    let spec = json!({
        "alerts": {"checkRunningPods": true}, "pods": {"ignoreReasons": ["Evicted"]},
        "webhooks": [
            {"name": "a", "format": "Slack", "urlFrom": {"secretKeyRef": {"name": "a", "key": "url"}},
             "match": {"reasons": ["OOMkilled", "Bananas", "Image", "InvalidSpec"]}},
        ],
        "silences": [{"name": "s", "until": "2026-12-01T08:00:00Z", "match": {"reasons": ["crash"]}}],
        "quietHours": [{"name": "q", "start": "22:00", "end": "07:00", "timeZone": "UTC",
                        "match": {"reasons": ["Nope", "Nowhere", "Evicted"]}}],
    });
    assert_eq!(
        settings(spec).unwrap().warnings,
        [
            r#"spec.webhooks[0].match.reasons: "OOMkilled" is not a known kind or reason; is it OOMKilled?"#,
            r#"spec.webhooks[0].match.reasons: "Bananas" is not a known kind or reason"#,
            r#"spec.silences[0].match.reasons: "crash" is not a known kind or reason; is it Crash? (2 more are not)"#,
        ]
    );
}

#[test]
fn a_wrong_part_disables_only_itself() {
    let webhook = |name: &str, wanted: Value| json!({"name": name, "format": "Slack", "urlFrom": {"secretKeyRef": {"name": "a", "key": "url"}}, "match": wanted});
    let quiet = |name: &str, zone: &str| json!({"name": name, "start": "00:00", "end": "24:00", "timeZone": zone});
    let silence = |name: &str, until: &str| json!({"name": name, "until": until, "match": {"namespaces": ["shop"]}});
    let spec = json!({
        "alerts": {"checkRunningPods": true},
        "pods": {"namespaces": ["shop"], "ignoreReasons": ["Evicted", "x".repeat(129)]},
        "thresholds": {"pending": "soon", "notReady": "5m"},
        "report": {"maxPods": 501},
        "logs": {"maxBytes": 1, "tailLines": 7},
        "links": [{"name": "a", "url": "https://{namespace}"}, {"name": "b", "url": "https://logs.example/{pod}"}],
        "webhooks": [webhook("a", json!({"namespaces": ["[z-a]"]})), webhook("b", json!({})), webhook("b", json!({}))],
        "silences": [silence("never", "tomorrow"), silence("now", "2999-01-01T00:00:00Z")],
        "quietHours": [quiet("berlin", "Europe/Berln"), quiet("utc", "UTC")],
    });
    let settings = settings(spec).unwrap();
    let wrong: Vec<String> = settings.wrong.iter().map(ToString::to_string).collect();
    let fields: Vec<&str> = wrong.iter().map(|error| error.split_once(": ").unwrap().0).collect();
    assert_eq!(
        fields,
        [
            "spec.thresholds.pending",
            "spec.pods.ignoreReasons[1]",
            "spec.logs.maxBytes",
            "spec.report.maxPods",
            "spec.links[0].url",
            "spec.webhooks[0].match.namespaces[0]",
            "spec.webhooks[2].name",
            "spec.silences[0].until",
            "spec.quietHours[0].timeZone",
        ]
    );
    let text = settings.wrong_parts().unwrap();
    assert!(text.starts_with(&wrong[0]) && text.ends_with("; 6 more; the rest of the spec is in force"), "{text}");

    assert!(settings.enabled && settings.scope.selects_namespace("shop") && !settings.scope.selects_namespace("ml"));
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    assert_eq!((settings.thresholds.pending, settings.thresholds.not_ready), (minutes(1), minutes(5)));
    assert_eq!((settings.max_pods, settings.ignore_reasons.len()), (50, 1));
    let logs = settings.logs.unwrap();
    assert_eq!((logs.tail_lines, logs.max_bytes), (7, 4096));
    let usable: Vec<_> =
        settings.webhooks.iter().map(|own| (own.policy.name.as_str(), own.endpoint.wrong.is_none())).collect();
    assert_eq!(usable, [("a", false), ("b", true)]);
    assert_eq!(settings.webhooks[1].policy.links.len(), 1);
    assert_eq!(format!("{:?}", settings.mute_rules).matches("name: ").count(), 2, "{:?}", settings.mute_rules);
}

#[test]
fn a_wrong_pattern_withholds_all_texts() {
    for patterns in [json!(["acct-[0-9]+", "(b"]), json!(["x".repeat(257)]), json!(vec!["x"; 17])] {
        let settings =
            settings(json!({"alerts": {"checkRunningPods": true}, "logs": {"redactPatterns": patterns}})).unwrap();
        assert_eq!(settings.wrong.len(), 1, "{patterns}");
        let masking = crate::logs::Masking::immediate(settings.logs.as_deref());
        assert_eq!(crate::logs::clean_text("password=hunter2 of acct-7", Some(&masking), 100), crate::logs::MASK);
    }
}

#[test]
fn nothing_is_checked_if_the_selection_is_wrong() {
    for pods in [
        json!({"namespaces": ["[ab"]}),
        json!({"excludeNamespaces": ["[ab"]}),
        json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}),
    ] {
        assert!(settings(with_pods(pods)).is_err());
    }
}

#[test]
fn validates_silences_and_quiet_hours() {
    let spec = |changes: Value| {
        let mut spec = json!({"alerts": {"checkRunningPods": true}});
        spec.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        spec
    };
    let silence = json!({"name": "old", "until": "2020-01-01T00:00:00Z", "match": {"owners": ["cart-*"]}});
    let warnings = settings(spec(json!({"silences": [silence]}))).unwrap().warnings;
    assert_eq!(warnings, ["spec.silences and spec.quietHours have no effect without webhooks"]);
    let nights = json!({"name": "nights", "start": "22:00", "end": "07:00", "timeZone": "Mars/Olympus"});
    assert_eq!(
        error(spec(json!({"quietHours": [nights]}))),
        r#"spec.quietHours[0].timeZone: "Mars/Olympus" is not a time zone of the IANA database, such as Europe/Berlin"#
    );
}
