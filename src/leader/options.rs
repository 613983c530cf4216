//! The flags of leader election.

/// Which Lease to use, and under which name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseOptions {
    pub name: String,
    /// Absent: the namespace of the pod, or of the kubeconfig's context.
    pub namespace: Option<String>,
    /// The name of this replica in the Lease, to which a random suffix is added: the name of its pod.
    pub holder: String,
}
