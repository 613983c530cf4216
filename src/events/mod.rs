//! Events: evidence for the cause of a problem. An event never decides whether a pod has a problem, because any event may be
//! lost. The watch is of Warnings only; the few kinds of type Normal that explain something are listed where they are needed.

mod event;
mod list;
mod store;

#[cfg(test)]
pub(crate) use event::known_reason;
pub use event::{Event, InvolvedObject, WatchedEvent};
pub use list::warnings;
pub(crate) use list::{Listed, NamespaceEvents, list_events, watch_events};
pub(crate) use store::{CLAIM, EventStore, Recorded};
