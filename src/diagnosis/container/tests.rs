use serde_json::{Value, json};

use super::*;
use crate::pods::testing::pod;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// A run that ended with this exit code, as `state` or `lastState`.
fn run(exit_code: i32, started: i64, finished: i64) -> Value {
    orchestr_testbed::objects::terminated(exit_code, &at(started).to_string(), &at(finished).to_string())
}

fn running(started: i64) -> Value {
    json!({"running": {"startedAt": at(started).to_string()}})
}

fn waiting(reason: &str) -> Value {
    json!({"waiting": {"reason": reason, "message": ""}})
}

/// Since when the only container fails, and whether it may have failed earlier. A restarted one counts as failing for 600 s, and the pod was created, and is not ready, since second 0.
fn beginning(probe: &Value, restarts: i32, state: &Value, last: &Value) -> Option<(i64, bool)> {
    let app = json!({"restartCount": restarts, "state": state, "lastState": last});
    let app = orchestr_testbed::objects::container("app", app);
    let status = orchestr_testbed::objects::status("Running", false, &at(0).to_string(), [app]);
    let mut spec = json!({"name": "app", "image": "a"});
    if !probe.is_null() {
        spec["readinessProbe"] = probe.clone();
    }
    let metadata = json!({"creationTimestamp": at(0).to_string()});
    let pod = pod("cart", json!({"metadata": metadata, "spec": {"containers": [spec]}, "status": status}));
    let mut clock = PodClock::new(&pod, at(9_000));
    let failing = containers(&pod).next()?.failing(Duration::from_secs(600), &mut clock)?;
    Some((failing.since?.duration_since(at(0)).as_secs(), failing.since_at_latest))
}

#[test]
fn a_beginning_is_exact_if_no_earlier_run_can_have_failed() {
    let (none, probe) = (Value::Null, json!({"httpGet": {"port": 80}}));
    let back_off = waiting("CrashLoopBackOff");
    for (case, probe, restarts, state, last, expected) in [
        ("the first run", &none, 0, run(1, 10, 20), none.clone(), (20, false)),
        ("the first run, before its restart", &none, 0, back_off.clone(), run(1, 10, 20), (20, false)),
        ("the first restart", &none, 1, running(8_900), run(1, 10, 20), (20, false)),
        ("the second run", &none, 1, run(1, 25, 40), run(1, 10, 20), (20, false)),
        ("the second run, before its restart", &none, 1, back_off.clone(), run(1, 25, 40), (40, true)),
        ("a loop that runs", &none, 7, running(8_900), run(1, 8_000, 8_010), (8_010, true)),
        ("a loop that has just ended", &none, 7, run(1, 8_900, 8_910), run(1, 8_000, 8_010), (8_010, true)),
        ("a loop that waits", &none, 7, back_off.clone(), run(1, 8_900, 8_910), (8_910, true)),
        ("a loop of which only the last run is kept", &none, 7, run(1, 8_900, 8_910), none.clone(), (8_910, true)),
        ("after a long run", &none, 7, running(8_900), run(1, 2_000, 8_010), (8_010, false)),
        ("after a long run, waiting", &none, 7, back_off.clone(), run(1, 2_000, 8_910), (8_910, false)),
        ("a long run may not have been ready", &probe, 7, running(8_900), run(1, 2_000, 8_010), (8_010, true)),
        ("a long run between", &none, 1, run(1, 2_000, 8_910), run(1, 10, 20), (8_910, false)),
        ("a long run between, perhaps not ready", &probe, 1, run(1, 2_000, 8_910), run(1, 10, 20), (8_910, true)),
        ("a run between that succeeded", &none, 2, run(1, 8_900, 8_910), run(0, 8_000, 8_010), (8_910, true)),
        ("an image that was never there", &none, 0, waiting("ImagePullBackOff"), none.clone(), (0, false)),
        ("an image that is gone", &none, 3, waiting("ImagePullBackOff"), run(1, 8_900, 8_910), (8_910, true)),
        ("restarts out of sight", &none, i32::MAX, waiting("ImagePullBackOff"), none.clone(), (0, true)),
        ("hostile numbers", &none, i32::MIN, running(8_900), run(1, 10, 20), (20, false)),
    ] {
        assert_eq!(beginning(probe, restarts, &state, &last), Some(expected), "{case}");
    }
}
