//! The lists and watches of the targets, and what they have shown.

use std::{fmt::Debug, sync::Arc, time::Duration};

use futures::{
    StreamExt,
    stream::{BoxStream, SelectAll},
};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::Job,
};
use kube::{Api, Client, Resource, core::NamespaceResourceScope};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::{
    cli::{event_lists::event_store, jobs::Jobs},
    config::StreamingLists,
    diagnosis::{JobFacts, needs_job},
    events::{Event, EventStore, WatchedEvent, watch_events},
    jobs::JobKey,
    pods::{Controller, JsonPod, Pod, Uid, UndecodablePod, WatchedPod},
    watch::{PAGE_SIZE, WatchUpdate, collection::Selection, json::Json, watch_either},
};

use super::{
    decide::{Begun, Decision, Facts, Gone, decide},
    listing::Listing,
    newest::Revision,
    observed::Observed,
    outlook::{Limits, text},
    target::{Kind, Target},
    workload::Workload,
};

/// How many events about workloads are kept: those of the last pods that could not be created.
const REFUSALS: usize = 200;

/// An update of one of the watches, for the target with this index.
pub(super) enum Update {
    Workload(usize, WatchUpdate<Workload>),
    Revision(usize, WatchUpdate<Revision>),
    Pod(usize, WatchUpdate<WatchedPod>),
    Event(WatchUpdate<WatchedEvent>),
}

/// All watches.
pub(super) type Updates = SelectAll<BoxStream<'static, Update>>;

/// The state of one target.
pub(super) struct TargetState {
    pub(super) target: Target,
    /// The UID of the object that is waited for; empty for pods with certain labels.
    uid: String,
    workload: Option<Listing<Workload>>,
    revisions: Option<Listing<Revision>>,
    pods: Listing<PodEntry>,
    counts: Option<[i32; 6]>,
    progressed: Option<Timestamp>,
    /// Whether the deletion of the object was seen, so that its last state is known.
    is_deleted: bool,
    /// The Job if it has ended. That stays so if it is deleted, for example when its `ttlSecondsAfterFinished` are over.
    ended: Option<Workload>,
    /// The named pod if it has succeeded. That stays so as well.
    succeeded: Option<Box<Observed>>,
}

type PodEntry = Result<Box<Observed>, UndecodablePod>;

/// The Warning events of the namespace since the wait began, and those that were listed.
pub(super) struct Events {
    about_pods: EventStore,
    /// FailedCreate events, the most recent last.
    refusals: Vec<(u64, Event)>,
    /// Whether they may not be watched.
    pub(super) denied: bool,
}

impl Default for Events {
    fn default() -> Self {
        Self { about_pods: event_store(), refusals: Vec::new(), denied: false }
    }
}

impl Events {
    pub(super) fn add(&mut self, watched: WatchedEvent) {
        let WatchedEvent { id, event: Some(event), .. } = watched else { return };
        if event.reason == "FailedCreate" && event.involved.kind != "Pod" {
            // What an event said before shows whether the refusals change.
            self.refusals.retain(|(known, earlier)| *known != id || text(earlier) != text(&event));
            if self.refusals.len() >= REFUSALS {
                self.refusals.remove(0);
            }
            self.refusals.push((id, *event));
        } else {
            self.about_pods.record(id, *event, Instant::now());
        }
    }

    pub(super) fn about(&self, pod: &Pod) -> Arc<[Event]> {
        self.about_pods.about(pod)
    }

    fn refusals(&self, uid: &str) -> Vec<Event> {
        self.refusals.iter().filter(|(_, event)| event.involved.uid == uid).map(|(_, event)| event.clone()).collect()
    }
}

/// What to watch for a target.
pub(super) struct Watched {
    pub(super) target: Target,
    /// The UID of the object, and the labels of its pods. Absent for pods.
    pub(super) workload: Option<(String, String)>,
    /// The UID of a pod; otherwise empty.
    pub(super) pod_uid: String,
}

impl TargetState {
    /// Starts the watches of a target.
    pub(super) fn start(index: usize, watched: Watched, client: &Client, namespace: &str, all: &mut Updates) -> Self {
        let Watched { target, workload, pod_uid } = watched;
        let named = |name: &str| Selection {
            list_fields: Some(format!("metadata.name={name}")),
            watch_fields: Some(format!("metadata.name={name}")),
            ..Selection::default()
        };
        let labelled = |labels: &str| Selection {
            page_size: PAGE_SIZE,
            labels: Some(labels.to_owned()).filter(|labels| !labels.is_empty()),
            ..Selection::default()
        };
        let pods = match (&target, &workload) {
            (_, Some((_, labels))) | (Target::Selected(labels), None) => labelled(labels),
            (Target::Named(_, name), None) => named(name),
        };
        all.push(watch(client, namespace, pods, |pod: JsonPod| pod.pod, move |update| Update::Pod(index, update)));
        let mut state = Self {
            target,
            uid: pod_uid,
            workload: None,
            revisions: None,
            pods: Listing::default(),
            counts: None,
            progressed: None,
            is_deleted: false,
            ended: None,
            succeeded: None,
        };
        let (Some((uid, labels)), Target::Named(kind, name)) = (workload, &state.target) else { return state };
        let as_workload = move |update| Update::Workload(index, update);
        let as_revision = move |update| Update::Revision(index, update);
        let own = named(name);
        all.push(match kind {
            Kind::Deployment | Kind::Pod => {
                let map = |object: Deployment| Workload::Deployment(Box::new(object));
                watch(client, namespace, own, map, as_workload)
            }
            Kind::StatefulSet => {
                let map = |object: StatefulSet| Workload::StatefulSet(Box::new(object));
                watch(client, namespace, own, map, as_workload)
            }
            Kind::DaemonSet => {
                let map = |object: DaemonSet| Workload::DaemonSet(Box::new(object));
                watch(client, namespace, own, map, as_workload)
            }
            Kind::Job => {
                let map = |object: Job| Workload::Job(Box::new(object));
                watch(client, namespace, own, map, as_workload)
            }
        });
        match kind {
            Kind::Deployment => {
                all.push(watch(client, namespace, labelled(&labels), Revision::of_replica_set, as_revision));
                state.revisions = Some(Listing::default());
            }
            Kind::DaemonSet => {
                all.push(watch(client, namespace, labelled(&labels), Revision::of_controller_revision, as_revision));
                state.revisions = Some(Listing::default());
            }
            Kind::StatefulSet | Kind::Job | Kind::Pod => {}
        }
        (state.uid, state.workload) = (uid, Some(Listing::default()));
        state
    }

    pub(super) fn apply_workload(&mut self, update: WatchUpdate<Workload>, now: Timestamp) {
        let Some(workload) = &mut self.workload else { return };
        if let WatchUpdate::Listed(object) | WatchUpdate::Applied(object) | WatchUpdate::Deleted(object) = &update
            && object.uid() == self.uid
            && object.has_ended()
        {
            self.ended = Some(object.clone());
        }
        if let WatchUpdate::Deleted(object) = &update {
            self.is_deleted |= object.uid() == self.uid;
        }
        let name = |object: &Workload| object.metadata().name.clone().unwrap_or_default();
        workload.apply(update, name, |_, object| object);
        let counts = self.workload().map(Workload::counts);
        if counts.is_some() && self.counts.is_some() && counts != self.counts {
            self.progressed = Some(now);
        }
        self.counts = counts.or(self.counts);
    }

    pub(super) fn apply_revision(&mut self, update: WatchUpdate<Revision>) {
        if let Some(revisions) = &mut self.revisions {
            revisions.apply(update, |revision| revision.name.clone(), |_, revision| revision);
        }
    }

    pub(super) fn apply_pod(&mut self, update: WatchUpdate<WatchedPod>, now: Timestamp) {
        let name = |pod: &PodEntry| match pod {
            Ok(observed) => observed.pod.name.to_string(),
            Err(pod) => pod.name.clone(),
        };
        let merge = |before: Option<&PodEntry>, entry: PodEntry| match entry {
            Ok(mut entry) => {
                let before = before.and_then(|before| before.as_deref().ok());
                let before = before.filter(|before| before.pod.uid == entry.pod.uid);
                entry.pod.update_history(before.map(|before| &before.pod), now);
                Ok(Box::new(Observed::new(entry.pod, before, now)))
            }
            Err(pod) => Err(pod),
        };
        let entry = |watched: WatchedPod| watched.pod.map(|pod| Box::new(Observed::unseen(*pod)));
        let update = map(update, entry);
        if let WatchUpdate::Listed(Ok(entry)) | WatchUpdate::Applied(Ok(entry)) | WatchUpdate::Deleted(Ok(entry)) =
            &update
            && entry.pod.phase == "Succeeded"
            && !self.uid.is_empty()
            && entry.pod.uid == Uid::from_text(&self.uid)
        {
            let mut entry = entry.clone();
            entry.pod.deletion = None;
            self.succeeded = Some(entry);
        }
        // A pod that is gone may make room in a quota. A later list may lack one without saying so.
        if matches!(update, WatchUpdate::Deleted(_)) || matches!(update, WatchUpdate::Synced) && self.pods.is_synced() {
            self.progressed = Some(now);
        }
        self.pods.apply(update, name, merge);
    }

    /// The Jobs that decide about the failed pods among those with certain labels.
    pub(super) fn needed_jobs(&self) -> impl Iterator<Item = JobKey> {
        let is_selected = matches!(self.target, Target::Selected(_));
        let pods = self.pods.objects().filter(move |_| is_selected).filter_map(|entry| entry.as_deref().ok());
        let failed = pods.filter(|observed| observed.pod.phase == "Failed");
        failed.filter_map(|Observed { pod, .. }| Some(JobKey::new(pod, needs_job(pod)?)))
    }

    fn workload(&self) -> Option<&Workload> {
        let Target::Named(_, name) = &self.target else { return None };
        self.ended.as_ref().or_else(|| self.workload.as_ref()?.get(name))
    }

    /// Whether everything about the target has been listed once.
    pub(super) fn is_synced(&self) -> bool {
        self.pods.is_synced()
            && self.workload.as_ref().is_none_or(Listing::is_synced)
            && self.revisions.as_ref().is_none_or(Listing::is_synced)
    }

    /// Whether what is known is the present state.
    pub(super) fn is_current(&self) -> bool {
        self.pods.is_current()
            && self.workload.as_ref().is_none_or(Listing::is_current)
            && self.revisions.as_ref().is_none_or(Listing::is_current)
    }

    /// Why the API server cannot be asked about the target.
    pub(super) fn failure(&self) -> Option<&str> {
        let workload = self.workload.as_ref().and_then(Listing::failure);
        let revisions = self.revisions.as_ref().and_then(Listing::failure);
        self.pods.failure().or(workload).or(revisions)
    }

    /// The resource that may not be read and the API server's message, if that is so from the beginning.
    pub(super) fn denial(&mut self) -> Option<(&'static str, String)> {
        let Target::Named(kind, _) = self.target else { return Some(("pods", self.pods.take_denial()?)) };
        let workload = self.workload.as_mut().and_then(|workload| Some((kind.resource(), workload.take_denial()?)));
        let resource = if kind == Kind::DaemonSet { "controllerrevisions.apps" } else { "replicasets.apps" };
        let revisions = self.revisions.as_mut().and_then(|revisions| Some((resource, revisions.take_denial()?)));
        workload.or(revisions).or_else(|| Some(("pods", self.pods.take_denial()?)))
    }

    pub(super) fn decide(
        &self,
        events: &Events,
        jobs: &Jobs,
        begun: Begun,
        limits: Limits,
        now: Timestamp,
    ) -> Decision {
        let pods: Vec<&Observed> = match &self.succeeded {
            Some(pod) => vec![pod],
            None => self.pods.objects().filter_map(|entry| entry.as_deref().ok()).collect(),
        };
        let unreadable: Vec<&str> =
            self.pods.objects().filter_map(|pod| pod.as_ref().err().map(|pod| pod.name.as_str())).collect();
        let revisions: Vec<&Revision> = self.revisions.iter().flat_map(Listing::objects).collect();
        let facts = Facts {
            target: &self.target,
            workload: self.workload(),
            gone: self.gone(&pods),
            revisions: &revisions,
            pods: &pods,
            unreadable: &unreadable,
            events: &|pod| events.about(pod),
            refusals: &|uid| events.refusals(uid),
            job: &|pod, job| self.job(jobs, pod, job),
            begun,
            progressed: self.progressed,
        };
        decide(&facts, limits, now)
    }

    /// What the Job of a pod says. That of a named pod does not matter: it is the pod that is waited for.
    fn job(&self, jobs: &Jobs, pod: &Pod, job: &Controller) -> Option<Arc<JobFacts>> {
        match (&self.target, self.workload()) {
            (Target::Selected(_), _) => jobs.facts(&JobKey::new(pod, job)),
            (Target::Named(..), Some(Workload::Job(own))) => Some(Arc::new(JobFacts::of(own))),
            (Target::Named(..), _) => Some(Arc::default()),
        }
    }

    /// Like `kubectl rollout status`, a wait ends if its object is deleted, also if another one of this name follows.
    fn gone(&self, pods: &[&Observed]) -> Option<Gone> {
        const DELETED: &str = "it was deleted while it was waited for";
        const DELETING: &str = "it is being deleted";
        const REPLACED: &str = "it was deleted and created again while it was waited for";
        const UNSEEN: &str =
            "it was deleted while it could not be watched, so nothing shows whether it had completed or failed before";
        let Target::Named(kind, _) = &self.target else { return None };
        if self.ended.is_some() || self.succeeded.is_some() {
            return None;
        }
        if *kind == Kind::Pod {
            return match pods.first() {
                None if self.pods.objects().next().is_some() => None,
                None => Some(Gone::Deleted(DELETED)),
                Some(own) if own.pod.uid != Uid::from_text(&self.uid) => Some(Gone::Deleted(REPLACED)),
                Some(own) => own.pod.deletion.map(|_| Gone::Deleted(DELETING)),
            };
        }
        // Complete Jobs are deleted, for example when their `ttlSecondsAfterFinished` are over.
        let is_unseen = *kind == Kind::Job && !self.is_deleted;
        match self.workload() {
            Some(workload) if workload.uid() == self.uid => {
                workload.metadata().deletion_timestamp.as_ref().map(|_| Gone::Deleted(DELETING))
            }
            _ if is_unseen => Some(Gone::Unseen(UNSEEN)),
            None => Some(Gone::Deleted(DELETED)),
            Some(_) => Some(Gone::Deleted(REPLACED)),
        }
    }
}

/// Watches the Warning events of the namespace.
pub(super) fn watch_namespace_events(client: &Client, namespace: &str, all: &mut Updates) {
    let updates = watch_events(client.clone(), Some(namespace), Duration::ZERO);
    all.push(updates.map(Update::Event).boxed());
}

fn watch<K, O, F>(
    client: &Client,
    namespace: &str,
    selection: Selection,
    map: F,
    update: impl Fn(WatchUpdate<O>) -> Update + Send + 'static,
) -> BoxStream<'static, Update>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static,
    O: Send + 'static,
    F: Fn(K) -> O + Copy + Send + Sync + 'static,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let collection = Box::new(Json { api, selection, map });
    // A streaming list may be older than the request. A page is not: what was applied before the wait is in it, so the
    // former revision does not pass as rolled out, and a new object not as deleted.
    watch_either(collection, None, StreamingLists::Never, Duration::ZERO).map(update).boxed()
}

fn map<K, O>(update: WatchUpdate<K>, map: impl FnOnce(K) -> O) -> WatchUpdate<O> {
    match update {
        WatchUpdate::Relisting => WatchUpdate::Relisting,
        WatchUpdate::Listed(object) => WatchUpdate::Listed(map(object)),
        WatchUpdate::Synced => WatchUpdate::Synced,
        WatchUpdate::Applied(object) => WatchUpdate::Applied(map(object)),
        WatchUpdate::Deleted(object) => WatchUpdate::Deleted(map(object)),
        WatchUpdate::Behind => WatchUpdate::Behind,
        WatchUpdate::CaughtUp => WatchUpdate::CaughtUp,
        WatchUpdate::WentBack => WatchUpdate::WentBack,
        WatchUpdate::Denied(message) => WatchUpdate::Denied(message),
        WatchUpdate::Failed(message) => WatchUpdate::Failed(message),
    }
}
