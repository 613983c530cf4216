use super::*;
use crate::{api::Cause, diagnosis::Basis, report::tests::crashing};

/// Pods of 25 Deployments that are OOM-killed, each as often as no other.
fn killed_pods(count: u32) -> Vec<(Pod, Finding)> {
    let pod = |number: u32| {
        let (pod, finding) = crashing("shop", &format!("service-{}", number % 25), "OOMKilled", number.into());
        let explanation = Explanation {
            cause: Cause::OutOfMemory,
            message: format!("app was OOM-killed {number} times, 31 to 34 s after its start; limit 512Mi"),
            basis: Basis::Exit(137),
            ..Explanation::default()
        };
        let pod = Pod { uid: Uid::from(u128::from(number)), name: format!("pod-{number}").into(), ..pod };
        (pod, Finding { explanation, ..finding })
    };
    (0..count).map(pod).collect()
}

fn update(tracker: &mut Tracker, pods: &[(Pod, Finding)]) {
    let mut found: Vec<_> = pods.iter().map(|(pod, finding)| (pod, Box::new(finding.clone()))).collect();
    let context = UpdateContext { previous: None, generation: 1, ignores: &|_, _| false, remains: &|_| true };
    tracker.update(&mut found, &context);
}

#[test]
fn a_pod_takes_24_bytes_beside_what_it_shares() {
    let mut tracker = Tracker::default();
    let bytes = [500, 1000].map(|count| {
        update(&mut tracker, &killed_pods(count));
        tracker.bytes()
    });
    assert_eq!(bytes[1] - bytes[0], 500 * 24, "the same incidents, and more pods");
    assert!(bytes[0] <= 20 * 1024, "{} bytes", bytes[0]);
}
