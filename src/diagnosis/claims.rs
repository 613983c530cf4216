//! Why a PersistentVolumeClaim is not bound: what it wants, whether its StorageClass exists, and which volumes are free.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::quantity::Quantity;

/// The provisioner of a StorageClass whose volumes are created by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// What was read about a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimFacts {
    /// Whether it exists and has no volume.
    pub(super) is_unbound: bool,
    /// Whether it is bound only when the pod has a node, so that this is no reason why the pod has none.
    pub(super) waits_for_pod: bool,
    /// Why it is not bound, for example `the StorageClass fast does not exist`; empty if that is not certain.
    pub(super) why: String,
}

/// The fields of a PersistentVolumeClaim that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimObject {
    spec: ClaimSpec,
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSpec {
    storage_class_name: Option<String>,
    volume_name: String,
    resources: Resources,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: String,
}

/// The fields of a StorageClass that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClassObject {
    provisioner: String,
    volume_binding_mode: String,
}

/// The fields of a PersistentVolume that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeObject {
    spec: VolumeSpec,
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeSpec {
    storage_class_name: String,
    capacity: Option<BTreeMap<String, String>>,
    claim_ref: Option<serde::de::IgnoredAny>,
}

/// What was read about the StorageClass of a claim.
#[derive(Clone, Copy, Debug)]
pub enum ClassReading<'a> {
    Read(&'a ClassObject),
    Missing,
    /// Also if the claim names none.
    Unknown,
}

/// The volumes that no claim uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeVolumes {
    count: usize,
    /// The largest of each class.
    largest: BTreeMap<String, Quantity>,
}

impl FreeVolumes {
    pub fn add(&mut self, volume: &VolumeObject) {
        let VolumeSpec { storage_class_name: class, capacity, claim_ref } = &volume.spec;
        if volume.status.phase != "Available" || claim_ref.is_some() {
            return;
        }
        let Some(size) = storage(capacity.as_ref()) else { return };
        self.count += 1;
        let largest = self.largest.entry(class.clone()).or_default();
        *largest = largest.max(size);
    }
}

impl ClaimObject {
    /// The name of its StorageClass.
    #[must_use]
    pub fn class(&self) -> Option<&str> {
        self.spec.storage_class_name.as_deref().filter(|class| !class.is_empty())
    }
}

impl ClaimFacts {
    /// Whether the free volumes may show why a claim is not bound: nothing creates volumes for it.
    #[must_use]
    pub fn needs_volumes(claim: &ClaimObject, class: ClassReading<'_>) -> bool {
        let is_open = claim.status.phase == "Pending" && claim.spec.volume_name.is_empty();
        is_open
            && match class {
                ClassReading::Read(class) => class.provisioner == NO_PROVISIONER,
                ClassReading::Missing => true,
                ClassReading::Unknown => claim.class().is_none(),
            }
    }

    /// `volumes` is absent if they are not all known.
    #[must_use]
    pub fn of(claim: &ClaimObject, class: ClassReading<'_>, volumes: Option<&FreeVolumes>) -> Self {
        let waits = |class: &ClassObject| class.volume_binding_mode == "WaitForFirstConsumer";
        let waits_for_pod = matches!(class, ClassReading::Read(class) if waits(class));
        let volumes = volumes.filter(|_| Self::needs_volumes(claim, class));
        let name = claim.class().unwrap_or_default();
        let why = match (class, volumes) {
            // A volume of this class can be bound although the class does not exist.
            (ClassReading::Missing, Some(volumes)) if volumes.largest.contains_key(name) => unfit(claim, volumes),
            (ClassReading::Missing, _) => format!("the StorageClass {name} does not exist"),
            (_, Some(volumes)) => unfit(claim, volumes),
            (_, None) => String::new(),
        };
        Self { is_unbound: claim.status.phase == "Pending", waits_for_pod, why }
    }
}

/// Why none of the free volumes fits; empty if one may.
fn unfit(claim: &ClaimObject, volumes: &FreeVolumes) -> String {
    let name = claim.class().unwrap_or_default();
    let of = |class: &str| if class.is_empty() { "of no class".to_owned() } else { format!("of class {class}") };
    let Some(size) = storage(claim.spec.resources.requests.as_ref()) else { return String::new() };
    let largest = volumes.largest.get(name);
    if largest.is_some_and(|largest| largest.milli() >= size.milli()) {
        return String::new();
    }
    let wants = format!("it wants {} {}", size.short(), of(name));
    match (volumes.count, largest, volumes.largest.first_key_value()) {
        (1, _, Some((class, only))) => format!("{wants}; the only free volume is {} {}", only.short(), of(class)),
        (_, Some(largest), _) => format!("{wants}; the largest free volume {} has {}", of(name), largest.short()),
        (0, ..) => format!("{wants}, and no volume is free"),
        (count, None, _) => format!("{wants}; none of the {count} free volumes is {}", of(name)),
    }
}

fn storage(quantities: Option<&BTreeMap<String, String>>) -> Option<Quantity> {
    Quantity::parse(quantities?.get("storage")?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(class: Option<&str>, size: &str) -> ClaimObject {
        let spec = json!({"storageClassName": class, "resources": {"requests": {"storage": size}}});
        serde_json::from_value(json!({"spec": spec, "status": {"phase": "Pending"}})).unwrap()
    }

    fn class(provisioner: &str, mode: &str) -> ClassObject {
        serde_json::from_value(json!({"provisioner": provisioner, "volumeBindingMode": mode})).unwrap()
    }

    fn volumes(free: &[(&str, &str)]) -> FreeVolumes {
        let mut volumes = FreeVolumes::default();
        let volume = |class: &str, size: &str, phase: &str, claim: serde_json::Value| {
            let spec = json!({"storageClassName": class, "capacity": {"storage": size}, "claimRef": claim});
            serde_json::from_value(json!({"spec": spec, "status": {"phase": phase}})).unwrap()
        };
        free.iter().for_each(|(class, size)| volumes.add(&volume(class, size, "Available", json!(null))));
        volumes.add(&volume("fast", "9Gi", "Bound", json!({"name": "other"})));
        volumes.add(&volume("fast", "9Gi", "Available", json!({"name": "reserved"})));
        volumes
    }

    #[test]
    fn says_why_a_claim_is_not_bound() {
        let by_hand = class(NO_PROVISIONER, "Immediate");
        let local = class(NO_PROVISIONER, "WaitForFirstConsumer");
        let cloud = class("ebs.csi.aws.com", "Immediate");
        let read = ClassReading::Read;
        for (class, reading, free, why) in [
            (Some("v2"), ClassReading::Missing, Some(&[][..]), "the StorageClass v2 does not exist"),
            (Some("v2"), ClassReading::Missing, None, "the StorageClass v2 does not exist"),
            (
                Some("v2"),
                ClassReading::Missing,
                Some(&[("v2", "1Gi"), ("fast", "8Gi")]),
                "it wants 5Gi of class v2; the largest free volume of class v2 has 1Gi",
            ),
            (
                Some("fast"),
                read(&by_hand),
                Some(&[("standard", "1Gi")]),
                "it wants 5Gi of class fast; the only free volume is 1Gi of class standard",
            ),
            (Some("fast"), read(&by_hand), Some(&[]), "it wants 5Gi of class fast, and no volume is free"),
            (
                Some("fast"),
                read(&local),
                Some(&[("standard", "1Gi"), ("", "9Gi")]),
                "it wants 5Gi of class fast; none of the 2 free volumes is of class fast",
            ),
            (
                Some(""),
                ClassReading::Unknown,
                Some(&[("", "1Gi")]),
                "it wants 5Gi of no class; the only free volume is 1Gi of no class",
            ),
            // A volume is large enough, or one may be created, or it is not known.
            (Some("fast"), read(&by_hand), Some(&[("fast", "5Gi")]), ""),
            (Some("fast"), read(&cloud), Some(&[]), ""),
            (Some("fast"), read(&by_hand), None, ""),
            (Some("fast"), ClassReading::Unknown, Some(&[]), ""),
        ] {
            let free = free.map(volumes);
            let facts = ClaimFacts::of(&claim(class, "5Gi"), reading, free.as_ref());
            assert_eq!((facts.why.as_str(), facts.is_unbound), (why, true), "{class:?} {reading:?}");
        }
    }

    #[test]
    fn a_claim_that_waits_for_its_pod_is_no_reason() {
        let cloud = class("ebs.csi.aws.com", "WaitForFirstConsumer");
        let facts = ClaimFacts::of(&claim(Some("fast"), "5Gi"), ClassReading::Read(&cloud), None);
        assert_eq!(facts, ClaimFacts { is_unbound: true, waits_for_pod: true, why: String::new() });
        let bound: ClaimObject = serde_json::from_value(json!({"status": {"phase": "Bound"}})).unwrap();
        assert_eq!(ClaimFacts::of(&bound, ClassReading::Unknown, None), ClaimFacts::default());
        let named = json!({"spec": {"volumeName": "pv-7", "storageClassName": ""}, "status": {"phase": "Pending"}});
        let named: ClaimObject = serde_json::from_value(named).unwrap();
        assert!(!ClaimFacts::needs_volumes(&named, ClassReading::Unknown));
    }
}
