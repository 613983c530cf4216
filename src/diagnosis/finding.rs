//! The result of a diagnosis.

use std::{sync::Arc, time::Duration};

use arcstr::ArcStr;
use jiff::Timestamp;

use crate::{
    api::{Cause, ContainerKind, ContainerStateName, ProblemKind},
    pods::Terminated,
};

use super::owner::PodOwner;

/// The health of a pod at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub health: Health,
    /// When the health may change without a change of the pod: a threshold is reached, or a failure is old enough. Always
    /// after the time of the verdict.
    pub recheck: Option<Timestamp>,
    /// Whether the pod's Job was not read yet. The Job may show that the pod has no problem.
    pub lacks_job: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Health {
    /// Nothing to report.
    Healthy,
    /// In a state that becomes a problem at the verdict's `recheck`.
    Settling,
    Problem(Box<Finding>),
}

/// The problem of a pod.
///
/// Thousands of pods may fail at the same time, and most of their texts are equal, so these can be shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The STATUS column of `kubectl get pods`.
    pub status: ArcStr,
    /// Stays the same while the kubelet retries.
    pub kind: ProblemKind,
    pub reason: ArcStr,
    /// The container that causes the problem; empty if the pod as a whole does.
    pub container: ArcStr,
    /// One line.
    pub message: ArcStr,
    /// When the state began, judged by the times in the pod.
    pub since: Timestamp,
    /// Whether `since` is only the latest time at which it can have begun: of a crash loop, the pod shows only the last runs.
    pub since_at_latest: bool,
    /// The threshold: how long after `since` the state became a problem.
    pub tolerated: Duration,
    /// The top controller.
    pub owner: Option<PodOwner>,
    /// The containers with a problem: those that cause the pod's problem first, then in the order of the pod.
    pub containers: Vec<ContainerFinding>,
    /// The problems of the other containers.
    pub others: Vec<OtherProblem>,
    pub explanation: Explanation,
}

/// One of several simultaneous problems of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherProblem {
    pub kind: ProblemKind,
    pub reason: ArcStr,
    pub container: ArcStr,
    /// One line.
    pub message: ArcStr,
    /// When it began, judged by the times in the pod.
    pub since: Timestamp,
    pub since_at_latest: bool,
    pub explanation: Explanation,
}

/// Why a pod has its problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Explanation {
    /// Unknown unless the API proves a cause.
    pub cause: Cause,
    /// One sentence: the cause, or what is known. Not specific to the pod, so that it also describes the incident.
    pub message: ArcStr,
    /// What proves it beside the pod itself, one line each. May contain the output of probes.
    pub evidence: Vec<String>,
    /// The object that causes it, if the cause names one. Incidents of several owners with the same subject have a common
    /// cause.
    pub subject: Option<Arc<Subject>>,
    /// What the explanation is based on.
    pub basis: Basis,
}

/// What an explanation is based on. Decides whether an earlier, stronger explanation is still valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Basis {
    /// The present state shows the cause, or shows that it is another one than before.
    #[default]
    State,
    /// The end of a container's instance with this exit code. Another instance that ended in the same way did so for the
    /// same cause.
    Exit(i32),
    /// The present state shows nothing about the cause. An earlier explanation remains valid.
    Silent,
}

/// The object that causes a problem, such as a missing ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject {
    pub kind: SubjectKind,
    /// Empty for nodes and StorageClasses, and for images and registries whose problem the pod's status shows. If only events
    /// show it, it is the namespace of the pod: who may create events in a namespace may write what they like, so this says
    /// nothing about pods of other namespaces.
    pub namespace: String,
    /// The name. Of an image, the whole reference as in the pod's spec; of a registry, the host with its port.
    pub name: String,
}

/// The kinds of subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SubjectKind {
    Node,
    Image,
    Registry,
    ConfigMap,
    Secret,
    ResourceQuota,
    StorageClass,
}

impl SubjectKind {
    /// The kind in statuses and alerts.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::Image => "Image",
            Self::Registry => "Registry",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::ResourceQuota => "ResourceQuota",
            Self::StorageClass => "StorageClass",
        }
    }
}

impl Subject {
    /// A subject in a namespace.
    #[must_use]
    pub fn namespaced(kind: SubjectKind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// A subject that belongs to no namespace.
    #[must_use]
    pub fn cluster_wide(kind: SubjectKind, name: &str) -> Self {
        Self { kind, namespace: String::new(), name: name.to_owned() }
    }
}

impl Finding {
    /// Whether events may explain the problem better than the pod does: the cause is not known, or only an event quotes the
    /// answer of a probe or the error of a volume.
    pub(crate) fn needs_events(&self) -> bool {
        matches!(self.explanation.cause, Cause::Unknown | Cause::ReadinessProbe)
            || self.needs_kills()
            || matches!(self.kind, ProblemKind::NotReady | ProblemKind::Creating | ProblemKind::Start)
    }

    /// Whether an event about a kill may explain the end of a container that its pod does not explain.
    pub(crate) fn needs_kills(&self) -> bool {
        self.kind == ProblemKind::Crash && matches!(self.explanation.cause, Cause::Signal | Cause::Completed)
    }

    /// Visits the texts that are not taken from the pod as they are, except the evidence.
    pub(crate) fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut ArcStr)) {
        let texts = [&mut self.status, &mut self.reason, &mut self.container, &mut self.message];
        texts.into_iter().for_each(&mut *visit);
        visit(&mut self.explanation.message);
        if let Some(owner) = &mut self.owner {
            visit(&mut owner.kind);
            visit(&mut owner.name);
        }
        self.containers.iter_mut().for_each(|container| visit(&mut container.reason));
        for other in &mut self.others {
            let texts = [&mut other.reason, &mut other.container, &mut other.message, &mut other.explanation.message];
            texts.into_iter().for_each(&mut *visit);
        }
    }

    /// Makes `others[index]` the main problem.
    pub fn promote(&mut self, index: usize) {
        let Some(other) = self.others.get_mut(index) else { return };
        std::mem::swap(&mut self.kind, &mut other.kind);
        std::mem::swap(&mut self.reason, &mut other.reason);
        std::mem::swap(&mut self.container, &mut other.container);
        std::mem::swap(&mut self.message, &mut other.message);
        std::mem::swap(&mut self.since, &mut other.since);
        std::mem::swap(&mut self.since_at_latest, &mut other.since_at_latest);
        std::mem::swap(&mut self.explanation, &mut other.explanation);
        if let Some(place) = self.containers.iter().position(|container| container.name == self.container) {
            self.containers[..=place].rotate_right(1);
        }
    }
}

/// The problem of a container.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerFinding {
    pub name: ArcStr,
    pub kind: ContainerKind,
    pub state: ContainerStateName,
    /// The reason of the state.
    pub reason: ArcStr,
    /// The message of the state.
    pub message: ArcStr,
    pub ready: bool,
    pub restarts: i32,
    /// The end of the present instance, or else of the previous one.
    pub last_termination: Option<Terminated>,
    pub log: LogChoice,
}

/// Which log explains a container's problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogChoice {
    /// The log of the previous instance: it failed, and the container was restarted or is about to be.
    Previous,
    /// The log of the present instance: it is running but not ready, or has ended without a restart.
    Current,
    /// No log exists, because no instance ever started.
    NeverStarted,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_needed_unless_the_pod_explains_the_problem() {
        let pod = |status: serde_json::Value| {
            crate::pods::from_json(&json!({"metadata": {"name": "a"}, "status": status}).to_string()).unwrap()
        };
        let needs = |cause, status| {
            let thresholds = crate::diagnosis::Thresholds::default();
            let verdict = crate::diagnosis::assess(
                &pod(status),
                &crate::diagnosis::Facts::default(),
                &thresholds,
                Timestamp::UNIX_EPOCH,
            );
            let crate::diagnosis::Health::Problem(mut finding) = verdict.health else { panic!("{verdict:?}") };
            finding.explanation.cause = cause;
            finding.needs_events()
        };
        let failed = || json!({"phase": "Failed", "reason": "Evicted"});
        let not_started = || {
            let waiting = json!({"waiting": {"reason": "CreateContainerConfigError"}});
            json!({"phase": "Pending", "containerStatuses": [{"name": "app", "state": waiting}]})
        };
        assert!(needs(Cause::Unknown, failed()));
        assert!(!needs(Cause::EphemeralStorageLimit, failed()));
        assert!(needs(Cause::ConfigMapMissing, not_started()));
    }
}
