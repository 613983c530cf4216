//! The pod model, and how pods are decoded, watched and selected.

mod bounds;
mod convert;
mod history;
mod message;
mod pod;
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
pub use selection::PodSelection;
pub(crate) use selection::{Labels, matches};
pub(crate) use texts::TextKind;
pub use uid::Uid;
pub use watch::{pods, read_page};
pub(crate) use watch::{selected_pods, watch_pods};
pub use watched_pod::{DecodeError, UndecodablePod, WatchedPod, from_json};

#[cfg(test)]
mod tests;
