//! Reads a workload, its revisions and its pods.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::Job,
    core::v1::{Event as ApiEvent, Pod as ApiPod},
};
use kube::{Resource, api::ListParams, core::Selector};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    api::Cause,
    cli::{
        kind::Kind,
        printable::clean,
        workload::{Progress, Workload},
    },
    diagnosis::{
        Facts, Finding, Health, JobFacts, RevisionObject, Thresholds, classify_failed_create, explain, judge, owner,
        owner_names, revision_hash, revision_name, template_changes,
    },
    pods::{Pod, WatchedPod},
    report::Comparison,
};

use super::{
    events,
    explanation::{Counts, MissingPart, RevisionPart, State},
    objects,
    reader::{Page, Reader},
};

/// The most pods and revisions of a workload that are read.
const PODS: u32 = 1000;
const REVISIONS: u32 = 100;

/// A workload with its pods.
pub(super) struct Gathered {
    pub(super) workload: Workload,
    revisions: Vec<Revision>,
    /// Absent if they could not be read.
    pods: Option<Pods>,
}

struct Pods {
    pods: Vec<Pod>,
    unreadable: usize,
    /// Whether there are more.
    more: bool,
}

/// A ReplicaSet or ControllerRevision.
struct Revision {
    name: String,
    object: RevisionObject,
}

#[derive(Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    #[serde(default)]
    name: String,
}

/// Decodes a workload.
pub(super) fn decode(kind: Kind, json: &str) -> serde_json::Result<Option<Workload>> {
    Ok(Some(match kind {
        Kind::Deployment => Workload::Deployment(serde_json::from_str(json)?),
        Kind::StatefulSet => Workload::StatefulSet(serde_json::from_str(json)?),
        Kind::DaemonSet => Workload::DaemonSet(serde_json::from_str(json)?),
        Kind::Job => Workload::Job(serde_json::from_str(json)?),
        Kind::Pod => return Ok(None),
    }))
}

/// Reads the workload that a pod belongs to, as far as the pod names one of a kind that is explained.
pub(super) async fn of_pod(reader: &Reader<'_>, pod: &Pod) -> Option<Gathered> {
    let controller = pod.controller.as_ref()?;
    let (kind, name) = owner_names(pod)?;
    let kind = match (Kind::of_api(&controller.api_version, &controller.kind), kind) {
        (Some(kind), _) => kind,
        (None, "Deployment") if controller.api_version.starts_with("apps/") => Kind::Deployment,
        _ => return None,
    };
    let workload = match kind {
        Kind::Deployment => Workload::Deployment(Box::new(reader.get::<Deployment, _>(name).await.found()?)),
        Kind::StatefulSet => Workload::StatefulSet(Box::new(reader.get::<StatefulSet, _>(name).await.found()?)),
        Kind::DaemonSet => Workload::DaemonSet(Box::new(reader.get::<DaemonSet, _>(name).await.found()?)),
        Kind::Job => Workload::Job(Box::new(reader.get::<Job, _>(name).await.found()?)),
        Kind::Pod => return None,
    };
    // Another object may have taken the name of a deleted one.
    let is_controller = kind == Kind::Deployment || workload.uid() == controller.uid.as_str();
    if is_controller { Some(gather(reader, workload).await) } else { None }
}

/// Reads the revisions and the pods of a workload.
pub(super) async fn gather(reader: &Reader<'_>, workload: Workload) -> Gathered {
    let name = workload.metadata().name.clone().unwrap_or_default();
    let labels = match workload.selector().cloned().map(Selector::try_from) {
        Some(Ok(selector)) => selector.to_string(),
        Some(Err(_)) => String::new(),
        // The API server sets that of a Job.
        None => format!("job-name={name}"),
    };
    if labels.is_empty() {
        reader.not_read(&format!("the pods of {name}"), "its selector cannot be read");
        return Gathered { workload, revisions: Vec::new(), pods: None };
    }
    let (revisions, pods) = futures::join!(revisions(reader, &workload, &labels), pods(reader, &name, &labels));
    let mut gathered = Gathered { workload, revisions, pods };
    if let Some(mut pods) = gathered.pods.take() {
        pods.pods.retain(|pod| gathered.owns(pod));
        gathered.pods = Some(pods);
    }
    gathered
}

async fn pods(reader: &Reader<'_>, name: &str, labels: &str) -> Option<Pods> {
    let params = ListParams::default().labels(labels).limit(PODS);
    let page = reader.list::<ApiPod, WatchedPod>(&format!("the pods of {name}"), &params).await?;
    let more = !page.is_complete();
    let (mut pods, mut unreadable) = (Vec::new(), 0);
    for watched in page.into_items() {
        match watched.pod {
            Ok(pod) => pods.push(*pod),
            Err(_) => unreadable += 1,
        }
    }
    Some(Pods { pods, unreadable, more })
}

async fn revisions(reader: &Reader<'_>, workload: &Workload, labels: &str) -> Vec<Revision> {
    match workload.kind() {
        Kind::Deployment => list_revisions::<ReplicaSet>(reader, "the ReplicaSets", labels).await,
        Kind::StatefulSet | Kind::DaemonSet => {
            list_revisions::<ControllerRevision>(reader, "the ControllerRevisions", labels).await
        }
        Kind::Job | Kind::Pod => Vec::new(),
    }
}

async fn list_revisions<K: Resource<DynamicType = ()>>(reader: &Reader<'_>, what: &str, labels: &str) -> Vec<Revision> {
    let params = ListParams::default().labels(labels).limit(REVISIONS);
    let page = reader.list::<K, Box<RawValue>>(what, &params).await;
    let objects = page.map(Page::into_items).unwrap_or_default();
    let decode = |json: Box<RawValue>| {
        let Named { metadata } = serde_json::from_str(json.get()).ok()?;
        let object = RevisionObject::from_json(json.get().as_bytes()).ok()?;
        Some(Revision { name: metadata.name, object })
    };
    objects.into_iter().filter_map(decode).collect()
}

/// The pods of a workload by their state, and those with a problem.
pub(super) struct Verdicts {
    pub(super) counts: Counts,
    pub(super) problems: Vec<(Pod, Finding)>,
}

/// What a verdict about a pod depends on, apart from the pod.
#[derive(Clone, Debug, Default)]
pub(super) struct Siblings {
    job: Option<Arc<JobFacts>>,
    /// When the youngest healthy pod of a Deployment was created.
    youngest_healthy: Option<Timestamp>,
}

impl Siblings {
    pub(super) fn facts(&self, pod: &Pod) -> Facts {
        // A missing time is less than any other.
        let replaced = pod.created.is_some() && self.youngest_healthy > pod.created;
        Facts { job: self.job.clone(), replaced, ..Facts::default() }
    }
}

impl Gathered {
    /// For example `deployment/cart`.
    pub(super) fn name(&self) -> String {
        let name = self.workload.metadata().name.as_deref().unwrap_or_default();
        clean(&format!("{}/{name}", self.workload.kind().singular()))
    }

    /// What verdicts about its pods depend on.
    pub(super) fn siblings(&self, now: Timestamp) -> Siblings {
        let job = match &self.workload {
            Workload::Job(job) => Some(Arc::new(JobFacts::of(job))),
            _ => None,
        };
        let youngest_healthy = match &self.pods {
            // Only its controller replaces a failed pod by one with another name.
            Some(Pods { pods, .. }) if self.workload.kind() == Kind::Deployment => {
                let running = pods.iter().filter(|pod| pod.phase == "Running");
                running.filter(|pod| is_healthy((*pod).clone(), now)).filter_map(|pod| pod.created).max()
            }
            _ => None,
        };
        Siblings { job, youngest_healthy }
    }

    /// Whether a pod that has its labels belongs to it.
    fn owns(&self, pod: &Pod) -> bool {
        let is_named = || {
            let own = owner(pod).is_some_and(|owner| owner.kind == "Deployment");
            own && owner(pod).map(|owner| owner.name) == self.workload.metadata().name
        };
        match self.workload.kind() {
            Kind::Deployment => is_named(),
            _ => pod.controller.as_ref().is_some_and(|own| own.uid == self.workload.uid()),
        }
    }

    /// How far its rollout is, in a sentence, and whether its controller has given up.
    pub(super) fn progress(&self) -> (String, bool) {
        let (text, has_given_up) = match self.workload.progress() {
            Progress::Unobserved(text) => (text.to_owned(), false),
            Progress::Waiting(text) if self.workload.kind() == Kind::Job => {
                (format!("it is not complete: {text}"), false)
            }
            Progress::Waiting(text) => (format!("its rollout is not complete: {text}"), false),
            Progress::Done(text) if self.workload.kind() == Kind::Job => (format!("it is complete: {text}"), false),
            Progress::Done(text) => (format!("it is rolled out: {text}"), false),
            Progress::Failed { message, .. } => (message, true),
            Progress::Unknowable(text) => (text, false),
        };
        (clean(&text), has_given_up)
    }

    /// Its state. `is_missing_pods` is whether its pods cannot be created.
    pub(super) fn state(&self, verdicts: Option<&Verdicts>, is_missing_pods: bool) -> State {
        let runs = self.workload.kind() == Kind::Job && !self.workload.is_paused();
        match verdicts {
            _ if self.progress().1 || is_missing_pods => State::Problem,
            None => State::Unknown,
            Some(Verdicts { problems, .. }) if !problems.is_empty() => State::Problem,
            Some(Verdicts { counts, .. }) if counts.unreadable > 0 || counts.more => State::Unknown,
            Some(Verdicts { counts, .. }) if counts.settling > 0 => State::Settling,
            Some(Verdicts { counts, .. }) if self.is_under_way() => {
                if runs && counts.healthy > 0 {
                    State::Running
                } else {
                    State::Settling
                }
            }
            Some(_) => State::Healthy,
        }
    }

    /// Whether its rollout is under way.
    fn is_under_way(&self) -> bool {
        matches!(self.workload.progress(), Progress::Unobserved(_) | Progress::Waiting(_))
    }

    /// Judges its pods. Absent if they could not be read.
    pub(super) fn verdicts(&self, now: Timestamp) -> Option<Verdicts> {
        let Pods { pods, unreadable, more } = self.pods.as_ref()?;
        let mut counts = Counts { unreadable: *unreadable, more: *more, ..Counts::default() };
        let mut problems = Vec::new();
        let siblings = self.siblings(now);
        for pod in pods.iter().filter(|pod| !pod.ignored) {
            let mut pod = pod.clone();
            pod.update_history(None, now);
            counts.total += 1;
            let facts = siblings.facts(&pod);
            match judge(&pod, &facts, &Thresholds::default(), now).health {
                Health::Healthy => counts.healthy += 1,
                Health::Settling => counts.settling += 1,
                Health::Problem(mut finding) => {
                    counts.problems += 1;
                    explain(&pod, &mut finding, &facts, now);
                    problems.push((pod, *finding));
                }
            }
        }
        Some(Verdicts { counts, problems })
    }

    /// The newest revision, or that of a pod, and what changed in its pod template.
    pub(super) fn revision(&self, pod: Option<&Pod>) -> Option<RevisionPart> {
        let all = || self.revisions.iter().filter(|own| own.object.owner_uid == self.workload.uid());
        let own = match pod {
            Some(pod) => all().find(|own| self.is_of(own, pod))?,
            None => all().max_by_key(|own| own.object.number)?,
        };
        let before = all().filter(|other| other.object.number < own.object.number);
        let before = before.max_by_key(|other| other.object.number)?;
        let changes = template_changes(&before.object.template, &own.object.template);
        let lines = Comparison::Compared(Arc::new(changes)).lines(None);
        Some(RevisionPart {
            name: clean(&own.name),
            before: clean(&before.name),
            changes: lines.iter().map(|line| clean(line)).collect(),
        })
    }

    fn is_of(&self, revision: &Revision, pod: &Pod) -> bool {
        if self.workload.kind() == Kind::Deployment {
            return pod.controller.as_ref().is_some_and(|own| own.uid == revision.object.uid.as_str());
        }
        let name = self.workload.metadata().name.as_deref().unwrap_or_default();
        let hash = revision_hash(pod).map(|hash| revision_name(self.workload.kind().api_kind(), name, hash));
        hash.is_some_and(|hash| hash == revision.name)
    }

    /// The events about the workload and the newest ReplicaSet, and whether there are more.
    pub(super) async fn events(&self, reader: &Reader<'_>) -> (Vec<ApiEvent>, bool) {
        let name = self.name();
        let own = events::read(reader, &name, self.workload.uid());
        let newest = self.revisions.iter().filter(|own| own.object.owner_uid == self.workload.uid());
        let newest = newest.max_by_key(|own| own.object.number).filter(|_| self.workload.kind() == Kind::Deployment);
        let of_newest = async {
            match newest {
                Some(own) => events::read(reader, &format!("ReplicaSet {}", own.name), &own.object.uid).await,
                None => None,
            }
        };
        let (own, of_newest) = futures::join!(own, of_newest);
        let (mut all, more) = own.unwrap_or_default();
        let (others, more_others) = of_newest.unwrap_or_default();
        all.extend(others);
        (all, more || more_others)
    }

    /// Why its pods cannot be created, if they cannot.
    pub(super) async fn missing(&self, reader: &Reader<'_>, events: &[ApiEvent]) -> Option<MissingPart> {
        let message = match self.workload.replica_failure() {
            Some((message, _)) => message.to_owned(),
            None if self.workload.kind() == Kind::Deployment || !self.is_under_way() => return None,
            None => refused(events)?.to_owned(),
        };
        let (cause, sentence) = classify_failed_create(&message);
        let quotas = if cause == Cause::QuotaExceeded { objects::quotas(reader).await } else { Vec::new() };
        Some(MissingPart { cause, message: clean(&sentence), quotas })
    }
}

fn is_healthy(mut pod: Pod, now: Timestamp) -> bool {
    pod.update_history(None, now);
    matches!(judge(&pod, &Facts::default(), &Thresholds::default(), now).health, Health::Healthy)
}

/// The message about the last pod that could not be created, unless another one was created later.
fn refused(events: &[ApiEvent]) -> Option<&str> {
    let creations =
        events.iter().filter(|event| matches!(event.reason.as_deref(), Some("FailedCreate" | "SuccessfulCreate")));
    let last = creations.max_by_key(|event| events::last(event))?;
    last.message.as_deref().filter(|_| last.reason.as_deref() == Some("FailedCreate"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(reason: &str, message: &str, last: &str) -> ApiEvent {
        let event =
            json!({"metadata": {}, "involvedObject": {}, "reason": reason, "message": message, "lastTimestamp": last});
        serde_json::from_value(event).unwrap()
    }

    #[test]
    fn pods_are_refused_until_one_is_created() {
        let failed = || event("FailedCreate", "exceeded quota", "2026-03-01T10:00:00Z");
        let other = event("Killing", "x", "2026-03-01T12:00:00Z");
        assert_eq!(refused(&[failed(), other]), Some("exceeded quota"));
        assert_eq!(refused(&[failed(), event("SuccessfulCreate", "ok", "2026-03-01T11:00:00Z")]), None);
        assert_eq!(
            refused(&[event("SuccessfulCreate", "ok", "2026-03-01T09:00:00Z"), failed()]),
            Some("exceeded quota")
        );
        assert_eq!(refused(&[]), None);
    }

    fn replica_set(hash: &str, number: &str, image: &str) -> Revision {
        let set = json!({
            "metadata": {
                "name": format!("cart-{hash}"), "uid": hash, "annotations": {"deployment.kubernetes.io/revision": number},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart", "uid": "d", "controller": true}],
            },
            "spec": {"template": {"spec": {"containers": [{"name": "app", "image": image}]}}},
        });
        let object = RevisionObject::from_json(set.to_string().as_bytes()).unwrap();
        Revision { name: format!("cart-{hash}"), object }
    }

    fn pod(hash: &str, status: Value) -> Pod {
        let pod = json!({
            "metadata": {
                "name": format!("cart-{hash}-x"), "labels": {"pod-template-hash": hash},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("cart-{hash}"), "uid": hash, "controller": true}],
            },
            "status": status,
        });
        crate::pods::from_json(&pod.to_string()).unwrap()
    }

    fn cart(pods: Vec<Pod>) -> Gathered {
        let object = json!({"metadata": {"name": "cart", "uid": "d", "generation": 1},
            "spec": {"replicas": 2, "selector": {}, "template": {}}, "status": {"observedGeneration": 1}});
        Gathered {
            workload: decode(Kind::Deployment, &object.to_string()).unwrap().unwrap(),
            revisions: vec![replica_set("old", "1", "cart:1"), replica_set("new", "2", "cart:2")],
            pods: Some(Pods { pods, unreadable: 0, more: false }),
        }
    }

    #[test]
    fn compares_a_revision_with_the_one_before() {
        let changes = ["image of app: cart:1 → cart:2".to_owned()].to_vec();
        let part = RevisionPart { name: "cart-new".to_owned(), before: "cart-old".to_owned(), changes };
        assert_eq!(cart(Vec::new()).revision(None).as_ref(), Some(&part));
        assert_eq!(cart(Vec::new()).revision(Some(&pod("new", Value::Null))), Some(part));
        assert_eq!(cart(Vec::new()).revision(Some(&pod("old", Value::Null))), None, "nothing is before the first");
        assert_eq!(cart(Vec::new()).revision(Some(&pod("gone", Value::Null))), None);
    }

    #[test]
    fn a_failed_pod_that_was_replaced_is_no_problem_for_long() {
        let created = |name: &str, time: &str, status: Value| {
            let mut pod = pod("new", status);
            (pod.name, pod.created) = (name.into(), Some(time.parse().unwrap()));
            pod
        };
        let evicted = json!({"phase": "Failed", "reason": "Evicted", "startTime": "2026-03-01T08:00:00Z"});
        let ready = || {
            json!({"phase": "Running", "conditions": [
            {"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]})
        };
        let starting = json!({"phase": "Pending"});
        let problems = |other: Pod, now: &str| {
            let old = created("cart-new-a", "2026-03-01T08:00:00Z", evicted.clone());
            let gathered = cart(vec![old.clone(), other]);
            let now = now.parse().unwrap();
            let problems = gathered.verdicts(now).unwrap().problems.len();
            assert_eq!(gathered.siblings(now).facts(&old).replaced, problems == 0);
            problems
        };
        assert_eq!(problems(created("cart-new-b", "2026-03-01T09:00:00Z", ready()), "2026-03-01T12:00:00Z"), 0);
        assert_eq!(
            problems(created("cart-new-b", "2026-03-01T07:00:00Z", ready()), "2026-03-01T12:00:00Z"),
            1,
            "older"
        );
        assert_eq!(problems(created("cart-new-b", "2026-03-01T11:59:59Z", starting), "2026-03-01T12:00:00Z"), 1);
        assert!(!Siblings::default().facts(&Pod::default()).replaced);
    }

    #[test]
    fn a_job_whose_pods_are_healthy_is_running() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let state = |spec: Value, status: Value, pods: &[Value]| {
            let object = json!({"metadata": {"name": "export", "uid": "j"}, "spec": spec, "status": status});
            let pods = pods.iter().map(|status| pod("j", status.clone())).collect();
            let workload = decode(Kind::Job, &object.to_string()).unwrap().unwrap();
            let job =
                Gathered { workload, revisions: Vec::new(), pods: Some(Pods { pods, unreadable: 0, more: false }) };
            (job.state(job.verdicts(now).as_ref(), false), job.progress().0)
        };
        let running = json!({"phase": "Running", "conditions": [
            {"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]});
        let starting = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T11:59:50Z"}]});
        let spec = json!({"template": {}, "completions": 2});
        let progress = "it is not complete: 0 of 2 pods succeeded".to_owned();
        assert_eq!(state(spec.clone(), json!({}), std::slice::from_ref(&running)), (State::Running, progress));
        assert_eq!(state(spec.clone(), json!({}), &[running.clone(), starting]).0, State::Settling);
        assert_eq!(state(spec.clone(), json!({}), &[]).0, State::Settling);
        let suspended = json!({"template": {}, "suspend": true});
        assert_eq!(state(suspended, json!({}), std::slice::from_ref(&running)).0, State::Settling);
        let complete = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        assert_eq!(state(spec.clone(), complete, &[]).0, State::Healthy);

        let message = "webhook refused: password=hunter2";
        let failed = json!({"conditions": [{"type": "Failed", "status": "True", "message": message}]});
        let (state, progress) = state(spec, failed, &[running]);
        assert_eq!(
            (state, progress.as_str()),
            (State::Problem, "the Job has failed: webhook refused: password=[REDACTED]")
        );
    }

    #[test]
    fn counts_pods_by_their_state() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let ready = json!({"phase": "Running", "conditions": [
            {"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]});
        let failed = json!({"phase": "Failed", "reason": "Evicted"});
        let starting = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T11:59:50Z"}]});
        let pods = vec![pod("new", ready), pod("new", failed), pod("old", starting)];
        let Verdicts { counts, problems } = cart(pods).verdicts(now).unwrap();
        assert_eq!((counts.total, counts.healthy, counts.settling, counts.problems), (3, 1, 1, 1), "{counts:?}");
        assert_eq!(problems.len(), 1);
        assert!(cart(Vec::new()).owns(&pod("new", Value::Null)) && !cart(Vec::new()).owns(&Pod::default()));
    }
}
