//! Watches pods.

use std::time::Duration;

use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::{Client, Resource};

use crate::watch::{
    StreamingLists, WatchUpdate,
    collection::{Collection, Selection},
    decode::Decoder,
    protobuf, watch_collection,
};

use super::WatchedPod;

/// Watches the pods of a namespace, or of all namespaces. The stream never ends.
pub(crate) fn watch_pods(
    client: Client,
    namespace: Option<&str>,
    lists: StreamingLists,
    forbidden_confirmation: Duration,
) -> BoxStream<'static, WatchUpdate<WatchedPod>> {
    watch_collection(selected_pods(client, namespace, Selection::default()), lists, forbidden_confirmation)
}

/// The pods of a namespace, or of all namespaces. `page_size` applies to lists that are not streamed.
#[must_use]
pub fn pods(client: Client, namespace: Option<&str>, page_size: u32) -> Collection<WatchedPod> {
    selected_pods(client, namespace, Selection { page_size, ..Selection::default() })
}

pub(crate) fn selected_pods(client: Client, namespace: Option<&str>, selection: Selection) -> Collection<WatchedPod> {
    Collection::new(client, &ApiPod::url_path(&(), namespace), selection, decoder())
}

/// Decodes a complete page in protobuf. For benchmarks: a [`Collection`] decodes each pod as it arrives.
#[doc(hidden)]
#[must_use]
pub fn read_page(bytes: &[u8]) -> Option<Vec<WatchedPod>> {
    protobuf::read_page(bytes, &decoder())
}

fn decoder() -> Decoder<WatchedPod> {
    Decoder::new::<ApiPod>(WatchedPod::from_json, WatchedPod::from_protobuf)
}
