//! The requests that answer a [`Question`].

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    batch::v1::{CronJob, Job},
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim},
    storage::v1::StorageClass,
};
use kube::{Client, Resource, api::GetParams, core::Request};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::{
    api::is_object_name,
    diagnosis::{
        ClaimFacts, ClaimObject, ClassObject, ClassReading, ClusterNodes, FreeVolumes, JobFacts, LimitChanges,
        ManagedWorkload, NodeObject, PortHolders, Preemptions, RevisionObject, TemplateChanges, VolumeObject,
        WorkloadObject, limit_changes, template_changes,
    },
    events::{Listed, NamespaceEvents, WatchedEvent, list_events},
    pods::{WatchedPod, pods},
    watch::{
        PAGE_SIZE,
        collection::{Collection, Selection},
        decode::Decoder,
        read_body,
    },
};

use super::question::{Answer, Fact, JobFact, JobKey, Question, RevisionFact, RevisionKey};

/// How long one request for a revision may take, and all requests about nodes, a claim, or the pods that use ports.
const TIMEOUT: Duration = Duration::from_secs(5);
const LONG_TIMEOUT: Duration = Duration::from_secs(10);
/// How many nodes are read. Kubernetes supports clusters of up to 5,000. Of a larger one, nothing is said.
const NODES: usize = 5000;
/// How many free volumes are read. Of more, nothing is said.
const VOLUMES: usize = 500;
/// How many revisions of a workload are read. By default, a workload keeps eleven.
const REVISIONS: u32 = 64;
/// How many pods of a namespace are listed to find who uses a port. Of more, the others are not named.
const PODS: usize = 5000;
/// The largest object that is read, in bytes. Most are smaller than 20 KiB.
const OBJECT_LIMIT: usize = 512 * 1024;

/// Reads the answer to a question, and the events if it is about them. Each request about a Job may take as long as `limit`.
pub(crate) async fn read(client: &Client, question: &Question, limit: Duration) -> (Answer, Vec<WatchedEvent>) {
    let answer = match question {
        Question::Job(key) => job(client, key, limit).await,
        Question::Revision(key) => revision(client, key).await,
        Question::LimitChanges { workload: (resource, name), revision } => {
            within(read_limit_changes(client, resource, name, revision)).await
        }
        Question::Nodes => within(nodes(client)).await,
        Question::Claim { namespace, name } => within(claim(client, namespace, name)).await,
        Question::Preemptions(namespace) => within(preemptions(client, namespace)).await,
        Question::PortHolders(namespace) => within(port_holders(client, namespace)).await,
        Question::EventsOf { pod, .. } => return listed(client, question, Listed::OfPod(*pod)).await,
        Question::Events(_) => return listed(client, question, Listed::Warnings).await,
        Question::Kills(_) => return listed(client, question, Listed::Kills).await,
    };
    if answer == Answer::Unavailable {
        tracing::debug!(?question, "could not read what verdicts depend on");
    }
    (answer, Vec::new())
}

async fn listed(client: &Client, question: &Question, listed: Listed) -> (Answer, Vec<WatchedEvent>) {
    match list_events(client, question.namespace(), listed).await {
        Ok(NamespaceEvents { events, is_complete }) => (Answer::Read(Fact::Listed { is_complete }), events),
        Err(error) => {
            tracing::debug!(?question, %error, "could not list events");
            (Answer::of_error(&error), Vec::new())
        }
    }
}

async fn within(read: impl Future<Output = kube::Result<Fact>>) -> Answer {
    match timeout(LONG_TIMEOUT, read).await {
        Ok(Ok(fact)) => Answer::Read(fact),
        // A list does not become absent.
        Ok(Err(error)) => {
            Some(Answer::of_error(&error)).filter(|answer| *answer != Answer::Gone).unwrap_or(Answer::Unavailable)
        }
        Err(_) => Answer::Unavailable,
    }
}

/// Reads an object; absent if it does not exist.
pub(crate) async fn get<K: Resource<DynamicType = ()>, T: DeserializeOwned>(
    client: &Client,
    namespace: Option<&str>,
    name: &str,
) -> kube::Result<Option<T>> {
    get_at(client, &K::url_path(&(), namespace), name).await
}

/// The same, if the path of its collection is this one.
pub(crate) async fn get_at<T: DeserializeOwned>(client: &Client, path: &str, name: &str) -> kube::Result<Option<T>> {
    // The names come from pods and other objects, which may contain anything.
    if !is_object_name(name) {
        return Ok(None);
    }
    let request = Request::new(path).get(name, &GetParams::default());
    match read_body(client, request.map_err(kube::Error::BuildRequest)?, OBJECT_LIMIT).await {
        // No object that says something is as large as the limit.
        Ok(body) => serde_json::from_slice(&body.unwrap_or_default()).map(Some).map_err(kube::Error::SerdeError),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a Job, and if it failed, its CronJob.
async fn job(client: &Client, key: &JobKey, limit: Duration) -> Answer {
    let namespace = Some(key.namespace.as_str());
    let job = match timeout(limit, get::<Job, WorkloadObject>(client, namespace, &key.name)).await {
        Ok(Ok(Some(job))) if job.metadata.uid.as_deref() == Some(&key.uid) => job,
        Ok(Ok(_)) => return Answer::Gone,
        Ok(Err(error)) => return Answer::of_error(&error),
        Err(_) => return Answer::Unavailable,
    };
    let fact = JobFact::of(&job, None);
    let Some(name) = fact.facts.cron_job.as_deref().filter(|_| fact.facts.failed.is_some()) else {
        return Answer::Read(Fact::Job(fact));
    };
    let (cron_job, denial) = match timeout(limit, get::<CronJob, CronJob>(client, namespace, name)).await {
        Ok(Ok(cron_job)) => (cron_job, String::new()),
        Ok(Err(error)) => match Answer::of_error(&error) {
            Answer::Denied(message) => (None, message),
            answer => return answer,
        },
        Err(_) => return Answer::Unavailable,
    };
    let is_orphan = denial.is_empty() && !cron_job.as_ref().is_some_and(|own| JobFacts::belongs_to(&job, own));
    Answer::Read(Fact::Job(JobFact { denial, is_orphan, ..JobFact::of(&job, cron_job.as_ref()) }))
}

/// Reads the revisions and compares their pod templates.
async fn revision(client: &Client, key: &RevisionKey) -> Answer {
    let RevisionKey { namespace, resource, failing, before, .. } = key;
    let get = async |name: &str| {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/{resource}/{name}");
        let request = http::Request::get(path).body(Vec::new()).map_err(|_| Answer::Unavailable)?;
        let bytes = timeout(TIMEOUT, read_body(client, request, OBJECT_LIMIT)).await;
        let bytes = bytes.map_err(|_| Answer::Unavailable)?.map_err(|error| Answer::of_error(&error))?;
        let bytes = bytes.ok_or(Answer::Read(Fact::Revision(RevisionFact::TooLarge)))?;
        // What cannot be decoded now cannot be decoded later.
        RevisionObject::from_json(&bytes).map_err(|_| Answer::Gone)
    };
    let read = async {
        let failing = get(failing).await?;
        let before = if before.is_empty() || !key.is_of_pods(&failing) { None } else { Some(get(before).await?) };
        Ok(key.compare(&failing, before.as_ref()))
    };
    read.await.unwrap_or_else(|answer| answer)
}

impl RevisionKey {
    /// Whether this is the revision that the pods name, and not one that has its name. It must belong to a workload, which
    /// could have another revision.
    fn is_of_pods(&self, failing: &RevisionObject) -> bool {
        let uid = if self.resource == "replicasets" { &failing.uid } else { &failing.owner_uid };
        *uid == self.controller_uid && !failing.owner_uid.is_empty()
    }

    /// How the memory limits of this revision came about, if it is one of these of the workload.
    pub(crate) fn limit_changes<'a>(
        &self,
        revisions: impl Iterator<Item = &'a RevisionObject> + Clone,
        workload: &ManagedWorkload,
    ) -> LimitChanges {
        let is_own = |revision: &&RevisionObject| revision.name == self.failing && self.is_of_pods(revision);
        let own = revisions.clone().find(is_own);
        let own = own.filter(|own| workload.metadata.uid.as_ref() == Some(&own.owner_uid));
        own.map(|own| limit_changes(own, revisions, workload)).unwrap_or_default()
    }

    /// Compares the pod templates. Without an earlier revision, only what the template says is known.
    pub(crate) fn compare(&self, failing: &RevisionObject, before: Option<&RevisionObject>) -> Answer {
        let is_of_pods = self.is_of_pods(failing) && before.is_none_or(|before| before.owner_uid == failing.owner_uid);
        if !is_of_pods {
            return Answer::Gone;
        }
        let own = || Arc::new(TemplateChanges::of_one(&failing.template));
        Answer::Read(Fact::Revision(match before {
            None => RevisionFact::Compared(own()),
            Some(before) if failing.number.zip(before.number).is_some_and(|(failing, before)| failing <= before) => {
                RevisionFact::NotNewer(own())
            }
            Some(before) => RevisionFact::Compared(Arc::new(template_changes(&before.template, &failing.template))),
        }))
    }
}

/// The revisions of a workload, of at most [`OBJECT_LIMIT`] bytes of JSON in all: decoded, they take up to nine times as many.
struct Revisions {
    kept: Vec<RevisionObject>,
    /// How many bytes there is room for. Absent if one did not fit.
    room: Option<usize>,
}

impl Revisions {
    fn new() -> Self {
        Self { kept: Vec::new(), room: Some(OBJECT_LIMIT) }
    }

    fn add(&mut self, json: &str) {
        self.room = self.room.and_then(|room| room.checked_sub(json.len()));
        match self.room {
            Some(_) => self.kept.extend(RevisionObject::from_json(json.as_bytes())),
            None => self.kept.clear(),
        }
    }
}

/// The workload and its revisions: two requests. Of a workload with more or larger revisions, or one that is not the pods', nothing is
/// said.
async fn read_limit_changes(client: &Client, resource: &str, name: &str, key: &RevisionKey) -> kube::Result<Fact> {
    let none = || Ok(Fact::LimitChanges(Arc::default()));
    let path = |resource: &str| format!("/apis/apps/v1/namespaces/{}/{resource}", key.namespace);
    let Some(workload) = get_at::<ManagedWorkload>(client, &path(resource), name).await? else { return none() };
    let selection = Selection { page_size: REVISIONS, labels: Some(workload.labels()), ..Selection::default() };
    let collection =
        Collection::new(client.clone(), &path(key.resource), selection, Decoder::json(|json: Box<RawValue>| json));
    let mut revisions = Revisions::new();
    let is_complete = collection.for_each(REVISIONS as usize, |json: Box<RawValue>| revisions.add(json.get())).await?;
    if !is_complete || revisions.room.is_none() {
        return none();
    }
    Ok(Fact::LimitChanges(Arc::new(key.limit_changes(revisions.kept.iter(), &workload))))
}

/// The nodes. None if there are too many.
async fn nodes(client: &Client) -> kube::Result<Fact> {
    let mut nodes = ClusterNodes::default();
    let is_complete = list::<Node, _>(client, NODES, |node: NodeObject| nodes.add(&node)).await?;
    Ok(Fact::Nodes(if is_complete { Arc::new(nodes) } else { Arc::default() }))
}

/// A claim, its StorageClass if it has one, and the free volumes if they may show why it is not bound: at most three requests. A
/// claim that does not exist shows nothing.
async fn claim(client: &Client, namespace: &str, name: &str) -> kube::Result<Fact> {
    let claim = get::<PersistentVolumeClaim, ClaimObject>(client, Some(namespace), name).await?;
    let Some(claim) = claim else { return Ok(Fact::Claim(Arc::default())) };
    let class = match claim.class() {
        // The rights to read classes and volumes are optional as well.
        Some(class) => get::<StorageClass, ClassObject>(client, None, class).await.ok(),
        None => None,
    };
    let class = match &class {
        Some(Some(class)) => ClassReading::Read(class),
        Some(None) => ClassReading::Missing,
        None => ClassReading::Unknown,
    };
    let mut volumes = FreeVolumes::default();
    let is_complete = ClaimFacts::needs_volumes(&claim, class)
        && list::<PersistentVolume, _>(client, VOLUMES, |volume: VolumeObject| volumes.add(&volume))
            .await
            .unwrap_or_default();
    Ok(Fact::Claim(Arc::new(ClaimFacts::of(&claim, class, is_complete.then_some(&volumes)))))
}

/// The preemptions in a namespace.
async fn preemptions(client: &Client, namespace: &str) -> kube::Result<Fact> {
    let NamespaceEvents { events, .. } = list_events(client, namespace, Listed::Preempted).await?;
    let mut preemptions = Preemptions::default();
    events.iter().filter_map(|watched| watched.event.as_deref()).for_each(|event| preemptions.add(event));
    Ok(Fact::Preemptions(Arc::new(preemptions)))
}

/// The pods of a namespace that use ports of their nodes.
async fn port_holders(client: &Client, namespace: &str) -> kube::Result<Fact> {
    let mut holders = PortHolders::default();
    let see = |watched: WatchedPod| watched.pod.iter().for_each(|pod| holders.see(pod));
    pods(client.clone(), Some(namespace), PAGE_SIZE).for_each(PODS, see).await?;
    Ok(Fact::PortHolders(Arc::new(holders)))
}

/// Reads objects of a type of the API, as [`Collection::for_each`].
async fn list<K: Resource<DynamicType = ()>, T: DeserializeOwned + Send + 'static>(
    client: &Client,
    limit: usize,
    see: impl FnMut(T),
) -> kube::Result<bool> {
    let (path, decoder) = (K::url_path(&(), None), Decoder::json(|object: T| object));
    Collection::new(client.clone(), &path, Selection::default(), decoder).for_each(limit, see).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Whoever may create ReplicaSets can give them the labels of a workload, and arguments that take far more memory than JSON.
    #[test]
    fn revisions_that_are_large_in_all_are_not_kept() {
        let revision = |args: usize| {
            let container = json!({"name": "app", "args": vec![""; args]});
            json!({"metadata": {"name": "cart"}, "spec": {"template": {"spec": {"containers": [container]}}}})
                .to_string()
        };
        let mut revisions = Revisions::new();
        (0..10).for_each(|_| revisions.add(&revision(1_000)));
        assert_eq!((revisions.kept.len(), revisions.room.is_some()), (10, true));
        (0..64).for_each(|_| revisions.add(&revision(100_000)));
        assert_eq!((revisions.kept.len(), revisions.room), (0, None));
        revisions.add(&revision(1));
        assert_eq!((revisions.kept.len(), revisions.room), (0, None));
    }
}
