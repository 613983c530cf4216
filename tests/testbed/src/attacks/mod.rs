//! A tenant who attacks the operator, and a victim whose status is measured meanwhile.
//!
//! The tenant has the ClusterRoles `admin` and `orchestr-editor` in its own namespaces and nothing else, so each request
//! is one that any team of a shared cluster may send. What a kubelet writes for the tenant's pods (statuses, logs) is
//! written by the testbed.
//!
//! Each attack is bounded in size and time, and goes to the control plane on loopback only.

mod objects;
mod pods;
mod tenant;
mod victim;

use std::time::{Duration, Instant};

pub use tenant::{Requests, Tenant};
pub use victim::{Latencies, Victim};

use crate::{control_plane::ControlPlane, error::Result, kubelet::Kubelet};

/// What a tenant can do to the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Redaction patterns that take quadratic time, over long logs and termination messages.
    Patterns,
    /// Glob patterns with many alternatives.
    Globs,
    /// Many objects, each with a large status about the same failing pods.
    Objects,
    /// Objects that are created and deleted all the time, each with incidents and therefore events.
    Churn,
    /// Pods with many long labels and finalizers, without any Orchestr object.
    Pods,
    /// Long logs of pods that restart all the time, read with different limits by each object.
    Logs,
    /// `thresholds.restarted` raised by a millisecond at a time.
    Thresholds,
    /// Webhooks whose Secrets do not exist.
    Webhooks,
    /// Failed pods with forged owners: Jobs and ReplicaSets that do not exist, with names that contain control and bidi
    /// characters.
    Owners,
    /// Warning events with huge messages about pods and about controllers that do not exist.
    Events,
    /// Objects with ten webhooks, 20 silences and seven quiet hours each, over the same pods that cannot be scheduled, whose
    /// incidents change all the time.
    Silences,
}

impl Attack {
    /// All attacks.
    pub const ALL: [Self; 11] = [
        Self::Patterns,
        Self::Globs,
        Self::Objects,
        Self::Churn,
        Self::Pods,
        Self::Logs,
        Self::Thresholds,
        Self::Webhooks,
        Self::Owners,
        Self::Events,
        Self::Silences,
    ];

    /// Its name in tables and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Patterns => "patterns",
            Self::Globs => "globs",
            Self::Objects => "objects",
            Self::Churn => "churn",
            Self::Pods => "pods",
            Self::Logs => "logs",
            Self::Thresholds => "thresholds",
            Self::Webhooks => "webhooks",
            Self::Owners => "owners",
            Self::Events => "events",
            Self::Silences => "silences",
        }
    }
}

/// How much of everything an attack creates.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Orchestr objects of one attack.
    pub objects: usize,
    /// Failing pods of one attack.
    pub pods: usize,
    /// Pods with many long labels.
    pub labelled_pods: usize,
    /// Pods that cannot be scheduled, with long names and links.
    pub unscheduled_pods: usize,
}

impl Size {
    /// As large as one team of a real cluster could make it: `deploy/tenancy/quota.yaml` allows it 20 objects.
    pub const FULL: Self = Self { objects: 20, pods: 100, labelled_pods: 600, unscheduled_pods: 1_500 };
    /// Enough to see that nothing breaks, within seconds and with a build that is not optimised.
    pub const SHORT: Self = Self { objects: 6, pods: 8, labelled_pods: 20, unscheduled_pods: 20 };
}

/// An attack that is ready to begin: its tenant has a namespace for it.
pub struct PreparedAttack<'a> {
    attack: Attack,
    size: Size,
    tenant: Tenant,
    plane: &'a ControlPlane,
    kubelet: &'a Kubelet,
}

impl<'a> PreparedAttack<'a> {
    /// Creates the tenant's namespace, and what the operator finds when it starts.
    /// Fails if the namespace or the pods cannot be created: requests of the tenant that are refused are only counted.
    pub async fn new(attack: Attack, size: Size, plane: &'a ControlPlane, kubelet: &'a Kubelet) -> Result<Self> {
        let tenant = Tenant::new(plane, &format!("red-{}", attack.name())).await?;
        let prepared = Self { attack, size, tenant, plane, kubelet };
        match attack {
            Attack::Pods => prepared.create_labelled_pods().await?,
            Attack::Owners => prepared.load_forged_owners().await?,
            Attack::Silences => prepared.load_unscheduled_pods().await?,
            Attack::Globs | Attack::Webhooks => {}
            Attack::Patterns | Attack::Objects | Attack::Churn | Attack::Logs | Attack::Thresholds | Attack::Events => {
                prepared.load_failing_pods().await?;
            }
        }
        prepared.create_objects().await?;
        Ok(prepared)
    }

    /// Keeps attacking until `end`.
    /// Fails if etcd cannot be written: requests of the tenant that are refused are only counted.
    pub async fn go_on(&self, end: Instant) -> Result<()> {
        match self.attack {
            // The objects are the attack. Restarting pods make the operator judge them again.
            Attack::Patterns | Attack::Logs | Attack::Objects => self.restart_pods(end).await,
            Attack::Churn => self.churn_objects(end).await,
            Attack::Thresholds => self.raise_threshold(end).await,
            Attack::Globs => self.edit_objects(end).await,
            Attack::Pods => self.relabel_pods(end).await,
            Attack::Events => self.create_events(end).await,
            Attack::Silences => self.change_severities(end).await,
            Attack::Webhooks | Attack::Owners => {
                tokio::time::sleep_until(end.into()).await;
                Ok(())
            }
        }
    }

    /// The attack's name.
    pub fn name(&self) -> &'static str {
        self.attack.name()
    }

    /// Waits until the admission policy confines the tenant to its own namespace.
    pub async fn until_confined(&self, limit: Duration) -> Result<()> {
        self.tenant.until_confined(limit).await
    }

    /// The tenant's requests so far.
    pub fn requests(&self) -> Requests {
        self.tenant.requests()
    }
}
