//! Pods that should exist, but that their controllers cannot create.

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    api::{Owner, Ownership},
    diagnosis::Explanation,
};

/// The missing pods of one owner. They belong to one incident, which has no example pods.
#[derive(Clone, Debug, PartialEq)]
pub struct MissingPods {
    pub namespace: String,
    /// The top controller.
    pub owner: Owner,
    /// The controllers that cannot create pods: ReplicaSets of a Deployment, Jobs of a CronJob, or the owner itself.
    pub controllers: Vec<Owner>,
    pub reason: &'static str,
    pub since: Timestamp,
    /// The threshold: how long after `since` the state became a problem.
    pub tolerated: Duration,
    pub missing: u64,
    /// How many pods these controllers should have.
    pub of: u64,
    pub explanation: Explanation,
    /// The annotations of the pod template, or the values that an earlier status listed; absent if there are none.
    pub ownership: Option<Box<Ownership>>,
}
