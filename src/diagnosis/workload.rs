//! Controllers of pods as the API returns them, reduced to the fields that show how far a rollout is, and whether pods are missing.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use kube::core::Object;
use serde::Deserialize;
use serde_json::Value;

/// A Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or ReplicationController. The API server checks the values.
pub(crate) type WorkloadObject = Object<Option<WorkloadSpec>, WorkloadStatus>;

/// The fields of all kinds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WorkloadSpec {
    pub(crate) replicas: Option<i64>,
    pub(crate) selector: Option<LabelSelector>,
    pub(crate) paused: Option<bool>,
    pub(crate) min_ready_seconds: Option<i64>,
    pub(crate) progress_deadline_seconds: Option<i64>,
    pub(crate) pod_management_policy: Option<String>,
    pub(crate) update_strategy: Option<UpdateStrategy>,
    // Of a Job.
    pub(crate) parallelism: Option<i64>,
    pub(crate) completions: Option<i64>,
    pub(crate) suspend: Option<bool>,
    pub(crate) active_deadline_seconds: Option<i64>,
    pub(crate) backoff_limit: Option<i64>,
    pub(crate) template: Option<Box<PodTemplate>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct PodTemplate {
    pub(crate) metadata: Option<ObjectMeta>,
    pub(crate) spec: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct UpdateStrategy {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) rolling_update: Option<RollingUpdate>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RollingUpdate {
    pub(crate) partition: Option<i64>,
}

/// The fields of all kinds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WorkloadStatus {
    pub(crate) observed_generation: Option<i64>,
    pub(crate) replicas: Option<i64>,
    pub(crate) updated_replicas: Option<i64>,
    pub(crate) ready_replicas: Option<i64>,
    pub(crate) available_replicas: Option<i64>,
    pub(crate) current_replicas: Option<i64>,
    pub(crate) update_revision: Option<String>,
    // Of a DaemonSet.
    pub(crate) desired_number_scheduled: Option<i64>,
    pub(crate) current_number_scheduled: Option<i64>,
    pub(crate) updated_number_scheduled: Option<i64>,
    pub(crate) number_ready: Option<i64>,
    pub(crate) number_available: Option<i64>,
    // Of a Job.
    pub(crate) active: Option<i64>,
    pub(crate) ready: Option<i64>,
    pub(crate) succeeded: Option<i64>,
    pub(crate) failed: Option<i64>,
    pub(crate) terminating: Option<i64>,
    pub(crate) failed_indexes: Option<String>,
    pub(crate) conditions: Option<Vec<WorkloadCondition>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WorkloadCondition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    last_transition_time: Option<Time>,
}

impl WorkloadStatus {
    pub(crate) fn condition(&self, kind: &str) -> Option<&WorkloadCondition> {
        self.conditions.iter().flatten().find(|condition| condition.kind == kind)
    }

    /// The condition of this type, if it is true.
    pub(crate) fn true_condition(&self, kind: &str) -> Option<&WorkloadCondition> {
        self.condition(kind).filter(|condition| condition.status == "True")
    }

    /// The condition of a workload that cannot create pods. Only Deployments, ReplicaSets and ReplicationControllers have it.
    pub(crate) fn replica_failure(&self) -> Option<&WorkloadCondition> {
        self.true_condition("ReplicaFailure").filter(|failure| failure.reason.as_deref() == Some("FailedCreate"))
    }
}

impl WorkloadCondition {
    pub(crate) fn since(&self) -> Option<Timestamp> {
        self.last_transition_time.as_ref().map(|time| time.0)
    }
}
