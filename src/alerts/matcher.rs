//! Which incidents a `match` of the spec selects: that of a webhook, of a silence, or of quiet hours.

use std::collections::HashSet;

use super::{Incident, memory::Seen};
use crate::{
    api::{Match, MuteMatch, ProblemKind, Severity, TEAM_LENGTH, limits, reason_names},
    glob::{Glob, NamespaceCache},
    spec_error::{SpecError, at_most, globs, invalid, short_enough},
};

/// A validated `match`. A field that is empty matches everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Matcher {
    namespaces: Vec<Glob>,
    namespace_cache: NamespaceCache,
    /// A set, so that a match takes the same time however long the list is.
    reasons: HashSet<String>,
    owners: Vec<NamePattern>,
    severities: Vec<Severity>,
    teams: Vec<NamePattern>,
}

impl Matcher {
    /// That of a webhook.
    pub fn of_webhook(field: &str, wanted: Match) -> Result<Self, SpecError> {
        let field = |name: &str| format!("{field}.{name}");
        let teams = wanted.teams.unwrap_or_default();
        at_most(&field("teams"), teams.len(), limits::TEAMS)?;
        Ok(Self {
            namespaces: globs(&field("namespaces"), &wanted.namespaces.unwrap_or_default())?,
            reasons: wanted.reasons.unwrap_or_default().into_iter().collect(),
            severities: wanted.severities.unwrap_or_default(),
            teams: NamePattern::all(&field("teams"), &teams, "a team", TEAM_LENGTH)?,
            ..Self::default()
        })
    }

    /// That of a silence or of quiet hours.
    pub fn of_mute(field: &str, spec: &MuteMatch) -> Result<Self, SpecError> {
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
            reasons: reasons.into_iter().collect(),
            owners: NamePattern::all(&format!("{field}.owners"), &owners, "an owner", limits::OWNER_PATTERN_LENGTH)?,
            ..Self::default()
        })
    }

    /// Whether it matches every incident. Only a webhook's has severities and teams.
    pub fn is_empty(&self) -> bool {
        self.namespaces.is_empty() && self.reasons.is_empty() && self.owners.is_empty()
    }

    pub fn matches_namespace(&self, namespace: &str) -> bool {
        let is_match = || self.namespaces.iter().any(|glob| glob.is_match(namespace));
        self.namespaces.is_empty() || self.namespace_cache.get(namespace, is_match)
    }

    /// Whether the list contains the kind or the reason of a problem, or a synonym of the reason.
    pub fn matches_reason(&self, kind: ProblemKind, reason: &str) -> bool {
        self.reasons.is_empty() || reason_names(kind, reason).any(|name| self.reasons.contains(name))
    }

    pub fn matches_owner(&self, name: &str) -> bool {
        self.owners.is_empty() || self.owners.iter().any(|pattern| pattern.matches(name))
    }

    pub fn matches_severity(&self, severity: Severity) -> bool {
        self.severities.is_empty() || self.severities.contains(&severity)
    }

    /// Not even `*` matches an incident without a team.
    pub fn matches_team(&self, team: &str) -> bool {
        self.teams.is_empty() || !team.is_empty() && self.teams.iter().any(|pattern| pattern.matches(team))
    }

    /// Whether the namespace and the present reason or an earlier one match.
    pub fn matches_except_owner(&self, incident: &Incident, earlier: &[Seen]) -> bool {
        let mut reasons = [&incident.reason].into_iter().chain(earlier.iter().map(|seen| &seen.reason));
        self.matches_namespace(&incident.namespace) && reasons.any(|reason| self.matches_reason(incident.kind, reason))
    }
}

/// A name, or what a name begins and ends with, written with one `*` in place of any text. Names of owners and teams may be
/// longer and have more characters than those of namespaces, which [`crate::glob`] matches.
#[derive(Clone, Debug)]
struct NamePattern {
    start: String,
    /// Absent without a `*`.
    end: Option<String>,
}

impl NamePattern {
    /// `what` is what has such a name, such as "an owner", and `longest` is in characters.
    fn all(field: &str, texts: &[String], what: &str, longest: usize) -> Result<Vec<Self>, SpecError> {
        let new = |(index, text): (usize, &String)| Self::new(&format!("{field}[{index}]"), text, what, longest);
        texts.iter().enumerate().map(new).collect()
    }

    fn new(field: &str, text: &str, what: &str, longest: usize) -> Result<Self, SpecError> {
        short_enough(field, text, longest)?;
        let (start, end) = match text.split_once('*') {
            Some((start, end)) => (start, Some(end)),
            None => (text, None),
        };
        if text.is_empty() || end.is_some_and(|end| end.contains('*')) {
            return Err(invalid(field, format!("{text:?} is not the name of {what} with at most one *")));
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
    use crate::api::matches_reason;

    #[test]
    fn every_field_must_match() {
        let texts = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
        let spec = MuteMatch {
            namespaces: texts(&["shop-*", "bank"]),
            reasons: texts(&["OOMKilled", "Image"]),
            owners: texts(&["cart*"]),
        };
        let matches = |matcher: &Matcher, incident: &Incident, earlier: &[Seen]| {
            matcher.matches_except_owner(incident, earlier) && matcher.matches_owner(&incident.owner.name)
        };
        let matcher = Matcher::of_mute("match", &spec).unwrap();
        let incident = |namespace: &str, reason: &str, owner: &str| Incident {
            namespace: namespace.into(),
            reason: reason.into(),
            owner: crate::api::Owner { kind: "Deployment".to_owned(), name: owner.to_owned() }.into(),
            ..Incident::default()
        };
        assert!(matches(&matcher, &incident("shop-eu", "OOMKilled", "cart"), &[]));
        assert!(
            matches(
                &matcher,
                &incident("bank", "Error", "cart-api"),
                &[Seen { reason: "OOMKilled".into(), ..Seen::default() }]
            ),
            "an earlier reason"
        );
        assert!(!matches(&matcher, &incident("shop", "OOMKilled", "cart"), &[]));
        assert!(!matches(&matcher, &incident("bank", "Error", "cart"), &[]));
        assert!(!matches(&matcher, &incident("bank", "OOMKilled", "search"), &[]));
        let all = Matcher::of_mute("match", &MuteMatch::default()).unwrap();
        assert!(all.is_empty() && matches(&all, &incident("any", "Error", "any"), &[]));
    }

    #[test]
    fn contains_what_one_of_its_names_matches() {
        let names =
            ["Error", "CrashLoopBackOff", "ErrImagePull", "ImagePullBackOff", "OOMKilled", "Crash", "Image", ""];
        for (name, other) in names.iter().flat_map(|name| names.map(|other| (name, other))) {
            let reasons = [(*name).to_owned(), other.to_owned()].into();
            let matcher = Matcher { reasons, ..Matcher::default() };
            for reason in names {
                for kind in [ProblemKind::Crash, ProblemKind::Image, ProblemKind::NotReady] {
                    let expected = matches_reason(name, kind, reason) || matches_reason(other, kind, reason);
                    assert_eq!(matcher.matches_reason(kind, reason), expected, "{name}, {other}: {kind} {reason}");
                }
            }
        }
    }

    #[test]
    fn matches_names_exactly_and_by_both_ends() {
        let new = |pattern: &str| {
            let owners = NamePattern::all("f", &["other".to_owned(), pattern.to_owned()], "an owner", 20)?;
            Ok::<_, SpecError>(Matcher { owners, ..Matcher::default() })
        };
        for (pattern, matching, others) in [
            ("cart", &["cart"][..], &["carts", "a-cart", ""][..]),
            ("cart-*", &["cart-", "cart-api"], &["cart", "my-cart-api"]),
            ("*-api", &["cart-api", "-api"], &["cart-api-2", "api"]),
            ("cart*cart", &["cartcart", "cart-1-cart"], &["cart", "carcart"]),
            ("*", &["", "cart"], &[]),
        ] {
            let compiled = new(pattern).unwrap();
            for name in matching {
                assert!(compiled.matches_owner(name), "{pattern} and {name}");
            }
            assert!(compiled.matches_owner("other") && !compiled.is_empty());
            for name in others {
                assert!(!compiled.matches_owner(name), "{pattern} and {name}");
            }
        }
        for pattern in ["", "a*b*c", "**", "a-pattern-of-21-chars"] {
            assert!(new(pattern).is_err(), "{pattern:?}");
        }
        let error = new("**").unwrap_err().to_string();
        assert_eq!(error, r#"f[1]: "**" is not the name of an owner with at most one *"#);
    }
}
