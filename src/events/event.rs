//! An event, reduced to the fields that serve as evidence.

use jiff::Timestamp;

/// An event. Repetitions of the same event are counted.
///
/// Like that of a pod, its content is never trusted: texts are cut to a bound as they are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub involved: InvolvedObject,
    /// For example FailedMount.
    pub reason: String,
    /// May quote the output of a probe, and so contain secrets.
    pub message: String,
    /// How often it occurred: at least 1.
    pub count: u32,
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
}

/// The object that an event concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvolvedObject {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The container that `fieldPath` names, as in `spec.containers{app}`; empty if none.
    pub container: String,
}
