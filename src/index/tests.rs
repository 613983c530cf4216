mod counts;
mod memory;
mod model;

use std::collections::BTreeSet;

use orchestr_testbed::objects::{container, controlled_by, status};
use serde_json::json;

use super::*;
use crate::{api::Owner, pods::DecodeError, settings::Settings};

const LOOKBACK: Duration = Duration::from_secs(600);

fn now() -> Timestamp {
    "2025-11-03T12:00:00Z".parse().unwrap()
}

fn scope(pods: serde_json::Value) -> PodSelection {
    let spec = json!({"alerts": {"checkRunningPods": true}, "pods": pods});
    Settings::new(&serde_json::from_value(spec).unwrap()).unwrap().scope
}

fn pod(uid: u64, namespace: &str, app: &str, ready: bool) -> Box<Pod> {
    let json = json!({
        "metadata": {"uid": uid.to_string(), "namespace": namespace, "name": format!("pod-{uid}"), "labels": {"app": app}},
        "spec": {"nodeName": app},
        "status": {"phase": "Running", "conditions": [{
            "type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": "2025-11-03T11:00:00Z",
        }]},
    });
    Box::new(serde_json::from_value(json).unwrap())
}

fn uid(number: u64) -> Uid {
    Uid::from_text(&number.to_string())
}

fn undecodable(number: u64, namespace: &str) -> UndecodablePod {
    let error: DecodeError = serde_json::from_str::<u8>("").unwrap_err().into();
    UndecodablePod { uid: uid(number), namespace: namespace.to_owned(), name: format!("pod-{number}"), error }
}

fn names(index: &Index, view: ViewId) -> BTreeSet<&str> {
    index.suspects(view).map(|pod| pod.name.as_str()).collect()
}

#[test]
fn counts_pods_and_suspects_of_owners_and_nodes() {
    let web = |number: u64, hash: &str, node: &str, ready: bool| {
        let mut web = pod(number, "shop", "web", ready);
        web.node = node.into();
        web.labels.push(("pod-template-hash".into(), hash.into()));
        let (kind, name) = ("ReplicaSet".to_owned(), format!("web-{hash}"));
        web.controller = Some(Controller { kind: kind.into(), name: name.into(), ..Controller::default() });
        web
    };
    let count = |pods, suspects| PodCount { pods, suspects };
    let mut index = Index::new(LOOKBACK);
    let counts = |index: &Index| {
        let revisions = index.label_sets.revisions_of("shop", "Deployment", "web");
        let revisions: Vec<_> = revisions.iter().map(|own| (own.hash.to_owned(), own.count)).collect();
        (index.pods_of("shop", "Deployment", "web"), revisions, ["a", "b"].map(|node| index.pods_on_node(node)))
    };
    index.apply(web(1, "1", "a", true), now());
    index.apply(web(2, "1", "b", true), now());
    index.apply(web(3, "2", "a", false), now());
    // The same version again, a change that leaves it a suspect, and another pod of the namespace.
    index.apply(web(3, "2", "a", false), now());
    let mut changed = web(3, "2", "a", false);
    changed.statuses = vec![Default::default()];
    index.apply(changed, now());
    index.apply(pod(4, "shop", "web", false), now());
    let (old, new) = (("1".to_owned(), count(2, 0)), ("2".to_owned(), count(1, 1)));
    assert_eq!(counts(&index), (count(3, 1), vec![old.clone(), new], [count(2, 1), count(1, 0)]));

    index.apply(web(3, "2", "a", true), now());
    assert_eq!(counts(&index).1, [old.clone(), ("2".to_owned(), count(1, 0))], "it recovers");
    index.apply(web(3, "1", "a", false), now());
    assert_eq!(counts(&index).1, [("1".to_owned(), count(3, 1))], "its label changes");
    index.remove(uid(3));
    assert_eq!(counts(&index), (count(2, 0), vec![old], [count(1, 0); 2]));
    index.begin_list(None);
    index.end_list(None);
    assert_eq!(counts(&index), (count(0, 0), vec![], [count(0, 0); 2]));
}

#[test]
fn finds_suspects_that_a_view_does_not_show() {
    let mut index = Index::new(LOOKBACK);
    let view = index.add_view(scope(json!({"selector": {"matchLabels": {"app": "web"}}})));
    let named = |name: &str, app: &str, ready| Pod { name: name.into(), ..*pod(1, "shop", app, ready) };
    let job = Controller { kind: "Job".into(), name: "export-29".into(), ..Default::default() };
    let cart = "cart-5d9f7c6b84-x2x7k";
    for (what, pod, expected) in [
        ("it is in view", named(cart, "web", false), &[] as &[&str]),
        (
            "its ReplicaSet has released it",
            named(cart, "debug", false),
            &["Pod cart-5d9f7c6b84-x2x7k", "Deployment cart", "Job cart", "CronJob cart"],
        ),
        ("it is healthy", named(cart, "debug", true), &[]),
        ("an annotation excludes it", Pod { ignored: true, ..named("cart", "web", false) }, &["Pod cart"]),
        (
            "its Job is known",
            Pod { controller: Some(job), ..named("export-29-x2x7k", "debug", false) },
            &["Job export-29", "CronJob export"],
        ),
    ] {
        index.apply(Box::new(pod), now());
        let hidden = index.hidden_suspects(view);
        let mut found = Vec::new();
        for kind in ["Pod", "Deployment", "Job", "CronJob"] {
            for name in [cart, "cart", "car", "export-29", "export", "expo"] {
                let owner = Owner { kind: kind.to_owned(), name: name.to_owned() };
                found.extend(hidden.has("shop", &owner).then(|| format!("{kind} {name}")));
            }
        }
        assert_eq!(found, expected, "{what}");
        assert!(!hidden.has("ml", &Owner { kind: "Pod".to_owned(), name: cart.to_owned() }), "another namespace");
        index.remove(uid(1));
        assert!(!index.hidden_suspects(view).has("shop", &Owner { kind: "Pod".to_owned(), name: cart.to_owned() }));
    }
}

/// The index once compared every suspect with every incident that had ended.
#[test]
fn finds_the_owners_of_many_hidden_suspects_by_name() {
    let mut index = Index::new(LOOKBACK);
    let view = index.add_view(scope(json!({"namespaces": ["shop"], "selector": {"matchLabels": {"app": "web"}}})));
    for number in 0..300 {
        let namespace = if number % 2 == 0 { "shop" } else { "bank" };
        let name = format!("cart{number}-5d9f7c6b84-x2x7k");
        index.apply(Box::new(Pod { name: name.as_str().into(), ..*pod(number, namespace, "debug", false) }), now());
    }
    let hidden = index.hidden_suspects(view);
    for number in 0..300 {
        let owner = Owner { kind: "Deployment".to_owned(), name: format!("cart{number}") };
        assert_eq!(hidden.has("shop", &owner), number % 2 == 0, "cart{number}");
        assert!(!hidden.has("bank", &owner), "the object does not select the namespace");
    }
    let part = Owner { kind: "Deployment".to_owned(), name: "cart".to_owned() };
    assert!(!hidden.has("shop", &part) && !hidden.has("shop", &Owner { name: String::new(), ..part.clone() }));
}

#[test]
fn finds_the_healthy_revisions_before_a_failing_one() {
    let db = |number: u64, hash: &str, created: i64, ready: bool| {
        let mut db = pod(number, "shop", "db", ready);
        db.created = Timestamp::from_second(created).ok();
        db.labels.push(("controller-revision-hash".into(), hash.into()));
        db.labels.push(("statefulset.kubernetes.io/pod-name".into(), number.to_string().into()));
        let (kind, name) = ("StatefulSet".to_owned(), "db".to_owned());
        db.controller = Some(Controller { kind: kind.into(), name: name.into(), ..Controller::default() });
        db
    };
    let mut index = Index::new(LOOKBACK);
    let before = |index: &Index, hash: &str| {
        let before = index.healthy_before("shop", "StatefulSet", "db", hash);
        before.map(|before| (before.hash.to_owned(), before.pods))
    };
    for (number, hash, created, ready) in [
        (1, "one", 100, true),
        (2, "one", 110, true),
        (3, "two", 200, true),
        (4, "two", 210, false),
        (5, "three", 300, false),
    ] {
        index.apply(db(number, hash, created, ready), now());
    }
    assert_eq!(before(&index, "three"), Some(("two".to_owned(), 3)));
    assert_eq!(before(&index, "two"), Some(("one".to_owned(), 2)));
    assert_eq!(before(&index, "one"), None, "the others are younger");
    assert_eq!(before(&index, "four"), None);
    // A pod of the first revision is replaced by a younger one: the revision is as old as before.
    index.apply(db(6, "one", 400, true), now());
    index.remove(uid(1));
    assert_eq!(before(&index, "three"), Some(("two".to_owned(), 3)));
    index.apply(db(3, "two", 200, false), now());
    assert_eq!(before(&index, "three"), Some(("one".to_owned(), 2)), "no pod of the second is healthy");
}

#[test]
fn returns_the_views_that_a_change_affects() {
    let mut index = Index::new(LOOKBACK);
    let all = index.add_view(scope(json!({})));
    assert_eq!(index.apply(pod(1, "shop", "web", true), now()), [], "a healthy pod affects no view");
    assert_eq!(index.apply(pod(2, "shop", "web", false), now()), [all]);
    let shop = index.add_view(scope(json!({"namespaces": ["shop"]})));
    let cart = index.add_view(scope(json!({"selector": {"matchLabels": {"app": "cart"}}})));
    assert_eq!(index.apply(pod(3, "bank", "web", false), now()), [all]);
    assert_eq!([all, shop, cart].map(|view| index.watched(view)), [3, 2, 0]);
    assert_eq!(names(&index, all), BTreeSet::from(["pod-2", "pod-3"]));
    assert_eq!(names(&index, shop), BTreeSet::from(["pod-2"]));

    assert_eq!(index.apply(pod(2, "shop", "web", false), now()), [], "nothing changed");
    let moved = Pod { node: "node-8".into(), ..*pod(2, "shop", "web", false) };
    assert_eq!(index.apply(Box::new(moved), now()), [all, shop], "another field changed");
    assert_eq!(index.apply(pod(2, "shop", "cart", false), now()), [all, shop, cart], "its labels changed");
    assert_eq!([all, shop, cart].map(|view| index.watched(view)), [3, 2, 1]);
    assert_eq!(index.apply(pod(2, "shop", "cart", true), now()), [all, shop, cart], "it recovers");
    assert_eq!(index.remove(uid(1)), [], "a healthy pod goes");
    assert_eq!(index.remove(uid(3)), [all]);
    assert_eq!([all, shop, cart].map(|view| index.watched(view)), [1, 1, 1]);

    index.remove_view(shop);
    assert_eq!(index.add_view(scope(json!({"excludeNamespaces": ["shop"]}))), shop, "its slot is reused");
    assert_eq!(index.watched(shop), 0);
}

#[test]
fn names_the_views_of_a_jobs_failed_pods() {
    let mut index = Index::new(LOOKBACK);
    let [shop, _bank] = ["shop", "bank"].map(|name| index.add_view(scope(json!({"namespaces": [name]}))));
    let metadata = json!({"uid": "1", "ownerReferences": controlled_by("Job", "sums", "j1")});
    let failed = crate::pods::testing::pod("sums-x2x7k", json!({"metadata": metadata, "status": {"phase": "Failed"}}));
    index.apply(Box::new(failed), now());
    let views_of_job = |uid: &str| {
        index.views_of_suspects(|pod| pod.controller.as_ref().is_some_and(|controller| controller.uid == uid))
    };
    assert_eq!(views_of_job("j1"), [shop]);
    assert_eq!(views_of_job("j2"), []);
    let jobs: Vec<_> = index.suspect_jobs().map(|(pod, job)| (pod.name.as_str(), job.name.as_str())).collect();
    assert_eq!(jobs, [("sums-x2x7k", "sums")]);
}

#[test]
fn a_list_removes_missing_pods_of_its_namespace() {
    let mut index = Index::new(LOOKBACK);
    let all = index.add_view(scope(json!({})));
    for (number, namespace) in [(1, "a"), (2, "a"), (3, "b")] {
        index.apply(pod(number, namespace, "web", false), now());
    }
    index.begin_list(Some("a"));
    index.begin_list(Some("b"));
    assert_eq!(index.apply(pod(1, "a", "web", false), now()), []);
    assert_eq!(index.end_list(Some("a")), [all]);
    assert_eq!(names(&index, all), BTreeSet::from(["pod-1", "pod-3"]));
    assert_eq!(index.end_list(Some("b")), [all]);
    assert_eq!(names(&index, all), BTreeSet::from(["pod-1"]));
    assert_eq!(index.end_list(Some("b")), [], "an end without a start has no effect");

    // An interrupted list starts again.
    index.apply(pod(4, "a", "web", true), now());
    index.begin_list(Some("a"));
    index.apply(pod(4, "a", "web", true), now());
    index.begin_list(Some("a"));
    index.apply(pod(1, "a", "web", false), now());
    assert_eq!((index.end_list(Some("a")), index.watched(all)), (vec![], 1));
}

/// A pod whose container was restarted at this time.
fn restarted(uid: u64, finished: &str) -> Box<Pod> {
    let mut pod = pod(uid, "shop", "web", true);
    pod.statuses = serde_json::from_value::<Pod>(json!({"status": {"containerStatuses": [{
        "name": "app", "ready": true, "restartCount": 1, "state": {"running": {"startedAt": finished}},
        "lastState": {"terminated": {"exitCode": 1, "finishedAt": finished}},
    }]}}))
    .unwrap()
    .statuses;
    pod
}

#[test]
fn backfills_older_failures_of_known_pods_only() {
    const OLD: &str = "2025-11-03T11:49:00Z";
    let mut index = Index::new(LOOKBACK);
    let all = index.add_view(scope(json!({})));
    index.begin_list(None);
    for uid in 1..=3 {
        assert_eq!(index.apply(restarted(uid, OLD), now()), []);
    }
    assert_eq!(index.end_list(None), []);
    index.widen(Duration::from_secs(3600));
    index.begin_list(None);
    assert_eq!(index.backfill(restarted(1, OLD), now()), [all]);
    assert_eq!(index.backfill(restarted(1, "2025-11-03T11:50:00Z"), now()), [], "it has details already");
    assert_eq!(index.backfill(pod(2, "shop", "web", true), now()), [], "it has not failed");
    assert_eq!(index.backfill(restarted(4, OLD), now()), [], "it was deleted");
    assert_eq!((index.suspects(all).count(), index.watched(all)), (1, 3));
    // The watch's own list does not contain the first pod.
    index.apply(restarted(2, OLD), now());
    index.apply(pod(3, "shop", "web", true), now());
    assert_eq!(index.end_list(None), [all]);
    assert_eq!((index.suspects(all).count(), index.watched(all)), (1, 2));
}

#[test]
fn keeps_restarts_within_the_lookback() {
    let restarted = |finished: &str| restarted(1, finished);
    let mut index = Index::new(LOOKBACK);
    let all = index.add_view(scope(json!({})));
    assert_eq!(index.apply(restarted("2025-11-03T11:49:00Z"), now()), []);
    assert_eq!(index.apply(restarted("2025-11-03T11:51:00Z"), now()), [all]);
    index.compact(now());
    assert_eq!(index.suspects(all).count(), 1);
    index.compact(now() + Duration::from_secs(60));
    assert_eq!((index.suspects(all).count(), index.watched(all)), (0, 1));
    index.widen(Duration::from_secs(3600));
    assert_eq!(index.apply(restarted("2025-11-03T11:49:00Z"), now()), [all], "once it is listed again");
    index.widen(LOOKBACK);
    assert_eq!(index.restart_lookback(), Duration::from_secs(3600), "the longest threshold decides");
    index.narrow(LOOKBACK);
    index.narrow(Duration::from_secs(3600));
    assert_eq!(index.restart_lookback(), LOOKBACK);
    index.compact(now());
    assert_eq!((index.suspects(all).count(), index.watched(all)), (0, 1), "it has been narrowed");
}

/// A pod of the Deployment `web`, created at this time, whose container failed at its start and then ran.
fn of_deployment(number: u64, created: &str, phase: &str, failed: bool) -> Box<Pod> {
    let last = failed.then(|| json!({"terminated": {"exitCode": 1, "finishedAt": created}}));
    let running = json!({"running": {"startedAt": created}});
    let app = json!({"ready": true, "started": true, "restartCount": 1, "state": running, "lastState": last});
    let changes = json!({
        "metadata": {
            "uid": number.to_string(), "labels": {"pod-template-hash": "1"}, "creationTimestamp": created,
            "ownerReferences": controlled_by("ReplicaSet", "web-1", "r"),
        },
        "status": status(phase, true, created, [container("app", app)]),
    });
    Box::new(crate::pods::testing::pod(&format!("web-1-{number}"), changes))
}

#[test]
fn a_healthy_younger_pod_replaces_a_failed_one() {
    let mut index = Index::new(LOOKBACK);
    let failed = of_deployment(1, "2025-11-03T11:50:00Z", "Failed", false);
    assert!(!index.has_pods_of("shop", "Deployment", "web"));
    let steps = [
        ("the failed pod itself", failed.clone(), now(), false),
        ("an older one", of_deployment(2, "2025-11-03T11:00:00Z", "Running", false), now(), false),
        ("one that has completed", of_deployment(3, "2025-11-03T11:51:00Z", "Succeeded", false), now(), false),
        ("one that failed recently", of_deployment(4, "2025-11-03T11:52:00Z", "Running", true), now(), false),
        ("one of the same second", of_deployment(5, "2025-11-03T11:50:00Z", "Running", false), now(), false),
    ];
    for (what, pod, now, is_replaced) in steps {
        index.apply(pod, now);
        assert_eq!(index.is_replaced(&failed), is_replaced, "{what}");
        assert!(!index.is_replaced(&Pod { namespace: "bank".into(), ..*failed.clone() }));
        assert!(index.has_pods_of("shop", "Deployment", "web"));
        assert!(!index.has_pods_of("shop", "ReplicaSet", "web-1") && !index.has_pods_of("bank", "Deployment", "web"));
    }
    index.compact(now());
    assert!(!index.is_replaced(&failed));
    index.compact(now() + Duration::from_secs(120));
    assert!(index.is_replaced(&failed), "the container of 4 has run for long enough");

    let mut fresh = Index::new(LOOKBACK);
    fresh.apply(failed.clone(), now());
    fresh.apply(of_deployment(6, "2025-11-03T11:59:00Z", "Running", false), now());
    assert!(fresh.is_replaced(&failed));
}

#[test]
fn a_pod_remains_until_its_deletion_begins() {
    let mut index = Index::new(LOOKBACK);
    assert!(!index.remains(uid(1)), "unknown");
    for ready in [true, false] {
        index.apply(pod(1, "shop", "web", ready), now());
        assert!(index.remains(uid(1)), "ready: {ready}");
    }
    let deleted = Pod { deletion: Some(now()), ..*pod(1, "shop", "web", false) };
    index.apply(Box::new(deleted), now());
    assert!(!index.remains(uid(1)), "being deleted");
    index.apply(pod(2, "shop", "web", false), now());
    index.remove(uid(2));
    assert!(!index.remains(uid(2)), "removed");
}

#[test]
fn selects_among_many_label_sets() {
    let mut index = Index::new(LOOKBACK);
    let odd = |number: u64| if number % 2 == 1 { "odd" } else { "even" };
    let of_parity = json!({"selector": {"matchLabels": {"parity": "odd"}}});
    let before = index.add_view(scope(of_parity.clone()));
    for number in 0..200_u64 {
        let mut pod = pod(number, "shop", &format!("app-{number}"), false);
        pod.labels.push(("parity".into(), odd(number).into()));
        assert_eq!(index.apply(pod, now()).len(), usize::try_from(number % 2).unwrap(), "pod {number}");
    }
    let after = index.add_view(scope(of_parity));
    for view in [before, after] {
        assert_eq!((index.watched(view), index.suspects(view).count()), (100, 100));
    }
    // The freed label sets are reused by pods that are not selected.
    for number in 0..200 {
        index.remove(uid(number));
    }
    for number in 0..200 {
        assert_eq!(index.apply(pod(number, "bank", &format!("app-{number}"), false), now()), []);
    }
    assert_eq!([before, after].map(|view| index.watched(view)), [0, 0]);
}

#[test]
fn reports_undecodable_pods_to_the_views_of_their_namespace() {
    let mut index = Index::new(LOOKBACK);
    let all = index.add_view(scope(json!({})));
    let shop = index.add_view(scope(json!({"namespaces": ["shop"]})));
    index.apply(pod(1, "shop", "web", false), now());
    assert_eq!(index.insert_undecodable(undecodable(1, "shop")), [all, shop], "it replaces the known pod");
    assert_eq!((index.watched(all), index.suspects(all).count()), (0, 0));
    assert_eq!(index.insert_undecodable(undecodable(2, "bank")), [all], "no object of another namespace is concerned");
    let undecodable_in = |index: &Index, view| index.undecodable(view).map(|(count, first)| (count, first.to_string()));
    assert_eq!(undecodable_in(&index, all), Some((2, "bank/pod-2".to_owned())));
    assert_eq!(undecodable_in(&index, shop), Some((1, "shop/pod-1".to_owned())));

    let changes = index.undecodable_changes();
    assert_eq!(index.insert_undecodable(undecodable(2, "bank")), []);
    index.apply(pod(3, "bank", "web", true), now());
    assert_eq!(index.undecodable_changes(), changes, "nothing changed");
    assert_eq!(
        index.apply(pod(1, "shop", "web", true), now()),
        [all, shop],
        "although it was healthy before and is now"
    );
    assert!(index.undecodable_changes() > changes);
    assert_eq!(undecodable_in(&index, shop), None);

    index.begin_list(Some("shop"));
    index.end_list(Some("shop"));
    assert_eq!(undecodable_in(&index, all), Some((1, "bank/pod-2".to_owned())));
    index.begin_list(None);
    assert_eq!(index.end_list(None), [all]);
    assert_eq!(undecodable_in(&index, all), None);
    index.insert_undecodable(undecodable(2, "bank"));
    assert_eq!(index.remove(uid(2)), [all]);
}
