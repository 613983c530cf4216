use serde_json::json;

use super::{super::unread_jobs::UnreadJobs, *};
use crate::{
    pods::{UndecodablePod, WatchedPod},
    watch::WatchUpdate,
};

/// `--namespaces` may have changed since the status was written.
#[test]
fn an_end_is_unclear_if_its_namespace_is_not_readable() {
    let now = Instant::now();
    let scope = Some("shop".to_owned());
    let mut reconciler = Reconciler::new(vec![scope.clone()], 1, Metrics::default(), now);
    let spec = serde_json::from_value(json!({"alerts": {"checkRunningPods": true}})).unwrap();
    let view = reconciler.add_view(&NamespacedName::new("ops", "cluster"), &Settings::new(&spec).unwrap());
    let is_unclear = |reconciler: &Reconciler, view, namespace: &str| {
        let incident = json!({
            "key": "5f0c2a915f0c2a91", "namespace": namespace, "owner": {"kind": "Deployment", "name": "cart"},
            "reason": "Error", "pods": 1, "since": "2026-11-01T10:00:00Z",
        });
        let tracker = Tracker::default();
        reconciler
            .out_of_sight(view, &tracker, &UnreadJobs::default())
            .may_have(&serde_json::from_value(incident).unwrap())
    };
    assert!(!is_unclear(&reconciler, Some(view), "shop"));
    assert!(is_unclear(&reconciler, None, "shop"));
    assert!(is_unclear(&reconciler, Some(view), "ml"));
    let error = serde_json::from_str::<u8>("").unwrap_err().into();
    let undecodable = UndecodablePod {
        uid: crate::pods::Uid::from(1_u128),
        namespace: "shop".to_owned(),
        name: "cart-1".to_owned(),
        error,
    };
    let pod = WatchedPod { pod: Err(undecodable) };
    reconciler.apply_pods(vec![(scope, WatchUpdate::Applied(pod))], now, Timestamp::UNIX_EPOCH);
    assert!(is_unclear(&reconciler, Some(view), "shop"));
}
