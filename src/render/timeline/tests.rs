use serde_json::json;

use super::*;

/// A status with an incident that lasts, one that ended, and one that ended while the operator was not running.
pub(crate) fn status() -> OrchestrStatus {
    serde_json::from_value(json!({
        "lastCheckTime": "2026-03-01T12:00:00Z",
        "watchedPods": 40, "problematicPodCount": 1,
        "historySince": "2026-02-27T08:00:00Z",
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Watching", "message": "watching 40 pods",
                "lastTransitionTime": "2026-03-01T10:00:00Z"},
            {"type": "PodsHealthy", "status": "False", "reason": "PodsUnhealthy",
                "message": "1 of 40 pods: 1 OOMKilled (shop/cart)", "lastTransitionTime": "2026-03-01T10:00:00Z"},
        ],
        "incidents": [{
            "key": "5f0c2a915f0c2a91", "kind": "Crash", "namespace": "shop",
            "owner": {"kind": "Deployment", "name": "cart"}, "container": "app", "reason": "OOMKilled",
            "cause": "OutOfMemory", "message": "app was OOM-killed 7 times; limit 512Mi",
            "pods": 1, "mostPods": 3, "of": 10, "since": "2026-03-01T11:26:00Z", "examplePods": ["cart-5d9f-a"],
        }],
        "history": [{
            "key": "00c0ffee00c0ffee", "kind": "Crash", "namespace": "shop",
            "owner": {"kind": "StatefulSet", "name": "mailer"}, "container": "app", "reason": "Error",
            "cause": "ExitCode", "message": "app exited with code 1", "pods": 2,
            "began": "2026-03-01T10:00:00Z", "ended": "2026-03-01T10:34:00Z",
        }, {
            "key": "1111111111111111", "kind": "Image", "namespace": "ml",
            "owner": {"kind": "Job", "name": "train-gpu-with-a-long-name"}, "reason": "ImagePullBackOff",
            "cause": "Unknown", "pods": 1,
            "began": "2026-02-28T01:40:00Z", "lastSeen": "2026-02-28T02:10:00Z", "ended": "2026-02-28T04:00:00Z",
        }],
        "unwatched": [{"from": "2026-02-28T02:10:00Z", "until": "2026-02-28T04:00:00Z", "reason": "NotRunning"}],
    }))
    .unwrap()
}

pub(crate) fn noon() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn name() -> NamespacedName {
    NamespacedName::new("ops", "cluster")
}

#[test]
fn lists_what_lasts_and_then_what_ended_last() {
    let status = status();
    let timeline = Timeline::of(&name(), &status, None, noon());
    let shown: Vec<_> = timeline.incidents.iter().map(|own| (own.workload(), own.lasted(noon()), own.pods)).collect();
    let expected = [
        ("shop/cart", "34m so far", 3),
        ("shop/mailer", "34m", 2),
        ("ml/train-gpu-with-a-long-name", "30m to 140m", 1),
    ];
    assert_eq!(shown, expected.map(|(name, lasted, pods)| (name.to_owned(), lasted.to_owned(), pods)));
    assert_eq!(timeline.headline(), "2 incidents ended since 2026-02-27 08:00 UTC, and 1 lasts");
    assert_eq!(timeline.limits(), [""; 0]);
    let spans: Vec<_> = timeline.unwatched.iter().map(|own| (own.explanation(), own.lasted(noon()))).collect();
    assert_eq!(spans, [("the operator was not running, or could not write the status", "110m".to_owned())]);
}

#[test]
fn since_selects_what_lasted_or_ended_in_that_time() {
    let status = status();
    for (hours, incidents, spans, headline) in [
        (1, 1, 0, "no incident ended since 2026-03-01 11:00 UTC, and 1 lasts"),
        (2, 2, 0, "1 incident ended since 2026-03-01 10:00 UTC, and 1 lasts"),
        (32, 3, 1, "2 incidents ended since 2026-02-28 04:00 UTC, and 1 lasts"),
        (9_999, 3, 1, "2 incidents ended since 2026-02-27 08:00 UTC, and 1 lasts"),
    ] {
        let timeline = Timeline::of(&name(), &status, Some(SignedDuration::from_hours(hours)), noon());
        assert_eq!((timeline.incidents.len(), timeline.unwatched.len()), (incidents, spans), "{hours}");
        assert_eq!(timeline.headline(), headline);
    }
}

#[test]
fn the_headline_says_since_when_all_incidents_are_known() {
    let mut status = status();
    status.history_since = status.history[0].ended.clone().into();
    let expected = "2 incidents ended (complete since 2026-03-01 10:34 UTC), and 1 lasts";
    assert_eq!(Timeline::of(&name(), &status, None, noon()).headline(), expected);
}

#[test]
fn says_what_is_missing_and_that_the_operator_has_stopped() {
    let mut status = status();
    (status.omitted_history, status.omitted_incidents) = (7, 1);
    let later = noon() + SignedDuration::from_mins(7);
    let timeline = Timeline::of(&name(), &status, None, later);
    let last = &timeline.unwatched[0];
    assert_eq!((last.from, last.until, last.lasted(later)), (noon(), None, "7m so far".to_owned()));
    assert_eq!(
        timeline.limits(),
        [
            "7 earlier incidents were dropped, because the history is limited.",
            "The status omits 1 incident that lasts."
        ]
    );
    let day = Some(SignedDuration::from_hours(24));
    assert_eq!(Timeline::of(&name(), &status, day, later).limits().len(), 1, "they ended before");
    assert_eq!(Timeline::of(&name(), &status, None, noon() + SignedDuration::from_mins(6)).unwatched.len(), 1);

    let empty = OrchestrStatus::default();
    let timeline = Timeline::of(&name(), &empty, None, noon());
    assert_eq!(timeline.headline(), "no incident ended");
    assert_eq!(timeline.limits(), ["The status has no history: the pods have not been watched yet."]);
}

#[test]
fn as_json_it_lists_incidents_and_spans() {
    let status = status();
    let document = serde_json::to_value(Timeline::of(&name(), &status, None, noon())).unwrap();
    assert_eq!((&document["object"], &document["since"]), (&"ops/cluster".into(), &"2026-02-27T08:00:00Z".into()));
    let ends: Vec<_> = document["incidents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|own| (own["ended"].as_str(), own["lastSeen"].as_str()))
        .collect();
    assert_eq!(
        ends,
        [
            (None, None),
            (Some("2026-03-01T10:34:00Z"), None),
            (Some("2026-02-28T04:00:00Z"), Some("2026-02-28T02:10:00Z"))
        ]
    );
    assert_eq!(document["unwatched"][0]["reason"], "NotRunning");
}
