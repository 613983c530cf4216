//! Removes the finalizer and the annotation that the tutorial's Kopf operator left on objects.

use std::{collections::HashMap, time::Duration};

use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::{
    api::{KOPF_ANNOTATION, KOPF_FINALIZER, NamespacedName, api_resource},
    backoff::Backoff,
};

use super::write_error::WriteError;

/// How long the removal from one object may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The delays between removals from one object. A Kopf operator that still runs adds its finalizer again immediately, and
/// without a delay the two operators would keep each other busy.
const FIRST_DELAY: Duration = Duration::from_secs(2);
const LONGEST_DELAY: Duration = Duration::from_secs(5 * 60);
/// How long an object must stay clean before its delay starts over.
const RESET_AFTER: Duration = Duration::from_secs(20 * 60);
/// The most concurrent removals.
const REMOVALS: usize = 4;
/// The most objects that are remembered. Further ones are cleaned when an event shows them again.
const OBJECTS: usize = 4096;
/// After how many removals a warning is logged.
const WARN_AFTER: u32 = 3;

/// The objects that have leftovers or recently had some. They may be objects that are being deleted, which the controller
/// does not watch otherwise.
#[derive(Debug, Default)]
pub(super) struct KopfMigrations {
    objects: HashMap<NamespacedName, Migration>,
}

#[derive(Debug)]
struct Migration {
    /// When to remove leftovers; absent if there are none or the removal is under way.
    due: Option<Instant>,
    /// Whether a removal is under way.
    under_way: bool,
    /// Whether an event showed leftovers during the removal.
    found_meanwhile: bool,
    /// The earliest next removal.
    not_before: Instant,
    backoff: Backoff,
    /// How often leftovers were removed.
    removals: u32,
}

impl Migration {
    fn new(now: Instant) -> Self {
        Self {
            due: Some(now),
            under_way: false,
            found_meanwhile: false,
            not_before: now,
            backoff: Backoff::new(FIRST_DELAY, LONGEST_DELAY),
            removals: 0,
        }
    }
}

impl KopfMigrations {
    /// An event showed leftovers on an object.
    pub(super) fn found_leftovers(&mut self, key: &NamespacedName, now: Instant) {
        if self.objects.len() >= OBJECTS && !self.objects.contains_key(key) {
            return;
        }
        let migration = self.objects.entry(key.clone()).or_insert_with(|| Migration::new(now));
        if migration.under_way {
            migration.found_meanwhile = true;
        } else if migration.due.is_none() {
            migration.due = Some(migration.not_before.max(now));
        }
    }

    /// An event showed no leftovers. The number of removals is remembered.
    pub(super) fn found_clean(&mut self, key: &NamespacedName) {
        if let Some(migration) = self.objects.get_mut(key) {
            migration.due = None;
            migration.found_meanwhile = false;
        }
    }

    /// An object was deleted.
    pub(super) fn forget(&mut self, key: &NamespacedName) {
        self.objects.remove(key);
    }

    /// Forgets the objects that have stayed clean.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.objects.retain(|_, migration| {
            migration.due.is_some() || migration.under_way || now < migration.not_before + RESET_AFTER
        });
    }

    /// When the next removal is due, unless one ends before.
    pub(super) fn next_due(&self) -> Option<Instant> {
        if self.under_way() >= REMOVALS {
            return None;
        }
        self.objects.values().filter_map(|migration| migration.due).min()
    }

    /// The objects whose removal is due. The caller starts it.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<NamespacedName> {
        let room = REMOVALS.saturating_sub(self.under_way());
        let due = self.objects.iter_mut().filter(|(_, migration)| migration.due.is_some_and(|due| due <= now));
        due.take(room)
            .map(|(key, migration)| {
                migration.due = None;
                migration.under_way = true;
                key.clone()
            })
            .collect()
    }

    /// A removal has ended. Logs if it failed, or if another program adds the leftovers again.
    pub(super) fn removal_ended(&mut self, key: &NamespacedName, result: &Result<bool, WriteError>, now: Instant) {
        let NamespacedName { namespace, name } = key;
        if let Err(error) = result {
            tracing::warn!(
                namespace,
                name,
                %error,
                "could not remove the finalizer and annotation of the Kopf operator"
            );
        }
        if self.ended(key, result, now) {
            tracing::warn!(
                namespace,
                name,
                "another program keeps adding Kopf's finalizer or annotation: stop the Kopf operator first"
            );
        }
    }

    fn under_way(&self) -> usize {
        self.objects.values().filter(|migration| migration.under_way).count()
    }

    /// A removal has ended; the result is whether there were leftovers. Returns true once per object: if leftovers have
    /// come back so often that another program must be adding them.
    fn ended(&mut self, key: &NamespacedName, result: &Result<bool, WriteError>, now: Instant) -> bool {
        let Some(migration) = self.objects.get_mut(key) else { return false };
        migration.under_way = false;
        let found_meanwhile = std::mem::take(&mut migration.found_meanwhile);
        if !matches!(result, Ok(false)) {
            migration.not_before = now + migration.backoff.next_delay();
        }
        if found_meanwhile || result.is_err() {
            // An event during the removal may show the state before it, so this is checked again.
            migration.due = Some(migration.not_before.max(now));
        }
        if matches!(result, Ok(true)) {
            migration.removals += 1;
        }
        matches!(result, Ok(true)) && migration.removals == WARN_AFTER
    }
}

/// Removes Kopf's finalizer and annotation from an object and keeps other finalizers. Returns whether there were any; an
/// object that is gone has none.
pub(super) async fn remove_leftovers(
    client: &Client,
    NamespacedName { namespace, name }: &NamespacedName,
) -> Result<bool, WriteError> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &api_resource());
    let work = async {
        let metadata = match api.get_metadata(name).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(false),
            other => other?.metadata,
        };
        let mut finalizers = metadata.finalizers.unwrap_or_default();
        let before = finalizers.len();
        finalizers.retain(|finalizer| finalizer != KOPF_FINALIZER);
        if finalizers.len() == before && !metadata.annotations.is_some_and(|own| own.contains_key(KOPF_ANNOTATION)) {
            return Ok(false);
        }
        let patch = json!({"metadata": {
            // The patch fails if the finalizers have changed since they were read.
            "resourceVersion": metadata.resource_version,
            "finalizers": finalizers,
            "annotations": {KOPF_ANNOTATION: null},
        }});
        api.patch_metadata(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok::<bool, kube::Error>(true)
    };
    let removed = timeout(TIMEOUT, work)
        .await
        .map_err(|_| WriteError::Unavailable(format!("no answer within {} s", TIMEOUT.as_secs())))??;
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> NamespacedName {
        NamespacedName::new("shop", "cluster")
    }

    fn failed() -> Result<bool, WriteError> {
        Err(WriteError::Unavailable("busy".to_owned()))
    }

    #[test]
    fn retries_a_failure_but_not_a_success() {
        let (key, start) = (key(), Instant::now());
        let mut migrations = KopfMigrations::default();
        migrations.found_leftovers(&key, start);
        migrations.found_leftovers(&key, start);
        assert_eq!(migrations.take_due(start), std::slice::from_ref(&key));
        assert!(migrations.take_due(start).is_empty() && migrations.next_due().is_none(), "under way");
        migrations.ended(&key, &failed(), start);
        assert!(migrations.next_due().is_some_and(|due| due > start));
        assert_eq!(migrations.take_due(start + FIRST_DELAY), std::slice::from_ref(&key));
        migrations.found_leftovers(&key, start);
        migrations.ended(&key, &Ok(true), start);
        assert!(migrations.next_due().is_some(), "an event during the removal may have shown new leftovers");
        migrations.found_clean(&key);
        assert_eq!(migrations.next_due(), None);
    }

    #[test]
    fn removes_leftovers_that_keep_returning_less_and_less_often() {
        let (key, start) = (key(), Instant::now());
        let mut migrations = KopfMigrations::default();
        let (mut now, mut removed, mut warnings) = (start, Vec::new(), 0);
        migrations.found_leftovers(&key, now);
        while now < start + Duration::from_secs(3600) {
            now = migrations.next_due().unwrap();
            migrations.take_due(now);
            warnings += usize::from(migrations.ended(&key, &Ok(true), now));
            removed.push(now);
            migrations.found_clean(&key);
            now += Duration::from_millis(10);
            migrations.found_leftovers(&key, now);
        }
        assert!((12..=36).contains(&removed.len()), "{} in an hour", removed.len());
        assert!(removed[4] - start >= Duration::from_secs(15), "{removed:?}");
        assert_eq!(warnings, 1);
    }

    #[test]
    fn forgets_an_object_that_stayed_clean() {
        let (key, start) = (key(), Instant::now());
        let mut migrations = KopfMigrations::default();
        migrations.found_leftovers(&key, start);
        migrations.take_due(start);
        migrations.ended(&key, &Ok(true), start);
        migrations.found_clean(&key);
        migrations.sweep(start + FIRST_DELAY);
        assert_eq!(migrations.objects.len(), 1, "it is remembered for a while");
        migrations.sweep(start + FIRST_DELAY + RESET_AFTER);
        assert!(migrations.objects.is_empty());
    }

    #[test]
    fn is_bounded_and_keeps_nothing_of_deleted_objects() {
        let (start, mut migrations) = (Instant::now(), KopfMigrations::default());
        let key = |object: usize| NamespacedName::new("shop", object.to_string());
        (0..10_000).for_each(|object| migrations.found_leftovers(&key(object), start));
        assert_eq!(migrations.objects.len(), OBJECTS);
        assert_eq!(migrations.take_due(start).len(), REMOVALS);
        assert!(migrations.take_due(start).is_empty() && migrations.next_due().is_none());
        (0..10_000).for_each(|object| migrations.forget(&key(object)));
        assert!(migrations.objects.is_empty());
    }
}
