//! What the watches of pods tell.

use jiff::Timestamp;
use tokio::time::Instant;

use crate::{diagnosis::needs_job, index::ViewId, pods::WatchedPod, watch::WatchUpdate};

use super::{Controller, Scope, jobs::JobKey, schedule::Schedule};

impl Controller {
    pub(super) fn on_pods(&mut self, changes: Vec<(Scope, WatchUpdate<WatchedPod>)>) {
        let now = self.clock.now();
        let mut concerned = Vec::new();
        let mut all_concerned = false;
        let mut is_complete = false;
        let instant = Instant::now();
        let unreadable_changes = self.index.undecodable_changes();
        for (scope, change) in changes {
            match change {
                WatchUpdate::Relisting => {
                    self.index.begin_list(scope.as_deref());
                    self.watch_health.relisting(&scope, self.index.restart_lookback(), instant);
                }
                WatchUpdate::Listed(seen) | WatchUpdate::Applied(seen) => concerned.extend(self.apply(seen, now)),
                WatchUpdate::Deleted(seen) => concerned.extend(self.index.remove(match seen.pod {
                    Ok(pod) => pod.uid,
                    Err(unreadable) => unreadable.uid,
                })),
                WatchUpdate::Synced => {
                    concerned.extend(self.index.end_list(scope.as_deref()));
                    is_complete |= self.watch_health.synced(&scope);
                    tracing::debug!(pods = self.index.len(), "the list of pods is complete");
                }
                WatchUpdate::Behind => self.watch_health.behind(&scope, instant),
                WatchUpdate::CaughtUp => is_complete |= self.watch_health.caught_up(&scope),
                WatchUpdate::Denied(refusal) => {
                    if self.watch_health.denied(&scope, refusal.clone()) {
                        tracing::error!(refusal, "may not watch pods");
                        all_concerned = true;
                    }
                }
                WatchUpdate::Failed(error) => {
                    tracing::warn!(error, "the watch of pods is interrupted");
                    self.watch_health.failed(&scope, error, instant);
                }
            }
        }
        if is_complete {
            self.mark_all_dirty(Schedule::mark_dirty_without_debounce);
        } else if all_concerned || self.index.undecodable_changes() != unreadable_changes {
            self.mark_all_dirty(Schedule::mark_dirty);
        } else {
            self.mark_views_dirty(concerned);
        }
    }

    fn apply(&mut self, seen: WatchedPod, now: Timestamp) -> Vec<ViewId> {
        match seen.pod {
            Ok(pod) => {
                let mut concerned = Vec::new();
                if matches!(pod.phase.as_str(), "Succeeded" | "Failed")
                    && let Some(job) = needs_job(&pod)
                {
                    for job in self.jobs.pod_ended(&JobKey::new(&pod, job), Instant::now()) {
                        concerned.extend(self.index.viewers_of_job(&job.uid));
                    }
                }
                concerned.extend(self.index.apply(pod, now));
                concerned
            }
            Err(unreadable) => {
                let changes = self.index.undecodable_changes();
                let (pod, error) = (unreadable.to_string(), unreadable.error.clone());
                let concerned = self.index.insert_undecodable(unreadable);
                if self.index.undecodable_changes() != changes {
                    tracing::warn!(pod, %error, "passed over a pod that can't be read");
                }
                concerned
            }
        }
    }
}
