//! Invalid specs, and the spec that pauses the object.

use orchestr_testbed::{eventually, kubernetes_minor};
use serde_json::{Value, json};

use crate::support::TIMEOUT;
use crate::{
    pod_statuses::crash_looping,
    test_env::{TestEnv, condition, listed, watch_all, watch_with},
};

#[tokio::test(flavor = "multi_thread")]
async fn reports_missing_alerts_once() {
    let env = TestEnv::new("unset").await;
    env.pod("cart", crash_looping(3)).await;
    let _operator = env.operator().start();
    env.object("cluster", json!({})).await;
    let status = env.wait_for_ready("cluster", "AlertsNotSet").await;
    let problem = "spec.alerts.checkRunningPods must be set";
    assert_eq!(condition(&status, "Ready"), ("False", "AlertsNotSet", problem));
    assert_eq!(condition(&status, "Stalled"), ("True", "AlertsNotSet", problem));
    assert_eq!(condition(&status, "PodsHealthy").0, "Unknown");
    assert_eq!((status.watched_pods, listed(&status)), (0, vec![]));

    let written = env.objects().get("cluster").await.unwrap().metadata.resource_version;
    env.set_status("cart", crash_looping(4)).await;
    env.wait_until_caught_up().await;
    assert_eq!(env.objects().get("cluster").await.unwrap().metadata.resource_version, written);
    let events = env.events("cluster").await;
    let [event] = events.as_slice() else { panic!("{events:#?}") };
    assert_eq!(
        (event.type_.as_deref(), event.reason.as_deref(), event.note.as_deref()),
        (Some("Warning"), Some("AlertsNotSet"), Some(problem))
    );

    env.patch_object("cluster", json!({"spec": watch_all()})).await;
    let status = env.wait_for_ready("cluster", "Watching").await;
    assert_eq!((condition(&status, "Stalled"), listed(&status)), (("", "", ""), vec!["cart"]));

    env.patch_object("cluster", json!({"spec": {"alerts": {"checkRunningPods": null}}})).await;
    let status = env.wait_for_ready("cluster", "AlertsNotSet").await;
    assert_eq!((status.problematic_pod_count, listed(&status)), (0, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_nothing_while_paused() {
    let env = TestEnv::new("paused").await;
    env.pod("cart", crash_looping(3)).await;
    let _operator = env.operator().start();
    env.object("cluster", watch_all()).await;
    env.until("it is reported", |status| status.problematic_pod_count == 1).await;
    env.patch_object("cluster", json!({"spec": {"alerts": {"checkRunningPods": false}}})).await;
    let status = env.wait_for_ready("cluster", "Paused").await;
    assert_eq!(condition(&status, "Ready").0, "False");
    assert_eq!(condition(&status, "PodsHealthy"), ("Unknown", "Paused", "pods are not checked"));
    assert_eq!(condition(&status, "Stalled"), ("", "", ""), "it can make progress any time");
    assert_eq!((status.watched_pods, status.problematic_pod_count, status.omitted_pods), (0, 0, 0));
    assert!(status.problematic_pods.is_empty() && status.incidents.is_empty());

    env.patch_object("cluster", json!({"spec": watch_all()})).await;
    env.until("it is reported again", |status| listed(status) == ["cart"]).await;
}

/// Specs that the schema accepts, or that an older schema accepted. If it is not known which pods they select, nothing is
/// checked; otherwise only the wrong part is not in force.
#[tokio::test(flavor = "multi_thread")]
async fn reports_invalid_specs_that_the_schema_accepts() {
    let env = TestEnv::new("invalid").await;
    env.pod("cart", crash_looping(3)).await;
    let _operator = env.operator().start();
    env.object("good", watch_all()).await;
    env.wait_for_status("good", "it is reported", |status| status.problematic_pod_count == 1).await;

    let accepted: [(Value, &str); 3] = [
        (
            json!({"logs": {"redactPatterns": [r"\pL{1000}"]}}),
            "spec.logs.redactPatterns[0]: is too large once compiled",
        ),
        (
            json!({"pods": {"namespaces": ["[z-a]"]}}),
            r#"spec.pods.namespaces[0]: "[z-a]" contains the range z-a, which is backwards"#,
        ),
        (
            json!({"pods": {"excludeNamespaces": ["{a,b,c,d}{a,b,c,d}{a,b,c,d}{a,b,c,d}"]}}),
            r#"spec.pods.excludeNamespaces[0]: "{a,b,c,d}{a,b,c,d}{a,b,c,d}{a,b,c,d}" expands to more than 64 alternatives"#,
        ),
    ];
    let old: [(Value, &str); 6] = [
        (json!({"logs": {"redactPatterns": ["x", ".*"]}}), "spec.logs.redactPatterns[1]: matches the empty text"),
        (json!({"thresholds": {"pending": "soon"}}), "spec.thresholds.pending: "),
        (json!({"report": {"maxPods": 100_000}}), "spec.report.maxPods: must be from 1 to 500, not 100000"),
        (json!({"pods": {"namespaces": "all"}}), "spec.pods.namespaces: invalid type: "),
        (json!({"alerts": {"checkRunningPods": "yes"}}), "spec.alerts.checkRunningPods: invalid type: "),
        (
            json!({"pods": {"selector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}}),
            "spec.pods.selector.matchExpressions[0].operator: ",
        ),
    ];
    for (index, (spec, _)) in accepted.iter().enumerate() {
        env.object(&format!("accepted-{index}"), watch_with(spec.clone())).await;
    }
    // Kubernetes 1.30 refuses the status of an object whose spec its schema refuses: see docs/install.md.
    let old = if kubernetes_minor() > 30 { &old[..] } else { &[] };
    for (index, (spec, _)) in old.iter().enumerate() {
        env.old_object(&format!("old-{index}"), json!({}), watch_with(spec.clone()), json!(null)).await;
    }
    let accepted = accepted.iter().enumerate().map(|(index, (_, problem))| (format!("accepted-{index}"), *problem));
    for (name, problem) in
        accepted.chain(old.iter().enumerate().map(|(index, (_, problem))| (format!("old-{index}"), *problem)))
    {
        let status = env.wait_for_ready(&name, "InvalidSpec").await;
        let (ready, _, message) = condition(&status, "Ready");
        assert!(ready == "False" && message.starts_with(problem), "{name}: {message}");
        let is_nothing_known = ["spec.pods.", "spec.alerts."].iter().any(|field| problem.starts_with(field));
        if is_nothing_known {
            assert_eq!(condition(&status, "Stalled"), ("True", "InvalidSpec", message), "{name}");
            assert_eq!(condition(&status, "PodsHealthy").0, "Unknown", "{name}");
        } else {
            assert!(message.contains("; the rest of the spec is in force: watching 1 pod"), "{name}: {message}");
            assert_eq!(condition(&status, "Stalled"), ("", "", ""), "{name}");
            assert_eq!((condition(&status, "PodsHealthy").0, listed(&status)), ("False", vec!["cart"]), "{name}");
        }
    }

    // A rule that cannot be evaluated also rejects the status.
    let unwritable = watch_with(json!({"logs": {"redactPatterns": ["("]}}));
    env.old_object("unwritable", json!({}), unwritable, json!(null)).await;
    let event = eventually("an event reports it instead", TIMEOUT, async || {
        env.events("unwritable").await.pop().ok_or_else(|| "no event".to_owned())
    });
    let note = event.await.unwrap().note.unwrap();
    assert!(note.starts_with("spec.logs.redactPatterns[0]: is not a regular expression: "), "{note}");

    env.patch_object("accepted-0", json!({"spec": {"logs": null}})).await;
    let status = env.wait_for_ready("accepted-0", "Watching").await;
    assert_eq!((condition(&status, "Stalled"), listed(&status)), (("", "", ""), vec!["cart"]));
    env.pod("web", crash_looping(1)).await;
    env.wait_for_status("good", "others go on", |status| status.problematic_pod_count == 2).await;
}
