//! Watches the metadata of namespaces, for the annotations that say who is responsible for their pods.

use std::time::Duration;

use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, Resource, core::PartialObjectMeta};

use crate::{
    api::Ownership,
    watch::{
        StreamingLists, WatchUpdate,
        collection::{Collection, Selection},
        decode::Decoder,
        watch_collection,
    },
};

/// A namespace, reduced to what is used of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchedNamespace {
    pub(crate) name: String,
    /// Absent without annotations that are used.
    pub(crate) ownership: Option<Box<Ownership>>,
}

/// Watches all namespaces. The stream never ends.
pub(crate) fn watch_namespaces(
    client: Client,
    forbidden_confirmation: Duration,
) -> BoxStream<'static, WatchUpdate<WatchedNamespace>> {
    let (path, decoder) = (Namespace::url_path(&(), None), Decoder::json(watched));
    let collection = Collection::new(client, &path, Selection::default(), decoder).only_metadata();
    // There are few namespaces, and every API server supports paged lists.
    watch_collection(collection, StreamingLists::Never, forbidden_confirmation)
}

/// The annotations of a namespace, if it has any that are used.
///
/// # Errors
/// When the API server does not return it.
pub(crate) async fn read_ownership(client: &Client, namespace: &str) -> kube::Result<Option<Box<Ownership>>> {
    Ok(watched(Api::all(client.clone()).get_metadata(namespace).await?).ownership)
}

fn watched(namespace: PartialObjectMeta<Namespace>) -> WatchedNamespace {
    let mut ownership = Ownership::default();
    for (name, value) in namespace.metadata.annotations.iter().flatten() {
        ownership.set(name, Some(value));
    }
    WatchedNamespace { name: namespace.metadata.name.unwrap_or_default(), ownership: ownership.non_empty() }
}
