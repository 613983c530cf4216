//! Groups the problems of pods into incidents.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    api::{self, Ownership, Revision, Severity},
    diagnosis::{Explanation, Finding, revision_hash},
    logs::{Masking, clean_text},
    pods::Pod,
};

use super::{
    identity::{Identity, distinct_keys},
    incident::{Incident, MissingPods},
    problem::{FindTail, Problem},
    quote::{log_line, may_quote},
    revision::FailingRevision,
    tracker::Tracker,
    truncate,
    wire::{count, seconds, wire_time},
};

/// The longest message of an incident, in bytes.
const MESSAGE_LIMIT: usize = 512;
/// The number of pods, and of controllers, that an incident names at most.
const EXAMPLES: usize = 3;

/// What is known about the owner of pods with a problem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// How many pods it has; 0 if unknown.
    pub of: u64,
    /// Set if only one revision fails, and an earlier one is healthy.
    pub revision: Option<FailingRevision>,
}

/// Looks up the owner of a pod with a problem. The second argument is the hash of the revision, if all pods of the incident
/// belong to the same.
pub type FindWorkload<'a> = &'a dyn Fn(&Pod, Option<&str>) -> Workload;

/// Looks up the annotations of a namespace, if it has any that are used.
pub type FindOwnership<'a> = &'a dyn Fn(&str) -> Option<Ownership>;

/// An incident, and what its texts are made from.
pub(super) struct Group<'a> {
    pub(super) incident: Incident,
    pub(super) identity: Identity<'a>,
    pub(super) example: Example<'a>,
    /// The cause that was proven for some of the pods, now or before.
    proven: Option<&'a Explanation>,
    /// Whether one of its pods shows only the latest time at which its problem can have begun.
    pub(super) since_at_latest: bool,
    examples: BTreeSet<&'a str>,
    /// The hash of the revision of the owner, if all the pods have the same.
    revision: Option<&'a str>,
    /// The revision that fails, if an earlier one is healthy.
    failing: Option<FailingRevision>,
    /// The severity that an annotation gives it.
    pub(super) annotated_severity: Option<Severity>,
    /// Annotations that are ignored because their values are not valid.
    invalid_annotations: Vec<String>,
}

/// What is known beside the pods.
#[derive(Clone, Copy)]
pub(super) struct Lookup<'a> {
    pub(super) workload: FindWorkload<'a>,
    pub(super) ownership: FindOwnership<'a>,
}

/// What explains an incident.
#[derive(Clone, Copy)]
pub(super) enum Example<'a> {
    /// Of the pods with the incident's cause, the one whose problem began last.
    Pod(&'a Pod, &'a Finding),
    /// Pods that do not exist.
    Missing(&'a MissingPods),
}

impl<'a> Example<'a> {
    pub(super) fn explanation(self) -> &'a Explanation {
        match self {
            Self::Pod(_, finding) => &finding.explanation,
            Self::Missing(missing) => &missing.explanation,
        }
    }

    /// How long after its start the state became a problem.
    pub(super) fn tolerated(self) -> Duration {
        match self {
            Self::Pod(_, finding) => finding.tolerated,
            Self::Missing(missing) => missing.tolerated,
        }
    }
}

/// Groups the problems. The most recent incident comes first; incidents of the same second are ordered by identity. The
/// tracker's start time and reason take precedence over those of the present pods. The incidents have no texts yet.
pub(super) fn ordered<'a>(
    problems: &[Problem<'a>],
    missing: &'a [MissingPods],
    tracker: &'a Tracker,
    lookup: Lookup<'_>,
) -> Vec<Group<'a>> {
    let mut groups = BTreeMap::<Identity<'a>, Group<'a>>::new();
    for problem in problems {
        let identity = problem.identity();
        let revision = revision_hash(problem.pod);
        let group = groups.entry(identity).or_insert_with(|| Group {
            proven: tracker.incident(&identity).and_then(|known| known.explanation.as_deref()),
            revision,
            ..Group::new(identity, Example::Pod(problem.pod, problem.finding))
        });
        if let Some(proven) = group.proven
            && group.example.explanation().cause != proven.cause
            && problem.finding.explanation.cause == proven.cause
        {
            group.example = Example::Pod(problem.pod, problem.finding);
        }
        group.revision = group.revision.filter(|own| Some(*own) == revision);
        group.incident.pods += 1;
        group.incident.since = group.incident.since.min(problem.since);
        group.since_at_latest |= problem.finding.since_at_latest;
        group.examples.insert(problem.name);
        if group.examples.len() > EXAMPLES {
            group.examples.pop_last();
        }
    }
    for missing in missing {
        let identity = Identity::of_missing(missing);
        groups.entry(identity).or_insert_with(|| Group::new(identity, Example::Missing(missing)));
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    let keys = distinct_keys(groups.iter().map(|group| group.identity.id()));
    for (group, key) in groups.iter_mut().zip(keys) {
        group.incident.key = key.into();
        group.complete(tracker, lookup);
    }
    // A stable sort: equal times keep the order of the identities.
    groups.sort_by_key(|group| Reverse(group.incident.since));
    groups
}

impl<'a> Group<'a> {
    fn new(identity: Identity<'a>, example: Example<'a>) -> Self {
        let incident = match example {
            Example::Pod(pod, finding) => Incident {
                namespace: truncate::shared_name(&pod.namespace),
                container: truncate::shared_name(&finding.container),
                reason: truncate::shared_name(&finding.reason),
                since: seconds(finding.since),
                ..Incident::default()
            },
            Example::Missing(missing) => Incident {
                namespace: identity.namespace.into(),
                reason: truncate::name(missing.reason).into(),
                since: seconds(missing.since),
                pods: missing.missing,
                controllers: missing.other_controllers().take(EXAMPLES).collect(),
                ..Incident::default()
            },
        };
        Self {
            incident: Incident { owner: identity.owner().into(), kind: identity.kind, ..incident },
            identity,
            example,
            proven: None,
            since_at_latest: false,
            examples: BTreeSet::new(),
            revision: None,
            failing: None,
            annotated_severity: None,
            invalid_annotations: Vec::new(),
        }
    }

    /// Adds what is known beside the pods.
    fn complete(&mut self, tracker: &Tracker, lookup: Lookup<'_>) {
        let (own, workload) = match self.example {
            // The pods do not show how many others belong to a CronJob.
            Example::Pod(pod, _) if self.identity.owner_kind == "CronJob" => {
                (pod.ownership.as_deref(), Workload::default())
            }
            Example::Pod(pod, _) => (pod.ownership.as_deref(), (lookup.workload)(pod, self.revision)),
            Example::Missing(missing) => (missing.ownership.as_deref(), Workload { of: missing.of, revision: None }),
        };
        let namespace = (lookup.ownership)(self.identity.namespace);
        let of_pod = own.into_iter().flat_map(Ownership::invalid).map(str::to_owned);
        let of_namespace = namespace.iter().flat_map(Ownership::invalid).map(|name| format!("{name} of the namespace"));
        self.invalid_annotations = of_pod.chain(of_namespace).collect();
        let Ownership { severity, team, runbook, dashboard, .. } = Ownership::or(own, namespace.as_ref());
        self.annotated_severity = severity;
        self.failing = workload.revision;
        let (cause, tolerated) = (self.explanation().cause, self.example.tolerated());
        let incident = &mut self.incident;
        if let Some(known) = tracker.incident(&self.identity) {
            incident.since = incident.since.min(known.since);
            incident.reason = known.reason.clone();
        }
        (incident.cause, incident.tolerated, incident.of) = (cause, tolerated, workload.of);
        (incident.team, incident.runbook, incident.dashboard) = (team, runbook, dashboard);
        // Critical if none of the owner's pods works, unless an annotation says otherwise.
        let is_down = incident.of > 0 && incident.pods >= incident.of;
        incident.severity = severity.unwrap_or(if is_down { Severity::Critical } else { Severity::Warning });
    }
}

impl Group<'_> {
    /// The cause and the sentence: those of the example unless another one was proven before.
    pub(super) fn explanation(&self) -> &Explanation {
        let own = self.example.explanation();
        self.proven.filter(|proven| proven.cause != own.cause).unwrap_or(own)
    }

    /// Whether it may quote a line of a log.
    pub(super) fn may_quote(&self) -> bool {
        matches!(self.example, Example::Pod(..)) && may_quote(self.identity.kind, self.explanation().cause)
    }

    /// The line that it quotes from the log of its example; may be empty.
    pub(super) fn log_line(&self, find_tail: FindTail<'_>) -> String {
        let Example::Pod(pod, finding) = self.example else { return String::new() };
        let mut containers = finding.containers.iter();
        let container = containers.find(|own| truncate::name(&own.name) == self.identity.container);
        let tail = container.filter(|_| self.may_quote()).and_then(|container| find_tail(pod, container));
        tail.as_ref().map(log_line).unwrap_or_default()
    }

    /// The names of some of its pods.
    pub(super) fn example_pods(&self) -> Vec<String> {
        self.examples.iter().map(|pod| (*pod).to_owned()).collect()
    }

    /// The revision that fails, if an earlier one is healthy.
    pub(super) fn revision(&self, masking: Option<&Masking<'_>>) -> Option<Revision> {
        self.failing.as_ref().map(|revision| revision.show(masking))
    }

    /// The incident as the status lists it, without a line of a log.
    pub(super) fn in_status(&self, masking: Option<&Masking<'_>>) -> api::Incident {
        let own = self.incident.clone();
        api::Incident {
            key: own.key.to_string(),
            kind: own.kind,
            namespace: own.namespace.to_string(),
            owner: Arc::unwrap_or_clone(own.owner),
            container: own.container.to_string(),
            reason: own.reason.to_string(),
            cause: own.cause,
            message: clean_text(&self.explanation().message, masking, MESSAGE_LIMIT),
            log_line: String::new(),
            hint: String::new(),
            severity: Some(own.severity),
            team: own.team.to_string(),
            runbook: own.runbook.to_string(),
            dashboard: own.dashboard.to_string(),
            invalid_annotations: self.invalid_annotations.clone(),
            pods: count(own.pods),
            most_pods: 0,
            of: count(own.of),
            revision: self.revision(masking),
            since: wire_time(own.since),
            since_at_latest: false,
            example_pods: self.example_pods(),
            controllers: own.controllers,
        }
    }
}
