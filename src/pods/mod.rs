//! The pod model, and how pods are decoded, watched and selected.

mod bounds;
mod convert;
mod history;
mod message;
mod pod;
pub mod protobuf;
mod requirements;
mod selection;
mod texts;
mod uid;
mod watch;
mod watched_pod;

#[cfg(test)]
pub(crate) mod testing;

pub(crate) use bounds::text_size;
pub use pod::{
    ContainerSpec, ContainerState, ContainerStatus, Controller, ExitCodes, FirstNames, History, HostPort, NodeTerm,
    NodeTerms, Omitted, Pod, PodCondition, Probe, Requirements, RestartPolicy, Running, StartCause, TEXT_LIMIT,
    Terminated, Toleration, Tolerations, UndeclaredPort, Waiting,
};
pub(crate) use selection::Labels;
pub use selection::PodSelection;
pub(crate) use texts::TextKind;
pub use uid::Uid;
pub(crate) use watch::watch_pods;
pub use watched_pod::{DecodeError, JsonPod, UndecodablePod, WatchedPod, from_json};

#[cfg(test)]
mod tests;
