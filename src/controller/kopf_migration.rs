//! Taking over objects that the tutorial's Kopf operator left behind.

use std::{collections::HashMap, time::Duration};

use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::{
    api::{NamespacedName, api_resource},
    backoff::Backoff,
};

use super::{
    object::{KOPF_ANNOTATION, KOPF_FINALIZER},
    status::WriteError,
};

const TIMEOUT: Duration = Duration::from_secs(10);

/// How soon what was removed is removed again if it comes back: a Kopf operator that still runs puts its finalizer back
/// immediately, and each of the two would keep the other busy for ever.
const FIRST_DELAY: Duration = Duration::from_secs(2);
const LONGEST_DELAY: Duration = Duration::from_secs(5 * 60);
/// An object that stays clean for so long is no longer fought over.
const PEACE: Duration = Duration::from_secs(20 * 60);
/// How many removals are a fight.
const FIGHT: u32 = 3;

/// Objects on which something is, or recently was, left. They may be on their way to deletion, and are not otherwise
/// known.
#[derive(Debug, Default)]
pub struct KopfMigrations {
    objects: HashMap<NamespacedName, Takeover>,
}

#[derive(Debug)]
struct Takeover {
    /// When to clean it, if something is left on it and it is not being cleaned.
    due: Option<Instant>,
    /// Whether it is being cleaned.
    under_way: bool,
    /// Whether something was still seen on it meanwhile.
    seen: bool,
    /// Nothing is done before.
    not_before: Instant,
    backoff: Backoff,
    /// How often something was removed.
    removals: u32,
}

impl Takeover {
    fn new(now: Instant) -> Self {
        Self {
            due: Some(now),
            under_way: false,
            seen: false,
            not_before: now,
            backoff: Backoff::new(FIRST_DELAY, LONGEST_DELAY),
            removals: 0,
        }
    }
}

impl KopfMigrations {
    /// Something was seen on an object.
    pub fn seen(&mut self, key: &NamespacedName, now: Instant) {
        let kopf_migration = self.objects.entry(key.clone()).or_insert_with(|| Takeover::new(now));
        if kopf_migration.under_way {
            kopf_migration.seen = true;
        } else if kopf_migration.due.is_none() {
            kopf_migration.due = Some(kopf_migration.not_before.max(now));
        }
    }

    /// An object was seen clean. How often it was cleaned is remembered.
    pub fn clean(&mut self, key: &NamespacedName) {
        if let Some(kopf_migration) = self.objects.get_mut(key) {
            kopf_migration.due = None;
            kopf_migration.seen = false;
        }
    }

    /// An object is gone.
    pub fn forget(&mut self, key: &NamespacedName) {
        self.objects.remove(key);
    }

    /// Forgets the objects that have stayed clean.
    pub fn sweep(&mut self, now: Instant) {
        self.objects.retain(|_, kopf_migration| {
            kopf_migration.due.is_some() || kopf_migration.under_way || now < kopf_migration.not_before + PEACE
        });
    }

    /// When the first is due, if any.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.objects.values().filter_map(|kopf_migration| kopf_migration.due).min()
    }

    /// Those that are due, which the caller now cleans.
    pub fn take_due(&mut self, now: Instant) -> Vec<NamespacedName> {
        let due =
            self.objects.iter_mut().filter(|(_, kopf_migration)| kopf_migration.due.is_some_and(|due| due <= now));
        due.map(|(key, kopf_migration)| {
            kopf_migration.due = None;
            kopf_migration.under_way = true;
            key.clone()
        })
        .collect()
    }

    /// An object was cleaned, where something was left on it, or that failed. Returns whether it has become
    /// plain that somebody puts back what is removed: once for each object.
    pub fn ended(&mut self, key: &NamespacedName, result: &Result<bool, WriteError>, now: Instant) -> bool {
        let Some(kopf_migration) = self.objects.get_mut(key) else { return false };
        kopf_migration.under_way = false;
        let seen = std::mem::take(&mut kopf_migration.seen);
        if !matches!(result, Ok(false)) {
            kopf_migration.not_before = now + kopf_migration.backoff.next_delay();
        }
        if seen || result.is_err() {
            // What was seen meanwhile may have been seen before: the next try shows.
            kopf_migration.due = Some(kopf_migration.not_before.max(now));
        }
        if matches!(result, Ok(true)) {
            kopf_migration.removals += 1;
        }
        matches!(result, Ok(true)) && kopf_migration.removals == FIGHT
    }
}

/// Takes Kopf's finalizer and annotation off an object; other finalizers stay. An object that is gone is
/// clean. Returns whether something was left on it.
///
/// # Errors
/// See [`WriteError`].
pub async fn remove_leftovers(
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
            // Refuses the patch when somebody else changed the finalizers since they were read.
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

    fn refused() -> Result<bool, WriteError> {
        Err(WriteError::Unavailable("busy".to_owned()))
    }

    #[test]
    fn a_failure_is_tried_again_and_a_success_is_not() {
        let (key, start) = (key(), Instant::now());
        let mut kopf_migrations = KopfMigrations::default();
        kopf_migrations.seen(&key, start);
        kopf_migrations.seen(&key, start);
        assert_eq!(kopf_migrations.take_due(start), std::slice::from_ref(&key));
        assert!(kopf_migrations.take_due(start).is_empty() && kopf_migrations.next_due().is_none(), "under way");
        kopf_migrations.ended(&key, &refused(), start);
        assert!(kopf_migrations.next_due().is_some_and(|due| due > start));
        assert_eq!(kopf_migrations.take_due(start + FIRST_DELAY), std::slice::from_ref(&key));
        kopf_migrations.seen(&key, start);
        kopf_migrations.ended(&key, &Ok(true), start);
        assert!(kopf_migrations.next_due().is_some(), "an event may have told of what was put there since");
        kopf_migrations.clean(&key);
        assert_eq!(kopf_migrations.next_due(), None);
    }

    #[test]
    fn what_is_put_back_again_and_again_is_removed_ever_more_seldom() {
        let (key, start) = (key(), Instant::now());
        let mut kopf_migrations = KopfMigrations::default();
        let (mut now, mut removed, mut warnings) = (start, Vec::new(), 0);
        kopf_migrations.seen(&key, now);
        while now < start + Duration::from_secs(3600) {
            now = kopf_migrations.next_due().unwrap();
            kopf_migrations.take_due(now);
            warnings += usize::from(kopf_migrations.ended(&key, &Ok(true), now));
            removed.push(now);
            kopf_migrations.clean(&key);
            now += Duration::from_millis(10);
            kopf_migrations.seen(&key, now);
        }
        assert!((12..=36).contains(&removed.len()), "{} in an hour", removed.len());
        assert!(removed[4] - start >= Duration::from_secs(15), "{removed:?}");
        assert_eq!(warnings, 1);
    }

    #[test]
    fn an_object_that_stayed_clean_is_cleaned_immediately_again() {
        let (key, start) = (key(), Instant::now());
        let mut kopf_migrations = KopfMigrations::default();
        kopf_migrations.seen(&key, start);
        kopf_migrations.take_due(start);
        kopf_migrations.ended(&key, &Ok(true), start);
        kopf_migrations.clean(&key);
        kopf_migrations.sweep(start + FIRST_DELAY);
        assert_eq!(kopf_migrations.objects.len(), 1, "it is remembered for a while");
        kopf_migrations.sweep(start + FIRST_DELAY + PEACE);
        assert!(kopf_migrations.objects.is_empty());
    }
}
