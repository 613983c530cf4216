//! The lists and watches of the targets, and what they have shown.

use std::time::Duration;

use futures::{
    StreamExt,
    stream::{BoxStream, SelectAll},
};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, ReplicaSet};
use kube::{Client, Resource};

use crate::{
    cli::live::{ClusterView, Listing, WatchState},
    config::StreamingLists,
    diagnosis::WorkloadObject,
    events::{WatchedEvent, watch_events},
    facts::{JobFact, JobKey},
    pods::{Pod, Uid, UndecodablePod, WatchedPod, selected_pods},
    watch::{
        WatchUpdate,
        collection::{Collection, Selection},
        decode::Decoder,
        watch_collection,
    },
};

use super::{
    decide::{Decision, decide},
    facts::{Facts, Gone},
    newest::Revision,
    observed::Observed,
    outlook::Check,
    target::{Kind, Target, Watched},
    workload::Workload,
};

/// An update of one of the watches.
pub(super) enum Update {
    /// Of the target with this index.
    Of(usize, TargetUpdate),
    Event(WatchUpdate<WatchedEvent>),
}

pub(super) enum TargetUpdate {
    Workload(WatchUpdate<Workload>),
    Revision(WatchUpdate<Revision>),
    Pod(WatchUpdate<WatchedPod>),
}

/// All watches.
pub(super) type Updates = SelectAll<BoxStream<'static, Update>>;

/// The state of one target.
pub(super) struct TargetState {
    pub(super) target: Target,
    /// The UID of the object that is waited for; empty for pods with certain labels.
    uid: String,
    workload: Option<Listing<String, Workload>>,
    revisions: Option<Listing<String, Revision>>,
    pods: Listing<String, PodEntry>,
    counts: Option<[i64; 15]>,
    progressed: Option<Timestamp>,
    /// Whether the deletion of the object was seen, so that its last state is known.
    is_deleted: bool,
    /// The Job if it has ended. That stays so if it is deleted, for example when its `ttlSecondsAfterFinished` are over.
    ended: Option<Workload>,
    /// The named pod if it has succeeded. That stays so as well.
    succeeded: Option<Box<Observed>>,
}

type PodEntry = Result<Box<Observed>, UndecodablePod>;

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
            labels: Some(labels.to_owned()).filter(|labels| !labels.is_empty()),
            ..Selection::default()
        };
        let pods = match (&target, &workload) {
            (_, Some((_, labels))) | (Target::Selected(labels), None) => labelled(labels),
            (Target::Named(_, name), None) => named(name),
        };
        let pods = selected_pods(client.clone(), Some(namespace), pods);
        all.push(watch(pods, move |update| Update::Of(index, TargetUpdate::Pod(update))));
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
        let kind = *kind;
        let client = || client.clone();
        let path = WorkloadObject::url_path(&kind.api_resource(), Some(namespace));
        let decoder = Decoder::json(move |object| Workload::new(kind, object));
        let objects = Collection::new(client(), &path, named(name), decoder);
        all.push(watch(objects, move |update| Update::Of(index, TargetUpdate::Workload(update))));
        let revisions = match kind {
            Kind::Deployment => {
                Some((ReplicaSet::url_path(&(), Some(namespace)), Decoder::json(Revision::of_replica_set)))
            }
            Kind::DaemonSet => {
                let path = ControllerRevision::url_path(&(), Some(namespace));
                Some((path, Decoder::json(Revision::of_controller_revision)))
            }
            Kind::StatefulSet | Kind::Job | Kind::CronJob | Kind::Pod => None,
        };
        if let Some((path, decoder)) = revisions {
            let revisions = Collection::new(client(), &path, labelled(&labels), decoder);
            all.push(watch(revisions, move |update| Update::Of(index, TargetUpdate::Revision(update))));
            state.revisions = Some(Listing::default());
        }
        (state.uid, state.workload) = (uid, Some(Listing::default()));
        state
    }

    /// Applies an update, one of a pod also to the view of all targets.
    pub(super) fn apply(&mut self, update: TargetUpdate, view: &mut ClusterView, now: Timestamp) {
        match update {
            TargetUpdate::Workload(update) => self.apply_workload(update, now),
            TargetUpdate::Pod(update) => self.apply_pod(update, view, now),
            TargetUpdate::Revision(update) => {
                if let Some(revisions) = &mut self.revisions {
                    revisions.apply(update, |revision| revision.name.clone(), |_, revision| revision);
                }
            }
        }
    }

    fn apply_workload(&mut self, update: WatchUpdate<Workload>, now: Timestamp) {
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

    fn apply_pod(&mut self, update: WatchUpdate<WatchedPod>, view: &mut ClusterView, now: Timestamp) {
        let name = |watched: &WatchedPod| match &watched.pod {
            Ok(pod) => pod.name.to_string(),
            Err(pod) => pod.name.clone(),
        };
        let is_own = !self.uid.is_empty();
        let own = Uid::from_text(&self.uid);
        if let WatchUpdate::Listed(watched) | WatchUpdate::Applied(watched) | WatchUpdate::Deleted(watched) = &update
            && let Ok(pod) = &watched.pod
            && is_own
            && pod.uid == own
            && pod.phase == "Succeeded"
        {
            self.succeeded = Some(Box::new(Observed::unseen(Pod { deletion: None, ..(**pod).clone() })));
        }
        // A pod that is gone may make room in a quota. A later list may lack one without saying so.
        if matches!(update, WatchUpdate::Deleted(_))
            || matches!(update, WatchUpdate::Synced) && self.pods.watch.is_synced()
        {
            self.progressed = Some(now);
        }
        let gone = self.pods.apply(update, name, |before, watched| {
            watched.pod.map(|mut pod| {
                view.see_pod((*pod).clone(), now);
                let before = before.and_then(Result::ok);
                before.iter().filter(|own| own.pod.uid != pod.uid).for_each(|own| view.forget_pod(own.pod.uid));
                let before = before.filter(|before| before.pod.uid == pod.uid);
                pod.update_history(before.as_ref().map(|before| &before.pod), now);
                Box::new(Observed::new(*pod, before.as_deref(), now))
            })
        });
        gone.into_iter().flatten().for_each(|own| view.forget_pod(own.pod.uid));
    }

    /// Adds what its workload shows about its pods.
    pub(super) fn show_to(&self, view: &mut ClusterView) {
        if let Some(job) = self.workload().and_then(Workload::job) {
            view.show_job(JobKey::of(job), JobFact::of(job, None));
        }
    }

    fn workload(&self) -> Option<&Workload> {
        let Target::Named(_, name) = &self.target else { return None };
        self.ended.as_ref().or_else(|| self.workload.as_ref()?.get(&name.clone()))
    }

    fn watches(&self) -> impl Iterator<Item = &WatchState> {
        let workload = self.workload.iter().map(|own| &own.watch);
        std::iter::once(&self.pods.watch).chain(workload).chain(self.revisions.iter().map(|own| &own.watch))
    }

    /// Whether everything about the target has been listed once.
    pub(super) fn is_synced(&self) -> bool {
        self.watches().all(WatchState::is_synced)
    }

    /// Whether what is known is the present state.
    pub(super) fn is_current(&self) -> bool {
        self.watches().all(WatchState::is_current)
    }

    /// Why the API server cannot be asked about the target.
    pub(super) fn failure(&self) -> Option<&str> {
        self.watches().find_map(WatchState::error)
    }

    /// The resource that may not be read and the API server's message, if that is so from the beginning.
    pub(super) fn denial(&self) -> Option<(&'static str, &str)> {
        let workload = self.workload.as_ref().and_then(|own| own.watch.denial());
        let revisions = self.revisions.as_ref().and_then(|own| own.watch.denial());
        let (kind, revision) = match &self.target {
            Target::Named(kind @ Kind::DaemonSet, _) => (kind.resource(), "controllerrevisions.apps"),
            Target::Named(kind, _) => (kind.resource(), "replicasets.apps"),
            Target::Selected(_) => ("pods", ""),
        };
        let denials = [(kind, workload), (revision, revisions), ("pods", self.pods.watch.denial())];
        denials.into_iter().find_map(|(resource, message)| Some((resource, message?)))
    }

    pub(super) fn decide(&self, view: &ClusterView, check: Check) -> Decision {
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
            view,
            check,
            progressed: self.progressed,
        };
        decide(&facts)
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

/// A streaming list may be older than the request. A page is not: what was applied before the wait is in it, so the former
/// revision does not pass as rolled out, and a new object not as deleted.
fn watch<O: Send + 'static>(
    collection: Collection<O>,
    update: impl Fn(WatchUpdate<O>) -> Update + Send + 'static,
) -> BoxStream<'static, Update> {
    watch_collection(collection, StreamingLists::Never, Duration::ZERO).map(update).boxed()
}
