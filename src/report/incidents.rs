//! Groups the problems of pods into incidents.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;

use crate::{
    api::{Incident, Owner, Ownership, Revision, Severity},
    diagnosis::{Explanation, Finding, revision_hash},
    logs::{Masking, clean_text},
    metrics::IncidentReport,
    pods::Pod,
};

use super::{
    identity::{Identity, distinct_keys},
    incident,
    missing::MissingPods,
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

/// An incident and the pods that belong to it.
pub(super) struct Group<'a> {
    pub(super) identity: Identity<'a>,
    key: String,
    /// The most specific reason so far.
    pub(super) reason: &'a str,
    pub(super) pods: u64,
    pub(super) example: Example<'a>,
    /// The cause that was proven for some of the pods, now or before.
    proven: Option<&'a Explanation>,
    since: Timestamp,
    /// Whether one of its pods shows only the latest time at which its problem can have begun.
    since_at_latest: bool,
    masking: Option<&'a Masking<'a>>,
    examples: BTreeSet<&'a str>,
    /// The hash of the revision of the owner, if all the pods have the same.
    revision: Option<&'a str>,
    workload: Workload,
    ownership: Ownership,
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
/// tracker's start time and reason take precedence over those of the present pods.
pub(super) fn ordered<'a>(
    problems: &[Problem<'a>],
    missing: &'a [MissingPods],
    masking: Option<&'a Masking<'a>>,
    tracker: &'a Tracker,
    lookup: Lookup<'_>,
) -> Vec<Group<'a>> {
    let mut groups = BTreeMap::<Identity<'a>, Group<'a>>::new();
    for problem in problems {
        let identity = problem.identity();
        let revision = revision_hash(problem.pod);
        let group = groups.entry(identity).or_insert_with(|| Group {
            identity,
            key: String::new(),
            reason: truncate::name(&problem.finding.reason),
            pods: 0,
            example: Example::Pod(problem.pod, problem.finding),
            proven: tracker.incident(&identity).and_then(|known| known.explanation.as_deref()),
            since: problem.since,
            since_at_latest: false,
            masking: problem.masking,
            examples: BTreeSet::new(),
            revision,
            workload: Workload::default(),
            ownership: Ownership::default(),
            invalid_annotations: Vec::new(),
        });
        if let Some(proven) = group.proven
            && group.example.explanation().cause != proven.cause
            && problem.finding.explanation.cause == proven.cause
        {
            group.example = Example::Pod(problem.pod, problem.finding);
        }
        group.revision = group.revision.filter(|own| Some(*own) == revision);
        group.pods += 1;
        group.since = group.since.min(problem.since);
        group.since_at_latest |= problem.finding.since_at_latest;
        group.examples.insert(problem.name);
        if group.examples.len() > EXAMPLES {
            group.examples.pop_last();
        }
    }
    for missing in missing {
        let identity = Identity::of_missing(missing);
        groups.entry(identity).or_insert_with(|| Group {
            identity,
            key: String::new(),
            reason: truncate::name(missing.reason),
            pods: missing.missing,
            example: Example::Missing(missing),
            proven: None,
            since: seconds(missing.since),
            since_at_latest: false,
            masking,
            examples: BTreeSet::new(),
            revision: None,
            workload: Workload { of: missing.of, revision: None },
            ownership: Ownership::default(),
            invalid_annotations: Vec::new(),
        });
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    let keys = distinct_keys(groups.iter().map(|group| group.identity.id()));
    for (group, key) in groups.iter_mut().zip(keys) {
        group.key = key;
        if let Some(known) = tracker.incident(&group.identity) {
            group.since = group.since.min(known.since);
            group.reason = &known.reason;
        }
        // The pods do not show how many others belong to a CronJob.
        if let Example::Pod(pod, _) = group.example
            && group.identity.owner_kind != "CronJob"
        {
            group.workload = (lookup.workload)(pod, group.revision);
        }
        let namespace = (lookup.ownership)(group.identity.namespace);
        let own = match group.example {
            Example::Pod(pod, _) => pod.ownership.as_deref(),
            Example::Missing(missing) => missing.ownership.as_deref(),
        };
        group.ownership = Ownership::or(own, namespace.as_ref());
        let of_pod = own.into_iter().flat_map(Ownership::invalid).map(str::to_owned);
        let of_namespace = namespace.iter().flat_map(Ownership::invalid).map(|name| format!("{name} of the namespace"));
        group.invalid_annotations = of_pod.chain(of_namespace).collect();
    }
    // A stable sort: equal times keep the order of the identities.
    groups.sort_by_key(|group| Reverse(group.since));
    groups
}

impl Group<'_> {
    pub(super) fn key(&self) -> &str {
        &self.key
    }

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

    fn message(&self) -> String {
        clean_text(&self.explanation().message, self.masking, MESSAGE_LIMIT)
    }

    pub(super) fn for_metrics(&self) -> IncidentReport<'_> {
        let Identity { namespace, owner_kind, owner_name, container, kind } = self.identity;
        IncidentReport {
            key: u64::from_str_radix(&self.key, 16).unwrap_or_default(),
            namespace,
            owner_kind,
            owner_name,
            container,
            kind,
            reason: self.reason,
            cause: self.explanation().cause,
            pods: self.pods,
            since: self.since.as_second(),
        }
    }

    /// The severity that an annotation gives it.
    pub(super) fn annotated_severity(&self) -> Option<Severity> {
        self.ownership.severity
    }

    /// Critical if none of the owner's pods works, unless an annotation says otherwise.
    pub(super) fn severity(&self) -> Severity {
        let is_down = self.workload.of > 0 && self.pods >= self.workload.of;
        self.annotated_severity().unwrap_or(if is_down { Severity::Critical } else { Severity::Warning })
    }

    /// The controllers that cannot create pods, without the owner itself.
    fn controllers(&self) -> Vec<Owner> {
        let Example::Missing(missing) = self.example else { return Vec::new() };
        let others = missing.controllers.iter().filter(|controller| **controller != missing.owner).take(EXAMPLES);
        others.map(|controller| truncate::shown_owner(&controller.kind, &controller.name)).collect()
    }

    /// The incident for alerts, without texts.
    pub(super) fn for_alerts(&self) -> incident::Incident {
        incident::Incident {
            key: self.key.as_str().into(),
            namespace: self.identity.namespace.into(),
            owner: self.identity.owner().into(),
            container: self.identity.container.into(),
            kind: self.identity.kind,
            reason: self.reason.into(),
            cause: self.explanation().cause,
            since: self.since,
            tolerated: self.example.tolerated(),
            pods: self.pods,
            of: self.workload.of,
            severity: self.severity(),
            team: self.ownership.team.clone(),
            runbook: self.ownership.runbook.clone(),
            dashboard: self.ownership.dashboard.clone(),
            controllers: self.controllers(),
            ..incident::Incident::default()
        }
    }

    pub(super) fn since(&self) -> Timestamp {
        self.since
    }

    /// Whether it may have begun before, if nobody remembers the beginning.
    pub(super) fn since_at_latest(&self) -> bool {
        self.since_at_latest
    }

    /// The names of some of its pods.
    pub(super) fn example_pods(&self) -> Vec<String> {
        self.examples.iter().map(|pod| (*pod).to_owned()).collect()
    }

    /// The revision that fails, if an earlier one is healthy.
    pub(super) fn revision(&self) -> Option<Revision> {
        self.workload.revision.as_ref().map(|revision| revision.show(self.masking))
    }

    /// The incident as the status lists it.
    pub(super) fn incident(&self) -> Incident {
        Incident {
            key: self.key.clone(),
            kind: self.identity.kind,
            namespace: self.identity.namespace.to_owned(),
            owner: self.identity.owner(),
            container: self.identity.container.to_owned(),
            reason: self.reason.to_owned(),
            cause: self.explanation().cause,
            message: self.message(),
            log_line: String::new(),
            hint: String::new(),
            severity: Some(self.severity()),
            team: self.ownership.team.to_string(),
            runbook: self.ownership.runbook.to_string(),
            dashboard: self.ownership.dashboard.to_string(),
            invalid_annotations: self.invalid_annotations.clone(),
            pods: count(self.pods),
            most_pods: 0,
            of: count(self.workload.of),
            revision: self.revision(),
            since: wire_time(self.since),
            since_at_latest: false,
            example_pods: self.example_pods(),
            controllers: self.controllers(),
        }
    }
}
