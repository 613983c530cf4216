//! How severe an incident is and who is responsible for it, in a line for people.

use crate::api::{Incident, Severity};

/// Such as `critical, team checkout, runbook https://runbooks.example/cart`. Empty if nothing is known but the usual severity.
/// The texts may come from anyone.
pub(super) fn ownership(incident: &Incident) -> String {
    let severity = incident.severity.filter(|severity| *severity != Severity::Warning).map(Severity::as_str);
    let named = [("team", &incident.team), ("runbook", &incident.runbook), ("dashboard", &incident.dashboard)];
    let named = named.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| format!("{name} {value}"));
    severity.map(str::to_owned).into_iter().chain(named).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_what_is_known() {
        let mut incident: Incident = serde_json::from_value(json!({
            "key": "5f0c2a915f0c2a91", "kind": "Crash", "namespace": "shop", "container": "app", "reason": "Error",
            "owner": {"kind": "Deployment", "name": "cart"}, "cause": "Unknown", "pods": 1, "severity": "warning",
            "since": "2026-03-01T11:00:00Z", "examplePods": ["cart-a"],
        }))
        .unwrap();
        assert_eq!(ownership(&incident), "");
        incident.team = "checkout".to_owned();
        assert_eq!(ownership(&incident), "team checkout");
        incident.severity = Some(Severity::Critical);
        incident.runbook = "https://runbooks.example/cart".to_owned();
        incident.dashboard = "https://grafana.example/d/cart".to_owned();
        assert_eq!(
            ownership(&incident),
            "critical, team checkout, runbook https://runbooks.example/cart, dashboard https://grafana.example/d/cart"
        );
    }
}
