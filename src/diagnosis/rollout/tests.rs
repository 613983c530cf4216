use serde_json::{Value, json};

use super::*;

fn template(containers: Value) -> Template {
    let object = json!({"metadata": {"uid": "1"}, "spec": {"template": {"spec": {"containers": containers}}}});
    RevisionObject::from_json(object.to_string().as_bytes()).unwrap().template
}

fn of(containers: [Value; 2]) -> Vec<String> {
    let [before, after] = containers.map(template);
    let line = |TemplateChange { subject, detail }: TemplateChange| match detail {
        ChangeDetail::Values { before, after } => format!("{subject}: {before} → {after}"),
        ChangeDetail::Names { added, removed, changed } => {
            let [added, removed, changed] = [added, removed, changed].map(|list| list.names);
            format!("{subject}: +{added:?} -{removed:?} ~{changed:?}")
        }
        other => format!("{subject}: {other:?}"),
    };
    template_changes(&before, &after).changes.into_iter().map(line).collect()
}

/// A container `app` with these fields.
fn app(fields: &Value) -> Value {
    let mut app = json!({"name": "app", "image": "shop/cart:1.4.2"});
    for (key, value) in fields.as_object().unwrap() {
        app[key] = value.clone();
    }
    json!([app])
}

#[test]
fn equal_templates_have_no_changes() {
    let fields = json!({"env": [{"name": "A", "value": "1"}], "livenessProbe": {"exec": {"command": ["true"]}}});
    assert_eq!(of([app(&fields), app(&fields)]), [""; 0]);
    assert_eq!(of([json!([]), Value::Null]), [""; 0]);
}

#[test]
fn compares_images_commands_and_limits_by_value() {
    let before = json!({
        "command": ["/app/srv"], "args": ["serve", "--port=80"], "resources": {"limits": {"memory": "1Gi", "cpu": "1"}},
    });
    let after = json!({
        "image": "shop/cart:1.42", "command": ["/app/server"], "resources": {"limits": {"memory": "512Mi"}},
    });
    assert_eq!(
        of([app(&before), app(&after)]),
        [
            "image of app: shop/cart:1.4.2 → shop/cart:1.42",
            "command of app: /app/srv → /app/server",
            "args of app: serve --port=80 → ",
            "cpu limit of app: 1 → ",
            "memory limit of app: 1Gi → 512Mi",
        ]
    );
}

#[test]
fn compares_environment_variables_by_name_only() {
    let key = |key: &str| json!({"secretKeyRef": {"name": "db", "key": key}});
    let before = json!({
        "env": [{"name": "DB_URL", "value": "postgres://a"}, {"name": "OLD", "value": "hunter2"}, {"name": "SAME"},
            {"name": "KEY", "valueFrom": key("a")}],
        "envFrom": [{"configMapRef": {"name": "base"}}, {"secretRef": {"name": "old"}}],
    });
    let after = json!({
        "env": [{"name": "FEATURE_X", "value": "1"}, {"name": "DB_URL", "value": "hunter2"}, {"name": "SAME"},
            {"name": "KEY", "valueFrom": key("b")}],
        "envFrom": [{"configMapRef": {"name": "base"}, "prefix": "P_"}, {"secretRef": {"name": "new"}}],
    });
    let changes = of([app(&before), app(&after)]);
    assert_eq!(
        changes,
        [
            r#"env of app: +["FEATURE_X"] -["OLD"] ~["DB_URL", "KEY"]"#,
            r#"envFrom of app: +["Secret new"] -["Secret old"] ~["ConfigMap base"]"#,
        ]
    );
    assert!(!format!("{:?}", template(app(&after))).contains("hunter2"), "no value is kept");
}

#[test]
fn compares_probes_field_by_field() {
    let get = |path: &str, delay: u32| json!({"httpGet": {"port": 80, "path": path}, "initialDelaySeconds": delay});
    let exec = |words: &[&str]| json!({"exec": {"command": words}});
    let before = json!({
        "livenessProbe": get("/a", 5), "readinessProbe": get("/ready", 0), "startupProbe": exec(&["check", "-a"]),
    });
    let after = json!({"livenessProbe": get("/b", 9), "startupProbe": exec(&["check", "-b"])});
    assert_eq!(
        of([app(&before), app(&after)]),
        [
            "liveness probe of app: GET :80/a → GET :80/b",
            "initialDelaySeconds of the liveness probe of app: 5 → 9",
            "readiness probe of app: GET :80/ready → ",
            "startup probe of app: Changed",
        ]
    );
    let added = json!({"startupProbe": exec(&["check"])});
    assert_eq!(of([app(&json!({})), app(&added)]), ["startup probe of app:  → exec check"]);
}

#[test]
fn names_containers_that_were_added_or_removed() {
    let [one, two] = ["one", "two"].map(|name| json!({"name": name, "image": "x"}));
    assert_eq!(of([json!([one]), json!([two])]), ["container two: Added", "container one: Removed"]);
    let object = |init: Value| {
        let object = json!({"data": {"spec": {"template": {"spec": {"initContainers": init}}}}});
        RevisionObject::from_json(object.to_string().as_bytes()).unwrap().template
    };
    let changes = template_changes(&object(json!([one])), &object(json!([])));
    assert_eq!((changes.changes.len(), &*changes.changes[0].subject), (1, "init container one"));
}

#[test]
fn bounds_what_is_kept_of_enormous_templates() {
    let long = "x".repeat(3_000);
    let env: Vec<_> = (0..20).map(|number| json!({"name": format!("{long}{number}")})).collect();
    let containers = |args: &str| -> Vec<_> {
        let container =
            |number: usize| json!({"name": format!("{number}{long}"), "args": [format!("{long}{args}")], "env": env});
        (0..20).map(container).collect()
    };
    let mut after = containers("b");
    after[0]["env"] = Value::Null;
    let [before, after] = [containers("a"), after].map(|containers| template(Value::from(containers)));
    let changes = template_changes(&before, &after);
    assert_eq!((changes.changes.len(), changes.more), (CHANGES, 21 - CHANGES));
    assert_eq!(changes.changes[0].detail, ChangeDetail::Changed);
    let ChangeDetail::Names { removed, .. } = &changes.changes[1].detail else { panic!("{changes:?}") };
    assert_eq!((removed.names.len(), removed.more), (NAMES, 20 - NAMES));
    assert!(format!("{changes:?}").len() < 20_000);
}

#[test]
fn reads_replica_sets_and_controller_revisions() {
    let owners = json!([
        {"kind": "Other", "uid": "o", "controller": false}, {"kind": "Deployment", "uid": "d", "controller": true},
    ]);
    let template =
        json!({"template": {"spec": {"containers": [{"name": "app", "image": "a:1"}]}, "$patch": "replace"}});
    let annotations = json!({"deployment.kubernetes.io/revision": "42", "x": "y"});
    let metadata = json!({"uid": "r", "ownerReferences": owners, "annotations": annotations});
    let replica_set = json!({"kind": "ReplicaSet", "metadata": metadata, "spec": template});
    let mut metadata = metadata;
    metadata["annotations"] = Value::Null;
    let revision = json!({"metadata": metadata, "data": {"spec": template}, "revision": 42});
    let [replica_set, revision] =
        [replica_set, revision].map(|object| RevisionObject::from_json(object.to_string().as_bytes()).unwrap());
    assert_eq!(replica_set, revision);
    assert_eq!((&*revision.uid, &*revision.owner_uid, revision.number), ("r", "d", Some(42)));
    assert_eq!(revision.template.containers[0].image, "a:1");
    assert_eq!(RevisionObject::from_json(b"{}"), Ok(RevisionObject::default()));
}

#[test]
fn refuses_objects_of_another_shape_without_quoting_them() {
    for json in [
        "",
        "[]",
        r#"{"spec":"hunter2"}"#,
        r#"{"data":{"spec":{"template":{"spec":{"containers":[{"args":"hunter2"}]}}}}}"#,
        r#"{"spec":{"template":{"spec":{"containers":[{"livenessProbe":{"periodSeconds":"hunter2"}}]}}}}"#,
    ] {
        let error = RevisionObject::from_json(json.as_bytes()).unwrap_err();
        assert!(!error.contains("hunter2"), "{json}: {error}");
    }
    let nulls = r#"{"spec":{"template":{"spec":{"containers":[{"args":null,"env":null,"livenessProbe":null,"resources":{"limits":null}}],"initContainers":null}}}}"#;
    assert!(RevisionObject::from_json(nulls.as_bytes()).is_ok());
}
