//! Matches incidents with the `match` of a silence or of quiet hours.

use arcstr::ArcStr;

use crate::{
    alerts::{incident::Incident, name_pattern::NameSet, reason_set::ReasonSet},
    api::{MuteMatch, limits},
    glob::{Glob, NamespaceCache},
    spec_error::{SpecError, at_most, globs, short_enough},
};

/// A validated `match`. A field that is empty matches everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Matcher {
    namespaces: Vec<Glob>,
    namespace_cache: NamespaceCache,
    reasons: ReasonSet,
    owners: NameSet,
}

impl Matcher {
    pub fn new(field: &str, spec: &MuteMatch) -> Result<Self, SpecError> {
        let items = |name: &str, items: &Option<Vec<String>>| -> Result<Vec<String>, SpecError> {
            let items = items.clone().unwrap_or_default();
            at_most(&format!("{field}.{name}"), items.len(), limits::MUTE_MATCHES)?;
            Ok(items)
        };
        let namespaces = items("namespaces", &spec.namespaces)?;
        let reasons = items("reasons", &spec.reasons)?;
        for (index, reason) in reasons.iter().enumerate() {
            short_enough(&format!("{field}.reasons[{index}]"), reason, limits::REASON_LENGTH)?;
        }
        let owners = items("owners", &spec.owners)?;
        Ok(Self {
            namespaces: globs(&format!("{field}.namespaces"), &namespaces)?,
            namespace_cache: NamespaceCache::default(),
            reasons: ReasonSet::new(reasons),
            owners: NameSet::new(&format!("{field}.owners"), &owners, "an owner", limits::OWNER_PATTERN_LENGTH)?,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.namespaces.is_empty() && self.reasons.is_empty() && self.owners.is_empty()
    }

    /// Whether the namespace and one of the reasons match.
    pub fn matches_except_owner(&self, incident: &Incident, earlier: &[ArcStr]) -> bool {
        let namespace = &incident.namespace;
        let in_namespaces = self.namespaces.is_empty()
            || self.namespace_cache.get(namespace, || self.namespaces.iter().any(|glob| glob.is_match(namespace)));
        let mut reasons = [&incident.reason].into_iter().chain(earlier);
        in_namespaces && (self.reasons.is_empty() || reasons.any(|reason| self.reasons.contains(incident.kind, reason)))
    }

    pub fn matches_owner(&self, incident: &Incident) -> bool {
        self.owners.is_empty() || self.owners.matches(&incident.owner.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_must_match() {
        let texts = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
        let spec = MuteMatch {
            namespaces: texts(&["shop-*", "bank"]),
            reasons: texts(&["OOMKilled", "Image"]),
            owners: texts(&["cart*"]),
        };
        let matches = |matcher: &Matcher, incident: &Incident, earlier: &[ArcStr]| {
            matcher.matches_except_owner(incident, earlier) && matcher.matches_owner(incident)
        };
        let matcher = Matcher::new("match", &spec).unwrap();
        let incident = |namespace: &str, reason: &str, owner: &str| Incident {
            namespace: namespace.into(),
            reason: reason.into(),
            owner: crate::api::Owner { kind: "Deployment".to_owned(), name: owner.to_owned() }.into(),
            ..Incident::default()
        };
        assert!(matches(&matcher, &incident("shop-eu", "OOMKilled", "cart"), &[]));
        assert!(matches(&matcher, &incident("bank", "Error", "cart-api"), &["OOMKilled".into()]), "an earlier reason");
        assert!(!matches(&matcher, &incident("shop", "OOMKilled", "cart"), &[]));
        assert!(!matches(&matcher, &incident("bank", "Error", "cart"), &[]));
        assert!(!matches(&matcher, &incident("bank", "OOMKilled", "search"), &[]));
        let all = Matcher::new("match", &MuteMatch::default()).unwrap();
        assert!(all.is_empty() && matches(&all, &incident("any", "Error", "any"), &[]));
    }
}
