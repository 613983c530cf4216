//! Decides what a replica does with the Lease. Pure: the caller sends the requests and passes the time.

use std::{collections::VecDeque, time::Duration};

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
/// How many claims are remembered whose result is unknown.
const UNANSWERED_CLAIMS: usize = 4;

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
    /// The request failed, or its result is unknown.
    Failed,
}

/// The Lease as it was read last.
#[derive(Clone, Debug)]
struct Seen {
    /// Absent if there was none.
    lease: Option<Lease>,
    /// When this version was received first.
    at: Uptime,
    /// Whether this process has written this version.
    is_own: bool,
}

/// What is the same in all versions of the Lease that a holder writes until it loses the Lease: when it took it, and how
/// often it had another holder before.
type Term = (MicroTime, Option<i32>);

/// A replica that leads or wants to.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    identity: String,
    seen: Option<Seen>,
    /// The term of the last version that had a holder. Absent if none had: then this process has just started.
    last_term: Option<Option<Term>>,
    /// What was claimed since this version was seen first, in requests whose result is unknown.
    unanswered: VecDeque<LeaseSpec>,
    /// The claim that is being sent.
    claim: Option<LeaseSpec>,
    /// Whether the Lease was read or written since the last wait.
    is_current: bool,
    /// Whether the last write has failed. A leader repeats it without a read, for which it may lack the time. If the first one
    /// has arrived, the second one ends with a conflict.
    may_repeat: bool,
    /// Until when this replica leads.
    held_until: Option<Uptime>,
    next_request: Uptime,
}

impl Candidate {
    /// `identity` must be unique among all processes that ever use the Lease.
    pub(super) fn new(identity: String) -> Self {
        Self {
            identity,
            seen: None,
            last_term: None,
            unanswered: VecDeque::new(),
            claim: None,
            is_current: false,
            may_repeat: false,
            held_until: None,
            next_request: Uptime::default(),
        }
    }

    /// Until when this replica leads; absent if it does not.
    pub(super) fn held_until(&self, now: Uptime) -> Option<Uptime> {
        self.held_until.filter(|until| now < *until)
    }

    /// The holder of the Lease as it was read last.
    pub(super) fn holder(&self) -> Option<&str> {
        self.seen.as_ref().and_then(|seen| holder(seen.lease.as_ref()?))
    }

    /// Whether the Lease has another holder, as far as known.
    pub(super) fn is_led(&self) -> bool {
        self.holder().is_some_and(|holder| holder != self.identity)
    }

    /// What to do now. `jitter` is between 0 and 1.
    pub(super) fn next(&mut self, now: Uptime, wall: Timestamp, jitter: f64) -> Action {
        if now < self.next_request {
            return Action::Wait(self.next_request);
        }
        let is_held = self.held_until(now).is_some();
        let is_current = self.is_current || is_held && self.may_repeat;
        let Some(seen) = self.seen.as_ref().filter(|_| is_current) else { return Action::Read };
        let due = match &seen.lease {
            None if is_held => now,
            // Absence has no version: the Lease may have been created and deleted since it was read last, and its holder may
            // not know yet. So it is created without a holder, which all replicas can then see unchanged.
            None => return Action::Write(Box::new(unclaimed(wall))),
            Some(lease) => seen.at + self.wait_for(lease, seen.is_own, is_held),
        };
        if now >= due {
            let lease = claim(seen.lease.as_ref(), &self.identity, wall);
            self.claim.clone_from(&lease.spec);
            return Action::Write(Box::new(lease));
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
        let claim = self.claim.take();
        self.may_repeat = false;
        match answer {
            Answer::Lease(lease) if holder(&lease) == Some(&self.identity) => {
                self.observe(Some(*lease), now);
                if let Some(seen) = &mut self.seen {
                    seen.is_own = true;
                }
                self.held_until = Some(sent + RENEW_DEADLINE);
                self.next_request = sent + RENEW_INTERVAL.mul_f64(1.0 - jitter / 10.0);
            }
            Answer::Lease(_) | Answer::Conflict | Answer::Absent => {
                self.is_current = false;
                self.next_request = now + CONFLICT_DELAY;
            }
            Answer::Failed => {
                self.unanswered.extend(claim);
                if self.unanswered.len() > UNANSWERED_CLAIMS {
                    self.unanswered.pop_front();
                }
                (self.is_current, self.may_repeat) = (false, true);
                self.next_request = now + RETRY_DELAY;
            }
        }
    }

    /// The Lease to write at the end, so that another replica need not wait; absent if this replica does not lead.
    pub(super) fn release(&self, now: Uptime, wall: Timestamp) -> Option<Lease> {
        self.held_until(now)?;
        let lease = self.seen.as_ref()?.lease.as_ref()?;
        let spec = lease.spec.as_ref();
        let spec = LeaseSpec {
            lease_duration_seconds: Some(RELEASED_SECONDS),
            // By these two, others recognize whose release it is.
            acquire_time: spec.and_then(|spec| spec.acquire_time.clone()),
            lease_transitions: spec.and_then(|spec| spec.lease_transitions),
            renew_time: Some(micro_time(wall)),
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
            // A claim of this process that was not answered has arrived.
            let is_own = lease.as_ref().and_then(|lease| lease.spec.as_ref()).is_some_and(|spec| {
                spec.holder_identity.as_deref() == Some(&self.identity) && self.unanswered.contains(spec)
            });
            // Claims of the version before cannot arrive any more.
            self.unanswered.clear();
            if let Some(held) = lease.as_ref().filter(|lease| holder(lease).is_some()) {
                self.last_term = Some(term(held));
            }
            self.seen = Some(Seen { lease, at: now, is_own });
        }
        self.is_current = true;
    }

    /// How long this replica must see a Lease unchanged before it may claim it. Its own name in the Lease proves nothing if
    /// someone else has written it, by hand or from a backup: another replica may lead, and notice the change only later.
    fn wait_for(&self, lease: &Lease, is_own: bool, is_held: bool) -> Duration {
        match holder(lease) {
            Some(holder) if holder == self.identity && (is_own || is_held) => Duration::ZERO,
            None if is_held || self.is_released(lease) => Duration::ZERO,
            _ => duration(lease),
        }
    }

    /// Whether the last holder has released the Lease, as far as that can be seen. A replica that has just started has seen
    /// no holder, and believes it.
    fn is_released(&self, lease: &Lease) -> bool {
        let is_of_last_term = match &self.last_term {
            None => true,
            Some(last) => last.is_some() && *last == term(lease),
        };
        duration_seconds(lease) == Some(RELEASED_SECONDS) && is_of_last_term
    }

    /// Whether the Lease had a holder since this process has started.
    #[cfg(test)]
    pub(super) fn has_seen_a_holder(&self) -> bool {
        self.last_term.is_some()
    }
}

/// As precise as the API server stores it.
fn micro_time(wall: Timestamp) -> MicroTime {
    MicroTime(Timestamp::from_microsecond(wall.as_microsecond()).unwrap_or(wall))
}

/// The term of a Lease; absent if someone has removed a part of it.
fn term(lease: &Lease) -> Option<Term> {
    let spec = lease.spec.as_ref()?;
    Some((spec.acquire_time.clone()?, spec.lease_transitions))
}

/// A new Lease without a holder.
fn unclaimed(wall: Timestamp) -> Lease {
    let spec = LeaseSpec {
        lease_duration_seconds: Some(LEASE_SECONDS),
        renew_time: Some(micro_time(wall)),
        ..LeaseSpec::default()
    };
    Lease { spec: Some(spec), ..Lease::default() }
}

/// The Lease with this replica as its holder.
fn claim(lease: Option<&Lease>, identity: &str, wall: Timestamp) -> Lease {
    let old = lease.and_then(|lease| lease.spec.clone()).unwrap_or_default();
    let is_renewed = old.holder_identity.as_deref() == Some(identity);
    let transitions = old.lease_transitions.unwrap_or_default().max(0);
    let now = Some(micro_time(wall));
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
mod tests;
