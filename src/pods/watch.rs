//! Watches pods, in protobuf or else in JSON.

use std::time::Duration;

use futures::stream::BoxStream;
use kube::{Api, Client};

use crate::watch::{PAGE_SIZE, StreamingLists, WatchUpdate, collection::Selection, json::Json, watch_either};

use super::{JsonPod, WatchedPod, protobuf};

/// Watches the pods of a namespace, or of all namespaces. The stream never ends.
pub(crate) fn watch_pods(
    client: Client,
    namespace: Option<&str>,
    lists: StreamingLists,
    forbidden_confirmation: Duration,
) -> BoxStream<'static, WatchUpdate<WatchedPod>> {
    let api: Api<JsonPod> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let json = Json { api, selection: Selection::default(), map: |pod: JsonPod| pod.pod };
    let protobuf = protobuf::Pods::new(client, namespace, PAGE_SIZE);
    watch_either(Box::new(protobuf), Some(Box::new(json)), lists, forbidden_confirmation)
}
