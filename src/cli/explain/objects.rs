//! Reads the state of the objects that a pod refers to. The values of ConfigMaps and Secrets are never kept.

use futures::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, ResourceQuota, Secret, ServiceAccount};
use kube::api::ListParams;

use crate::{cli::near::Keys, render::safe::clean};

use super::{
    events,
    explanation::{Events, ObjectPart},
    reader::{Page, Read, Reader},
    references::{Reference, ReferenceKind},
};

/// The most objects of a pod that are read.
const OBJECTS: usize = 10;
/// The most keys of an object that are named.
const KEYS: usize = 10;
/// The most events of a claim that are shown.
const EVENTS: usize = 5;
/// The most resources of quotas that are shown.
const QUOTAS: usize = 20;

/// Reads the objects concurrently, in the order of the references.
pub(super) async fn read(reader: &Reader<'_>, references: Vec<Reference>) -> Vec<ObjectPart> {
    if let Some(more @ 1..) = references.len().checked_sub(OBJECTS) {
        reader.not_read(&format!("{more} more objects that the pod refers to"), &format!("at most {OBJECTS} are read"));
    }
    join_all(references.iter().take(OBJECTS).map(|reference| object(reader, reference))).await
}

async fn object(reader: &Reader<'_>, reference: &Reference) -> ObjectPart {
    let Reference { kind, name, keys, optional, used_by } = reference;
    let mut part = ObjectPart {
        kind: kind.as_str(),
        name: clean(name),
        exists: None,
        optional: *optional,
        missing_keys: Vec::new(),
        unchecked_keys: Vec::new(),
        used_by: used_by.clone(),
        detail: String::new(),
        events: Events::default(),
    };
    let named = |is_wanted: &dyn Fn(&str) -> bool| -> Vec<String> {
        keys.iter().filter(|key| is_wanted(key)).take(KEYS).map(|key| clean(key)).collect()
    };
    part.exists = match kind {
        ReferenceKind::ConfigMap => match reader.get::<ConfigMap, Keys>(name).await {
            Read::Found(object) => {
                part.missing_keys = named(&|key| !object.iter().any(|own| own == key));
                Some(true)
            }
            other => exists(&other),
        },
        ReferenceKind::Secret => {
            let found = exists(&reader.exists::<Secret>(name).await);
            if found == Some(true) {
                part.unchecked_keys = named(&|_| true);
            }
            found
        }
        ReferenceKind::ServiceAccount => exists(&reader.exists::<ServiceAccount>(name).await),
        ReferenceKind::PersistentVolumeClaim => {
            match reader.get::<PersistentVolumeClaim, PersistentVolumeClaim>(name).await {
                Read::Found(claim) => {
                    part.detail = claim_state(&claim);
                    if !is_bound(&claim) {
                        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
                        let found = events::read(reader, &format!("PersistentVolumeClaim {name}"), uid).await;
                        let (found, more) = found.unwrap_or_default();
                        part.events = events::newest(&found, more, EVENTS);
                    }
                    Some(true)
                }
                other => exists(&other),
            }
        }
    };
    part
}

fn exists<T>(read: &Read<T>) -> Option<bool> {
    match read {
        Read::Found(_) => Some(true),
        Read::Missing => Some(false),
        Read::Unread => None,
    }
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

/// For example `Pending, StorageClass fast, 10Gi, ReadWriteOnce`.
fn claim_state(claim: &PersistentVolumeClaim) -> String {
    let phase = claim.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_else(|| "Pending".to_owned());
    let mut parts = vec![phase];
    if let Some(spec) = &claim.spec {
        parts.push(match spec.storage_class_name.as_deref() {
            None | Some("") => "without a StorageClass".to_owned(),
            Some(class) => format!("StorageClass {class}"),
        });
        let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        parts.extend(requests.and_then(|requests| requests.get("storage")).map(|size| size.0.clone()));
        parts.extend(spec.access_modes.iter().flatten().take(4).cloned());
    }
    clean(&parts.join(", "))
}

/// The use of the quotas in the namespace, such as `ResourceQuota pods: pods 10 of 10`.
pub(super) async fn quotas(reader: &Reader<'_>) -> Vec<String> {
    let params = ListParams::default().limit(50);
    let page = reader.list::<ResourceQuota, ResourceQuota>("the quotas of the namespace", &params).await;
    let quotas = page.map(Page::into_items).unwrap_or_default();
    let lines = quotas.iter().flat_map(|quota| {
        let name = quota.metadata.name.as_deref().unwrap_or_default();
        let status = quota.status.as_ref();
        let used = status.and_then(|status| status.used.as_ref());
        let hard = status.and_then(|status| status.hard.as_ref()).into_iter().flatten();
        hard.map(move |(resource, hard)| {
            let used = used.and_then(|used| used.get(resource)).map_or("?", |used| used.0.as_str());
            clean(&format!("ResourceQuota {name}: {resource} {used} of {}", hard.0))
        })
    });
    lines.take(QUOTAS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn describes_a_claim() {
        let claim = |spec, status| -> PersistentVolumeClaim {
            serde_json::from_value(json!({"metadata": {}, "spec": spec, "status": status})).unwrap()
        };
        let pending = claim(
            json!({"storageClassName": "fast", "resources": {"requests": {"storage": "10Gi"}}, "accessModes": ["ReadWriteOnce"]}),
            json!({"phase": "Pending"}),
        );
        assert_eq!(claim_state(&pending), "Pending, StorageClass fast, 10Gi, ReadWriteOnce");
        assert!(!is_bound(&pending) && is_bound(&claim(json!({}), json!({"phase": "Bound"}))));
        assert_eq!(claim_state(&claim(json!({}), json!({"phase": "Bound"}))), "Bound, without a StorageClass");
    }
}
