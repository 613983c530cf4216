//! Events: evidence for the cause of a problem. An event never decides whether a pod has a problem, because any event may be
//! lost. The watch is of Warnings only; the few kinds of type Normal that explain something are listed where they are needed.

mod event;
mod json;
mod list;
mod protobuf;
mod reasons;
mod store;
mod template;
mod watch;
mod watched_event;

pub use event::{Event, InvolvedObject};
pub(crate) use list::{NamespaceEvents, list_events, list_kills, list_namespace_events};
#[cfg(test)]
pub(crate) use reasons::known as known_reason;
pub(crate) use store::{CLAIM, EventStore, Recorded};
pub use watch::collections;
pub(crate) use watch::watch_events;
pub use watched_event::WatchedEvent;
