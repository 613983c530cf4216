//! Computes what is wrong with a pod. Pure: [`assess`] takes the pod, the [`World`] around it, the thresholds and the time,
//! and returns a verdict.

mod assess;
mod causes;
mod claims;
mod cluster_nodes;
mod container;
mod finding;
mod kubectl_columns;
mod messages;
mod one_line;
mod owner;
mod pod_clock;
mod port_holders;
mod preemptions;
mod reasons;
mod rollout;
mod workload;
mod world;

pub use assess::{assess, is_healthy_under_any_thresholds};
pub(crate) use causes::{classify_failed_create, is_full_quota, refusing_quota};
pub(crate) use causes::{continues, is_by_kubelet, is_proven};
pub use claims::{ClaimFacts, ClaimObject, ClassObject, ClassReading, FreeVolumes, VolumeObject};
pub use cluster_nodes::{ClusterNodes, NodeObject};
pub use finding::{
    Basis, ContainerFinding, Explanation, Finding, Health, LogChoice, OtherProblem, Subject, SubjectKind, Verdict,
};
pub(crate) use kubectl_columns::human_duration;
pub use kubectl_columns::{kubectl_status, ready_counts, restarts};
pub use owner::{PodOwner, owner};
pub(crate) use owner::{
    is_revision_label, needs_job, owner_names, replaces_older_than, replacing_owner, revision_hash, revision_label,
    revision_name, workload_owner,
};
pub(crate) use port_holders::PortHolders;
pub use port_holders::{NamedHolder, PortHolder};
pub use preemptions::{Preempted, Preemptions};
pub(crate) use reasons::{is_known_reason, near_reason, specificity};
pub use rollout::{
    ChangeDetail, LimitChange, LimitChanges, ManagedWorkload, MemoryLimits, NameList, RevisionObject, Template,
    TemplateChange, TemplateChanges, limit_changes, template_changes,
};
pub(crate) use workload::{
    PodTemplate, UpdateStrategy, WorkloadCondition, WorkloadObject, WorkloadSpec, WorkloadStatus,
};
pub use world::{Facts, JobFacts, Thresholds, World};
