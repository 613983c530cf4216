//! Matches incidents with the `match` of a silence or of quiet hours.

use std::collections::HashSet;

use arcstr::ArcStr;

use crate::{
    alerts::{incident::Incident, reason_set::ReasonSet},
    api::{MuteMatch, limits},
    glob::{Glob, NamespaceCache},
    spec_error::{SpecError, at_most, globs, invalid, short_enough},
};

/// A validated `match`. A field that is empty matches everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Matcher {
    namespaces: Vec<Glob>,
    namespace_cache: NamespaceCache,
    reasons: ReasonSet,
    owners: OwnerSet,
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
        let pattern = |(index, text): (usize, &String)| OwnerPattern::new(&format!("{field}.owners[{index}]"), text);
        Ok(Self {
            namespaces: globs(&format!("{field}.namespaces"), &namespaces)?,
            namespace_cache: NamespaceCache::default(),
            reasons: ReasonSet::new(reasons),
            owners: OwnerSet::new(owners.iter().enumerate().map(pattern).collect::<Result<_, _>>()?),
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

/// The patterns of a rule.
#[derive(Clone, Debug, Default)]
struct OwnerSet {
    /// Those without a `*`.
    names: HashSet<String>,
    patterns: Vec<OwnerPattern>,
}

impl OwnerSet {
    fn new(all: Vec<OwnerPattern>) -> Self {
        let (patterns, names): (Vec<_>, Vec<_>) = all.into_iter().partition(|pattern| pattern.end.is_some());
        Self { names: names.into_iter().map(|name| name.start).collect(), patterns }
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.patterns.is_empty()
    }

    fn matches(&self, name: &str) -> bool {
        self.names.contains(name) || self.patterns.iter().any(|pattern| pattern.matches(name))
    }
}

/// A name, or what a name begins and ends with.
#[derive(Clone, Debug)]
struct OwnerPattern {
    start: String,
    /// Absent without a `*`.
    end: Option<String>,
}

impl OwnerPattern {
    fn new(field: &str, text: &str) -> Result<Self, SpecError> {
        short_enough(field, text, limits::OWNER_PATTERN_LENGTH)?;
        let (start, end) = match text.split_once('*') {
            Some((start, end)) => (start, Some(end)),
            None => (text, None),
        };
        if text.is_empty() || end.is_some_and(|end| end.contains('*')) {
            return Err(invalid(field, format!("{text:?} is not the name of an owner with at most one *")));
        }
        Ok(Self { start: start.to_owned(), end: end.map(str::to_owned) })
    }

    fn matches(&self, name: &str) -> bool {
        match &self.end {
            None => name == self.start,
            Some(end) => name.strip_prefix(self.start.as_str()).is_some_and(|rest| rest.ends_with(end.as_str())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_owners_by_name_and_by_both_ends() {
        for (pattern, matching, others) in [
            ("cart", &["cart"][..], &["carts", "a-cart", ""][..]),
            ("cart-*", &["cart-", "cart-api"], &["cart", "my-cart-api"]),
            ("*-api", &["cart-api", "-api"], &["cart-api-2", "api"]),
            ("cart*cart", &["cartcart", "cart-1-cart"], &["cart", "carcart"]),
            ("*", &["", "cart"], &[]),
        ] {
            let compiled = OwnerSet::new(vec![OwnerPattern::new("f", pattern).unwrap()]);
            for name in matching {
                assert!(compiled.matches(name), "{pattern} and {name}");
            }
            for name in others {
                assert!(!compiled.matches(name), "{pattern} and {name}");
            }
        }
        for pattern in ["", "a*b*c", "**"] {
            assert!(OwnerPattern::new("f", pattern).is_err(), "{pattern:?}");
        }
    }

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
