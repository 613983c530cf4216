//! Shares the names of incidents between the objects that select the same failing pods. An owner's name alone takes up to 253
//! bytes, and a namespace may have 20 objects with webhooks.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use arcstr::ArcStr;

use crate::{alerts::Incident, api::Owner};

/// The most incidents whose names are shared, and the most reasons. The names of further ones are not shared.
const NAMES: usize = 1 << 16;
/// How many there are at least before those that are not used any more are removed.
const SWEEP_AT: usize = 1 << 10;

#[derive(Debug)]
pub(super) struct SharedNames {
    /// By the key of the incident, which is a hash of them.
    identities: HashMap<ArcStr, Identity>,
    reasons: HashSet<ArcStr>,
    sweep_at: usize,
}

#[derive(Debug)]
struct Identity {
    namespace: ArcStr,
    owner: Arc<Owner>,
    container: ArcStr,
}

impl Default for SharedNames {
    fn default() -> Self {
        Self { identities: HashMap::new(), reasons: HashSet::new(), sweep_at: SWEEP_AT }
    }
}

impl SharedNames {
    /// Replaces the names by equal ones of other objects, and remembers those that are new.
    pub(super) fn share(&mut self, incidents: &mut [Incident]) {
        for incident in incidents {
            self.share_identity(incident);
            if let Some(known) = self.reasons.get(&incident.reason) {
                incident.reason = known.clone();
            } else if self.reasons.len() < NAMES {
                self.reasons.insert(incident.reason.clone());
            }
        }
        if self.len() >= self.sweep_at {
            self.sweep();
        }
    }

    fn share_identity(&mut self, incident: &mut Incident) {
        match self.identities.get_key_value(&incident.key) {
            // The key is short enough to be forged.
            Some((key, own))
                if own.namespace == incident.namespace
                    && own.owner == incident.owner
                    && own.container == incident.container =>
            {
                incident.key = key.clone();
                incident.namespace = own.namespace.clone();
                incident.owner = Arc::clone(&own.owner);
                incident.container = own.container.clone();
            }
            Some(_) => {}
            None if self.identities.len() < NAMES => {
                let identity = Identity {
                    namespace: incident.namespace.clone(),
                    owner: Arc::clone(&incident.owner),
                    container: incident.container.clone(),
                };
                self.identities.insert(incident.key.clone(), identity);
            }
            None => {}
        }
    }

    fn len(&self) -> usize {
        self.identities.len() + self.reasons.len()
    }

    /// Removes what no incident uses.
    fn sweep(&mut self) {
        self.identities.retain(|_, own| Arc::strong_count(&own.owner) > 1);
        self.reasons.retain(|reason| ArcStr::strong_count(reason).is_none_or(|count| count > 1));
        self.identities.shrink_to(2 * self.identities.len());
        self.sweep_at = (2 * self.len()).max(SWEEP_AT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incident(key: &str, owner: &str) -> Incident {
        Incident {
            key: key.into(),
            namespace: "shop".into(),
            owner: Owner { kind: "Pod".to_owned(), name: owner.to_owned() }.into(),
            container: "app".into(),
            reason: "Unschedulable".into(),
            ..Incident::default()
        }
    }

    #[test]
    fn objects_share_the_names_of_the_same_incidents() {
        let mut shared = SharedNames::default();
        let mut objects: Vec<Vec<Incident>> =
            (0..20).map(|_| (0..100).map(|number| incident(&number.to_string(), &"x".repeat(253))).collect()).collect();
        objects.iter_mut().for_each(|incidents| shared.share(incidents));
        let (first, others) = objects.split_first().unwrap();
        for (own, other) in others.iter().flat_map(|incidents| first.iter().zip(incidents)) {
            assert!(Arc::ptr_eq(&own.owner, &other.owner));
            for (own, other) in [
                (&own.key, &other.key),
                (&own.namespace, &other.namespace),
                (&own.container, &other.container),
                (&own.reason, &other.reason),
            ] {
                assert!(ArcStr::ptr_eq(own, other), "{own}");
            }
        }
        assert_eq!((shared.identities.len(), shared.reasons.len()), (100, 1));
    }

    #[test]
    fn another_incident_with_a_forged_key_keeps_its_names() {
        let mut shared = SharedNames::default();
        shared.share(&mut [incident("a", "cart")]);
        let mut forged = [incident("a", "evil")];
        shared.share(&mut forged);
        assert_eq!(forged, [incident("a", "evil")]);
    }

    #[test]
    fn keeps_a_bounded_number_of_names_and_forgets_those_that_are_not_used() {
        let mut shared = SharedNames::default();
        let mut kept = Vec::new();
        for number in 0..NAMES + 100 {
            let mut one = [incident(&number.to_string(), "cart")];
            shared.share(&mut one);
            kept.extend(one);
        }
        assert_eq!(shared.identities.len(), NAMES);
        kept.truncate(10);
        shared.sweep();
        assert_eq!((shared.identities.len(), shared.reasons.len()), (10, 1));
        for number in 0..10 * SWEEP_AT {
            shared.share(&mut [incident(&format!("gone {number}"), "cart")]);
        }
        assert!(shared.identities.len() <= SWEEP_AT, "{}", shared.identities.len());
    }
}
