//! Which incidents of an object are muted now.
//!
//! An object may have 27 rules with 16 names in each of their lists, ten webhooks, and thousands of incidents. So the rules are
//! evaluated once for all webhooks, and what they say about namespace, kind and reasons once for all incidents that have
//! these in common. Only the owners' names are compared for each incident.

use std::collections::HashMap;

use arcstr::ArcStr;
use jiff::Timestamp;

use super::{ActiveRule, Mute, MuteRules};
use crate::{
    alerts::incident::{Incident, IncidentMemory},
    api::ProblemKind,
};

/// Why incidents are held back, by key.
#[derive(Debug, Default)]
pub struct CurrentMutes {
    mutes: HashMap<ArcStr, Mute>,
    /// The rules that were evaluated, and when they end.
    rules: Vec<(ArcStr, Timestamp)>,
    /// How often a rule was evaluated.
    #[cfg(test)]
    pub(in crate::alerts) evaluations: usize,
}

impl CurrentMutes {
    /// Evaluates the rules that hold now.
    #[must_use]
    pub fn new(rules: &MuteRules, incidents: &[Incident], memory: &IncidentMemory, now: Timestamp) -> Self {
        let mut search = MuteSearch::new(rules, now);
        search.add(incidents, memory);
        search.found
    }

    pub(in crate::alerts) fn get(&self, key: &str) -> Option<&Mute> {
        self.mutes.get(key)
    }

    pub(in crate::alerts) fn is_empty(&self) -> bool {
        self.mutes.is_empty()
    }
}

/// An evaluation of the rules in several steps.
pub(crate) struct MuteSearch<'a> {
    rules: Vec<ActiveRule<'a>>,
    /// For incidents with the same namespace, kind and reasons, the rules that match these.
    classes: HashMap<Class<'a>, Vec<usize>>,
    found: CurrentMutes,
}

#[derive(PartialEq, Eq, Hash)]
struct Class<'a> {
    namespace: &'a str,
    kind: ProblemKind,
    reason: &'a str,
    earlier: &'a [ArcStr],
}

impl<'a> MuteSearch<'a> {
    pub(crate) fn new(rules: &'a MuteRules, now: Timestamp) -> Self {
        let rules = rules.active(now);
        let held = rules.iter().map(|rule| (rule.name.clone(), rule.until)).collect();
        Self { rules, classes: HashMap::new(), found: CurrentMutes { rules: held, ..CurrentMutes::default() } }
    }

    /// Whether no rule holds, so that nothing needs to be evaluated.
    pub(crate) fn is_trivial(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether an earlier evaluation for the same incidents has the same result.
    pub(crate) fn is_known_from(&self, earlier: &CurrentMutes) -> bool {
        self.found.rules == earlier.rules
    }

    /// Evaluates the rules for some of the incidents.
    pub(crate) fn add(&mut self, incidents: &'a [Incident], memory: &'a IncidentMemory) {
        if self.is_trivial() {
            return;
        }
        let Self { rules, classes, found } = self;
        for incident in incidents {
            let earlier = memory.reasons(&incident.key);
            let class =
                Class { namespace: &incident.namespace, kind: incident.kind, reason: &incident.reason, earlier };
            let matching = classes.entry(class).or_insert_with(|| {
                #[cfg(test)]
                {
                    found.evaluations += rules.len();
                }
                let matches = |rule: &ActiveRule<'_>| rule.matcher.matches_except_owner(incident, earlier);
                (0..).zip(rules.iter()).filter(|(_, rule)| matches(rule)).map(|(index, _)| index).collect()
            });
            let muting =
                matching.iter().filter_map(|&index| rules.get(index)).filter(|rule| rule.mutes_owner(incident));
            if let Some(last) = muting.max_by(|a, b| (a.until, &a.name).cmp(&(b.until, &b.name))) {
                found.mutes.insert(incident.key.clone(), Mute { until: last.until, by: last.name.clone() });
            }
        }
    }

    pub(crate) fn finish(self) -> CurrentMutes {
        self.found
    }
}
