//! The items of a list-and-watch stream.

/// A change of a watched collection, or of the watch itself.
#[derive(Debug)]
pub enum WatchUpdate<K> {
    /// A new list begins. Objects that are not listed before [`WatchUpdate::Synced`] no longer exist.
    Relisting,
    /// An object of the new list.
    Listed(K),
    /// The new list is complete.
    Synced,
    /// An object was created or changed.
    Applied(K),
    /// An object was deleted.
    Deleted(K),
    /// The watch has resumed; missed events follow.
    Behind,
    /// All missed events have been received.
    CaughtUp,
    /// The cluster is in an earlier state than what was received, as after etcd was restored from a backup, or it is another
    /// cluster. A new list follows.
    WentBack,
    /// The API server forbids the list or the watch. Its message names the verb and the resource.
    Denied(String),
    /// Another error. The known objects stay valid, and the stream retries by itself.
    Failed(String),
}

/// The text for [`WatchUpdate::WentBack`] where it is reported like another error.
pub(crate) const WENT_BACK: &str = "the cluster was put back to an earlier state";

impl<K> WatchUpdate<K> {
    /// Whether it is about an object, and not about the watch.
    pub fn is_of_object(&self) -> bool {
        matches!(self, Self::Listed(_) | Self::Applied(_) | Self::Deleted(_))
    }
}
