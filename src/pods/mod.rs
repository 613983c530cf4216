//! Pods: what is kept of one, how it is decoded, watched and indexed.

mod cohort;
mod decode;
mod history;
mod index;
mod pod;
pub mod protobuf;
mod seen;
mod unreadable;
mod watch;

pub use decode::{DecodeError, from_json};
pub use history::{History, StartCause};
pub use index::{Index, ViewId};
pub use pod::{
    ContainerSpec, ContainerState, ContainerStatus, Controller, ExitCodes, Pod, PodCondition, RestartPolicy, Running,
    TEXT_LIMIT, Terminated, Uid, Waiting,
};
pub use seen::{JsonPod, SeenPod, Unreadable};
pub use watch::watch_pods;
