//! The state of a workload's rollout, by the rules of `kubectl rollout status`
//! (`kubectl/pkg/polymorphichelpers/rollout_status.go`). Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Selector;

use crate::{
    diagnosis::{PodTemplate, UpdateStrategy, WorkloadObject, WorkloadSpec, WorkloadStatus, revision_hash},
    pods::Pod,
    render::numbers::counted,
};

use super::kind::Kind;

/// That of the API server.
const DEFAULT_PROGRESS_DEADLINE: Duration = Duration::from_secs(600);

/// A Deployment, StatefulSet, DaemonSet or Job as the API server returns it.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    kind: Kind,
    pub(super) object: Box<WorkloadObject>,
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
    pub(super) fn new(kind: Kind, object: WorkloadObject) -> Self {
        Self { kind, object: Box::new(object) }
    }

    /// Decodes an object; absent if it is of no kind of workload.
    pub(super) fn decode(kind: Kind, json: &str) -> serde_json::Result<Option<Self>> {
        match kind {
            Kind::CronJob | Kind::Pod => Ok(None),
            _ => serde_json::from_str(json).map(|object| Some(Self::new(kind, object))),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// The Job, if it is one.
    pub(super) fn job(&self) -> Option<&WorkloadObject> {
        (self.kind == Kind::Job).then_some(&self.object)
    }

    pub(super) fn metadata(&self) -> &ObjectMeta {
        &self.object.metadata
    }

    pub(super) fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    fn spec(&self) -> Option<&WorkloadSpec> {
        self.object.spec.as_ref()
    }

    fn status(&self) -> Option<&WorkloadStatus> {
        self.object.status.as_ref()
    }

    pub(super) fn template(&self) -> Option<&PodTemplate> {
        self.spec()?.template.as_deref()
    }

    /// The revision that a StatefulSet updates its pods to.
    pub(super) fn update_revision(&self) -> Option<&str> {
        self.status()?.update_revision.as_deref().filter(|hash| !hash.is_empty())
    }

    /// The label selector of its pods, which never changes.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(super) fn selector(&self) -> Result<String, String> {
        match self.spec().and_then(|spec| spec.selector.clone()).map(Selector::try_from) {
            Some(selector) => selector.map(|selector| selector.to_string()).map_err(|error| error.to_string()),
            // The API server sets that of a Job.
            None => Ok(format!("job-name={}", self.metadata().name.as_deref().unwrap_or_default())),
        }
    }

    /// Whether a person has stopped the rollout.
    pub(super) fn is_paused(&self) -> bool {
        self.spec().is_some_and(|spec| spec.paused == Some(true) || spec.suspend == Some(true))
    }

    pub(super) fn progress(&self) -> Progress {
        let Some(spec) = self.spec() else { return Progress::Unobserved(UNOBSERVED) };
        let generation = self.metadata().generation.unwrap_or_default();
        let status = self.status().cloned().unwrap_or_default();
        let is_observed = generation <= status.observed_generation.unwrap_or_default();
        let progress = match self.kind {
            Kind::Job => job(spec, &status),
            Kind::StatefulSet | Kind::DaemonSet if self.status().is_none() => Progress::Unobserved(UNOBSERVED),
            Kind::StatefulSet => stateful_set(spec, &status, is_observed),
            Kind::DaemonSet => daemon_set(spec, &status, is_observed),
            Kind::Deployment | Kind::CronJob | Kind::Pod => deployment(spec, &status, is_observed),
        };
        match progress {
            Progress::Waiting(_) if self.kind == Kind::Job && self.is_paused() => {
                Progress::Waiting("it is suspended, and cannot finish before it is resumed".to_owned())
            }
            Progress::Waiting(text) if self.is_paused() => {
                Progress::Waiting(format!("{text}; it is paused, and cannot finish before `kubectl rollout resume`"))
            }
            progress => progress,
        }
    }

    /// The numbers that change while a rollout progresses.
    pub(super) fn counts(&self) -> [i64; 15] {
        let status = self.status().cloned().unwrap_or_default();
        let counts = [
            status.replicas,
            status.updated_replicas,
            status.ready_replicas,
            status.available_replicas,
            status.current_replicas,
            status.desired_number_scheduled,
            status.current_number_scheduled,
            status.updated_number_scheduled,
            status.number_ready,
            status.number_available,
            status.active,
            status.ready,
            status.succeeded,
            status.failed,
            status.terminating,
        ];
        counts.map(Option::unwrap_or_default)
    }

    /// How many pods of the newest revision its status counts.
    pub(super) fn updated_pods(&self) -> i64 {
        let updated = self.status().and_then(|status| status.updated_replicas.or(status.updated_number_scheduled));
        updated.unwrap_or_default()
    }

    /// How long its pods must be ready before they count as available: `minReadySeconds`.
    pub(super) fn min_ready(&self) -> Duration {
        let seconds = self.spec().and_then(|spec| spec.min_ready_seconds);
        Duration::from_secs(seconds.and_then(|seconds| seconds.try_into().ok()).unwrap_or_default())
    }

    /// How long a Deployment may make no progress.
    pub(super) fn progress_deadline(&self) -> Duration {
        let seconds = self.spec().and_then(|spec| spec.progress_deadline_seconds);
        seconds.and_then(|seconds| u64::try_from(seconds).ok()).map_or(DEFAULT_PROGRESS_DEADLINE, Duration::from_secs)
    }

    /// Whether it has ended for good, which only a Job does.
    pub(super) fn has_ended(&self) -> bool {
        self.kind == Kind::Job && matches!(self.progress(), Progress::Done(_) | Progress::Failed { .. })
    }

    /// The sentence about a pod of an earlier revision that keeps a StatefulSet from replacing any pod, also by a mended
    /// revision. Its controller waits until all pods are ready, unless they are managed in parallel.
    pub(super) fn held_up<'a>(&self, pods: impl Iterator<Item = &'a Pod>) -> Option<String> {
        if self.kind != Kind::StatefulSet || self.spec()?.pod_management_policy.as_deref() == Some("Parallel") {
            return None;
        }
        let newest = self.status()?.update_revision.as_deref()?;
        let holds_up = |pod: &&Pod| {
            let is_own = pod.controller.as_ref().is_some_and(|own| own.uid == self.uid());
            is_own && pod.deletion.is_none() && revision_hash(pod) != Some(newest) && !pod.is_true("Ready")
        };
        // Its controller looks at the pods in the order of their numbers.
        let Pod { name, .. } = pods.filter(holds_up).min_by_key(|pod| (pod.name.len(), pod.name.clone()))?;
        Some(format!(
            "{name} of an earlier revision is not ready, and its controller replaces no pod before it is: delete {name} \
             if it cannot become ready"
        ))
    }

    /// Why its pods cannot be created and since when, if its status says so. Only a Deployment's does.
    pub(super) fn replica_failure(&self) -> Option<(&str, Option<Timestamp>)> {
        let failure = self.status()?.replica_failure()?;
        Some((failure.message.as_deref().unwrap_or_default(), failure.since()))
    }
}

fn deployment(spec: &WorkloadSpec, status: &WorkloadStatus, is_observed: bool) -> Progress {
    if !is_observed {
        return Progress::Unobserved(UNOBSERVED);
    }
    let progressing = status.condition("Progressing");
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

fn stateful_set(spec: &WorkloadSpec, status: &WorkloadStatus, is_observed: bool) -> Progress {
    let strategy = spec.update_strategy.as_ref();
    if let Some(other) = other_strategy(strategy) {
        return Progress::Unknowable(other);
    }
    if !is_observed || status.observed_generation.unwrap_or_default() == 0 {
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

fn daemon_set(spec: &WorkloadSpec, status: &WorkloadStatus, is_observed: bool) -> Progress {
    if let Some(other) = other_strategy(spec.update_strategy.as_ref()) {
        return Progress::Unknowable(other);
    }
    if !is_observed {
        return Progress::Unobserved(UNOBSERVED);
    }
    let wanted = status.desired_number_scheduled.unwrap_or_default();
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

fn job(spec: &WorkloadSpec, status: &WorkloadStatus) -> Progress {
    let succeeded = status.succeeded.unwrap_or_default();
    if status.true_condition("Complete").is_some() {
        return Progress::Done(format!("{} succeeded", counted(succeeded, "pod")));
    }
    // FailureTarget precedes Failed until the last pods have ended.
    if let Some(failed) = status.true_condition("Failed").or_else(|| status.true_condition("FailureTarget")) {
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
fn other_strategy(strategy: Option<&UpdateStrategy>) -> Option<String> {
    let other = strategy?.kind.as_deref().filter(|strategy| !matches!(*strategy, "RollingUpdate" | ""))?;
    Some(format!("its update strategy is {other}: nothing shows when its rollout is complete"))
}

#[cfg(test)]
mod tests;
