//! Pods that fail alike, as one.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;
use ring::digest::{Context, SHA256};

use crate::{
    api::{Incident, Owner, ProblemKind},
    diagnosis::Finding,
    pods::Pod,
};

use super::{Tracker, problem::Problem, text, wire_time};

/// How many pods an incident names.
const EXAMPLES: usize = 3;

/// What makes two pods' problems the same incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Identity<'a> {
    pub(super) namespace: &'a str,
    pub(super) owner_kind: &'a str,
    pub(super) owner_name: &'a str,
    pub(super) container: &'a str,
    pub(super) kind: ProblemKind,
}

/// The pods of an incident.
pub(super) struct Group<'a> {
    pub(super) identity: Identity<'a>,
    /// The most telling so far.
    pub(super) reason: &'a str,
    pub(super) pods: usize,
    /// The most recent of them, and what is wrong with it.
    pub(super) example: (&'a Pod, &'a Finding),
    since: Timestamp,
    examples: BTreeSet<&'a str>,
}

/// All incidents; the most recent first, then by identity. What the tracker remembers of one goes before what its
/// present pods show.
pub(super) fn ordered<'a>(problems: &[Problem<'a>], tracker: &'a Tracker) -> Vec<Group<'a>> {
    let mut groups = BTreeMap::<Identity<'a>, Group<'a>>::new();
    for problem in problems {
        let identity = Identity::of(problem.pod, problem.finding);
        let group = groups.entry(identity).or_insert_with(|| Group {
            identity,
            reason: text::name(&problem.finding.reason),
            pods: 0,
            example: (problem.pod, problem.finding),
            since: problem.since,
            examples: BTreeSet::new(),
        });
        group.pods += 1;
        group.since = group.since.min(problem.since);
        group.examples.insert(problem.name);
        if group.examples.len() > EXAMPLES {
            group.examples.pop_last();
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    for group in &mut groups {
        if let Some(known) = tracker.incident(&group.identity) {
            group.since = group.since.min(known.since);
            group.reason = known.reason;
        }
    }
    // Stable: within a second they stay in the order of their identities.
    groups.sort_by_key(|group| Reverse(group.since));
    groups
}

impl<'a> Identity<'a> {
    pub(super) fn of(pod: &'a Pod, finding: &'a Finding) -> Self {
        let (owner_kind, owner_name) = match &finding.owner {
            Some(owner) => (text::name(&owner.kind), text::name(&owner.name)),
            None => ("Pod", text::name(&pod.name)),
        };
        Self {
            namespace: text::name(&pod.namespace),
            owner_kind,
            owner_name,
            container: text::name(&finding.container),
            kind: finding.kind,
        }
    }

    /// The first 8 bytes of a SHA-256. Each part's length goes before it: parts that are joined otherwise never make the
    /// same bytes, whatever stands in them.
    pub(super) fn hash(&self) -> u64 {
        let mut hash = Context::new(&SHA256);
        for part in [self.namespace, self.owner_kind, self.owner_name, self.container, self.kind.as_str()] {
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hash.finish().as_ref().iter().take(8).fold(0, |key, byte| key << 8 | u64::from(*byte))
    }
}

/// A hash as users see it: 16 hexadecimal digits.
pub(super) fn key(hash: u64) -> String {
    format!("{hash:016x}")
}

impl Group<'_> {
    pub(super) fn incident(&self) -> Incident {
        Incident {
            key: key(self.identity.hash()),
            kind: self.identity.kind,
            namespace: self.identity.namespace.to_owned(),
            owner: Owner { kind: self.identity.owner_kind.to_owned(), name: self.identity.owner_name.to_owned() },
            container: self.identity.container.to_owned(),
            reason: self.reason.to_owned(),
            pods: super::count(self.pods),
            since: wire_time(self.since),
            example_pods: self.examples.iter().map(|pod| (*pod).to_owned()).collect(),
        }
    }
}
