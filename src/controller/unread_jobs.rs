//! Pods whose Jobs were not read yet. After a failover with thousands of Jobs, reading all of them takes minutes.
//!
//! The Job of a failed pod may have completed, so it is unknown whether the pod has a problem. Unknown is neither a problem
//! nor its end: what the status or an alert says about such a Job stays.

use std::collections::{BTreeSet, HashSet};

use arcstr::ArcStr;

use crate::{
    api::{AlertPhase, AlertStatus, OrchestrStatus, Owner},
    pods::{Controller, Pod},
};

const JOB: &str = "Job";
const CRON_JOB: &str = "CronJob";

/// The pods that are left out of a report, because their Jobs were not read.
#[derive(Debug, Default)]
pub(super) struct UnreadJobs {
    pods: u64,
    /// The namespace and the name of each Job.
    jobs: BTreeSet<(ArcStr, ArcStr)>,
}

impl UnreadJobs {
    pub(super) fn add(&mut self, pod: &Pod, job: &Controller) {
        self.pods += 1;
        self.jobs.insert((pod.namespace.clone(), job.name.clone()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// How many pods are left out.
    pub(super) fn pods(&self) -> u64 {
        self.pods
    }

    /// Whether an incident of this owner may have pods that are left out. The name of a CronJob's Job begins with that of the
    /// CronJob.
    pub(super) fn may_be_of(&self, namespace: &str, owner: &Owner) -> bool {
        let first = |name: &str| (ArcStr::from(namespace), ArcStr::from(name));
        match owner.kind.as_str() {
            JOB => self.jobs.contains(&first(&owner.name)),
            CRON_JOB => {
                let start = format!("{}-", owner.name);
                let next = self.jobs.range(first(&start)..).next();
                next.is_some_and(|(own, job)| own == namespace && job.starts_with(&start))
            }
            _ => false,
        }
    }

    /// Whether an alert may be about pods that are left out. The status does not say whose incidents a common cause has.
    pub(super) fn may_concern(&self, alert: &AlertStatus) -> bool {
        !self.is_empty() && (!alert.members.is_empty() || self.may_be_of(&alert.namespace, &alert.owner))
    }
}

/// What a status from before a restart says about the pods of Jobs.
#[derive(Default)]
pub(super) struct StoredProblems<'a> {
    pods: HashSet<(&'a str, &'a str)>,
    jobs: HashSet<(&'a str, &'a str)>,
}

impl<'a> StoredProblems<'a> {
    pub(super) fn of(status: &'a OrchestrStatus) -> Self {
        let listed = status.problematic_pods.iter().map(|pod| (pod.namespace.as_str(), pod.name.as_str()));
        let examples = status
            .incidents
            .iter()
            .flat_map(|incident| incident.example_pods.iter().map(|pod| (incident.namespace.as_str(), pod.as_str())));
        let incidents = status.incidents.iter().map(|incident| (incident.namespace.as_str(), &incident.owner));
        let alerts = status.webhooks.iter().flat_map(|webhook| &webhook.alerts);
        let open = alerts.filter(|alert| alert.phase != AlertPhase::Resolved);
        let owners = incidents.chain(open.map(|alert| (alert.namespace.as_str(), &alert.owner)));
        let jobs = owners.filter(|(_, owner)| owner.kind == JOB).map(|(namespace, owner)| (namespace, &*owner.name));
        Self { pods: listed.chain(examples).collect(), jobs: jobs.collect() }
    }

    /// Whether the pod had a problem, or another pod of its Job.
    pub(super) fn has(&self, pod: &Pod, job: &Controller) -> bool {
        self.pods.contains(&(pod.namespace.as_str(), pod.name.as_str()))
            || self.jobs.contains(&(pod.namespace.as_str(), job.name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pods::testing::controller;

    fn pod(namespace: &str, name: &str) -> Pod {
        Pod { namespace: namespace.into(), name: name.into(), ..Pod::default() }
    }

    fn job(name: &str) -> Controller {
        controller(JOB, name, name)
    }

    #[test]
    fn an_unread_job_may_be_that_of_an_alert_or_a_cron_job() {
        let mut unread = UnreadJobs::default();
        for name in ["nightly-29", "nightly-30", "sums"] {
            unread.add(&pod("shop", name), &job(name));
        }
        assert_eq!(unread.pods(), 3);
        for (namespace, kind, name, expected) in [
            ("shop", "Job", "sums", true),
            ("shop", "Job", "sum", false),
            ("ml", "Job", "sums", false),
            ("shop", "CronJob", "nightly", true),
            ("shop", "CronJob", "night", false),
            ("shop", "CronJob", "nightly-2", false),
            ("ml", "CronJob", "nightly", false),
            ("shop", "Deployment", "sums", false),
        ] {
            let owner = Owner { kind: kind.to_owned(), name: name.to_owned() };
            assert_eq!(unread.may_be_of(namespace, &owner), expected, "{namespace}/{kind} {name}");
        }
        let alert = |kind: &str, members: &[&str]| -> AlertStatus {
            serde_json::from_value(json!({
                "key": "a", "namespace": "shop", "owner": {"kind": kind, "name": "node-1"}, "kind": "Crash",
                "reason": "Error", "since": "2026-11-01T10:00:00Z", "phase": "Firing", "members": members,
            }))
            .unwrap()
        };
        assert!(unread.may_concern(&alert("Node", &["b"])) && !unread.may_concern(&alert("Deployment", &[])));
        assert!(!UnreadJobs::default().may_concern(&alert("Node", &["b"])));
    }

    #[test]
    fn a_status_names_problems_by_pods_incidents_and_alerts() {
        let status = serde_json::from_value(json!({
            "problematicPods": [{
                "name": "a-1", "namespace": "shop", "status": "Error", "reason": "Error", "since": "2026-11-01T10:00:00Z",
            }],
            "incidents": [{
                "key": "1", "namespace": "shop", "owner": {"kind": "CronJob", "name": "b"}, "reason": "Error", "pods": 2,
                "since": "2026-11-01T10:00:00Z", "examplePods": ["b-1"],
            }],
            "webhooks": [{"name": "ops", "alerts": [{
                "key": "2", "namespace": "shop", "owner": {"kind": "Job", "name": "c"}, "reason": "Error",
                "since": "2026-11-01T10:00:00Z", "phase": "Firing",
            }, {
                "key": "3", "namespace": "shop", "owner": {"kind": "Job", "name": "d"}, "reason": "Error",
                "since": "2026-11-01T10:00:00Z", "phase": "Resolved",
            }]}],
        }))
        .unwrap();
        let stored = StoredProblems::of(&status);
        for (namespace, name, own, expected) in [
            ("shop", "a-1", "a", true),
            ("ml", "a-1", "a", false),
            ("shop", "b-1", "b-29", true),
            ("shop", "b-2", "b-29", false),
            ("shop", "c-7", "c", true),
            ("shop", "d-7", "d", false),
        ] {
            assert_eq!(stored.has(&pod(namespace, name), &job(own)), expected, "{namespace}/{name}");
        }
    }
}
