//! What the watch of `Orchestr` objects tells.

use crate::api::NamespacedName;
use kube::api::DynamicObject;
use tokio::time::Instant;

use crate::watch::WatchUpdate;

use super::{
    Controller, Scope, lookback,
    object::{Object, Observed},
};

impl Controller {
    pub(super) fn on_object(&mut self, scope: Scope, change: WatchUpdate<DynamicObject>) {
        match change {
            WatchUpdate::Relisting => {
                self.seen.retain(|key| scope.as_ref().is_some_and(|scope| *scope != key.namespace));
            }
            WatchUpdate::Listed(object) => {
                let observed = Observed::new(object);
                self.seen.insert(observed.key.clone());
                self.observe(observed);
            }
            WatchUpdate::Synced => {
                let within = |key: &&NamespacedName| scope.as_ref().is_none_or(|scope| *scope == key.namespace);
                let gone: Vec<_> =
                    self.objects.keys().filter(within).filter(|key| !self.seen.contains(*key)).cloned().collect();
                for key in gone {
                    self.forget(&key);
                }
                self.seen.retain(|key| !within(&key));
                self.objects_answered.insert(scope);
            }
            WatchUpdate::Applied(object) => self.observe(Observed::new(object)),
            WatchUpdate::Deleted(object) => {
                let observed = Observed::new(object);
                self.kopf_migrations.forget(&observed.key);
                self.forget(&observed.key);
            }
            WatchUpdate::Denied(refusal) => {
                tracing::error!(refusal, "may not watch Orchestr objects");
                // Those of other namespaces need not wait for it.
                self.objects_answered.insert(scope);
            }
            WatchUpdate::Behind | WatchUpdate::CaughtUp => {}
            WatchUpdate::Failed(error) => tracing::warn!(error, "the watch of Orchestr objects is interrupted"),
        }
    }

    fn observe(&mut self, observed: Observed) {
        let now = Instant::now();
        let key = observed.key.clone();
        if self.objects.get(&key).is_some_and(|object| object.uid != observed.uid) {
            self.forget(&key);
        }
        if observed.kopf_leftovers {
            self.kopf_migrations.seen(&key, now);
        } else {
            self.kopf_migrations.clean(&key);
        }
        if observed.deleting {
            self.forget(&key);
            return;
        }
        let is_new = !self.objects.contains_key(&key);
        let object = self.objects.entry(key.clone()).or_insert_with(|| {
            tracing::info!(namespace = key.namespace, name = key.name, generation = observed.generation, "taken up");
            Object::new(&observed, now)
        });
        let spec_changed = is_new || object.generation != observed.generation;
        if spec_changed {
            self.update_spec(&key, &observed);
        }
        let Some(object) = self.objects.get_mut(&key) else { return };
        if object.adopt(observed) || spec_changed {
            self.mark_dirty(&key);
        }
    }

    /// Takes up a spec: what the object looks at changes with it.
    fn update_spec(&mut self, key: &NamespacedName, observed: &Observed) {
        let Some(object) = self.objects.get_mut(key) else { return };
        object.generation = observed.generation;
        object.settings = observed.settings().map(Into::into);
        object.backoff.reset();
        if let Some(view) = object.view.take() {
            self.index.remove_view(view);
            self.viewers.remove(&view);
        }
        if let Ok(settings) = &object.settings
            && settings.enabled
        {
            let view = self.index.add_view(settings.scope.clone());
            object.view = Some(view);
            self.viewers.insert(view, key.clone());
            if settings.thresholds.restarted > self.index.restart_lookback() {
                self.index.widen(lookback::step(settings.thresholds.restarted));
                self.reopen_pods = true;
            }
        }
    }

    fn forget(&mut self, key: &NamespacedName) {
        let Some(object) = self.objects.remove(key) else { return };
        tracing::info!(namespace = key.namespace, name = key.name, "let go");
        self.dispatcher.forget(key);
        if let Some(view) = object.view {
            self.index.remove_view(view);
            self.viewers.remove(&view);
        }
        if let Some(queued) = object.queued {
            self.due.remove(&(queued, key.clone()));
        }
    }
}
