//! The missing pods that one object selects.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::{
    api::{NamespacedName, Owner, Ownership},
    report::MissingPods,
};

use super::{
    OwnerKey, Workloads,
    failed_creation::Refusal,
    key::WorkloadKey,
    object::Existence,
    state::{Known, Resumed, TOLERATED},
};

/// How long a workload from the status may be unread before the status says that it is no longer watched. Its incident and
/// its alerts stay as they are: what is unknown is not over.
const UNREAD: Duration = Duration::from_secs(10 * 60);

/// Whether an object selects pods of a namespace with these labels.
type Selects<'s> = dyn Fn(&str, &Labels) -> bool + 's;
type Labels = [(String, String)];
/// Whether a Job in a namespace has pods.
type HasPods<'s> = dyn Fn(&str, &str) -> bool + 's;

/// What an object's status says about missing pods.
#[derive(Debug, Default)]
pub(in crate::controller) struct Reported {
    pub(in crate::controller) missing: Vec<MissingPods>,
    /// How many missing pods an annotation excludes.
    pub(in crate::controller) ignored: u64,
    /// When pods will have been missing for long enough to be a problem.
    pub(in crate::controller) recheck: Option<Timestamp>,
}

/// A workload that was read, and what it misses.
struct ReadWorkload<'a> {
    key: &'a WorkloadKey,
    missing: u64,
    of: u64,
    refusal: &'a Refusal,
    ownership: Option<&'a Ownership>,
}

/// The workloads of one owner that miss pods.
#[derive(Default)]
struct Group<'a> {
    /// Those that were read.
    read: Vec<ReadWorkload<'a>>,
    resumed: Option<&'a Resumed>,
    resumed_keys: Vec<&'a WorkloadKey>,
    ignored: u64,
}

impl Workloads {
    /// The missing pods of an object.
    pub(in crate::controller) fn report(
        &self,
        object: &NamespacedName,
        selects: &Selects<'_>,
        job_has_pods: &HasPods<'_>,
        wall: Timestamp,
    ) -> Reported {
        let mut groups = BTreeMap::<OwnerKey, Group<'_>>::new();
        for (key, state) in &self.known {
            let group = |owner: &Owner| (key.namespace.clone(), owner.clone());
            match state.known() {
                // What is wrong with a failed Job is reported with its failed pods, if it has any.
                Some(Known::Read { workload, .. })
                    if matches!(workload.existence, Existence::Ended { .. })
                        && job_has_pods(&key.namespace, &key.name) => {}
                Some(Known::Read { workload, missing, of, refusal }) if selects(&key.namespace, &workload.labels) => {
                    let group = groups.entry(group(&workload.owner)).or_default();
                    if workload.is_ignored {
                        group.ignored = group.ignored.saturating_add(missing);
                    } else {
                        let ownership = workload.ownership.as_deref();
                        group.read.push(ReadWorkload { key, missing, of, refusal, ownership });
                    }
                }
                Some(Known::Resumed(resumed)) if resumed.objects.contains(object) => {
                    let group = groups.entry(group(&resumed.owner)).or_default();
                    group.resumed = Some(resumed);
                    group.resumed_keys.push(key);
                }
                _ => {}
            }
        }
        let mut reported = Reported::default();
        for (owner, group) in groups {
            let Some(since) = self.open.get(&owner).copied() else { continue };
            let problem_at = since.saturating_add(TOLERATED).unwrap_or(Timestamp::MAX);
            if problem_at > wall {
                reported.recheck = reported.recheck.into_iter().chain([problem_at]).min();
                continue;
            }
            reported.ignored = reported.ignored.saturating_add(group.ignored);
            reported.missing.extend(group.into_missing(owner, since));
        }
        reported
    }

    /// Sentences for an object about what could not be checked.
    pub(in crate::controller) fn warnings(
        &self,
        selects_namespace: impl Fn(&str) -> bool,
        now: Instant,
    ) -> Vec<String> {
        let denied =
            self.known.iter().find(|(key, state)| !state.denial.is_empty() && selects_namespace(&key.namespace));
        let denied = denied.map(|(_, state)| format!("could not check whether pods are missing: {}", state.denial));
        let omitted = match self
            .omitted
            .iter()
            .filter(|(namespace, _)| selects_namespace(namespace))
            .map(|(_, omitted)| omitted.len())
            .sum::<usize>()
        {
            0 => None,
            1 => Some("1 workload could not create pods, but was not checked, because too many could not".to_owned()),
            n => Some(format!("{n} workloads could not create pods, but were not checked, because too many could not")),
        };
        let mut unread: Vec<&Owner> = self
            .known
            .iter()
            .filter(|(key, _)| selects_namespace(&key.namespace))
            .filter_map(|(_, state)| match state.known()? {
                Known::Resumed(resumed) if now >= resumed.at + UNREAD => Some(&resumed.owner),
                _ => None,
            })
            .collect();
        unread.sort();
        unread.dedup();
        let unwatched = unread.first().map(|first| {
            let others = if unread.len() > 1 { format!(" and {} others", unread.len() - 1) } else { String::new() };
            format!(
                "{} {}{others} could not be read for 10 minutes, so missing pods are no longer watched",
                first.kind, first.name
            )
        });
        denied.into_iter().chain(unwatched).chain(omitted).collect()
    }
}

impl Group<'_> {
    fn into_missing(mut self, (namespace, owner): OwnerKey, since: Timestamp) -> Option<MissingPods> {
        // The one that misses most pods explains the incident.
        self.read.sort_by(|a, b| b.missing.cmp(&a.missing).then_with(|| a.key.cmp(b.key)));
        let sum = |number: fn(&ReadWorkload<'_>) -> u64| self.read.iter().map(number).fold(0, u64::saturating_add);
        let (missing, of, refusal, ownership, controllers) = match (self.read.first(), self.resumed) {
            (Some(first), _) => {
                let controllers = self.read.iter().map(|own| own.key.as_owner()).collect();
                (sum(|own| own.missing), sum(|own| own.of), first.refusal, first.ownership, controllers)
            }
            // The alert that it is known from does not say how many pods are missing.
            (None, Some(Resumed { missing: 0, .. })) => return None,
            (None, Some(resumed)) => {
                let controllers = self.resumed_keys.iter().map(|key| key.as_owner()).collect();
                (resumed.missing, resumed.of, &resumed.refusal, resumed.ownership.as_deref(), controllers)
            }
            (None, None) => return None,
        };
        let explanation = refusal.explain(missing, of);
        Some(MissingPods {
            namespace,
            owner,
            controllers,
            reason: refusal.reason(),
            since,
            tolerated: TOLERATED,
            missing,
            of,
            explanation,
            ownership: ownership.cloned().map(Box::new),
        })
    }
}
