//! Taking over objects that the tutorial's Kopf operator left behind.

use std::time::Duration;

use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::json;
use tokio::time::timeout;

use super::{
    object::{KOPF_ANNOTATION, KOPF_FINALIZER, ObjectKey},
    status::{WriteError, resource},
};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Takes Kopf's finalizer and annotation off an object; other finalizers stay.
///
/// # Errors
/// See [`WriteError`]. An object that changed in the meantime counts as gone: its next event asks again.
pub async fn remove_leftovers(client: &Client, (namespace, name): &ObjectKey) -> Result<(), WriteError> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource());
    let work = async {
        let metadata = api.get_metadata(name).await?.metadata;
        let mut finalizers = metadata.finalizers.unwrap_or_default();
        finalizers.retain(|finalizer| finalizer != KOPF_FINALIZER);
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
