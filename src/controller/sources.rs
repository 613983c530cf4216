//! The watches that the controller consumes.

use futures::stream::BoxStream;

use crate::{api::StoredObject, events::WatchedEvent, pods::WatchedPod, watch::WatchUpdate};

use super::watch_health::Scope;

/// Updates of pods, in batches of those that are ready.
pub(crate) type PodUpdates = BoxStream<'static, Vec<(Scope, WatchUpdate<WatchedPod>)>>;

/// Updates of events, in batches of those that are ready.
pub(crate) type EventUpdates = BoxStream<'static, Vec<(Scope, WatchUpdate<WatchedEvent>)>>;

/// The watches, each update with the scope of its watch.
pub(crate) struct Sources {
    /// `Orchestr` objects.
    pub(crate) objects: BoxStream<'static, (Scope, WatchUpdate<StoredObject>)>,
    /// Opens the watches of pods. It is called when all objects are known, and again when an object's thresholds reach
    /// further back than the failures that were kept.
    pub(crate) open_pods: Box<dyn Fn() -> PodUpdates + Send>,
    /// Warning events. They are received from the time on at which pods are first watched.
    pub(crate) events: EventUpdates,
    /// The scopes of all three.
    pub(crate) scopes: Vec<Scope>,
}
