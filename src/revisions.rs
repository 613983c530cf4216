//! Reads the revision of a workload that a pod belongs to, and compares its pod template with that of an earlier one.

use std::{sync::Arc, time::Duration};

use kube::Client;
use tokio::time::timeout;

use crate::{
    diagnosis::{RevisionObject, TemplateChanges, owner_names, revision_name, template_changes},
    pods::Pod,
    watch::read_body,
};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The largest object that is read, in bytes. Most are smaller than 20 KiB.
const OBJECT_LIMIT: usize = 512 * 1024;
/// How much of the API server's message is kept when it denies access, in bytes.
const DENIAL_LIMIT: usize = 512;

/// A revision, and its owner as the pods name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RevisionKey {
    pub(crate) namespace: String,
    pub(crate) resource: &'static str,
    /// The name of the ReplicaSet or ControllerRevision.
    pub(crate) failing: String,
    /// The name of the one that it is compared with; empty if there is none.
    pub(crate) before: String,
    /// The UID of the pods' controller: the ReplicaSet itself, or the StatefulSet or DaemonSet.
    pub(crate) controller_uid: String,
}

/// The result of reading the revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RevisionReading {
    Read(Arc<TemplateChanges>),
    /// A revision is gone, or belongs to another workload.
    Gone,
    TooLarge,
    /// The revision is not newer than the other one: one that was replaced has returned. With what its own template says.
    NotNewer(Arc<TemplateChanges>),
    /// RBAC denies access, with the API server's message.
    Denied(String),
    /// It could not be read for another reason.
    Unavailable,
}

impl RevisionKey {
    /// The revision of a pod, and an earlier one. Both are values of the label of revisions.
    pub(crate) fn new(pod: &Pod, hash: &str, before: Option<&str>) -> Option<Self> {
        let (owner_kind, owner_name) = owner_names(pod)?;
        let controller = pod.controller.as_ref()?;
        let resource = if controller.kind == "ReplicaSet" { "replicasets" } else { "controllerrevisions" };
        let key = Self {
            namespace: pod.namespace.to_string(),
            resource,
            failing: revision_name(owner_kind, owner_name, hash),
            before: before.map(|before| revision_name(owner_kind, owner_name, before)).unwrap_or_default(),
            controller_uid: controller.uid.to_string(),
        };
        let before = before.map(|_| &key.before);
        let are_names = [&key.namespace, &key.failing].into_iter().chain(before).all(|name| is_name(name));
        are_names.then_some(key)
    }

    pub(crate) fn is_of_same_revision(&self, other: &Self) -> bool {
        self.failing == other.failing && self.controller_uid == other.controller_uid && self.scope() == other.scope()
    }

    /// The namespace and resource, for which access is granted or denied.
    pub(crate) fn scope(&self) -> (String, &'static str) {
        (self.namespace.clone(), self.resource)
    }
}

/// Whether this may be a name in a path. The names come from labels, which are not checked by all writers.
fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    !name.is_empty() && name.len() <= 253 && name.bytes().all(is_allowed) && !name.starts_with('.')
}

/// Reads the revisions and compares their pod templates.
pub(crate) async fn read(client: &Client, key: &RevisionKey) -> RevisionReading {
    let RevisionKey { namespace, resource, failing, before, .. } = key;
    let get = async |name: &str| {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/{resource}/{name}");
        timeout(TIMEOUT, get(client, &path)).await.unwrap_or(Err(RevisionReading::Unavailable))
    };
    let failing = match get(failing).await {
        Ok(object) => object,
        Err(reading) => return reading,
    };
    if before.is_empty() || !key.is_of_pods(&failing) {
        return key.compare(&failing, None);
    }
    match get(before).await {
        Ok(before) => key.compare(&failing, Some(&before)),
        Err(reading) => reading,
    }
}

impl RevisionKey {
    /// Whether this is the revision that the pods name, and not one that has its name. It must belong to a workload, which
    /// could have another revision.
    fn is_of_pods(&self, failing: &RevisionObject) -> bool {
        let uid = if self.resource == "replicasets" { &failing.uid } else { &failing.owner_uid };
        *uid == self.controller_uid && !failing.owner_uid.is_empty()
    }

    /// Compares the pod templates. Without an earlier revision, only what the template says is known.
    pub(crate) fn compare(&self, failing: &RevisionObject, before: Option<&RevisionObject>) -> RevisionReading {
        if !self.is_of_pods(failing) {
            return RevisionReading::Gone;
        }
        let Some(before) = before else {
            return RevisionReading::Read(Arc::new(TemplateChanges::of_one(&failing.template)));
        };
        if before.owner_uid != failing.owner_uid {
            return RevisionReading::Gone;
        }
        if failing.number.zip(before.number).is_some_and(|(failing, before)| failing <= before) {
            return RevisionReading::NotNewer(Arc::new(TemplateChanges::of_one(&failing.template)));
        }
        RevisionReading::Read(Arc::new(template_changes(&before.template, &failing.template)))
    }
}

async fn get(client: &Client, path: &str) -> Result<RevisionObject, RevisionReading> {
    let request = http::Request::get(path).body(Vec::new()).map_err(|_| RevisionReading::Unavailable)?;
    let bytes = match read_body(client, request, OBJECT_LIMIT).await {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Err(RevisionReading::TooLarge),
        Err(kube::Error::Api(status)) if status.is_not_found() => return Err(RevisionReading::Gone),
        Err(kube::Error::Api(status)) if status.is_forbidden() => {
            let message = &status.message[..status.message.floor_char_boundary(DENIAL_LIMIT)];
            return Err(RevisionReading::Denied(message.to_owned()));
        }
        Err(_) => return Err(RevisionReading::Unavailable),
    };
    RevisionObject::from_json(&bytes).map_err(|error| {
        tracing::debug!(path, error, "could not compare a revision");
        RevisionReading::Gone
    })
}
