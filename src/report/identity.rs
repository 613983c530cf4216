//! Which pods belong to the same incident.

use std::collections::HashSet;

use ring::digest::{Context, SHA256};

use crate::{
    api::{Incident, Owner, ProblemKind},
    diagnosis::Finding,
    hex::hex,
    pods::Pod,
};

use super::{incident::MissingPods, truncate};

/// The identity of an incident. The problems of two pods with the same identity are one incident.
///
/// An owner reference may name anything. The owner's kind and name are compared as they are, and shown by
/// [`truncate::shown_name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Identity<'a> {
    pub(super) namespace: &'a str,
    pub(super) owner_kind: &'a str,
    pub(super) owner_name: &'a str,
    pub(super) container: &'a str,
    pub(super) kind: ProblemKind,
}

/// The first 128 bits of a SHA-256 of an identity. Unlike the first 64, which are the key of the incident in the API, nobody
/// can find another identity that has the same ones. So they stand for the whole identity, in little memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct IncidentId([u8; 16]);

impl<'a> Identity<'a> {
    pub(super) fn of(pod: &'a Pod, finding: &'a Finding) -> Self {
        let (owner_kind, owner_name) = match &finding.owner {
            Some(owner) => (owner.kind.as_str(), owner.name.as_str()),
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
            owner_kind: &owner.kind,
            owner_name: &owner.name,
            container: "",
            kind: ProblemKind::Missing,
        }
    }

    pub(super) fn id(&self) -> IncidentId {
        id(&[self.namespace, self.owner_kind, self.owner_name, self.container, self.kind.as_str()])
    }

    /// The owner as it is shown.
    pub(super) fn owner(&self) -> Owner {
        truncate::shown_owner(self.owner_kind, self.owner_name)
    }

    /// Whether this is the identity of an incident in a status, as far as that shows. The keys are compared as well,
    /// because the owner is shown without some characters.
    pub(super) fn is_of(&self, listed: &Incident) -> bool {
        self.kind == listed.kind
            && self.namespace == listed.namespace
            && self.container == listed.container
            && self.owner() == listed.owner
            && self.id().keys().contains(&listed.key)
    }
}

impl IncidentId {
    /// The key of the incident in the API: 16 hexadecimal digits.
    pub(super) fn key(self) -> String {
        hex(&self.0[..8])
    }

    /// The key, and the one that replaces it if another incident has the same.
    pub(super) fn keys(self) -> [String; 2] {
        [self.key(), hex(&self.0[8..])]
    }
}

/// The keys of incidents. No two of them are the same, even if the first 64 bits of their identities' hashes are.
pub(super) fn distinct_keys(ids: impl IntoIterator<Item = IncidentId>) -> Vec<String> {
    let mut taken = HashSet::new();
    let distinct = |id: IncidentId| {
        let [key, other] = id.keys();
        if taken.insert(key.clone()) { key } else { other }
    };
    ids.into_iter().map(distinct).collect()
}

/// The key of the incident of missing pods of an owner.
pub(crate) fn key_of_missing(namespace: &str, owner: &Owner) -> String {
    Identity::missing(namespace, owner).id().key()
}

/// Each part is preceded by its length, so that different parts never join into the same bytes.
pub(super) fn id(parts: &[&str]) -> IncidentId {
    let mut hash = Context::new(&SHA256);
    for part in parts {
        hash.update(&(part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let mut id = [0; 16];
    // A SHA-256 has 32 bytes.
    id.iter_mut().zip(hash.finish().as_ref()).for_each(|(to, from)| *to = *from);
    IncidentId(id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_keys_of_different_owners_are_different_incidents() {
        let identity = Identity {
            namespace: "shop",
            owner_kind: "Deployment",
            owner_name: "cart",
            container: "app",
            kind: ProblemKind::Crash,
        };
        let listed = json!({
            "key": identity.id().key(), "namespace": "shop", "owner": identity.owner(), "container": "app",
            "kind": "Crash", "reason": "Error", "pods": 1, "since": "2026-11-01T10:00:00Z",
        });
        let listed: Incident = serde_json::from_value(listed).unwrap();
        assert!(identity.is_of(&listed));
        let forged = [
            Incident { namespace: "attacker".to_owned(), ..listed.clone() },
            Incident { owner: Owner { name: "x".to_owned(), ..listed.owner.clone() }, ..listed.clone() },
            Incident { owner: Owner { kind: "x".to_owned(), ..listed.owner.clone() }, ..listed.clone() },
            Incident { container: String::new(), ..listed.clone() },
            Incident { kind: ProblemKind::Image, ..listed.clone() },
            Incident { key: "0000000000000000".to_owned(), ..listed.clone() },
        ];
        for other in forged {
            assert!(!identity.is_of(&other), "{other:?}");
        }
    }

    #[test]
    fn incidents_whose_hashes_begin_alike_have_different_keys() {
        let [mut one, mut other] = [[7; 16], [7; 16]];
        (one[8], other[8]) = (1, 2);
        let ids = [one, other].map(IncidentId);
        assert_eq!(ids[0].key(), ids[1].key());
        assert_eq!(distinct_keys(ids), ["0707070707070707", "0207070707070707"]);
        assert_eq!(distinct_keys([ids[1]]), ["0707070707070707"]);
    }

    #[test]
    fn owners_that_are_shown_alike_are_different_incidents() {
        let named = |owner_name: &'static str| Identity {
            namespace: "shop",
            owner_kind: "Deployment",
            owner_name,
            container: "app",
            kind: ProblemKind::Crash,
        };
        let [one, other] = [named("cart\u{202e}"), named("cart\u{200b}")];
        assert_eq!(one.owner(), other.owner());
        assert!(one != other && one.id() != other.id() && one.id().key() != other.id().key());
        assert_ne!(one.owner(), named("cart").owner(), "nobody can show another name as this one");
    }
}
