//! Finds the probes of ports that no container of the pod declares.

use arcstr::ArcStr;

use super::{ContainerSpec, FirstNames, Pod, UndeclaredPort, pod::LIST_LIMIT};

/// A TCP port that a container declares.
pub(super) struct DeclaredPort {
    number: u16,
    name: ArcStr,
}

/// The ports of a container, or none if there are so many that some may not have been read.
pub(super) type DeclaredPorts = Option<Vec<DeclaredPort>>;

impl DeclaredPort {
    /// Ports of other protocols are left out: probes use TCP. A name is kept whatever its protocol, as the kubelet finds it.
    fn new((number, name, protocol): (i64, ArcStr, ArcStr)) -> Option<Self> {
        let is_tcp = matches!(protocol.as_str(), "" | "TCP");
        let number = if is_tcp { u16::try_from(number).ok()? } else { 0 };
        (number > 0 || !name.is_empty()).then_some(Self { number, name })
    }

    /// The ports of a container, given their numbers, names and protocols.
    pub(super) fn all(ports: impl ExactSizeIterator<Item = (i64, ArcStr, ArcStr)>) -> DeclaredPorts {
        (ports.len() <= LIST_LIMIT).then(|| ports.filter_map(Self::new).collect())
    }
}

impl Pod {
    /// Keeps what probes ask for where no container declares it: a process may listen on any port, so this is only worth
    /// telling if the probe fails. The ports are those of the init containers and then of the others, in their order.
    pub(super) fn keep_undeclared_ports(&mut self, ports: &[DeclaredPorts]) {
        let is_declared = |number: u16| {
            let all = ports.iter().map(|own| own.as_deref());
            all.into_iter().any(|own| own.is_none_or(|own| own.iter().any(|port| port.number == number)))
        };
        for (index, container) in self.init_containers.iter_mut().chain(&mut self.containers).enumerate() {
            let own = ports.get(index).and_then(Option::as_deref);
            container.keep_undeclared_ports(own, &is_declared);
        }
    }
}

impl ContainerSpec {
    fn keep_undeclared_ports(&mut self, own: Option<&[DeclaredPort]>, is_declared: &dyn Fn(u16) -> bool) {
        let probes = [&mut self.liveness_probe, &mut self.readiness_probe, &mut self.startup_probe];
        for probe in probes.into_iter().flatten() {
            let Some((undeclared, own)) = probe.undeclared_port.as_deref_mut().zip(own) else {
                probe.undeclared_port = None;
                continue;
            };
            // The kubelet looks for a name in the probe's own container, and then reads it as a number.
            let is_fine =
                own.iter().any(|port| port.name == undeclared.port) || undeclared.port.parse().is_ok_and(is_declared);
            let numbers = own.iter().filter(|port| port.number > 0);
            undeclared.declared = numbers.map(|port| ArcStr::from(port.number.to_string())).collect();
            // A container that declares nothing says nothing about its process, but lacks the name.
            let is_silent = undeclared.declared.is_empty() && undeclared.port.parse::<u16>().is_ok();
            if is_fine || is_silent {
                probe.undeclared_port = None;
            }
        }
    }
}

impl UndeclaredPort {
    /// Of a probe, until it is known which ports are declared.
    pub(super) fn asked_for(port: &ArcStr) -> Box<Self> {
        Box::new(Self { port: port.clone(), declared: FirstNames::default() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::pods::{Pod, from_json, protobuf::decode_json_as_protobuf};

    /// The port that the liveness probe of the container `app` asks for, and those declared.
    fn undeclared(probed: Value, ports: Value, others: Value) -> Option<(String, String)> {
        let probe = json!({"httpGet": {"port": probed, "path": "/"}});
        let pod = json!({"metadata": {"name": "a"}, "spec": {
            "initContainers": [{"name": "mesh", "restartPolicy": "Always", "ports": others}],
            "containers": [{"name": "app", "ports": ports, "livenessProbe": probe}],
        }});
        let of = |pod: Pod| {
            let undeclared = pod.containers[0].liveness_probe.as_ref().unwrap().undeclared_port.as_deref().cloned()?;
            Some((undeclared.port.to_string(), undeclared.declared.to_string()))
        };
        let (json, protobuf) = (from_json(&pod.to_string()).unwrap(), decode_json_as_protobuf(&pod).unwrap());
        let found = of(json);
        assert_eq!(of(protobuf), found);
        found
    }

    #[test]
    fn keeps_ports_of_probes_that_no_container_declares() {
        let web = json!([{"name": "web", "containerPort": 80}, {"containerPort": 443, "protocol": "TCP"}]);
        let said = |port: &str, declared: &str| Some((port.to_owned(), declared.to_owned()));
        for (probed, expected) in [
            (json!(80), None),
            (json!("web"), None),
            (json!("80"), None),
            (json!(8080), said("8080", "80, 443")),
            (json!("http"), said("http", "80, 443")),
        ] {
            assert_eq!(undeclared(probed.clone(), web.clone(), json!([])), expected, "{probed}");
        }
        assert_eq!(undeclared(json!(8080), json!([]), json!([])), None, "it declares none");
        assert_eq!(undeclared(json!("http"), json!([]), json!([])), said("http", ""));
        let udp = json!([{"name": "dns", "containerPort": 53, "protocol": "UDP"}]);
        assert_eq!(undeclared(json!(53), udp.clone(), json!([])), None, "probes use TCP");
        assert_eq!(undeclared(json!("dns"), udp, json!([])), None, "the kubelet finds the name");
    }

    #[test]
    fn ports_of_other_containers_count_by_number_only() {
        let mesh = json!([{"name": "status", "containerPort": 15021}]);
        assert_eq!(undeclared(json!(15021), json!([{"containerPort": 80}]), mesh.clone()), None);
        let by_name = undeclared(json!("status"), json!([{"containerPort": 80}]), mesh);
        assert_eq!(by_name, Some(("status".to_owned(), "80".to_owned())));
    }

    #[test]
    fn says_nothing_about_more_ports_than_are_read() {
        let ports: Vec<_> = (1..=300).map(|port| json!({"containerPort": port})).collect();
        assert_eq!(undeclared(json!(8080), json!(ports), json!([])), None);
        assert_eq!(undeclared(json!(8080), json!([{"containerPort": 80}]), json!(ports)), None);
        let few = undeclared(json!(8080), json!(ports[..20]), json!([])).unwrap();
        assert_eq!(few.1, "1, 2, 3, 4, 5, 6, 7, 8 and 12 more");
    }
}
