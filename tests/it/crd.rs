//! The schema, as a real API server enforces it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{DeserializeGuard, Request},
};
use orchestr::{
    api::{Orchestr, crd},
    settings::Settings,
    spec_error::SpecError,
};
use orchestr_testbed::{Options, eventually, shared};
use regex::{Captures, Regex};
use serde_json::{Value, json};

use crate::{
    chart::guide::{script, workspace},
    docs::pages::Page,
    support::{TIMEOUT, install_crd},
    test_env::Plane,
};

/// The finalizer of the tutorial's operator, which was built with Kopf. Only that operator would remove it.
const KOPF_FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

fn object(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": Orchestr::api_version(&()),
        "kind": Orchestr::kind(&()),
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// Creates an object as `kubectl apply` and `kubectl create` do, which reject fields that are not in the schema.
async fn create(client: &Client, namespace: &str, object: &Value) -> Result<Value, String> {
    let path = Orchestr::url_path(&(), Some(namespace));
    let mut request = Request::new(path).create(&PostParams::default(), object.to_string().into_bytes()).unwrap();
    *request.uri_mut() = format!("{}&fieldValidation=Strict", request.uri()).parse().unwrap();
    match client.request(request).await {
        Ok(object) => Ok(object),
        Err(kube::Error::Api(status)) => Err(status.message),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn rejects_invalid_specs_with_a_sentence() {
    let plane = shared().await;
    install_crd(plane).await;
    let client = plane.admin().unwrap();
    let namespace = plane.namespace("crd-bad").await.unwrap();
    let mut wrong = vec![];
    for (spec, problem) in refused() {
        match create(&client, &namespace, &object("bad", spec.clone())).await {
            Ok(_) => wrong.push(format!("{spec} is accepted")),
            Err(message) if !message.contains(&problem) => wrong.push(format!("{spec}\n  {message}\n  not {problem}")),
            Err(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn refused() -> Vec<(Value, String)> {
    let part = |word: &str, part: Value| match word {
        "spec" => part,
        "labels" => json!({"pods": {"selector": part}}),
        "requirement" => json!({"pods": {"selector": {"matchExpressions": [part]}}}),
        "webhook" => json!({"webhooks": [webhook(part)]}),
        "silence" => silence(part),
        "quietHours" => quiet_hours(part),
        other => json!({other: part}),
    };
    let lines =
        include_str!("../fixtures/refused-specs.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines: Vec<_> = lines.collect();
    let of_file = lines.chunks(2).map(|pair| {
        let (word, json) = pair[0].split_once(' ').unwrap();
        let json = Regex::new(r"<(\w)\*(\d+)>")
            .unwrap()
            .replace_all(json, |found: &Captures<'_>| found[1].repeat(found[2].parse().unwrap()));
        let json = Regex::new(r"<many (\d+)>")
            .unwrap()
            .replace_all(&json, |found: &Captures<'_>| json!(many(found[1].parse().unwrap())).to_string());
        (part(word, serde_json::from_str(&json).unwrap()), pair[1].trim().to_owned())
    });
    let too_many = [
        (
            json!({"webhooks": [webhook(json!({})), webhook(json!({}))]}),
            r#"spec.webhooks[1]: Duplicate value: {"name":"ops"}"#,
        ),
        (json!({"webhooks": webhooks(11)}), "spec.webhooks: Too many: 11: must have at most 10 items"),
        (json!({"silences": silences(21)}), "spec.silences: Too many: 21: must have at most 20 items"),
        (json!({"links": links(6)}), "spec.links: Too many: 6: must have at most 5 items"),
    ];
    of_file.chain(too_many.map(|(spec, problem)| (spec, problem.to_owned()))).collect()
}

fn changed(mut object: Value, changes: &Value) -> Value {
    object.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    object
}

fn silence(changes: Value) -> Value {
    let silence = json!({"name": "migration", "until": "2026-12-01T08:00:00Z", "match": {"namespaces": ["shop"]}});
    json!({"silences": [changed(silence, &changes)]})
}

/// The largest valid ones.
fn silences(count: usize) -> Vec<Value> {
    let owners: Vec<_> = (10..26).map(|number| format!("{number}{}*", "a".repeat(250))).collect();
    let matches = json!({"namespaces": many(16), "reasons": many(16), "owners": owners});
    let silence = |name: String| {
        json!({"name": name, "from": "2026-12-01T08:00:00+01:00", "until": "2026-12-01T07:00:00.5Z", "match": matches,
               "comment": "x".repeat(256)})
    };
    many(count).into_iter().map(silence).collect()
}

fn quiet_hours(changes: Value) -> Value {
    let hours = json!({"name": "nights", "start": "22:00", "end": "07:00", "timeZone": "Europe/Berlin"});
    json!({"quietHours": [changed(hours, &changes)]})
}

fn links(count: usize) -> Vec<Value> {
    let url = |name: &str| format!("https://a.example/{name}/{{namespace}}/{{owner}}{}", "x".repeat(200));
    many(count).into_iter().map(|name| json!({"name": name, "url": url(&name)})).collect()
}

fn many(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("x{number}")).collect()
}

fn webhook(changes: Value) -> Value {
    let mut webhook = json!({
        "name": "ops", "format": "Slack", "urlFrom": {"secretKeyRef": {"name": "ops-webhook", "key": "url"}}
    });
    webhook.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    webhook
}

fn webhooks(count: usize) -> Vec<Value> {
    many(count).into_iter().map(|name| webhook(json!({"name": name}))).collect()
}

/// Includes the largest valid spec, to keep the cost of the CEL rules within the API server's budget.
#[tokio::test]
async fn accepts_valid_specs_unchanged() {
    let plane = shared().await;
    install_crd(plane).await;
    let client = plane.admin().unwrap();
    let namespace = plane.namespace("crd-good").await.unwrap();
    let patterns: Vec<_> = (10..74).map(|number| format!("{{{},[!a-z0-9]}}-{number}*?", "a".repeat(200))).collect();
    let labels: serde_json::Map<_, _> =
        (10..42).map(|number| (format!("{}/x{number}", "a".repeat(253)), json!("v".repeat(63)))).collect();
    let requirement = |number: usize| json!({"key": format!("x{number}"), "operator": "In", "values": many(64)});
    let severities = ["info", "warning", "critical"];
    let matches = json!({"namespaces": patterns, "reasons": many(64), "teams": many(64), "severities": severities});
    let mentions = json!(["@here", "@channel", "U012AB3CD", "W012AB3CD", "S0614TZR7"]);
    for (name, spec) in [
        ("three-lines", json!({"alerts": {"checkRunningPods": true}})),
        ("paused", json!({"alerts": {"checkRunningPods": false}})),
        // The operator rejects this one, in the condition Ready.
        ("no-spec", json!(null)),
        ("empty", json!({})),
        ("nothing-of-alerts", json!({"alerts": {}})),
        // An empty value in a template.
        (
            "nulls",
            json!({
                "alerts": {"checkRunningPods": true},
                "pods": {"namespaces": null, "excludeNamespaces": null, "selector": null, "ignoreReasons": null},
                "thresholds": {"pending": null}, "logs": {"tailLines": null, "redactPatterns": null}, "report": null,
                "links": null, "webhooks": null,
                "silences": null,
                "quietHours": [{"name": "nights", "days": null, "start": "22:00", "end": "07:00", "match": null,
                                "timeZone": "Europe/Berlin"}],
            }),
        ),
        (
            "empty-lists",
            json!({"alerts": {"checkRunningPods": true}, "webhooks": [],
                   "pods": {"namespaces": [], "selector": {"matchLabels": {}, "matchExpressions": []}}}),
        ),
        (
            "durations",
            json!({"alerts": {"checkRunningPods": true},
                   "thresholds": {"pending": "0", "initializing": "1h30m", "notReady": "1.5h", "terminating": ".5s",
                                  "restarted": "168h"}}),
        ),
        (
            "largest",
            json!({
                "alerts": {"checkRunningPods": true},
                "pods": {
                    "namespaces": patterns, "excludeNamespaces": patterns, "ignoreReasons": many(64),
                    "selector": {"matchLabels": labels, "matchExpressions": (0..32).map(requirement).collect::<Vec<_>>()},
                },
                "logs": {"tailLines": 1000, "maxBytes": 65536,
                         "redactPatterns": (10..26).map(|number| format!("{number}{}", "(a|b)?".repeat(42))).collect::<Vec<_>>()},
                "report": {"maxPods": 500},
                "links": links(5),
                "webhooks": webhooks(10).into_iter().map(|mut webhook| {
                    webhook["match"] = matches.clone();
                    webhook["mentions"] = json!({"critical": mentions, "warning": mentions, "info": mentions});
                    webhook["timeout"] = json!("60s");
                    webhook["repeatEvery"] = json!("1m");
                    webhook
                }).collect::<Vec<_>>(),
                "silences": silences(20),
                "quietHours": many(7).into_iter().map(|name| json!({
                    "name": name, "days": ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"], "start": "00:00",
                    "end": "24:00", "timeZone": "America/Argentina/ComodRivadavia", "match": silences(1)[0]["match"],
                })).collect::<Vec<_>>(),
            }),
        ),
    ] {
        let created = create(&client, &namespace, &object(name, spec.clone())).await.unwrap();
        let expected = if spec.is_null() { json!({}) } else { spec.clone() };
        assert_eq!(created["spec"], expected, "{name}: nothing else is added");
        let read = Api::<Orchestr>::namespaced(client.clone(), &namespace).get(name).await.unwrap();
        match Settings::new(&read.spec) {
            Ok(settings) => assert!(settings.wrong.is_empty(), "{name}: {:?}", settings.wrong),
            Err(error) => {
                assert!(error == SpecError::AlertsNotSet && spec["alerts"]["checkRunningPods"].is_null(), "{error}")
            }
        }
    }
}

#[tokio::test]
async fn accepts_every_sample() {
    let plane = shared().await;
    install_crd(plane).await;
    let client = plane.admin().unwrap();
    let namespace = plane.namespace("samples").await.unwrap();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/samples");
    let mut names = std::collections::BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# "), "{} begins with the wish it grants", path.display());
        let mut sample: Value = serde_yaml::from_str(&text).unwrap();
        let spec = serde_json::from_value(sample["spec"].clone()).unwrap();
        let settings = Settings::new(&spec).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mistakes = (&settings.wrong, &settings.warnings);
        assert!(mistakes.0.is_empty() && mistakes.1.is_empty(), "{}: {mistakes:?}", path.display());
        sample["metadata"]["namespace"] = json!(namespace);
        create(&client, &namespace, &sample).await.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(names.insert(sample["metadata"]["name"].to_string()), "{} has a name of its own", path.display());
    }
    assert!(names.len() >= 10, "{folder} holds {names:?}");
}

#[tokio::test]
async fn kubectl_columns_show_the_problem() {
    let plane = shared().await;
    install_crd(plane).await;
    let client = plane.admin().unwrap();
    let namespace = plane.namespace("crd-columns").await.unwrap();
    for name in ["new", "reported"] {
        create(&client, &namespace, &object(name, json!({"alerts": {"checkRunningPods": true}}))).await.unwrap();
    }
    let condition = |kind: &str, status: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": "Any", "message": message,
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let status = json!({"status": {
        "watchedPods": 1284,
        "problematicPodCount": 3,
        "topReason": "OOMKilled",
        "topCause": "OutOfMemory",
        "incidents": [
            {"key": "5f0c2a91", "namespace": "shop", "owner": {"kind": "Deployment", "name": "cart"}, "container": "app",
             "reason": "OOMKilled", "pods": 3, "since": "2026-01-01T00:00:00Z"},
            {"key": "5f0c2a92", "namespace": "ml", "owner": {"kind": "Job", "name": "train"}, "reason": "Unschedulable",
             "pods": 1, "since": "2026-01-01T00:00:00Z"},
        ],
        "conditions": [
            condition("Ready", "True", "ready"),
            condition("PodsHealthy", "False", "3 of 1284 pods: 3 OOMKilled (shop/cart)"),
            condition("AlertsDelivered", "Unknown", "delivered"),
        ],
    }});
    let api = Api::<Orchestr>::namespaced(client, &namespace);
    api.patch_status("reported", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();

    let table = plane.table(&Orchestr::url_path(&(), Some(&namespace))).await.unwrap();
    let columns: Vec<_> = table.columns.iter().map(String::as_str).zip(table.priorities.iter().copied()).collect();
    assert_eq!(
        columns,
        [
            ("Name", 0),
            ("Checking", 0),
            ("Pods", 0),
            ("Problems", 0),
            ("Top", 0),
            ("Ready", 0),
            ("Checked", 0),
            ("Age", 0),
            ("Message", 1),
            ("Cause", 1),
            ("Delivered", 1)
        ]
    );
    let without_age = |name: &str| {
        let mut cells = table.row(&namespace, name).unwrap().cells.clone();
        cells.remove(7);
        cells
    };
    assert_eq!(
        without_age("reported"),
        [
            "reported",
            "true",
            "1284",
            "3",
            "OOMKilled",
            "True",
            "<none>",
            "3 of 1284 pods: 3 OOMKilled (shop/cart)",
            "OutOfMemory",
            "Unknown"
        ]
    );
    let none = "<none>";
    assert_eq!(without_age("new"), ["new", "true", none, none, none, none, none, none, none, none]);
}

#[tokio::test]
async fn kubectl_applies_and_explains_the_crd_without_a_warning() {
    let plane = shared().await;
    install_crd(plane).await;
    // Under another name, because the API server prints warnings only for a changed CRD.
    let yaml = crd::yaml().unwrap().replace("kopf.dev", "kubectl.example");
    let yaml = yaml.replace("orchestr", "conductor").replace("Orchestr", "Conductor");
    for outcome in ["created", "unchanged"] {
        let applied = plane.kubectl(&["apply", "-f", "-"], Some(&yaml)).await.unwrap();
        assert_eq!(applied.stderr, "");
        assert!(applied.stdout.contains(outcome), "{}", applied.stdout);
    }
    // The API server publishes a CRD's documentation a moment after it serves the objects.
    eventually("kubectl explains the thresholds", TIMEOUT, async || {
        let explained = plane.kubectl(&["explain", "orchestr.spec.thresholds"], None).await.unwrap();
        let words = explained.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let parts = [
            "KIND: Orchestr VERSION: v1",
            "FIELD: thresholds <Object>",
            "Durations such as 90s, 5m or 1h30m, up to 168h.",
            "notReady <string> A pod is running but not ready. 2m by default.",
        ];
        match parts.iter().find(|part| !words.contains(**part)) {
            None => Ok(()),
            Some(part) => Err(format!("{part:?} is not in {}{}", explained.stdout, explained.stderr)),
        }
    })
    .await
    .unwrap();
}

/// An object of a Kopf operator that was stored under a schema without restrictions, after the CRD was replaced by
/// ours.
#[tokio::test]
async fn reads_and_cleans_objects_of_the_kopf_operator() {
    let plane = Plane::start(Options::default()).await;
    let client = plane.admin().unwrap();
    let namespace = plane.namespace("left").await.unwrap();
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    crds.create(&PostParams::default(), &anything_goes()).await.unwrap();
    let spec = json!({"alerts": {"checkRunningPods": true}});
    let left = [
        // The object as the tutorial's handlers left it.
        ("kopf", json!({"spec": spec, "status": {"create_fn": {"pods": [{"name": "a"}]}, "kopf": {"progress": {}}}})),
        ("no-spec", json!({"status": {"create_fn": "done"}})),
        ("null-spec", json!({"spec": null})),
        ("bad-value", json!({"spec": {"alerts": {"checkRunningPods": true}, "pods": {"namespaces": ["Team"]}}})),
        ("bad-type", json!({"spec": {"alerts": {"checkRunningPods": "yes"}}})),
        ("bad-status", json!({"spec": spec, "status": {"problematicPods": "none"}})),
    ];
    for (name, content) in &left {
        let mut object = object(name, json!({}));
        object.as_object_mut().unwrap().remove("spec");
        object.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
        object["metadata"]["finalizers"] = json!([KOPF_FINALIZER]);
        object["metadata"]["annotations"] = json!({"kopf.zalando.org/last-handled-configuration": "{\"spec\":{}}\n"});
        eventually("the API server serves orchestrs", TIMEOUT, async || create(&client, &namespace, &object).await)
            .await
            .unwrap();
    }

    install_crd(&plane).await;
    let no_object = json!([]);
    eventually("the API server has the new schema", TIMEOUT, async || {
        let answer = create(&client, &namespace, &object("probe", no_object.clone())).await;
        answer.map_or_else(|_| Ok(()), |_| Err("it accepts what the new schema refuses".to_owned()))
    })
    .await
    .unwrap();

    let raw = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &ApiResource::erase::<Orchestr>(&()));
    let read = async |name: &str| raw.get(name).await.unwrap().data;
    // Fields that are not in the schema are dropped, and an absent spec becomes an empty one.
    assert_eq!(read("kopf").await, json!({"spec": spec, "status": {}}));
    assert_eq!(read("no-spec").await, json!({"spec": {}, "status": {}}));
    assert_eq!(read("null-spec").await, json!({"spec": {}}));
    // Fields of the wrong type stay as they are, so the object cannot be decoded.
    let guarded = Api::<DeserializeGuard<Orchestr>>::namespaced(client, &namespace);
    let undecodable: Vec<_> = guarded
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .filter_map(|object| object.0.err())
        .map(|invalid| format!("{}: {}", invalid.metadata.name.unwrap(), invalid.error))
        .collect();
    assert_eq!(
        undecodable,
        [
            "bad-status: Invalid type newtype struct. Expected any valid JSON value",
            r#"bad-type: Invalid type string "yes". Expected a boolean"#,
        ]
    );
    // Server-side apply fails if the stored object violates the schema, so a status with wrong types must be removed
    // first.
    let status = Patch::Apply(json!({
        "apiVersion": Orchestr::api_version(&()), "kind": Orchestr::kind(&()), "status": {"watchedPods": 7}
    }));
    let manager = PatchParams::apply("orchestr").force();
    let error = raw.patch_status("bad-status", &manager, &status).await.unwrap_err().to_string();
    assert!(error.contains(".status.problematicPods: expected list, got"), "{error}");
    let nothing = Patch::Merge(json!({"status": null}));
    raw.patch_status("bad-status", &PatchParams::default(), &nothing).await.unwrap();
    raw.patch_status("bad-status", &manager, &status).await.unwrap();
    assert_eq!(read("bad-status").await["status"], json!({"watchedPods": 7}));

    // What Kopf left can be removed whatever the other fields contain. Other finalizers and annotations stay.
    let ours = Patch::Merge(json!({"metadata": {
        "finalizers": [KOPF_FINALIZER, "example.com/ours"], "annotations": {"team": "shop"},
    }}));
    raw.patch("kopf", &PatchParams::default(), &ours).await.unwrap();
    raw.delete("no-spec", &DeleteParams::default()).await.unwrap();
    assert!(raw.get_opt("no-spec").await.unwrap().is_some(), "it waits for its finalizer");
    let (migration, _) = Page::read("docs/operations.md").section("Migrating from the tutorial's Kopf operator");
    let [commands] = migration.blocks().try_into().unwrap();
    let folder = workspace(&plane, &[]).await;
    let ended = script(folder.path(), &commands.text).await;
    assert!(ended.succeeded, "{}{}", ended.stdout, ended.stderr);
    assert!(raw.get_opt("no-spec").await.unwrap().is_none(), "nothing holds it");
    for (name, _) in left.iter().filter(|(name, _)| *name != "no-spec") {
        let object = raw.get(name).await.unwrap();
        let expected: (&[&str], &[&str]) =
            if *name == "kopf" { (&["example.com/ours"], &["team"]) } else { (&[], &[]) };
        assert_eq!(object.finalizers(), expected.0, "{name}");
        assert!(object.annotations().keys().eq(expected.1), "{name}: {:?}", object.annotations());
    }
}

/// The CRD of the tutorial.
fn anything_goes() -> CustomResourceDefinition {
    let mut crd = crd::crd();
    let version = &mut crd.spec.versions[0];
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    version.schema = Some(serde_json::from_value(schema).unwrap());
    version.subresources = None;
    version.additional_printer_columns = None;
    crd
}
