//! Decides what a replica does with the Lease. Pure: the caller sends the requests and passes the time.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};

use super::uptime::Uptime;

/// How long a Lease must stay unchanged before another replica takes it.
pub(super) const LEASE_DURATION: Duration = Duration::from_secs(15);
/// The same as the Lease states it.
const LEASE_SECONDS: i32 = 15;
/// A Lease of another program may state a longer duration, which is respected up to this one. Otherwise a mistake could
/// keep all replicas from leading for years.
const LONGEST_DURATION: Duration = Duration::from_secs(60);
/// How long a replica leads after it has sent the last request that renewed the Lease.
pub(super) const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often the leader renews the Lease.
const RENEW_INTERVAL: Duration = Duration::from_secs(2);
/// How often a follower reads the Lease: it notices within this time that the leader has released it.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The delay after a request that failed.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The delay after a write that another replica was faster than.
const CONFLICT_DELAY: Duration = Duration::from_millis(50);
/// The duration of a Lease that its holder has released. A holder that was removed by hand leaves another one.
const RELEASED_SECONDS: i32 = 1;

/// What a replica does next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    Read,
    /// Create the Lease, or replace it if it has a resource version.
    Write(Box<Lease>),
    /// Do nothing until then.
    Wait(Uptime),
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    Lease(Box<Lease>),
    /// There is no such Lease.
    Absent,
    /// The Lease has changed since it was read, or was created by another replica.
    Conflict,
    /// The request failed, or nobody knows whether it succeeded.
    Failed,
}

/// The Lease as it was read last.
#[derive(Clone, Debug)]
struct Seen {
    /// Absent if there was none.
    lease: Option<Lease>,
    /// When this version was received first.
    at: Uptime,
}

/// A replica that leads or wants to.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    identity: String,
    seen: Option<Seen>,
    /// Whether the Lease was read or written since the last wait.
    is_current: bool,
    /// Until when this replica leads.
    held_until: Option<Uptime>,
    next_request: Uptime,
}

impl Candidate {
    /// `identity` must be unique among all processes that ever use the Lease.
    pub(super) fn new(identity: String) -> Self {
        Self { identity, seen: None, is_current: false, held_until: None, next_request: Uptime::default() }
    }

    /// Until when this replica leads; absent if it does not.
    pub(super) fn held_until(&self, now: Uptime) -> Option<Uptime> {
        self.held_until.filter(|until| now < *until)
    }

    /// The holder of the Lease as it was read last.
    pub(super) fn holder(&self) -> Option<&str> {
        self.seen.as_ref().and_then(|seen| holder(seen.lease.as_ref()?))
    }

    /// What to do now. `jitter` is between 0 and 1.
    pub(super) fn next(&mut self, now: Uptime, wall: Timestamp, jitter: f64) -> Action {
        if now < self.next_request {
            return Action::Wait(self.next_request);
        }
        let Some(seen) = self.seen.as_ref().filter(|_| self.is_current) else { return Action::Read };
        let is_held = self.held_until(now).is_some();
        let due = match &seen.lease {
            None if is_held => now,
            // Absence has no version: the Lease may have been created and deleted since it was read last, and its holder may
            // not know yet. So it is created without a holder, which all replicas can then see unchanged.
            None => return Action::Write(Box::new(unclaimed(wall))),
            Some(lease) => seen.at + wait_for(lease, &self.identity, is_held),
        };
        if now >= due {
            return Action::Write(Box::new(claim(seen.lease.as_ref(), &self.identity, wall)));
        }
        self.is_current = false;
        self.next_request = due.min(now + POLL_INTERVAL.mul_f64(1.0 - jitter / 5.0));
        Action::Wait(self.next_request)
    }

    /// The Lease was read; `now` is after the answer.
    pub(super) fn on_read(&mut self, answer: Answer, now: Uptime) {
        match answer {
            Answer::Lease(lease) => self.observe(Some(*lease), now),
            Answer::Absent => self.observe(None, now),
            Answer::Conflict | Answer::Failed => self.next_request = now + RETRY_DELAY,
        }
    }

    /// The Lease was written: `sent` is before the request, and `now` after the answer.
    pub(super) fn on_written(&mut self, answer: Answer, sent: Uptime, now: Uptime, jitter: f64) {
        match answer {
            Answer::Lease(lease) if holder(&lease) == Some(&self.identity) => {
                self.observe(Some(*lease), now);
                self.held_until = Some(sent + RENEW_DEADLINE);
                self.next_request = sent + RENEW_INTERVAL.mul_f64(1.0 - jitter / 10.0);
            }
            Answer::Lease(_) | Answer::Conflict | Answer::Absent => {
                self.is_current = false;
                self.next_request = now + CONFLICT_DELAY;
            }
            Answer::Failed => {
                self.is_current = false;
                self.next_request = now + RETRY_DELAY;
            }
        }
    }

    /// The Lease to write at the end, so that another replica need not wait; absent if this replica does not lead.
    pub(super) fn release(&self, now: Uptime, wall: Timestamp) -> Option<Lease> {
        self.held_until(now)?;
        let lease = self.seen.as_ref()?.lease.as_ref()?;
        let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
        let spec = LeaseSpec {
            lease_duration_seconds: Some(RELEASED_SECONDS),
            renew_time: Some(MicroTime(wall)),
            lease_transitions: transitions,
            ..LeaseSpec::default()
        };
        Some(Lease { spec: Some(spec), ..lease.clone() })
    }

    fn observe(&mut self, lease: Option<Lease>, now: Uptime) {
        // Someone has given the Lease to another replica.
        if lease.as_ref().and_then(holder).is_some_and(|holder| holder != self.identity) {
            self.held_until = None;
        }
        let version = |lease: &Lease| lease.metadata.resource_version.clone();
        let is_known = |seen: &Seen| seen.lease.as_ref().map(version) == lease.as_ref().map(version);
        if !self.seen.as_ref().is_some_and(is_known) {
            self.seen = Some(Seen { lease, at: now });
        }
        self.is_current = true;
    }
}

/// How long a replica must see a Lease unchanged before it may claim it.
fn wait_for(lease: &Lease, identity: &str, is_held: bool) -> Duration {
    match holder(lease) {
        Some(holder) if holder == identity => Duration::ZERO,
        None if is_held || duration_seconds(lease) == Some(RELEASED_SECONDS) => Duration::ZERO,
        _ => duration(lease),
    }
}

/// A new Lease without a holder.
fn unclaimed(wall: Timestamp) -> Lease {
    let spec = LeaseSpec {
        lease_duration_seconds: Some(LEASE_SECONDS),
        renew_time: Some(MicroTime(wall)),
        ..LeaseSpec::default()
    };
    Lease { spec: Some(spec), ..Lease::default() }
}

/// The Lease with this replica as its holder.
fn claim(lease: Option<&Lease>, identity: &str, wall: Timestamp) -> Lease {
    let old = lease.and_then(|lease| lease.spec.clone()).unwrap_or_default();
    let is_renewed = old.holder_identity.as_deref() == Some(identity);
    let transitions = old.lease_transitions.unwrap_or_default().max(0);
    let now = Some(MicroTime(wall));
    // Fields of other kinds of election, such as `strategy`, are dropped.
    let spec = LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(LEASE_SECONDS),
        acquire_time: if is_renewed { old.acquire_time.or_else(|| now.clone()) } else { now.clone() },
        renew_time: now,
        lease_transitions: Some(match lease {
            Some(_) if !is_renewed => transitions.saturating_add(1),
            _ => transitions,
        }),
        ..LeaseSpec::default()
    };
    Lease { metadata: lease.map(|lease| lease.metadata.clone()).unwrap_or_default(), spec: Some(spec) }
}

/// The holder; absent if its name is empty.
fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

fn duration_seconds(lease: &Lease) -> Option<i32> {
    lease.spec.as_ref()?.lease_duration_seconds
}

/// How long to wait for the holder of a Lease. A missing, negative or short duration counts as ours: longer is always safe.
fn duration(lease: &Lease) -> Duration {
    let stated = duration_seconds(lease).and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
    stated.unwrap_or_default().clamp(LEASE_DURATION, LONGEST_DURATION)
}

#[cfg(test)]
mod tests {
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
    fn creates_a_missing_lease_without_a_holder_and_claims_it_later() {
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
    fn renews_every_two_seconds_and_leads_for_ten_seconds_after_the_last_success() {
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
            assert_eq!(
                written.metadata.resource_version,
                found.clone().and_then(|lease| lease.metadata.resource_version)
            );
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
}
