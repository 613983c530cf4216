//! Recognises a trouble from one reconcile to the next.
//!
//! A pod shows what its containers do this second; a crash loop runs, ends and waits in turn. The tracker remembers, for
//! each pod with a problem, which container the problem was attributed to, its most telling reason so far, and when it
//! began. So an incident keeps its identity and its beginning while the trouble lasts. After a restart of the operator
//! it goes on from the status that stands in the API.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::{
    api::{OrchestrStatus, ProblemKind},
    diagnosis::{Finding, telling},
    pods::{Pod, Uid},
};

use super::{incidents::Identity, seconds, text};

/// The most incidents that are remembered as ended with their pods.
const DELETED: usize = 1024;

/// What is remembered of one object's problems. A few dozen bytes for each pod with a problem.
#[derive(Debug, Default)]
pub struct Tracker {
    pods: HashMap<Uid, KnownPod>,
    incidents: HashMap<u64, KnownIncident>,
    names: Names,
    /// Whether it has gone on from a status.
    resumed: bool,
    deleted: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct KnownPod {
    since: i64,
    incident: u64,
    container: NameId,
    reason: NameId,
    kind: ProblemKind,
}

#[derive(Clone, Copy, Debug)]
struct KnownIncident {
    since: i64,
    reason: NameId,
    /// Whether the reason is from an earlier update.
    is_known: bool,
}

/// What is remembered of an incident.
pub(super) struct Known<'a> {
    pub(super) since: Timestamp,
    pub(super) reason: &'a str,
}

/// What a status says of a problem.
#[derive(Default)]
struct Resumed<'a> {
    pods: HashMap<(&'a str, &'a str), (ProblemKind, &'a str, i64)>,
    incidents: HashMap<u64, (&'a str, i64)>,
}

impl Tracker {
    /// Attributes each finding to the trouble that it continues: sets its container, its reason and its beginning.
    /// `exists` answers whether a pod still exists.
    pub fn update(
        &mut self,
        found: &mut [(&Pod, Box<Finding>)],
        previous: Option<&OrchestrStatus>,
        exists: impl Fn(Uid) -> bool,
    ) {
        let resumed = if self.resumed { Resumed::default() } else { Resumed::from(previous) };
        let mut next = Self { resumed: true, ..Self::default() };
        for (pod, finding) in found {
            let known = self.pods.get(&pod.uid).copied();
            match known {
                Some(known) => self.attribute(finding, &known),
                None => resumed.attribute(pod, finding),
            }
            let identity = Identity::of(pod, finding);
            let incident = identity.hash();
            // Within the bounds that the status has: what is read back from it must be the same.
            let shown_reason = text::name(&finding.reason);
            let (reason, container) = (next.names.id(shown_reason), next.names.id(text::name(&finding.container)));
            let since = finding.since.as_second();
            next.pods.insert(pod.uid, KnownPod { since, incident, container, reason, kind: finding.kind });
            let known = self.incident_before(incident, &resumed);
            let group = next.incidents.entry(incident).or_insert_with(|| match known {
                Some((since, name)) => KnownIncident { since, reason: next.names.id(name), is_known: true },
                None => KnownIncident { since, reason, is_known: false },
            });
            group.since = group.since.min(since);
            let present = next.names.name(group.reason);
            let more = telling(shown_reason).cmp(&telling(present));
            // The order in which pods come must make no difference.
            let decides = !group.is_known && *shown_reason < *present;
            if more.is_gt() || more.is_eq() && decides {
                group.reason = reason;
                group.is_known = false;
            }
        }
        next.deleted = self.deleted_since(&next, exists);
        *self = next;
    }

    /// Whether it has gone on from a status, or begun without one.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Whether the pod had a problem at the last update.
    #[must_use]
    pub fn knows(&self, uid: Uid) -> bool {
        self.pods.contains_key(&uid)
    }

    /// What is remembered of an incident that the last update found.
    pub(super) fn incident(&self, identity: &Identity<'_>) -> Option<Known<'_>> {
        let known = self.incidents.get(&identity.hash())?;
        Some(Known { since: instant(known.since), reason: self.names.name(known.reason) })
    }

    /// The keys of incidents that ended because their pods were deleted; the most recent come last, and the oldest are
    /// forgotten.
    pub fn deleted(&self) -> impl Iterator<Item = String> {
        self.deleted.iter().map(|hash| super::incidents::key(*hash))
    }

    /// Goes on with what is remembered of the pod.
    fn attribute(&self, finding: &mut Finding, known: &KnownPod) {
        let container = self.names.name(known.container);
        if !choose(finding, known.kind, |own| own == container) {
            return;
        }
        finding.container = container.to_owned();
        finding.since = finding.since.min(instant(known.since));
        keep_reason(finding, self.names.name(known.reason));
    }

    fn incident_before<'a>(&'a self, hash: u64, resumed: &Resumed<'a>) -> Option<(i64, &'a str)> {
        match self.incidents.get(&hash) {
            Some(known) => Some((known.since, self.names.name(known.reason))),
            None => resumed.incidents.get(&hash).map(|(reason, since)| (*since, *reason)),
        }
    }

    /// The incidents that ended with the deletion of all their pods, added to those known before.
    fn deleted_since(&mut self, next: &Self, exists: impl Fn(Uid) -> bool) -> Vec<u64> {
        let mut ended: HashMap<u64, bool> = HashMap::new();
        for (uid, pod) in &self.pods {
            if !next.incidents.contains_key(&pod.incident) {
                *ended.entry(pod.incident).or_insert(true) &= !exists(*uid);
            }
        }
        let mut deleted = std::mem::take(&mut self.deleted);
        deleted.retain(|hash| !next.incidents.contains_key(hash) && !ended.contains_key(hash));
        let mut fresh: Vec<u64> = ended.into_iter().filter(|(_, deleted)| *deleted).map(|(hash, _)| hash).collect();
        fresh.sort_unstable();
        deleted.extend(fresh);
        let excess = deleted.len().saturating_sub(DELETED);
        deleted.drain(..excess);
        deleted
    }
}

/// Makes the finding about its cause of this kind, that of the known container before others. Returns false if nothing
/// of this kind is wrong any more.
fn choose(finding: &mut Finding, kind: ProblemKind, is_known: impl Fn(&str) -> bool) -> bool {
    if finding.kind == kind && is_known(&finding.container) {
        return true;
    }
    let others = || finding.others.iter().enumerate().filter(|(_, cause)| cause.kind == kind);
    let same = others().find(|(_, cause)| is_known(&cause.container)).map(|(index, _)| index);
    match same {
        Some(index) => finding.promote(index),
        None if finding.kind == kind => {}
        None => match others().next().map(|(index, _)| index) {
            Some(index) => finding.promote(index),
            None => return false,
        },
    }
    true
}

/// Keeps the known reason unless the new one says more. A pod's own reasons are not those of attempts that differ: they
/// are always the present ones.
fn keep_reason(finding: &mut Finding, known: &str) {
    let varies = matches!(finding.kind, ProblemKind::Crash | ProblemKind::Image | ProblemKind::Start);
    if varies && !known.is_empty() && telling(&finding.reason) <= telling(known) {
        known.clone_into(&mut finding.reason);
    }
}

impl<'a> Resumed<'a> {
    fn from(status: Option<&'a OrchestrStatus>) -> Self {
        let Some(status) = status else { return Self::default() };
        let pods = status.problematic_pods.iter().map(|pod| {
            ((pod.namespace.as_str(), pod.name.as_str()), (pod.kind, pod.reason.as_str(), pod.since.0.as_second()))
        });
        let incidents = status.incidents.iter().filter_map(|incident| {
            let hash = u64::from_str_radix(&incident.key, 16).ok()?;
            Some((hash, (incident.reason.as_str(), incident.since.0.as_second())))
        });
        Self { pods: pods.collect(), incidents: incidents.collect() }
    }

    /// Goes on with what the status says of the pod, and of the incidents that it may belong to.
    fn attribute(&self, pod: &Pod, finding: &mut Finding) {
        if !finding.others.is_empty() {
            let is_open = |kind, container: &str| {
                self.incidents.contains_key(&Identity { kind, container, ..Identity::of(pod, finding) }.hash())
            };
            if !is_open(finding.kind, text::name(&finding.container)) {
                let open = finding.others.iter().position(|cause| is_open(cause.kind, text::name(&cause.container)));
                if let Some(index) = open {
                    finding.promote(index);
                }
            }
        }
        let known = self.pods.get(&(text::name(&pod.namespace), text::name(&pod.name)));
        if let Some((_, reason, since)) = known.filter(|(kind, ..)| *kind == finding.kind) {
            finding.since = finding.since.min(instant(*since));
            keep_reason(finding, reason);
        }
    }
}

/// A name's place in [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NameId(u32);

/// Names that occur many times, each stored once.
#[derive(Debug, Default)]
struct Names {
    ids: HashMap<Box<str>, NameId>,
    names: Vec<Box<str>>,
}

impl Names {
    fn id(&mut self, name: &str) -> NameId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = NameId(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.names.push(name.into());
        self.ids.insert(name.into(), id);
        id
    }

    fn name(&self, NameId(index): NameId) -> &str {
        self.names.get(index as usize).map_or("", |name| name)
    }
}

fn instant(second: i64) -> Timestamp {
    Timestamp::from_second(second).map_or(Timestamp::UNIX_EPOCH, seconds)
}
