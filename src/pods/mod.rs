//! Pods: what is kept of one, how it is decoded, watched and indexed.

mod decode;
mod history;
mod pod;
pub mod protobuf;
mod selection;
mod watch;
mod watched_pod;

pub use decode::{DecodeError, from_json};
pub use history::{History, StartCause};
pub use pod::{
    ContainerSpec, ContainerState, ContainerStatus, Controller, ExitCodes, Pod, PodCondition, RestartPolicy, Running,
    TEXT_LIMIT, Terminated, Uid, Waiting,
};
pub use selection::PodSelection;
pub use watch::watch_pods;
pub use watched_pod::{JsonPod, UndecodablePod, WatchedPod};
