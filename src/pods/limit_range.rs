//! Reads which memory limits come from a LimitRange. The API server notes it in an annotation of the pod:
//! `LimitRanger plugin set: cpu, memory request for container app; memory limit for container app`.

use super::Pod;

pub(super) const ANNOTATION: &str = "kubernetes.io/limit-ranger";

impl Pod {
    /// Marks the containers that have a memory limit by default, given the annotation's value.
    pub(super) fn mark_limits_of_ranges(&mut self, annotation: &str) {
        let Some(parts) = annotation.strip_prefix("LimitRanger plugin set: ") else { return };
        for part in parts.split("; ") {
            let (resources, name) = match part.split_once(" limit for container ") {
                Some(of_container) => of_container,
                None => match part.split_once(" limit for init container ") {
                    Some(of_container) => of_container,
                    None => continue,
                },
            };
            if resources.split(", ").any(|resource| resource == "memory") {
                let containers = self.init_containers.iter_mut().chain(&mut self.containers);
                containers.filter(|own| own.name == name).for_each(|own| own.has_limit_of_range = true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::pods::{from_json, protobuf::decode_json_as_protobuf};

    #[test]
    fn reads_which_memory_limits_a_limit_range_has_set() {
        let marked = |annotation: &str| {
            let pod = json!({
                "metadata": {"name": "a", "annotations": {"kubernetes.io/limit-ranger": annotation}},
                "spec": {"initContainers": [{"name": "prep"}], "containers": [{"name": "app"}, {"name": "app-2"}]},
            });
            let pods = [from_json(&pod.to_string()).unwrap(), decode_json_as_protobuf(&pod).unwrap()];
            assert_eq!(pods[0], pods[1]);
            let all = pods[0].init_containers.iter().chain(&pods[0].containers);
            all.filter(|own| own.has_limit_of_range).map(|own| own.name.to_string()).collect::<Vec<_>>()
        };
        let prefix = "LimitRanger plugin set: ";
        for (rest, expected) in [
            ("cpu, memory request for container app; cpu, memory limit for container app", &["app"] as &[&str]),
            ("memory limit for container app; memory limit for init container prep", &["prep", "app"]),
            ("cpu limit for container app; memory request for container app-2", &[]),
            ("memory limit for container ; memory limit for container app-3; x", &[]),
            ("", &[]),
        ] {
            assert_eq!(marked(&format!("{prefix}{rest}")), expected, "{rest}");
        }
        assert!(marked("memory limit for container app").is_empty());
    }
}
