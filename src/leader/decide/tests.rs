use serde_json::{Value, json};

use super::*;

const START: Uptime = Uptime::from_nanos(1_000_000_000_000);

fn lease(version: u32, spec: Value) -> Lease {
    serde_json::from_value(
        json!({"metadata": {"name": "orchestr", "resourceVersion": version.to_string()}, "spec": spec}),
    )
    .unwrap()
}

fn after(seconds: f64) -> Uptime {
    START + Duration::from_secs_f64(seconds)
}

fn read(candidate: &mut Candidate, lease: Option<Lease>, now: Uptime) {
    candidate.on_read(lease.map_or(Answer::Absent, |lease| Answer::Lease(Box::new(lease))), now);
}

/// The first time at which the candidate writes, if the Lease stays as it is.
fn writes_after(candidate: &mut Candidate, lease: Option<&Lease>, from: Uptime) -> (Duration, Lease) {
    let mut now = from;
    loop {
        match candidate.next(now, Timestamp::UNIX_EPOCH, 0.5) {
            Action::Read => read(candidate, lease.cloned(), now),
            Action::Wait(until) => now = until,
            Action::Write(lease) => return (now.since(from), *lease),
        }
        assert!(now.since(from) < Duration::from_secs(3600), "it never writes");
    }
}

/// A candidate that has held the Lease since `START`.
fn leader() -> (Candidate, Lease) {
    let mut candidate = Candidate::new("a".to_owned());
    let found = lease(7, json!({"leaseDurationSeconds": 1}));
    let (_, mut claimed) = writes_after(&mut candidate, Some(&found), Uptime::default());
    claimed.metadata.resource_version = Some("1".to_owned());
    candidate.on_written(Answer::Lease(Box::new(claimed.clone())), START, START, 0.5);
    assert_eq!(candidate.held_until(START), Some(after(10.0)));
    (candidate, claimed)
}

#[test]
fn takes_a_lease_only_when_its_holder_cannot_lead_any_more() {
    let other = json!({"holderIdentity": "b", "leaseDurationSeconds": 15, "leaseTransitions": 4});
    for (name, found, expected) in [
        ("held", other, 15),
        ("released", json!({"leaseDurationSeconds": 1, "leaseTransitions": 4}), 0),
        ("released, with an empty name", json!({"holderIdentity": "", "leaseDurationSeconds": 1}), 0),
        ("its holder was removed by hand", json!({"leaseDurationSeconds": 15}), 15),
        ("empty", json!({}), 15),
        ("null", Value::Null, 15),
        ("without a duration", json!({"holderIdentity": "b"}), 15),
        ("zero", json!({"holderIdentity": "b", "leaseDurationSeconds": 0}), 15),
        ("negative", json!({"holderIdentity": "b", "leaseDurationSeconds": -7}), 15),
        ("shorter than ours", json!({"holderIdentity": "b", "leaseDurationSeconds": 1}), 15),
        ("of a program with a longer one", json!({"holderIdentity": "b", "leaseDurationSeconds": 40}), 40),
        ("huge", json!({"holderIdentity": "b", "leaseDurationSeconds": i32::MAX}), 60),
        ("negative transitions", json!({"holderIdentity": "b", "leaseTransitions": -3}), 15),
        ("renewed in the future", json!({"holderIdentity": "b", "renewTime": "2999-01-01T00:00:00.000000Z"}), 15),
        ("renewed long ago", json!({"holderIdentity": "b", "renewTime": "1999-01-01T00:00:00.000000Z"}), 15),
    ] {
        let found = lease(7, found);
        let mut candidate = Candidate::new("a".to_owned());
        let (waited, written) = writes_after(&mut candidate, Some(&found), START);
        assert_eq!(waited.as_secs(), expected, "{name}");
        assert!(waited.subsec_nanos() == 0, "{name}: {waited:?}");
        let spec = written.spec.unwrap();
        assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some("a"), Some(15)), "{name}");
        let before = found.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default();
        assert_eq!(spec.lease_transitions, Some(before.max(0) + 1), "{name}");
        assert_eq!(written.metadata, found.metadata, "{name}");
    }
}

#[test]
fn waits_for_a_lease_in_its_name_by_another_client() {
    let edited = lease(7, json!({"holderIdentity": "a", "leaseDurationSeconds": 15}));
    let (waited, _) = writes_after(&mut Candidate::new("a".to_owned()), Some(&edited), START);
    assert_eq!(waited, LEASE_DURATION, "another replica may lead");
}

/// Of a lease that it has read, whether it writes within a second.
fn takes(candidate: &mut Candidate, lease: &Lease, now: Uptime) -> bool {
    writes_after(candidate, Some(lease), now).0 < Duration::from_secs(1)
}

#[test]
fn leads_again_after_its_own_unanswered_write_or_claim() {
    // Its hold has ended, but no replica has changed the Lease since.
    let (mut candidate, mut held) = leader();
    candidate.on_written(Answer::Failed, after(9.0), after(9.0), 0.5);
    assert!(takes(&mut candidate, &held, after(12.0)));
    // The renewal that was not answered has arrived.
    let (mut candidate, _) = leader();
    let Action::Write(renewed) = candidate.next(after(9.0), Timestamp::now(), 0.5) else { panic!() };
    candidate.on_written(Answer::Failed, after(9.0), after(9.5), 0.5);
    let stored = Lease { metadata: lease(2, Value::Null).metadata, ..*renewed };
    // As the API server returns it.
    let stored: Lease = serde_json::from_value(serde_json::to_value(stored).unwrap()).unwrap();
    assert!(takes(&mut candidate, &stored, after(12.0)));
    // Someone has restored the Lease.
    let (mut candidate, _) = leader();
    candidate.on_written(Answer::Failed, after(9.0), after(9.5), 0.5);
    held.metadata.resource_version = Some("9".to_owned());
    let (waited, _) = writes_after(&mut candidate, Some(&held), after(12.0));
    assert_eq!(waited, LEASE_DURATION);
    // Also if the version is the same again, as after a restored backup of etcd.
    let (mut candidate, held) = leader();
    read(&mut candidate, Some(lease(2, json!({"holderIdentity": "b"}))), after(11.0));
    let (waited, _) = writes_after(&mut candidate, Some(&held), after(12.0));
    assert!(waited >= LEASE_DURATION, "{waited:?}");
}

#[test]
fn takes_only_a_release_of_the_last_holder() {
    let (holder, _) = leader();
    let released = holder.release(after(5.0), Timestamp::UNIX_EPOCH).unwrap();
    let of_next = json!({
        "holderIdentity": "b", "leaseTransitions": 2, "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
    });
    let without_a_time = json!({"holderIdentity": "b", "leaseTransitions": 1, "leaseDurationSeconds": 15});
    for seen in [of_next, without_a_time] {
        let mut candidate = Candidate::new("c".to_owned());
        read(&mut candidate, Some(lease(20, seen)), after(100.0));
        let mut restored = released.clone();
        restored.metadata.resource_version = Some("21".to_owned());
        let (waited, _) = writes_after(&mut candidate, Some(&restored), after(101.0));
        assert!(waited >= LEASE_DURATION, "{waited:?}");
    }
    let (_, held) = leader();
    let mut candidate = Candidate::new("c".to_owned());
    read(&mut candidate, Some(held), after(4.0));
    let released = Lease { metadata: lease(2, Value::Null).metadata, ..released };
    assert!(takes(&mut candidate, &released, after(5.0)), "it has seen who has released it");
}

#[test]
fn creates_a_missing_lease_and_claims_it_later() {
    let mut candidate = Candidate::new("a".to_owned());
    let (waited, mut created) = writes_after(&mut candidate, None, START);
    assert_eq!((waited, holder(&created), duration_seconds(&created)), (Duration::ZERO, None, Some(15)));
    created.metadata.resource_version = Some("1".to_owned());
    candidate.on_written(Answer::Lease(Box::new(created.clone())), START, START, 0.5);
    assert_eq!(candidate.held_until(START), None);
    let (waited, claimed) = writes_after(&mut candidate, Some(&created), START);
    assert_eq!((waited, holder(&claimed)), (LEASE_DURATION + CONFLICT_DELAY, Some("a")));
}

#[test]
fn waits_again_whenever_the_lease_changes() {
    let mut candidate = Candidate::new("a".to_owned());
    for second in 0..100 {
        let now = after(f64::from(second) * 14.0);
        candidate.next_request = now;
        candidate.is_current = false;
        assert_eq!(candidate.next(now, Timestamp::UNIX_EPOCH, 0.5), Action::Read);
        read(&mut candidate, Some(lease(second as u32, json!({"holderIdentity": "b"}))), now);
        assert!(matches!(candidate.next(now, Timestamp::UNIX_EPOCH, 0.5), Action::Wait(_)), "{second}");
    }
}

#[test]
fn renews_every_two_seconds_and_leads_for_ten() {
    let (mut candidate, held) = leader();
    assert_eq!(candidate.next(START, Timestamp::UNIX_EPOCH, 0.5), Action::Wait(after(1.9)));
    let Action::Write(renewed) = candidate.next(after(1.9), Timestamp::UNIX_EPOCH, 0.5) else { panic!() };
    assert_eq!(renewed.metadata, held.metadata);
    let transitions = |lease: &Lease| lease.spec.as_ref().unwrap().lease_transitions;
    assert_eq!(transitions(&renewed), transitions(&held));
    // Counted from before the request, although the answer took four seconds.
    let answer = Lease { metadata: lease(2, Value::Null).metadata, ..*renewed };
    candidate.on_written(Answer::Lease(Box::new(answer)), after(2.0), after(6.0), 0.5);
    assert_eq!(candidate.held_until(after(6.0)), Some(after(12.0)));
    let mut now = after(6.0);
    while candidate.held_until(now).is_some() {
        match candidate.next(now, Timestamp::UNIX_EPOCH, 0.5) {
            Action::Read => candidate.on_read(Answer::Failed, now),
            Action::Write(_) => candidate.on_written(Answer::Failed, now, now, 0.5),
            Action::Wait(until) => now = until,
        }
    }
    assert!(now.since(START) >= Duration::from_secs(12) && now.since(START) < Duration::from_secs(13));
}

#[test]
fn repeats_a_renewal_that_failed_without_reading_first() {
    let (mut candidate, held) = leader();
    let Action::Write(_) = candidate.next(after(2.0), Timestamp::UNIX_EPOCH, 0.5) else { panic!() };
    candidate.on_written(Answer::Failed, after(2.0), after(6.0), 0.5);
    assert_eq!(candidate.next(after(6.0), Timestamp::UNIX_EPOCH, 0.5), Action::Wait(after(7.0)));
    let Action::Write(repeated) = candidate.next(after(7.0), Timestamp::UNIX_EPOCH, 0.5) else { panic!() };
    assert_eq!(repeated.metadata, held.metadata);
    // The first one has arrived nevertheless.
    candidate.on_written(Answer::Conflict, after(7.0), after(7.1), 0.5);
    let Action::Wait(until) = candidate.next(after(7.1), Timestamp::UNIX_EPOCH, 0.5) else { panic!() };
    assert_eq!(candidate.next(until, Timestamp::UNIX_EPOCH, 0.5), Action::Read);
}

#[test]
fn stops_leading_when_another_holder_is_named() {
    let (mut candidate, _) = leader();
    candidate.on_written(Answer::Conflict, after(2.0), after(2.0), 0.5);
    assert!(candidate.held_until(after(2.0)).is_some(), "a conflict alone does not end it");
    let Action::Wait(until) = candidate.next(after(2.0), Timestamp::UNIX_EPOCH, 0.5) else { panic!() };
    assert_eq!(candidate.next(until, Timestamp::UNIX_EPOCH, 0.5), Action::Read);
    read(&mut candidate, Some(lease(9, json!({"holderIdentity": "someone"}))), until);
    assert_eq!(candidate.held_until(until), None);
    assert_eq!(candidate.holder(), Some("someone"));
}

#[test]
fn restores_a_lease_that_was_deleted_or_emptied_while_it_leads() {
    for found in [None, Some(lease(9, json!({}))), Some(lease(9, json!({"holderIdentity": ""})))] {
        let (mut candidate, _) = leader();
        candidate.on_written(Answer::Absent, after(2.0), after(2.0), 0.5);
        let (waited, written) = writes_after(&mut candidate, found.as_ref(), after(2.0));
        assert!(waited < Duration::from_secs(1), "{waited:?}");
        assert_eq!(written.metadata.resource_version, found.clone().and_then(|lease| lease.metadata.resource_version));
        // But not when it has stopped leading in the meantime.
        let (mut candidate, _) = leader();
        candidate.on_written(Answer::Failed, after(9.5), after(9.5), 0.5);
        let (waited, written) = writes_after(&mut candidate, found.as_ref(), after(10.5));
        let expected = if found.is_some() { (LEASE_DURATION, Some("a")) } else { (Duration::ZERO, None) };
        assert_eq!((waited, holder(&written)), expected);
    }
}

#[test]
fn releases_only_a_lease_that_it_holds() {
    let (candidate, held) = leader();
    let released = candidate.release(after(5.0), Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(released.metadata, held.metadata);
    assert_eq!((holder(&released), duration_seconds(&released)), (None, Some(1)));
    let (waited, _) = writes_after(&mut Candidate::new("b".to_owned()), Some(&released), after(5.0));
    assert_eq!(waited, Duration::ZERO);
    assert_eq!(candidate.release(after(10.0), Timestamp::UNIX_EPOCH), None);
    assert_eq!(Candidate::new("c".to_owned()).release(START, Timestamp::UNIX_EPOCH), None);
}
