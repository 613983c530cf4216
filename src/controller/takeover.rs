//! Taking over objects that the tutorial's Kopf operator left behind.

use std::{collections::HashMap, time::Duration};

use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::backoff::Backoff;

use super::{
    object::{KOPF_ANNOTATION, KOPF_FINALIZER, ObjectKey},
    status::{WriteError, resource},
};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Objects on which something is left. They may be on their way to deletion, and are not otherwise known.
#[derive(Debug, Default)]
pub struct Takeovers {
    objects: HashMap<ObjectKey, Takeover>,
}

#[derive(Debug)]
struct Takeover {
    /// Absent while it is being cleaned.
    due: Option<Instant>,
    /// Whether something was still seen on it meanwhile.
    seen: bool,
    backoff: Backoff,
}

impl Takeovers {
    /// Something was seen on an object.
    pub fn seen(&mut self, key: &ObjectKey, now: Instant) {
        let takeover = self.objects.entry(key.clone()).or_insert_with(|| Takeover {
            due: Some(now),
            seen: false,
            backoff: Backoff::new(Duration::from_millis(500), Duration::from_secs(60)),
        });
        takeover.seen |= takeover.due.is_none();
    }

    /// An object is clean, or gone.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
    }

    /// When the first is due, if any.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.objects.values().filter_map(|takeover| takeover.due).min()
    }

    /// Those that are due, which the caller now cleans.
    pub fn take_due(&mut self, now: Instant) -> Vec<ObjectKey> {
        let due = self.objects.iter_mut().filter(|(_, takeover)| takeover.due.is_some_and(|due| due <= now));
        due.map(|(key, takeover)| {
            takeover.due = None;
            key.clone()
        })
        .collect()
    }

    /// An object was cleaned, or that failed.
    pub fn ended(&mut self, key: &ObjectKey, succeeded: bool, now: Instant) {
        let Some(takeover) = self.objects.get_mut(key) else { return };
        if succeeded && !std::mem::take(&mut takeover.seen) {
            self.objects.remove(key);
        } else {
            // What was seen meanwhile may have been seen before: the next try shows.
            takeover.due = Some(now + takeover.backoff.next_delay());
        }
    }
}

/// Takes Kopf's finalizer and annotation off an object; other finalizers stay. An object that is gone is
/// clean.
///
/// # Errors
/// See [`WriteError`].
pub async fn remove_leftovers(client: &Client, (namespace, name): &ObjectKey) -> Result<(), WriteError> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource());
    let work = async {
        let metadata = match api.get_metadata(name).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
            other => other?.metadata,
        };
        let mut finalizers = metadata.finalizers.unwrap_or_default();
        let before = finalizers.len();
        finalizers.retain(|finalizer| finalizer != KOPF_FINALIZER);
        if finalizers.len() == before && !metadata.annotations.is_some_and(|own| own.contains_key(KOPF_ANNOTATION)) {
            return Ok(());
        }
        let patch = json!({"metadata": {
            // Refuses the patch when somebody else changed the finalizers since they were read.
            "resourceVersion": metadata.resource_version,
            "finalizers": finalizers,
            "annotations": {KOPF_ANNOTATION: null},
        }});
        api.patch_metadata(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok::<(), kube::Error>(())
    };
    timeout(TIMEOUT, work)
        .await
        .map_err(|_| WriteError::Unavailable(format!("no answer within {} s", TIMEOUT.as_secs())))??;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_tried_again_and_a_success_is_not() {
        let key = ("shop".to_owned(), "cluster".to_owned());
        let mut takeovers = Takeovers::default();
        let start = Instant::now();
        takeovers.seen(&key, start);
        takeovers.seen(&key, start);
        assert_eq!(takeovers.take_due(start), std::slice::from_ref(&key));
        assert!(takeovers.take_due(start).is_empty() && takeovers.next_due().is_none(), "under way");
        takeovers.ended(&key, false, start);
        assert!(takeovers.next_due().is_some_and(|due| due > start));
        assert_eq!(takeovers.take_due(start + Duration::from_secs(1)), std::slice::from_ref(&key));
        takeovers.seen(&key, start);
        takeovers.ended(&key, true, start);
        assert!(takeovers.next_due().is_some(), "an event may have told of what was put there since");
        takeovers.forget(&key);
        assert_eq!(takeovers.next_due(), None);
    }
}
