//! Events that say that a workload could not create a pod, or that a deadline ended the pods of a Job.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::{Cause, is_object_name},
    diagnosis::{Explanation, Subject, SubjectKind, classify_failed_create, refusing_quota},
    events::Event,
};

use super::key::{WorkloadKey, WorkloadKind};

/// The reason of the events of all these controllers.
pub(super) const FAILED_CREATE: &str = "FailedCreate";
/// The reason of the event about a Job that its `activeDeadlineSeconds` ended, and of its condition Failed.
pub(super) const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
/// What a sentence about a quota begins with, before its name.
const RESOURCE_QUOTA: &str = "the ResourceQuota ";
/// An event that is older than this when it arrives may be outdated.
const RECENT: SignedDuration = SignedDuration::from_secs(60);

/// Why pods could not be created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) cause: Cause,
    /// A part of a sentence; may be empty.
    detail: String,
    subject: Option<Arc<Subject>>,
}

/// Without any information.
pub(super) static NO_REFUSAL: Refusal = Refusal { cause: Cause::Unknown, detail: String::new(), subject: None };

/// An event about a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FailedCreation {
    pub(super) refusal: Refusal,
    /// When the first such event occurred.
    pub(super) first: Option<Timestamp>,
    /// The pod that a StatefulSet could not create.
    pub(super) pod: Option<String>,
    /// Whether it occurred a while before it arrived.
    pub(super) is_old: bool,
}

/// Whether a controller could not create a pod, or a deadline has ended the pods of a Job.
pub(in crate::controller) fn is_about_missing_pods(event: &Event) -> bool {
    match WorkloadKind::from_name(&event.involved.kind) {
        Some(WorkloadKind::Job) => matches!(event.reason.as_str(), FAILED_CREATE | DEADLINE_EXCEEDED),
        Some(_) => event.reason == FAILED_CREATE,
        None => false,
    }
}

/// The workload that an event names, if it may miss pods because of what the event says.
pub(super) fn workload_of(event: &Event) -> Option<WorkloadKey> {
    let involved = &event.involved;
    let kind = WorkloadKind::from_name(&involved.kind).filter(|_| is_about_missing_pods(event))?;
    let is_valid = is_object_name(&involved.namespace) && is_object_name(&involved.name) && !involved.uid.is_empty();
    is_valid.then(|| WorkloadKey {
        namespace: involved.namespace.clone(),
        kind,
        name: involved.name.clone(),
        uid: involved.uid.clone(),
    })
}

impl FailedCreation {
    pub(super) fn new(event: &Event, now: Timestamp) -> Self {
        let message = event.text();
        Self {
            refusal: Refusal::new(&event.involved.namespace, message),
            first: event.first,
            pod: stateful_pod(message).filter(|pod| is_object_name(pod)).map(str::to_owned),
            is_old: event.last.or(event.first).is_some_and(|last| now.duration_since(last) > RECENT),
        }
    }
}

/// The pod in `create Pod web-0 in StatefulSet web failed error: …` and `create Claim data-web-0 for Pod web-0 in …`.
fn stateful_pod(message: &str) -> Option<&str> {
    let (before, _) = message.split_once(" in StatefulSet ")?;
    let is_creation = before.starts_with("create ") || before.starts_with("Create ");
    before.rsplit_once("Pod ").filter(|_| is_creation).map(|(_, pod)| pod)
}

/// Whether a ResourceQuota is the cause.
fn is_of_quota(cause: Cause) -> bool {
    matches!(cause, Cause::QuotaExceeded | Cause::QuotaRequires)
}

impl Refusal {
    /// The pods of a Job are gone, because it ran longer than this number of seconds.
    pub(super) fn deadline(seconds: Option<i64>) -> Self {
        let deadline = seconds.map(|seconds| format!(" of {seconds} s")).unwrap_or_default();
        let detail = format!("the Job ran into its deadline{deadline}, which ended its pods");
        Self { cause: Cause::DeadlineExceeded, detail, subject: None }
    }

    /// The reason of the incident.
    pub(super) fn reason(&self) -> &'static str {
        if self.cause == Cause::DeadlineExceeded { DEADLINE_EXCEEDED } else { FAILED_CREATE }
    }

    pub(super) fn new(namespace: &str, message: &str) -> Self {
        let (cause, detail) = classify_failed_create(message);
        let quota = refusing_quota(message).filter(|_| is_of_quota(cause));
        Self { cause, detail, subject: quota.map(|name| quota_subject(namespace, name)) }
    }

    /// Restores a refusal from the cause and the message of an incident.
    pub(super) fn from_sentence(namespace: &str, cause: Cause, sentence: &str) -> Self {
        let after = |verb| sentence.split_once(verb).map(|(_, detail)| detail);
        // The detail may contain the words as well.
        let detail = [" pods exist: ", " pod exists: "].into_iter().filter_map(after).max_by_key(|detail| detail.len());
        let detail = detail.unwrap_or_default();
        let quota = detail.strip_prefix(RESOURCE_QUOTA).and_then(|rest| rest.split_once(' ')).map(|(name, _)| name);
        let quota = quota.filter(|name| is_of_quota(cause) && is_object_name(name));
        let subject = quota.map(|name| quota_subject(namespace, name.to_owned()));
        Self { cause, detail: detail.to_owned(), subject }
    }

    /// For example "0 of 3 pods exist: the ResourceQuota mem-cap is exceeded".
    pub(super) fn explain(&self, missing: u64, of: u64) -> Explanation {
        let verb = if of == 1 { "pod exists" } else { "pods exist" };
        let mut message = format!("{} of {of} {verb}", of.saturating_sub(missing));
        if !self.detail.is_empty() {
            message = format!("{message}: {}", self.detail);
        }
        Explanation {
            cause: self.cause,
            message: message.into(),
            subject: self.subject.clone(),
            ..Explanation::default()
        }
    }
}

fn quota_subject(namespace: &str, name: String) -> Arc<Subject> {
    Arc::new(Subject { kind: SubjectKind::ResourceQuota, namespace: namespace.to_owned(), name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::InvolvedObject;

    fn event(kind: &str, name: &str, message: &str) -> Event {
        let involved = InvolvedObject {
            kind: kind.to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: "u".to_owned(),
            container: String::new(),
        };
        Event { involved, reason: "FailedCreate".to_owned(), message: message.to_owned(), ..Event::default() }
    }

    #[test]
    fn only_failed_creations_and_deadlines_concern_a_workload() {
        assert_eq!(workload_of(&event("ReplicaSet", "api-5d9f", "")).unwrap().name, "api-5d9f");
        for kind in ["StatefulSet", "DaemonSet", "Job", "ReplicationController"] {
            assert_eq!(workload_of(&event(kind, "api", "")).unwrap().kind.as_str(), kind);
        }
        let deadline = |kind| Event { reason: "DeadlineExceeded".to_owned(), ..event(kind, "api", "") };
        assert!(workload_of(&deadline("Job")).is_some() && workload_of(&deadline("ReplicaSet")).is_none());
        for kind in ["CronJob", "Deployment", "Pod", "replicaset", ""] {
            assert_eq!(workload_of(&event(kind, "api", "")), None, "{kind}");
        }
        assert_eq!(workload_of(&Event { reason: "FailedDelete".to_owned(), ..event("Job", "api", "") }), None);
    }

    #[test]
    fn never_requests_names_that_are_not_valid() {
        for name in
            ["", ".", "..", "a..b", "../secrets/x", "a/b", "a?b", "a%2fb", "A", "-a", "a.", "é", &"a".repeat(254)]
        {
            assert_eq!(workload_of(&event("Job", name, "")), None, "{name}");
            let mut other = event("Job", "api", "");
            other.involved.namespace = name.to_owned();
            assert_eq!(workload_of(&other), None, "{name}");
        }
        let mut unidentified = event("Job", "api", "");
        unidentified.involved.uid.clear();
        assert_eq!(workload_of(&unidentified), None);
    }

    #[test]
    fn explains_how_many_pods_exist_and_why_not_more() {
        let quota = r#"pods "api-5d9f-x2x4" is forbidden: exceeded quota: mem-cap, requested: memory=256Mi, used: memory=1Gi, limited: memory=1Gi"#;
        for prefix in ["Error creating: ", "(combined from similar events): Error creating: "] {
            let created = FailedCreation::new(
                &event("ReplicaSet", "api-5d9f", &format!("{prefix}{quota}")),
                Timestamp::UNIX_EPOCH,
            );
            let explanation = created.refusal.explain(3, 3);
            assert_eq!(explanation.cause, Cause::QuotaExceeded);
            assert!(
                explanation.message.starts_with("0 of 3 pods exist: the ResourceQuota mem-cap "),
                "{explanation:?}"
            );
            let subject = explanation.subject.unwrap();
            assert_eq!((subject.namespace.as_str(), subject.name.as_str()), ("shop", "mem-cap"));
        }
        let none = Refusal::new("shop", "").explain(1, 1);
        assert_eq!((none.cause, none.message.as_str()), (Cause::Unknown, "0 of 1 pod exists"));
    }

    #[test]
    fn restores_a_refusal_from_its_sentence() {
        for of in [1, 3] {
            let sentence =
                format!("0 of {of} pod{} the quota: 1 pods exist: 2", if of == 1 { " exists:" } else { "s exist:" });
            let restored = Refusal::from_sentence("shop", Cause::QuotaExceeded, &sentence).explain(of, of);
            assert_eq!((restored.cause, restored.message.to_string()), (Cause::QuotaExceeded, sentence));
        }
        assert_eq!(
            Refusal::from_sentence("shop", Cause::Unknown, "0 of 3 pods exist").explain(2, 3).message,
            "1 of 3 pods exist"
        );
        for message in [
            r#"pods "a" is forbidden: exceeded quota: mem-cap, requested: memory=256Mi, used: memory=1Gi, limited: memory=1Gi"#,
            r#"pods "a" is forbidden: failed quota: mem-cap: must specify limits.cpu for: app"#,
            r#"pods "a" is forbidden: no PriorityClass with name gold was found"#,
        ] {
            let refusal = Refusal::new("shop", message);
            assert_eq!(Refusal::from_sentence("shop", refusal.cause, &refusal.explain(1, 3).message), refusal);
        }
    }

    #[test]
    fn finds_the_pod_that_a_stateful_set_cannot_create() {
        for (message, expected) in [
            ("create Pod web-0 in StatefulSet web failed error: no", Some("web-0")),
            ("Create Pod web-0 in StatefulSet web failed error: no", Some("web-0")),
            ("create Claim data-web-1 for Pod web-1 in StatefulSet web failed error: no", Some("web-1")),
            ("(combined from similar events): create Pod web-0 in StatefulSet web failed error: no", Some("web-0")),
            ("create Pod ../x in StatefulSet web failed error: no", None),
            ("Error creating: pods \"web-0\" is forbidden", None),
            ("update Pod web-0 in StatefulSet web failed error: no", None),
        ] {
            let created = FailedCreation::new(&event("StatefulSet", "web", message), Timestamp::UNIX_EPOCH);
            assert_eq!(created.pod.as_deref(), expected, "{message}");
        }
    }
}
