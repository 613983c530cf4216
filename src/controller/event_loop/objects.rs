//! Handles changes of Orchestr objects, and begins and ends the time in which this replica leads.

use tokio::time::Instant;

use crate::{
    api::{NamespacedName, StoredObject},
    leader::Role,
    settings::Settings,
    spec_error::SpecError,
    watch::{WENT_BACK, WatchUpdate},
};

use super::{
    super::{object::Object, pattern_checks::PatternCheck, watch_health::Scope},
    Controller,
};

impl Controller {
    pub(super) fn on_object(&mut self, scope: Scope, update: WatchUpdate<StoredObject>) {
        self.objects.note_watch(&scope, &update, Instant::now());
        match update {
            WatchUpdate::Listed(object) => {
                self.objects.add_listed(&scope, object.key.clone());
                self.observe(object);
            }
            WatchUpdate::Synced => {
                for key in self.objects.end_list(&scope) {
                    self.forget(&key);
                }
            }
            WatchUpdate::Applied(object) => self.observe(object),
            WatchUpdate::Deleted(object) => self.forget(&object.key),
            WatchUpdate::Denied(refusal) => {
                self.metrics.watch_failed("orchestrs");
                tracing::error!(refusal, "not allowed to watch Orchestr objects");
                self.update_synced();
            }
            WatchUpdate::Relisting | WatchUpdate::Behind | WatchUpdate::CaughtUp => {}
            WatchUpdate::WentBack => {
                tracing::warn!("{WENT_BACK}: Orchestr objects are listed again");
                self.metrics.watch_failed("orchestrs");
                self.objects.went_back(&scope);
            }
            WatchUpdate::Failed(error) => {
                self.metrics.watch_failed("orchestrs");
                tracing::warn!(error, "the watch of Orchestr objects is interrupted");
            }
        }
    }

    fn observe(&mut self, observed: StoredObject) {
        let now = Instant::now();
        let key = observed.key.clone();
        if self.objects.get(&key).is_some_and(|object| object.uid != observed.uid) {
            self.forget(&key);
        }
        if observed.is_deleting {
            self.forget(&key);
            return;
        }
        let is_new = self.objects.get(&key).is_none();
        let changed_after = self.objects.current_at(&key, now);
        if is_new {
            let generation = observed.generation;
            tracing::info!(namespace = key.namespace, name = key.name, generation, "watching Orchestr");
            self.objects.insert(key.clone(), Object::new(&observed, self.term, now));
            self.queue.insert(&key);
        }
        let Some(object) = self.objects.get_mut(&key) else { return };
        // After a restore, another spec may have the same generation.
        let is_doubtful = object.take_doubt_of_spec();
        let is_spec_changed = is_new || object.generation != observed.generation || is_doubtful;
        if is_spec_changed {
            object.generation = observed.generation;
            object.changed_after = changed_after;
            object.settings = Settings::observed(&observed, self.own_namespace_only).map(Into::into);
            let check = PatternCheck::begin(&key, object);
            check.into_iter().for_each(|check| self.tasks.check_patterns(check));
            self.queue.forget_failures(&key);
            if let Some(view) = object.view.take() {
                self.reconciler.remove_view(view);
            }
            let settings = object.settings.as_ref().ok().filter(|settings| settings.enabled);
            object.view = settings.map(|settings| self.reconciler.add_view(&key, settings));
        }
        if object.term != self.term {
            object.resume(&observed, self.term, now);
            // Without the delays of an earlier term.
            self.queue.remove(&key);
            self.queue.insert(&key);
            self.queue.mark_dirty(&key, now);
            return;
        }
        let is_status_changed = object.adopt(observed, self.queue.is_writing(&key));
        if is_status_changed || is_spec_changed {
            self.queue.mark_dirty(&key, now);
        }
    }

    /// An object is gone, or is being deleted.
    fn forget(&mut self, key: &NamespacedName) {
        self.dispatcher.forget(key);
        let Some(object) = self.objects.remove(key) else { return };
        tracing::info!(namespace = key.namespace, name = key.name, "stopped watching Orchestr");
        self.metrics.object_withdrawn(key);
        if let Some(view) = object.view {
            self.reconciler.remove_view(view);
        }
        self.reconciler.forget(key);
        self.queue.remove(key);
    }

    /// The patterns of a version of an object were compiled. If one is wrong, texts are withheld.
    pub(super) fn on_patterns_checked(&mut self, check: &PatternCheck, result: Result<(), SpecError>, now: Instant) {
        let Some(object) = self.objects.get_mut(&check.key).filter(|_| check.is_awaited()) else { return };
        object.patterns_awaited = None;
        if let Err(error) = result {
            object.withhold_texts(error);
        }
        self.queue.mark_dirty(&check.key, now);
    }

    /// Returns whether this replica begins to lead. The caller then opens the watches of objects again: their list contains
    /// what the leader before has written last, and each object resumes from it. The watches of pods stay open.
    pub(super) fn set_role(&mut self, role: Role) -> bool {
        let term = match role {
            Role::Follower { .. } => None,
            Role::Leader { term } => Some(term),
        };
        self.metrics.set_leader(term.is_some());
        // Without a leader, as in an outage, the incidents stay: they have not ended. The next leader reports them.
        if matches!(role, Role::Follower { is_led: true }) {
            self.objects.keys().for_each(|key| self.metrics.object_withdrawn(key));
        }
        if self.term == term {
            return false;
        }
        if self.term.is_some() {
            // Requests under way end by themselves, because they are fenced.
            self.dispatcher.stand_down();
        }
        if term.is_some() {
            self.reconciler.begin_term(Instant::now(), self.clock.now());
        }
        self.term = term;
        term.is_some()
    }
}
