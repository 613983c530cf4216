use super::*;
use crate::{api::Cause, diagnosis::Basis, report::tests::crashing};

fn update(tracker: &mut Tracker, pods: &[(Pod, Finding)]) {
    update_with(tracker, pods, &[]);
}

/// The pods with the UIDs `hidden` have left view.
fn update_with(tracker: &mut Tracker, pods: &[(Pod, Finding)], hidden: &[u128]) {
    let mut found: Vec<_> = pods.iter().map(|(pod, finding)| (pod, Box::new(finding.clone()))).collect();
    let context = UpdateContext {
        previous: None,
        generation: 1,
        ignores: &|_, _| false,
        remains: &|_| true,
        is_hidden: &|uid| hidden.iter().any(|hidden| uid == Uid::from(*hidden)),
    };
    tracker.update(&mut found, &context);
}

#[test]
fn an_incident_is_hidden_if_some_pods_have_left_view() {
    let pod = |uid: u128, owner: &str| {
        let (pod, finding) = crashing("shop", owner, "Error", 50);
        (Pod { uid: Uid::from(uid), name: format!("{owner}-{uid}").into(), ..pod }, finding)
    };
    let (one, two, pay) = (pod(1, "cart"), pod(2, "cart"), pod(3, "pay"));
    let key = |(pod, finding): &(Pod, Finding)| Identity::of(pod, finding).id().key();
    let mut tracker = Tracker::default();
    // Step by step: the pods with a problem, those that have left view, and whether the incident of cart is hidden.
    for (found, hidden, expected) in [
        (vec![&one, &two, &pay], &[][..], false),
        // The incident goes on with the other pod, and ends with it.
        (vec![&two, &pay], &[1], false),
        (vec![&pay], &[1], false),
        (vec![&one, &two, &pay], &[], false),
        // One recovers, and the other leaves view at the same time.
        (vec![&pay], &[1], true),
        (vec![&pay], &[], true),
        // It is reported again, and recovers.
        (vec![&two], &[1], false),
        (vec![], &[1], false),
    ] {
        let found: Vec<_> = found.into_iter().cloned().collect();
        update_with(&mut tracker, &found, hidden);
        assert_eq!(tracker.is_hidden(&key(&one)), expected, "{} pods, {hidden:?}", found.len());
        assert!(!tracker.is_hidden(&key(&pay)), "it is an incident of another owner");
    }
    tracker.add_hidden(vec![key(&pay)]);
    assert!(tracker.is_hidden(&key(&pay)), "as after a restart of the operator");
    update(&mut tracker, std::slice::from_ref(&pay));
    assert!(!tracker.is_hidden(&key(&pay)));
}

#[test]
fn equal_explanations_stay_with_their_own_pods() {
    let pod = |uid: u128, message: &str| {
        let (pod, finding) = crashing("shop", &format!("service-{uid}"), "OOMKilled", 50);
        let explanation = Explanation {
            cause: Cause::OutOfMemory,
            message: message.into(),
            basis: Basis::Exit(137),
            ..Explanation::default()
        };
        (Pod { uid: Uid::from(uid), ..pod }, Finding { explanation, ..finding })
    };
    let pods = [pod(1, "a"), pod(2, "b"), pod(3, "a"), pod(4, "b")];
    let mut tracker = Tracker::default();
    update(&mut tracker, &pods);
    for (pod, finding) in &pods {
        let of_pod = tracker.pods.get(&pod.uid).and_then(|known| known.problem.explanation.as_deref());
        let of_incident = tracker.incident(&Identity::of(pod, finding)).and_then(|known| known.explanation.as_deref());
        assert_eq!([of_pod, of_incident], [Some(&finding.explanation); 2]);
    }
}
