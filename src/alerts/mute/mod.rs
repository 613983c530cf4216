//! Silences and quiet hours: which incidents are muted now, and until when. Pure.
//!
//! As in Alertmanager, *muted* means that nothing is announced or repeated. [`super::held_back`] tracks what is held back.

mod quiet_hours;

use std::collections::HashMap;

use arcstr::ArcStr;
use jiff::Timestamp;

use super::{
    Incident,
    matcher::Matcher,
    memory::{IncidentMemory, Seen},
};
use crate::{
    api::{self, ProblemKind, limits},
    spec_error::{SpecError, entries, invalid, short_enough},
};
use quiet_hours::QuietHours;

/// The validated silences and quiet hours of an object.
#[derive(Clone, Debug, Default)]
pub struct MuteRules {
    silences: Vec<Silence>,
    quiet_hours: Vec<QuietHours>,
}

#[derive(Clone, Debug)]
struct Silence {
    name: String,
    /// `None`: it has begun.
    from: Option<Timestamp>,
    until: Timestamp,
    matcher: Matcher,
}

/// A silence or quiet hours that hold now.
pub(super) struct ActiveRule<'a> {
    /// Such as "silence migration".
    pub name: ArcStr,
    pub until: Timestamp,
    matcher: &'a Matcher,
    mutes_critical: bool,
}

/// Why an incident is held back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mute {
    /// When to decide again. Another rule may hold by then.
    pub until: Timestamp,
    /// The rule that ends last.
    pub by: ArcStr,
}

impl MuteRules {
    /// Validates `spec.silences` and `spec.quietHours`. An invalid entry is not in force, so it cannot hold back alerts by
    /// mistake; `wrong` names it. A silence that has ended is valid.
    pub fn new(silences: &[api::Silence], quiet_hours: &[api::QuietHours], wrong: &mut Vec<SpecError>) -> Self {
        let new = |index, silence: &api::Silence, _: &mut _| Silence::new(index, silence);
        let silences = entries("spec.silences", silences, limits::SILENCES, |silence| &silence.name, new, wrong);
        let new = |index, hours: &api::QuietHours, _: &mut _| QuietHours::new(index, hours);
        let quiet_hours = entries("spec.quietHours", quiet_hours, limits::QUIET_HOURS, |hours| &hours.name, new, wrong);
        Self { silences, quiet_hours }
    }

    /// The rules that hold now.
    pub(super) fn active(&self, now: Timestamp) -> Vec<ActiveRule<'_>> {
        let silences = self.silences.iter().filter(|silence| silence.is_active(now)).map(|silence| ActiveRule {
            name: arcstr::format!("silence {}", silence.name),
            until: silence.until,
            matcher: &silence.matcher,
            // A person asked for exactly this.
            mutes_critical: true,
        });
        let quiet_hours = self.quiet_hours.iter().filter_map(|hours| {
            Some(ActiveRule {
                name: arcstr::format!("quiet hours {}", hours.name),
                until: hours.active_until(now)?,
                matcher: &hours.matcher,
                mutes_critical: false,
            })
        });
        silences.chain(quiet_hours).collect()
    }

    /// The names of the silences that have ended.
    pub(super) fn expired(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        self.silences.iter().filter(move |silence| silence.until <= now).map(|silence| silence.name.as_str())
    }
}

impl Silence {
    fn new(index: usize, spec: &api::Silence) -> Result<Self, SpecError> {
        let field = |name: &str| format!("spec.silences[{index}].{name}");
        let until = time(&field("until"), &spec.until)?;
        let from = spec.from.as_ref().map(|from| time(&field("from"), from)).transpose()?;
        if from.is_some_and(|from| from >= until) {
            return Err(invalid(field("from"), "must be before until"));
        }
        if let Some(comment) = &spec.comment {
            short_enough(&field("comment"), comment, limits::COMMENT_LENGTH)?;
        }
        let matcher = Matcher::of_mute(&field("match"), &spec.match_)?;
        if matcher.is_empty() {
            return Err(invalid(field("match"), "must name namespaces, reasons or owners"));
        }
        Ok(Self { name: spec.name.clone(), from, until, matcher })
    }

    fn is_active(&self, now: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= now) && now < self.until
    }
}

impl ActiveRule<'_> {
    /// Whether an incident is held back. `earlier` are previous reasons of the incident: one that matched once continues to
    /// match, because the incident is the same.
    fn mutes(&self, incident: &Incident, earlier: &[Seen]) -> bool {
        self.mutes_owner(incident) && self.matcher.matches_except_owner(incident, earlier)
    }

    /// Whether the severity and the owner do not except an incident.
    fn mutes_owner(&self, incident: &Incident) -> bool {
        (self.mutes_critical || incident.severity != api::Severity::Critical)
            && self.matcher.matches_owner(&incident.owner.name)
    }
}

/// Why an incident is held back; `None` if no rule holds it back.
pub(super) fn find_mute(rules: &[ActiveRule<'_>], incident: &Incident, earlier: &[Seen]) -> Option<Mute> {
    let muting = rules.iter().filter(|rule| rule.mutes(incident, earlier));
    muting.map(|rule| Mute { until: rule.until, by: rule.name.clone() }).max()
}

/// Whether a rule without `match` holds back everything with the severity of an incident.
pub(super) fn mutes_everywhere(rules: &[ActiveRule<'_>], incident: &Incident) -> bool {
    rules.iter().any(|rule| rule.matcher.is_empty() && rule.mutes(incident, &[]))
}

/// The rules that match incidents, but for their owners, by namespace, kind, reason and earlier reasons.
pub(in crate::alerts) type KnownMatches<'a> =
    HashMap<(&'a str, ProblemKind, &'a str, &'a [Seen]), Vec<&'a ActiveRule<'a>>>;

/// Why incidents of an object are held back now, by key. Evaluated once for all of its webhooks.
#[derive(Debug, Default)]
pub struct CurrentMutes {
    mutes: HashMap<ArcStr, Mute>,
    /// The rules that were evaluated, and when they end.
    rules: Vec<(ArcStr, Timestamp)>,
    /// How often a rule was evaluated.
    #[cfg(test)]
    pub(super) evaluations: usize,
}

impl CurrentMutes {
    /// Evaluates the rules that hold now.
    #[must_use]
    pub fn new(rules: &MuteRules, incidents: &[Incident], memory: &IncidentMemory, now: Timestamp) -> Self {
        let rules = rules.active(now);
        let mut mutes = Self::of(&rules);
        mutes.add(&rules, incidents, memory, &mut KnownMatches::new());
        mutes
    }

    /// Without incidents.
    pub(super) fn of(rules: &[ActiveRule<'_>]) -> Self {
        let rules = rules.iter().map(|rule| (rule.name.clone(), rule.until)).collect();
        Self { rules, ..Self::default() }
    }

    /// Whether they were evaluated with the same rules.
    pub(super) fn has_same_rules(&self, other: &Self) -> bool {
        self.rules == other.rules
    }

    /// Evaluates the rules for some of the incidents. What they say about namespace, kind and reasons is the same for all
    /// incidents that have these in common: a tenant may have 27 rules with 16 names in each list, and thousands of incidents.
    pub(super) fn add<'a>(
        &mut self,
        rules: &'a [ActiveRule<'a>],
        incidents: &'a [Incident],
        memory: &'a IncidentMemory,
        known: &mut KnownMatches<'a>,
    ) {
        for incident in incidents {
            let earlier = memory.earlier(&incident.key);
            let matching = known
                .entry((incident.namespace.as_str(), incident.kind, incident.reason.as_str(), earlier))
                .or_insert_with(|| {
                    #[cfg(test)]
                    {
                        self.evaluations += rules.len();
                    }
                    rules.iter().filter(|rule| rule.matcher.matches_except_owner(incident, earlier)).collect()
                });
            let muting = matching.iter().filter(|rule| rule.mutes_owner(incident));
            let last = muting.map(|rule| Mute { until: rule.until, by: rule.name.clone() }).max();
            self.mutes.extend(last.map(|mute| (incident.key.clone(), mute)));
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Mute> {
        self.mutes.get(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.mutes.is_empty()
    }
}

fn time(field: &str, text: &str) -> Result<Timestamp, SpecError> {
    short_enough(field, text, limits::TIME_LENGTH)?;
    text.parse().map_err(|_| invalid(field, format!("{text:?} is not a time such as 2026-12-01T08:00:00Z")))
}

#[cfg(test)]
mod tests;
