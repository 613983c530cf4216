//! The pod model, and how pods are decoded, watched and selected.

mod history;
mod json;
mod pod;
mod probe;
pub mod protobuf;
mod selection;
mod uid;
mod watch;
mod watched_pod;

pub use history::{History, StartCause};
pub use json::{JsonPod, from_json};
pub use pod::{
    ContainerSpec, ContainerState, ContainerStatus, Controller, ExitCodes, Pod, PodCondition, Probe, RestartPolicy,
    Running, TEXT_LIMIT, Terminated, Waiting,
};
pub use selection::PodSelection;
pub use uid::Uid;
pub(crate) use watch::watch_pods;
pub use watched_pod::{DecodeError, UndecodablePod, WatchedPod};
