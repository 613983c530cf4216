//! The controller's state of one `Orchestr` object.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::Event;
use tokio::time::Instant;

use crate::{
    api::{Incident, OrchestrStatus, StoredObject, WebhookStatus, condition},
    index::ViewId,
    logs::Asker,
    report::{Gap, KnownStatus, OmittedIncidents, Step, Tracker, transitions},
    settings::Settings,
    spec_error::SpecError,
    status_apply::{ObjectVersion, is_newer, is_older},
};

use super::{
    events::{EventLimiter, spec_event},
    status::ObservedStatus,
    unread_jobs::UnreadJobs,
};

/// How long a status waits for texts to be masked. Usually it takes a few milliseconds.
const TEXT_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Object {
    pub(super) uid: String,
    /// Asks for logs on its behalf.
    pub(super) asker: Asker,
    /// The generation that `settings` were read from.
    pub(super) generation: i64,
    /// When the generation before was last known to be the present one.
    pub(super) changed_after: Instant,
    pub(super) settings: Result<Arc<Settings>, SpecError>,
    /// Present while the patterns of the settings are being checked. Until then, the status stays as it is.
    pub(super) patterns_awaited: Option<Arc<()>>,
    /// Its view of the index, while it watches pods.
    pub(super) view: Option<ViewId>,
    /// The status in the API, as far as known.
    pub(super) status: Option<KnownStatus>,
    /// The resource version of that status.
    pub(super) resource_version: String,
    /// Whether the cluster was put back to an earlier state, so that the next version that is observed may be an older one.
    has_gone_back: bool,
    /// Whether the spec was not observed since then. A write of the status shows the status only.
    is_spec_doubtful: bool,
    /// The last state of the webhooks, if the cluster was put back to an earlier state that lacks it. The next worker restores
    /// it, so that nothing is sent again.
    lost_webhooks: Vec<Arc<WebhookStatus>>,
    /// The version that the next write of the status follows.
    pub(super) version: ObjectVersion,
    /// The term of the leader in which the status was read from the API; absent in a follower. A leader continues from what
    /// the one before it has written last.
    pub(super) term: Option<u64>,
    /// The term of the leader in which the status was last written.
    pub(super) written_in: Option<u64>,
    /// About how many bytes that version of the object takes.
    pub(super) bytes: usize,
    /// The last event that arrived during a write, without its spec. Most often it is the write itself, so it is decoded only
    /// if it is newer than the answer to the write.
    during_write: Option<Box<StoredObject>>,
    pub(super) event_limiter: EventLimiter,
    pub(super) tracker: Tracker,
    /// Since when its status has lacked a Job, see [`judge_pods`](super::verdicts::judge_pods).
    pub(super) jobs_awaited: Option<Instant>,
    /// The pods that its last report left out.
    pub(super) unread_jobs: UnreadJobs,
    /// Since when its status has lacked texts that are being masked.
    texts_awaited: Option<Instant>,
    /// Whether its last report contains texts that stay masked whole.
    pub(super) has_cut_texts: bool,
    /// Since when the pods have not been watched, if they have not been continuously since the status in the API was made.
    pub(super) gap: Option<Gap>,
    /// The fraction of the check interval after which its status is refreshed. It is random, so that objects that were
    /// written together do not stay together.
    pub(super) check_share: f64,
}

impl Object {
    /// `term` is that of this replica; absent if it follows. A follower needs no lists to resume from, because it reads the
    /// object again when it begins to lead.
    pub(super) fn new(observed: &StoredObject, term: Option<u64>, now: Instant) -> Self {
        let ObservedStatus { resource_version, status, bytes } = ObservedStatus::new(observed, term.is_none());
        let gap = Gap::before_start(status.as_ref().map(KnownStatus::head));
        Self {
            uid: observed.uid.clone(),
            asker: Asker { object: Arc::new(observed.key.clone()), namespace: observed.key.namespace.as_str().into() },
            generation: observed.generation,
            changed_after: now,
            settings: Err(SpecError::AlertsNotSet),
            patterns_awaited: None,
            view: None,
            status,
            version: ObjectVersion::new(&resource_version),
            resource_version,
            has_gone_back: false,
            is_spec_doubtful: false,
            lost_webhooks: Vec::new(),
            term,
            written_in: None,
            bytes,
            during_write: None,
            event_limiter: EventLimiter::default(),
            tracker: Tracker::default(),
            jobs_awaited: None,
            unread_jobs: UnreadJobs::default(),
            texts_awaited: None,
            has_cut_texts: false,
            gap,
            check_share: 0.8 + 0.2 * fastrand::f64(),
        }
    }

    /// Forgets all that was known of the status, and begins with this one: another replica may have written it.
    pub(super) fn resume(&mut self, observed: &StoredObject, term: Option<u64>, now: Instant) {
        self.version.go_back_to(observed.resource_version());
        let new = Self::new(observed, term, now);
        let lost_webhooks = self.lost_webhooks_in(&new.resource_version, new.status_head());
        let old = std::mem::replace(self, new);
        let Self { uid, generation, settings, patterns_awaited, view, version, .. } = old;
        (self.uid, self.generation, self.settings, self.patterns_awaited) =
            (uid, generation, settings, patterns_awaited);
        (self.view, self.version, self.lost_webhooks) = (view, version, lost_webhooks);
    }

    /// The cluster was put back to an earlier state. What is observed next is that state.
    pub(super) fn went_back(&mut self) {
        self.has_gone_back = true;
        self.is_spec_doubtful = true;
    }

    /// Whether the next spec may be another one although it has the same generation, as after a restoration. Resets the flag.
    pub(super) fn take_doubt_of_spec(&mut self) -> bool {
        std::mem::take(&mut self.is_spec_doubtful)
    }

    /// The last state of the webhooks that the status lacks.
    pub(super) fn lost_webhooks(&self) -> &[Arc<WebhookStatus>] {
        &self.lost_webhooks
    }

    /// The same if the status is this one.
    fn lost_webhooks_in(&self, version: &str, status: Option<&OrchestrStatus>) -> Vec<Arc<WebhookStatus>> {
        let ((known, _), (new, _)) = (delivery_fields(self.status_head()), delivery_fields(status));
        match is_older(version, &self.resource_version) {
            _ if known == new => self.lost_webhooks.clone(),
            true if self.lost_webhooks.is_empty() => known.to_vec(),
            true => self.lost_webhooks.clone(),
            // A worker has written it.
            false => Vec::new(),
        }
    }

    /// Why the spec, or a part of it, is wrong.
    pub(super) fn wrong_spec(&self) -> Option<&SpecError> {
        match &self.settings {
            Err(error) => Some(error),
            Ok(settings) => settings.wrong.first(),
        }
    }

    /// One of the patterns is wrong.
    pub(super) fn withhold_texts(&mut self, error: SpecError) {
        if let Ok(settings) = &mut self.settings {
            Arc::make_mut(settings).withhold_texts(error);
        }
    }

    /// Until when the status waits for texts to be masked, if some are not. After that, it shows them masked whole.
    pub(super) fn wait_for_texts(&mut self, lacks_texts: bool, now: Instant) -> Option<Instant> {
        let since = self.texts_awaited.filter(|_| lacks_texts).unwrap_or(now);
        self.texts_awaited = lacks_texts.then_some(since);
        Some(since + TEXT_PATIENCE).filter(|until| lacks_texts && now < *until)
    }

    /// All fields of the status but the lists.
    pub(super) fn status_head(&self) -> Option<&OrchestrStatus> {
        self.status.as_ref().map(KnownStatus::head)
    }

    /// Takes the status from an event, unless it is older than the known one. While a write is under way, the event is
    /// kept until the write ends. Returns whether another writer changed the status.
    pub(super) fn adopt(&mut self, mut observed: StoredObject, is_writing: bool) -> bool {
        if self.has_gone_back {
            self.version.go_back_to(observed.resource_version());
        } else if is_newer(observed.resource_version(), &self.resource_version) {
            self.version.advance(observed.resource_version());
        } else {
            return false;
        }
        if is_writing {
            observed.spec = None;
            self.during_write = Some(Box::new(observed));
            return false;
        }
        self.replace(ObservedStatus::new(&observed, self.tracker.is_resumed() || self.term.is_none()))
    }

    /// Returns whether the status is another one.
    fn replace(&mut self, observed: ObservedStatus) -> bool {
        let is_same = match (&self.status, &observed.status) {
            (Some(old), Some(new)) => old.is_same(new),
            (old, new) => old.is_none() == new.is_none(),
        };
        let head = observed.status.as_ref().map(KnownStatus::head);
        self.lost_webhooks = self.lost_webhooks_in(&observed.resource_version, head);
        self.has_gone_back = false;
        (self.status, self.resource_version, self.bytes) = (observed.status, observed.resource_version, observed.bytes);
        !is_same
    }

    /// Takes the status from the answer to a write, if it succeeded, and then from an event that arrived during the write.
    /// Returns whether another writer has changed the status: since the write, or its delivery fields before it.
    pub(super) fn write_ended(&mut self, answer: Option<ObservedStatus>) -> bool {
        let mut changed = false;
        if let Some(answer) = answer {
            let status = answer.status.as_ref().map(KnownStatus::head);
            changed = delivery_fields(status) != delivery_fields(self.status_head());
            self.replace(answer);
        }
        let event = self.during_write.take();
        let event = event.filter(|own| self.has_gone_back || is_newer(own.resource_version(), &self.resource_version));
        event.is_some_and(|event| self.replace(ObservedStatus::new(&event, self.tracker.is_resumed()))) || changed
    }

    /// Adds the history to a status that is written now and does not list the incidents in `omitted`. `is_unclear` is whether
    /// it cannot be known if an incident has ended, and `only` the namespace that the object is confined to.
    pub(super) fn add_history(
        &self,
        status: &mut OrchestrStatus,
        omitted: &OmittedIncidents,
        only: Option<&str>,
        is_unclear: &dyn Fn(&Incident) -> bool,
        now: Timestamp,
    ) {
        let old = self.status.as_ref().map(KnownStatus::with_lists);
        let history = self.status.as_ref().map(KnownStatus::history).unwrap_or_default();
        let selects = |namespace: &str| may_show(self.settings.as_deref().ok(), only, namespace);
        let step = Step { old: old.as_ref(), gap: self.gap, omitted, is_unclear, selects: &selects, now };
        history.advance(status, &step).put_into(status);
    }

    /// The events to publish after this status was written, which omits these incidents.
    pub(super) fn events_after(
        &mut self,
        written: &OrchestrStatus,
        omitted: &OmittedIncidents,
        now: Instant,
    ) -> Vec<Event> {
        let answered = self.status_head().and_then(|status| status.observed_generation);
        let is_new = answered != written.observed_generation;
        let mut events: Vec<Event> = self.wrong_spec().filter(|_| is_new).map(spec_event).into_iter().collect();
        if self.settings.is_ok() {
            let old = self.status.as_ref().map(KnownStatus::with_lists);
            events.extend(self.event_limiter.events(&transitions(old.as_ref(), written, omitted), written, now));
        }
        events
    }
}

/// Whether an object with these settings may show a namespace. `only` is the one that it is confined to. With a spec that
/// cannot be used, it is not known what the object selects, so it may show what it has shown.
pub(super) fn may_show(settings: Option<&Settings>, only: Option<&str>, namespace: &str) -> bool {
    only.is_none_or(|only| only == namespace) && settings.is_none_or(|own| own.scope.selects_namespace(namespace))
}

/// The fields of the status that the field manager of deliveries owns.
fn delivery_fields(status: Option<&OrchestrStatus>) -> (&[Arc<WebhookStatus>], Option<&Condition>) {
    let Some(status) = status else { return (&[], None) };
    let delivered = status.conditions.iter().find(|condition| condition.type_ == condition::ALERTS_DELIVERED);
    (&status.webhooks, delivered)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn observed(version: u32, problems: i64) -> StoredObject {
        let object = json!({
            "apiVersion": "kopf.dev/v1", "kind": "Orchestr",
            "metadata": {"name": "cluster", "namespace": "shop", "resourceVersion": version.to_string()},
            "status": {"problematicPodCount": problems},
        });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn problems(object: &Object) -> Option<i64> {
        object.status_head().map(|status| status.problematic_pod_count)
    }

    #[test]
    fn ignores_events_that_are_older_than_the_known_status() {
        let mut object = Object::new(&observed(9, 1), Some(0), Instant::now());
        assert!(!object.adopt(observed(9, 2), false) && !object.adopt(observed(8, 2), false));
        assert!(!object.adopt(observed(10, 1), false), "another resource version, but the same status");
        assert!(object.adopt(observed(11, 3), false));
        assert_eq!(problems(&object), Some(3));
    }

    #[test]
    fn takes_the_older_status_of_a_restored_cluster() {
        let with_webhook = |version: u32, alerts: u32| -> StoredObject {
            let object = json!({
                "apiVersion": "kopf.dev/v1", "kind": "Orchestr",
                "metadata": {"name": "cluster", "namespace": "shop", "resourceVersion": version.to_string()},
                "status": {"problematicPodCount": alerts, "webhooks": [{"name": "ops", "dropped": alerts}]},
            });
            serde_json::from_str(&object.to_string()).unwrap()
        };
        let lost = |object: &Object| object.lost_webhooks().iter().map(|own| own.dropped).collect::<Vec<_>>();
        let now = Instant::now();
        // A follower, and a leader whose term has ended during the outage.
        for (term, next) in [(None, Some(1)), (Some(1), Some(2))] {
            let mut object = Object::new(&with_webhook(90, 9), term, now);
            assert!(!object.adopt(with_webhook(50, 5), false), "it is late");
            object.went_back();
            assert!(object.adopt(with_webhook(50, 5), false));
            assert_eq!((problems(&object), lost(&object)), (Some(5), vec![9]));
            object.adopt(with_webhook(51, 5), false);
            assert_eq!(lost(&object), [9], "only the resource version has changed");
            object.resume(&with_webhook(51, 5), next, now);
            assert_eq!(lost(&object), [9], "no worker has restored it yet");
            assert!(object.adopt(with_webhook(52, 9), false));
            assert_eq!(lost(&object), [0_i64; 0]);

            let mut object = Object::new(&with_webhook(90, 9), term, now);
            object.resume(&with_webhook(50, 5), next, now);
            assert_eq!((problems(&object), lost(&object)), (Some(5), vec![9]), "it is noticed when the term begins");
            object.resume(&with_webhook(52, 9), next, now);
            assert_eq!(lost(&object), [0_i64; 0], "another replica has restored it");
        }
    }

    #[test]
    fn adopts_an_event_that_arrived_during_a_write_after_it() {
        let mut object = Object::new(&observed(9, 1), Some(0), Instant::now());
        for (event, answer, changed) in [
            (observed(10, 2), Some(observed(10, 2)), false),
            (observed(12, 7), Some(observed(11, 3)), true),
            (observed(13, 4), Some(observed(14, 4)), false),
            (observed(15, 8), None, true),
        ] {
            let (version, last) = (event.resource_version().to_owned(), event.status().unwrap().problematic_pod_count);
            assert!(!object.adopt(event, true));
            assert_eq!(
                object.write_ended(answer.map(|answer| ObservedStatus::new(&answer, true))),
                changed,
                "{version}"
            );
            assert_eq!(problems(&object), Some(last), "{version}");
        }
    }

    #[test]
    fn reports_delivery_state_that_another_client_changed() {
        let mut object = Object::new(&observed(9, 1), Some(0), Instant::now());
        let with_webhook = |version: u32| {
            let object = json!({
                "apiVersion": "kopf.dev/v1", "kind": "Orchestr",
                "metadata": {"name": "cluster", "namespace": "shop", "resourceVersion": version.to_string()},
                "status": {"problematicPodCount": 1, "webhooks": [{"name": "ops"}]},
            });
            serde_json::from_str(&object.to_string()).unwrap()
        };
        assert!(!object.adopt(with_webhook(10), true), "kept until the write ends");
        assert!(
            object.write_ended(Some(ObservedStatus::new(&with_webhook(11), true))),
            "the answer holds the change of version 10"
        );
        assert!(!object.write_ended(Some(ObservedStatus::new(&with_webhook(12), true))));

        let unwritten = json!({"apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": "cluster"}});
        let mut object = Object::new(&serde_json::from_str(&unwritten.to_string()).unwrap(), Some(0), Instant::now());
        assert!(
            !object.write_ended(Some(ObservedStatus::new(&observed(1, 0), true))),
            "the first status, without delivery fields"
        );
    }
}
