//! What the controller is given: the watches that it consumes, and what all parts of the operator share.

use futures::stream::BoxStream;
use kube::Client;

use crate::{
    api::StoredObject, clock::ClusterClock, events::WatchedEvent, leader::Leadership, metrics::Metrics,
    namespaces::WatchedNamespace, pods::WatchedPod, watch::WatchUpdate,
};

use super::watch_health::Scope;

/// Updates of pods, in batches of those that are ready.
pub(crate) type PodUpdates = BoxStream<'static, Vec<(Scope, WatchUpdate<WatchedPod>)>>;

/// Updates of events, in batches of those that are ready.
pub(crate) type EventUpdates = BoxStream<'static, Vec<(Scope, WatchUpdate<WatchedEvent>)>>;

/// Updates of namespaces, in batches of those that are ready.
pub(crate) type NamespaceUpdates = BoxStream<'static, Vec<WatchUpdate<WatchedNamespace>>>;

/// Updates of `Orchestr` objects.
pub(crate) type ObjectUpdates = BoxStream<'static, (Scope, WatchUpdate<StoredObject>)>;

/// The watches, each update with the scope of its watch.
pub(crate) struct Sources {
    /// Opens the watches of `Orchestr` objects. It is called again when this replica begins to lead.
    pub(crate) open_objects: Box<dyn Fn() -> ObjectUpdates + Send>,
    /// Opens the watches of pods. It is called when all objects are known, and again when an object's thresholds reach
    /// further back than the failures that were kept: then only for a list.
    pub(crate) open_pods: Box<dyn Fn() -> PodUpdates + Send>,
    /// Warning events. They are received from the time on at which pods are first watched.
    pub(crate) events: EventUpdates,
    /// Namespaces; empty if only some are watched, because then there is no permission for it.
    pub(crate) namespaces: NamespaceUpdates,
}

/// What all parts of the operator share.
pub(crate) struct Shared {
    /// Its writes are [fenced](Leadership::fence).
    pub(crate) client: Client,
    pub(crate) clock: ClusterClock,
    pub(crate) metrics: Metrics,
    pub(crate) leadership: Leadership,
}
