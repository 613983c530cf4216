//! The state of a workload's rollout, by the rules of `kubectl rollout status`
//! (`kubectl/pkg/polymorphichelpers/rollout_status.go`). Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, StatefulSet},
        batch::v1::Job,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::core::Selector;

use crate::{diagnosis::revision_hash, pods::Pod, render::numbers::counted};

use super::kind::Kind;

/// That of the API server.
const DEFAULT_PROGRESS_DEADLINE: Duration = Duration::from_secs(600);

/// A workload as the API server returns it.
#[derive(Clone, Debug)]
pub(super) enum Workload {
    Deployment(Box<Deployment>),
    StatefulSet(Box<StatefulSet>),
    DaemonSet(Box<DaemonSet>),
    Job(Box<Job>),
}

/// How far a rollout is. The texts continue a sentence that begins with the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The controller has not seen the present spec yet, so its status and its pods say nothing about it.
    Unobserved(&'static str),
    Waiting(String),
    Done(String),
    /// The controller has given up.
    Failed {
        reason: String,
        message: String,
    },
    /// Nothing shows whether the rollout is complete.
    Unknowable(String),
}

impl Workload {
    /// Decodes an object; absent if it is of no kind of workload.
    pub(super) fn decode(kind: Kind, json: &str) -> serde_json::Result<Option<Self>> {
        Ok(Some(match kind {
            Kind::Deployment => Self::Deployment(serde_json::from_str(json)?),
            Kind::StatefulSet => Self::StatefulSet(serde_json::from_str(json)?),
            Kind::DaemonSet => Self::DaemonSet(serde_json::from_str(json)?),
            Kind::Job => Self::Job(serde_json::from_str(json)?),
            Kind::CronJob | Kind::Pod => return Ok(None),
        }))
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Deployment(_) => Kind::Deployment,
            Self::StatefulSet(_) => Kind::StatefulSet,
            Self::DaemonSet(_) => Kind::DaemonSet,
            Self::Job(_) => Kind::Job,
        }
    }

    pub(super) fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Deployment(object) => &object.metadata,
            Self::StatefulSet(object) => &object.metadata,
            Self::DaemonSet(object) => &object.metadata,
            Self::Job(object) => &object.metadata,
        }
    }

    pub(super) fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    /// The label selector of its pods, which never changes.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(super) fn selector(&self) -> Result<String, String> {
        let selector = match self {
            Self::Deployment(object) => object.spec.as_ref().map(|spec| &spec.selector),
            Self::StatefulSet(object) => object.spec.as_ref().map(|spec| &spec.selector),
            Self::DaemonSet(object) => object.spec.as_ref().map(|spec| &spec.selector),
            Self::Job(object) => object.spec.as_ref().and_then(|spec| spec.selector.as_ref()),
        };
        match selector.cloned().map(Selector::try_from) {
            Some(selector) => selector.map(|selector| selector.to_string()).map_err(|error| error.to_string()),
            // The API server sets that of a Job.
            None => Ok(format!("job-name={}", self.metadata().name.as_deref().unwrap_or_default())),
        }
    }

    /// Whether a person has stopped the rollout.
    pub(super) fn is_paused(&self) -> bool {
        match self {
            Self::Deployment(object) => object.spec.as_ref().and_then(|spec| spec.paused) == Some(true),
            Self::Job(object) => object.spec.as_ref().and_then(|spec| spec.suspend) == Some(true),
            Self::StatefulSet(_) | Self::DaemonSet(_) => false,
        }
    }

    pub(super) fn progress(&self) -> Progress {
        let progress = match self {
            Self::Deployment(object) => deployment(object),
            Self::StatefulSet(object) => stateful_set(object),
            Self::DaemonSet(object) => daemon_set(object),
            Self::Job(object) => job(object),
        };
        match (progress, self) {
            (Progress::Waiting(text), Self::Deployment(_)) if self.is_paused() => {
                Progress::Waiting(format!("{text}; it is paused, and cannot finish before `kubectl rollout resume`"))
            }
            (Progress::Waiting(_), Self::Job(_)) if self.is_paused() => {
                Progress::Waiting("it is suspended, and cannot finish before it is resumed".to_owned())
            }
            (progress, _) => progress,
        }
    }

    /// The numbers that change while a rollout progresses.
    pub(super) fn counts(&self) -> [i32; 6] {
        match self {
            Self::Deployment(object) => object.status.as_ref().map_or([0; 6], |status| {
                let count = Option::unwrap_or_default;
                [
                    count(status.replicas),
                    count(status.updated_replicas),
                    count(status.ready_replicas),
                    count(status.available_replicas),
                    0,
                    0,
                ]
            }),
            Self::StatefulSet(object) => object.status.as_ref().map_or([0; 6], |status| {
                let count = Option::unwrap_or_default;
                [
                    status.replicas,
                    count(status.updated_replicas),
                    count(status.ready_replicas),
                    count(status.current_replicas),
                    count(status.available_replicas),
                    0,
                ]
            }),
            Self::DaemonSet(object) => object.status.as_ref().map_or([0; 6], |status| {
                let count = Option::unwrap_or_default;
                [
                    status.desired_number_scheduled,
                    status.current_number_scheduled,
                    status.number_ready,
                    count(status.updated_number_scheduled),
                    count(status.number_available),
                    0,
                ]
            }),
            Self::Job(object) => object.status.as_ref().map_or([0; 6], |status| {
                let count = Option::unwrap_or_default;
                [
                    count(status.active),
                    count(status.ready),
                    count(status.succeeded),
                    count(status.failed),
                    count(status.terminating),
                    0,
                ]
            }),
        }
    }

    /// How many pods of the newest revision its status counts.
    pub(super) fn updated_pods(&self) -> i32 {
        let count = match self {
            Self::Deployment(object) => object.status.as_ref().and_then(|status| status.updated_replicas),
            Self::StatefulSet(object) => object.status.as_ref().and_then(|status| status.updated_replicas),
            Self::DaemonSet(object) => object.status.as_ref().and_then(|status| status.updated_number_scheduled),
            Self::Job(_) => None,
        };
        count.unwrap_or_default()
    }

    /// How long its pods must be ready before they count as available: `minReadySeconds`.
    pub(super) fn min_ready(&self) -> Duration {
        let seconds = match self {
            Self::Deployment(object) => object.spec.as_ref().and_then(|spec| spec.min_ready_seconds),
            Self::StatefulSet(object) => object.spec.as_ref().and_then(|spec| spec.min_ready_seconds),
            Self::DaemonSet(object) => object.spec.as_ref().and_then(|spec| spec.min_ready_seconds),
            Self::Job(_) => None,
        };
        Duration::from_secs(seconds.and_then(|seconds| seconds.try_into().ok()).unwrap_or_default())
    }

    /// How long a Deployment may make no progress.
    pub(super) fn progress_deadline(&self) -> Duration {
        let Self::Deployment(object) = self else { return DEFAULT_PROGRESS_DEADLINE };
        let seconds = object.spec.as_ref().and_then(|spec| spec.progress_deadline_seconds);
        seconds.and_then(|seconds| u64::try_from(seconds).ok()).map_or(DEFAULT_PROGRESS_DEADLINE, Duration::from_secs)
    }

    /// Whether it has ended for good, which only a Job does.
    pub(super) fn has_ended(&self) -> bool {
        matches!((self, self.progress()), (Self::Job(_), Progress::Done(_) | Progress::Failed { .. }))
    }

    /// The sentence about a pod of an earlier revision that keeps a StatefulSet from replacing any pod, also by a mended
    /// revision. Its controller waits until all pods are ready, unless they are managed in parallel.
    pub(super) fn held_up<'a>(&self, pods: impl Iterator<Item = &'a Pod>) -> Option<String> {
        let Self::StatefulSet(object) = self else { return None };
        let is_parallel = object.spec.as_ref()?.pod_management_policy.as_deref() == Some("Parallel");
        let newest = object.status.as_ref()?.update_revision.as_deref()?;
        let holds_up = |pod: &&Pod| {
            let is_own = pod.controller.as_ref().is_some_and(|own| own.uid == self.uid());
            is_own && pod.deletion.is_none() && revision_hash(pod) != Some(newest) && !pod.is_true("Ready")
        };
        // Its controller looks at the pods in the order of their numbers.
        let first = pods.filter(holds_up).min_by_key(|pod| (pod.name.len(), pod.name.clone()))?;
        let name = &first.name;
        (!is_parallel).then(|| {
            format!(
                "{name} of an earlier revision is not ready, and its controller replaces no pod before it is: delete {name} \
                 if it cannot become ready"
            )
        })
    }

    /// Why its pods cannot be created and since when, if its status says so. Only a Deployment's does.
    pub(super) fn replica_failure(&self) -> Option<(&str, Option<Timestamp>)> {
        let Self::Deployment(object) = self else { return None };
        let conditions = object.status.as_ref()?.conditions.as_deref()?;
        let failure = conditions.iter().find(|own| own.type_ == "ReplicaFailure" && own.status == "True")?;
        let is_creation = failure.reason.as_deref() == Some("FailedCreate");
        let since = failure.last_transition_time.as_ref().map(|time| time.0);
        is_creation.then_some((failure.message.as_deref().unwrap_or_default(), since))
    }
}

fn deployment(object: &Deployment) -> Progress {
    let (Some(spec), status) = (&object.spec, object.status.clone().unwrap_or_default()) else {
        return Progress::Unobserved(UNOBSERVED);
    };
    if object.metadata.generation > status.observed_generation {
        return Progress::Unobserved(UNOBSERVED);
    }
    let progressing = status.conditions.iter().flatten().find(|own| own.type_ == "Progressing");
    if let Some(exceeded) = progressing.filter(|own| own.reason.as_deref() == Some("ProgressDeadlineExceeded")) {
        let message = match exceeded.message.as_deref() {
            None | Some("") => "it exceeded its progress deadline".to_owned(),
            Some(message) => format!("it exceeded its progress deadline: {}", message.trim_end_matches('.')),
        };
        return Progress::Failed { reason: "ProgressDeadlineExceeded".to_owned(), message };
    }
    let wanted = spec.replicas.unwrap_or(1);
    let (replicas, updated) = (status.replicas.unwrap_or_default(), status.updated_replicas.unwrap_or_default());
    let available = status.available_replicas.unwrap_or_default();
    if updated < wanted {
        return Progress::Waiting(format!("{updated} of {} updated", counted(wanted, "replica")));
    }
    if replicas > updated {
        let old = counted(replicas.saturating_sub(updated), "old replica");
        return Progress::Waiting(format!("{old} left to terminate"));
    }
    if available < updated {
        return Progress::Waiting(format!("{available} of {} available", counted(updated, "updated replica")));
    }
    Progress::Done(counted(updated, "replica"))
}

fn stateful_set(object: &StatefulSet) -> Progress {
    let (Some(spec), Some(status)) = (&object.spec, &object.status) else {
        return Progress::Unobserved(UNOBSERVED);
    };
    let strategy = spec.update_strategy.as_ref();
    if let Some(other) = other_strategy(strategy.and_then(|strategy| strategy.type_.as_deref())) {
        return Progress::Unknowable(other);
    }
    let observed = status.observed_generation.unwrap_or_default();
    if observed == 0 || object.metadata.generation.is_some_and(|generation| generation > observed) {
        return Progress::Unobserved(UNOBSERVED);
    }
    let wanted = spec.replicas.unwrap_or(1);
    let ready = status.ready_replicas.unwrap_or_default();
    let updated = status.updated_replicas.unwrap_or_default();
    if ready < wanted {
        return Progress::Waiting(format!("{ready} of {} ready", counted(wanted, "pod")));
    }
    let partition = strategy.and_then(|strategy| strategy.rolling_update.as_ref()?.partition).unwrap_or_default();
    let to_update = wanted.saturating_sub(partition).max(0);
    if updated < to_update {
        return Progress::Waiting(match partition {
            0 => format!("{updated} of {} updated", counted(to_update, "pod")),
            _ => format!("{updated} of {} beyond partition {partition} updated", counted(to_update, "pod")),
        });
    }
    Progress::Done(match partition {
        0 => counted(wanted, "pod"),
        // With a partition, the set is never updated as a whole.
        _ => format!("{}, {updated} of them updated (partition {partition})", counted(wanted, "pod")),
    })
}

fn daemon_set(object: &DaemonSet) -> Progress {
    let (Some(spec), Some(status)) = (&object.spec, &object.status) else {
        return Progress::Unobserved(UNOBSERVED);
    };
    if let Some(other) = other_strategy(spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref())) {
        return Progress::Unknowable(other);
    }
    if object.metadata.generation > Some(status.observed_generation.unwrap_or_default()) {
        return Progress::Unobserved(UNOBSERVED);
    }
    let wanted = status.desired_number_scheduled;
    let updated = status.updated_number_scheduled.unwrap_or_default();
    let available = status.number_available.unwrap_or_default();
    if updated < wanted {
        return Progress::Waiting(format!("{updated} of {} updated", counted(wanted, "pod")));
    }
    if available < wanted {
        return Progress::Waiting(format!("{available} of {} available", counted(wanted, "updated pod")));
    }
    Progress::Done(counted(wanted, "pod"))
}

fn job(object: &Job) -> Progress {
    let Some(spec) = &object.spec else { return Progress::Unobserved(UNOBSERVED) };
    let status = object.status.clone().unwrap_or_default();
    let is_true = |kind: &str| status.conditions.iter().flatten().find(|own| own.type_ == kind && own.status == "True");
    let succeeded = status.succeeded.unwrap_or_default();
    if is_true("Complete").is_some() {
        return Progress::Done(format!("{} succeeded", counted(succeeded, "pod")));
    }
    // FailureTarget precedes Failed until the last pods have ended.
    if let Some(failed) = is_true("Failed").or_else(|| is_true("FailureTarget")) {
        let reason = failed.reason.clone().filter(|reason| !reason.is_empty()).unwrap_or_else(|| "Failed".to_owned());
        let message = match failed.message.as_deref() {
            None | Some("") => "the Job has failed".to_owned(),
            Some(message) => format!("the Job has failed: {message}"),
        };
        return Progress::Failed { reason, message };
    }
    let wanted = spec.completions.or(spec.parallelism).unwrap_or(1);
    let failed = match status.failed.unwrap_or_default() {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    Progress::Waiting(format!("{succeeded} of {} succeeded{failed}", counted(wanted, "pod")))
}

const UNOBSERVED: &str = "its controller has not seen the present spec yet";

/// A strategy with which the status does not show when the rollout is complete.
fn other_strategy(strategy: Option<&str>) -> Option<String> {
    let other = strategy.filter(|strategy| !matches!(*strategy, "RollingUpdate" | ""))?;
    Some(format!("its update strategy is {other}: nothing shows when its rollout is complete"))
}

/// Such as `1 pod` or `3 pods`.
#[cfg(test)]
mod tests;
