//! Which pods belong to the same incident.

use ring::digest::{Context, SHA256};

use crate::{
    api::{Owner, ProblemKind},
    diagnosis::Finding,
    pods::Pod,
};

use super::{missing::MissingPods, truncate};

/// The identity of an incident. The problems of two pods with the same identity are one incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Identity<'a> {
    pub(super) namespace: &'a str,
    pub(super) owner_kind: &'a str,
    pub(super) owner_name: &'a str,
    pub(super) container: &'a str,
    pub(super) kind: ProblemKind,
}

impl<'a> Identity<'a> {
    pub(super) fn of(pod: &'a Pod, finding: &'a Finding) -> Self {
        let (owner_kind, owner_name) = match &finding.owner {
            Some(owner) => (truncate::name(&owner.kind), truncate::name(&owner.name)),
            None => ("Pod", truncate::name(&pod.name)),
        };
        Self {
            namespace: truncate::name(&pod.namespace),
            owner_kind,
            owner_name,
            container: truncate::name(&finding.container),
            kind: finding.kind,
        }
    }

    /// The identity of the incident of missing pods.
    pub(super) fn of_missing(missing: &'a MissingPods) -> Self {
        Self::missing(&missing.namespace, &missing.owner)
    }

    fn missing(namespace: &'a str, owner: &'a Owner) -> Self {
        Self {
            namespace: truncate::name(namespace),
            owner_kind: truncate::name(&owner.kind),
            owner_name: truncate::name(&owner.name),
            container: "",
            kind: ProblemKind::Missing,
        }
    }

    /// A hash of all fields.
    pub(super) fn hash(&self) -> u64 {
        hash(&[self.namespace, self.owner_kind, self.owner_name, self.container, self.kind.as_str()])
    }
}

/// The key of the incident of missing pods of an owner.
pub(crate) fn key_of_missing(namespace: &str, owner: &Owner) -> String {
    key(Identity::missing(namespace, owner).hash())
}

/// The first 8 bytes of a SHA-256. Each part is preceded by its length, so that different parts never join into the same
/// bytes.
pub(super) fn hash(parts: &[&str]) -> u64 {
    let mut hash = Context::new(&SHA256);
    for part in parts {
        hash.update(&(part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finish().as_ref().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// The key of an incident in the API: its hash as 16 hexadecimal digits.
pub(super) fn key(hash: u64) -> String {
    format!("{hash:016x}")
}
