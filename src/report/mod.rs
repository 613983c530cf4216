//! From findings to the object's status. Pure: the same input always gives the same bytes.

use jiff::Timestamp;

use crate::{
    api::OrchestrStatus,
    diagnosis::{ContainerFinding, Finding},
    logs::Tail,
    pods::Pod,
};

/// A pod with what is wrong with it.
#[derive(Clone, Copy, Debug)]
pub struct Troubled<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// What is wrong with it.
    pub finding: &'a Finding,
}

/// What an object's status is made of.
pub struct Input<'a> {
    /// The generation of the spec.
    pub generation: i64,
    /// `spec.report.maxPods`.
    pub max_pods: usize,
    /// How many pods the object selects.
    pub watched_pods: u64,
    /// Those of them with a problem, in any order.
    pub troubled: Vec<Troubled<'a>>,
    /// How many pods could not be decoded, and one of them.
    pub unreadable: Option<(u64, String)>,
    /// What was read of a container's log: absent while it wasn't looked for.
    pub tail: &'a dyn Fn(&Pod, &ContainerFinding) -> Option<&'a Tail>,
    /// The status as it stands in the API: transition times and the beginnings of problems that go on
    /// are kept from it.
    pub previous: Option<&'a OrchestrStatus>,
    /// The time.
    pub now: Timestamp,
}
