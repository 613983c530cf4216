//! When the memory limit of a container was last changed, from what, and by whom: the revisions of its workload have the limits before,
//! and the managed fields of the workload say who set the present one.

use std::{cmp::Reverse, collections::BTreeMap};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, LabelSelector, ObjectMeta};
use serde::Deserialize;
use serde_json::json;

use super::{CONTAINERS, ContainerTemplate, NAME_LIMIT, QUANTITY_LIMIT, RevisionObject, Template, or_default};

/// How Kubernetes calls all that set fields before it noted who does.
const NOT_NOTED: &str = "before-first-apply";

/// A Deployment, StatefulSet or DaemonSet, reduced to its pod template and who has set its fields.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ManagedWorkload {
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "or_default")]
    spec: Spec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    selector: Option<LabelSelector>,
    #[serde(deserialize_with = "or_default")]
    template: PodTemplate,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodTemplate {
    #[serde(deserialize_with = "or_default")]
    spec: Template,
}

impl ManagedWorkload {
    /// The label selector of its revisions.
    pub(crate) fn labels(&self) -> String {
        let labels = self.spec.selector.as_ref().and_then(|selector| selector.match_labels.as_ref());
        let labels = labels.into_iter().flatten().map(|(key, value)| format!("{key}={value}"));
        labels.collect::<Vec<_>>().join(",")
    }
}

/// By container.
pub type LimitChanges = BTreeMap<String, LimitChange>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitChange {
    /// The limit before; empty if there was none. Absent if the revisions have no other limit.
    pub before: Option<String>,
    /// When the limit was changed. Absent after a rollback, which uses an older revision again.
    pub at: Option<Timestamp>,
    /// The only field manager that has set the present limit.
    pub by: Option<String>,
}

/// How the limits of a revision came about. Of `revisions`, those of other workloads are left out.
pub fn limit_changes<'a>(
    own: &RevisionObject,
    revisions: impl Iterator<Item = &'a RevisionObject>,
    workload: &ManagedWorkload,
) -> LimitChanges {
    let is_earlier = |other: &&RevisionObject| other.owner_uid == own.owner_uid && other.number < own.number;
    let mut earlier: Vec<_> = revisions.filter(is_earlier).collect();
    earlier.sort_unstable_by_key(|revision| Reverse(revision.number));
    let containers = own.template.all().take(CONTAINERS).filter(|container| container.name.len() <= NAME_LIMIT);
    let changes = containers.map(|container| {
        let by = manager(workload, container);
        let change = before(own, &earlier, container).unwrap_or_default();
        (container.name.clone(), LimitChange { by, ..change })
    });
    changes.filter(|(_, change)| *change != LimitChange::default()).collect()
}

/// The last limit that differs, and when it was changed.
fn before(own: &RevisionObject, earlier: &[&RevisionObject], container: &ContainerTemplate) -> Option<LimitChange> {
    let limit_in =
        |revision: &RevisionObject| revision.template.find(&container.name).map(ContainerTemplate::memory_limit);
    let mut first = own;
    for revision in earlier {
        let limit = limit_in(revision)?;
        if limit == container.memory_limit() {
            first = revision;
            continue;
        }
        let at = first.template.created.filter(|at| revision.template.created.is_some_and(|before| before < *at));
        return (limit.len() <= QUANTITY_LIMIT).then_some(LimitChange { before: Some(limit), at, by: None });
    }
    None
}

/// The field manager that has set the limit of a container. None if several have set it to the same, or if the workload has another
/// limit now.
fn manager(workload: &ManagedWorkload, container: &ContainerTemplate) -> Option<String> {
    workload.spec.template.spec.find(&container.name).filter(|own| own.memory_limit() == container.memory_limit())?;
    let item = format!("k:{}", json!({"name": container.name}));
    let sets_limit = |FieldsV1(fields): &FieldsV1| {
        let spec = &fields["f:spec"]["f:template"]["f:spec"];
        let limits = ["f:containers", "f:initContainers"].map(|list| &spec[list][&item]["f:resources"]["f:limits"]);
        limits.iter().any(|limits| limits.get("f:memory").is_some())
    };
    let entries = workload.metadata.managed_fields.iter().flatten();
    let mut managers = entries.filter(|entry| entry.fields_v1.as_ref().is_some_and(sets_limit));
    let only = managers.next().filter(|_| managers.next().is_none())?;
    only.manager.clone().filter(|manager| !manager.is_empty() && manager != NOT_NOTED && manager.len() <= NAME_LIMIT)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn revision(number: i64, created: &str, owner: &str, limit: &str) -> RevisionObject {
        let object = json!({
            "metadata": {
                "name": format!("search-{number}"), "uid": number.to_string(), "creationTimestamp": created,
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "search", "uid": owner, "controller": true}],
                "annotations": {"deployment.kubernetes.io/revision": number.to_string()},
            },
            "spec": {"template": {"spec": spec(limit)}},
        });
        RevisionObject::from_json(object.to_string().as_bytes()).unwrap()
    }

    fn spec(limit: &str) -> Value {
        let limits = if limit.is_empty() { json!({}) } else { json!({"memory": limit}) };
        json!({"containers": [{"name": "search", "resources": {"limits": limits}}]})
    }

    fn workload(limit: &str, managers: &[&str]) -> ManagedWorkload {
        let limits = json!({"f:limits": {"f:memory": {}}});
        let containers = json!({"k:{\"name\":\"search\"}": {"f:resources": limits}});
        let fields = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": containers}}}});
        let other = json!({"manager": "kubectl", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
        let setters = managers.iter().map(
            |manager| json!({"manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}),
        );
        let managed: Vec<_> = std::iter::once(other).chain(setters).collect();
        let object = json!({
            "metadata": {"name": "search", "managedFields": managed}, "spec": {"template": {"spec": spec(limit)}},
        });
        serde_json::from_value(object).unwrap()
    }

    fn at(minute: i64) -> String {
        format!("2026-11-20T11:{minute:02}:00Z")
    }

    #[test]
    fn finds_the_last_other_limit_and_when_it_was_changed() {
        let revisions = |limits: &[(i64, i64, &str, &str)]| -> Vec<RevisionObject> {
            limits.iter().map(|(number, minute, owner, limit)| revision(*number, &at(*minute), owner, limit)).collect()
        };
        let own = revision(4, &at(40), "d", "24Mi");
        for (limits, expected) in [
            (&[(3, 30, "d", "256Mi"), (2, 20, "d", "64Mi")][..], Some(("256Mi", Some(40)))),
            // Another field was changed since.
            (&[(2, 20, "d", "256Mi"), (3, 30, "d", "24Mi")], Some(("256Mi", Some(30)))),
            (&[(3, 30, "d", "")], Some(("", Some(40)))),
            // A rollback.
            (&[(3, 50, "d", "256Mi")], Some(("256Mi", None))),
            // Of another workload, later, and the same.
            (&[(3, 30, "e", "256Mi")], None),
            (&[(5, 30, "d", "256Mi")], None),
            (&[(3, 30, "d", "24Mi")], None),
            (&[], None),
        ] {
            let found = limit_changes(&own, revisions(limits).iter(), &workload("24Mi", &[]));
            let found = found.get("search").map(|own| (own.before.clone().unwrap(), own.at));
            let expected = expected.map(|(before, minute)| {
                (before.to_owned(), minute.map(|minute| at(minute).parse::<Timestamp>().unwrap()))
            });
            assert_eq!(found, expected, "{limits:?}");
        }
    }

    #[test]
    fn names_the_only_manager_that_has_set_the_limit() {
        let own = revision(4, &at(40), "d", "24Mi");
        for (limit, managers, expected) in [
            ("24Mi", &["capacity-rebalancer"][..], Some("capacity-rebalancer")),
            ("24Mi", &["capacity-rebalancer", "argocd-controller"], None),
            ("256Mi", &["capacity-rebalancer"], None),
            ("24Mi", &[NOT_NOTED], None),
            ("24Mi", &[], None),
        ] {
            let found = limit_changes(&own, std::iter::empty(), &workload(limit, managers));
            assert_eq!(found.get("search").and_then(|own| own.by.as_deref()), expected, "{limit} {managers:?}");
        }
    }
}
