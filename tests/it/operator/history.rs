//! The history of incidents.

use orchestr::api::{Cause, EndedIncident, OrchestrStatus};
use serde_json::json;

use crate::{
    command::{ends, orchestr},
    pod_statuses::{ago, crash_looping, healthy},
    test_env::{TestEnv, watch_with},
};

/// The owner of each entry, and whether its end is exact; by name, because two may have ended in the same second.
fn entries(status: &OrchestrStatus) -> Vec<(&str, bool)> {
    let mut entries: Vec<_> =
        status.history.iter().map(|entry| (entry.owner.name.as_str(), entry.last_seen.is_none())).collect();
    entries.sort_unstable();
    entries
}

fn entry<'a>(status: &'a OrchestrStatus, owner: &str) -> &'a EndedIncident {
    status.history.iter().find(|entry| entry.owner.name == owner).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_incident_is_kept_over_a_restart() {
    let env = TestEnv::new("history").await;
    let namespace = env.namespace.as_str();
    for name in ["cart", "web", "pay", "old"] {
        env.pod(name, crash_looping(3)).await;
    }
    // One of two pods with the same owner is excluded from the beginning.
    for (name, annotations) in [("db-0", json!({"kopf.dev/ignore": "true"})), ("db-1", json!({}))] {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "d", "controller": true});
        let metadata = json!({"annotations": annotations, "ownerReferences": [owner]});
        env.pod_with(name, json!({"metadata": metadata}), crash_looping(3)).await;
    }
    env.object("mine", watch_with(json!({"pods": {"namespaces": [namespace]}}))).await;
    let operator = env.operator().start();
    env.wait_for_status("mine", "five pods crash", |status| status.incidents.len() == 5).await;
    env.set_status("db-1", healthy()).await;
    let status = env.wait_for_status("mine", "db-1 is fine", |status| status.incidents.len() == 4).await;
    assert_eq!((entries(&status), status.ignored_pods), (vec![("db", true)], 1), "db-0 was never part of it");
    env.set_status("cart", healthy()).await;
    let status = env.wait_for_status("mine", "cart is fine", |status| status.incidents.len() == 3).await;
    assert_eq!(
        (entries(&status), status.unwatched.len()),
        (vec![("cart", true), ("db", true)], 0),
        "in the same write"
    );
    let cart = entry(&status, "cart");
    assert_eq!((&*cart.reason, cart.pods, cart.cause), ("OOMKilled", 1, Cause::OutOfMemory));
    assert!(cart.began < cart.ended && cart.message.contains("OOM"), "{cart:?}");
    // A pod that an annotation excludes has not recovered.
    env.patch_pod("old", json!({"metadata": {"annotations": {"kopf.dev/ignore": "true"}}})).await;
    let status = env.wait_for_status("mine", "old is ignored", |status| status.ignored_pods == 2).await;
    assert_eq!((entries(&status).len(), status.incidents.len()), (2, 2));
    operator.stop().await;

    // The operator was last running an hour ago, and a newer version of it wrote an entry.
    env.set_status("web", healthy()).await;
    let newer = json!({
        "key": "5f0c2a915f0c2a91", "kind": "Newer", "namespace": namespace, "owner": {"kind": "Deployment", "name": "newer"},
        "reason": "Newer", "cause": "Newer", "pods": 3, "began": ago(9_000), "ended": ago(8_000),
    });
    let stopped = ago(3_600);
    let history = json!([entry(&status, "cart"), newer]);
    let patch = json!({"status": {"lastCheckTime": stopped, "history": history, "historySince": ago(9_999)}});
    let params = kube::api::PatchParams::default();
    env.raw_objects().patch_status("mine", &params, &kube::api::Patch::Merge(&patch)).await.unwrap();
    let operator = env.operator().start();
    let status = env.wait_for_status("mine", "web is fine", |status| status.incidents.len() == 1).await;
    assert_eq!(entries(&status), [("cart", true), ("newer", true), ("web", false)]);
    let stopped: jiff::Timestamp = stopped.parse().unwrap();
    let web = entry(&status, "web");
    // The time in the patch is before the pod began to crash.
    assert!(web.last_seen.as_ref().is_some_and(|seen| seen.0 == stopped.max(web.began.0)), "{web:?}");
    assert_eq!(entry(&status, "newer").cause, Cause::Unknown);
    let span = &status.unwatched[0];
    assert_eq!((status.unwatched.len(), span.from.0, span.reason.as_str()), (1, stopped, "NotRunning"));
    assert!(span.until.as_ref().is_some_and(|until| until.0 <= web.ended.0), "{span:?}");

    // Neither another selection nor a pause ends an incident.
    let nobody = json!({"spec": {"pods": {"selector": {"matchLabels": {"app": "nobody"}}}}});
    env.patch_object("mine", nobody).await;
    let status =
        env.wait_for_status("mine", "nothing is selected", |status| status.observed_generation == Some(2)).await;
    assert_eq!((entries(&status).len(), status.incidents.len()), (3, 0));
    env.patch_object("mine", json!({"spec": {"pods": {"selector": null}}})).await;
    env.wait_for_status("mine", "pay crashes", |status| status.incidents.len() == 1).await;
    env.patch_object("mine", json!({"spec": {"alerts": {"checkRunningPods": false}}})).await;
    let status = env.wait_for_ready("mine", "Paused").await;
    assert_eq!((entries(&status).len(), status.unwatched.len()), (3, 2));
    let span = &status.unwatched[0];
    assert_eq!((span.reason.as_str(), &span.until, span.spec_changed), ("Paused", &None, true));
    operator.stop().await;

    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    let name = format!("{namespace}/mine");
    let (code, out, err) = ends(&mut orchestr(&["show", &name, "--history", "--kubeconfig", kubeconfig]));
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with(&format!("{name}: 3 incidents ended since ")), "{out}");
    for part in [&format!("{namespace}/web"), "OutOfMemory", "not watched", "NotRunning", "Paused"] {
        assert!(out.contains(part), "{part} is missing from:\n{out}");
    }
    let (code, _, err) =
        ends(&mut orchestr(&["show", &format!("{namespace}/other"), "--history", "--kubeconfig", kubeconfig]));
    assert!(code == 2 && err.contains("not found"), "{err}");
}
