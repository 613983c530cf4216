//! Watches Warning events from the present on, in protobuf or else in JSON.
//!
//! Events are not listed: there may be a hundred thousand of them, which the API server reads from etcd without a cache.
//! A list of one event gives the resource version to start from. It must come from the events themselves, because they
//! may be stored in another etcd than the pods. When a watch cannot resume, it starts in the present again, and the
//! events in between are lost.

use std::time::Duration;

use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Event as ApiEvent;
use kube::{Api, Client};

use crate::watch::{
    StreamingLists, WatchUpdate,
    collection::{Collection, Selection},
    from_now::FromNow,
    json::Json,
    protobuf::Protobuf,
    watch_either,
};

use super::{WatchedEvent, json, protobuf::DecodeEvent};

/// Watches the Warning events of a namespace, or of all namespaces. The stream never ends, and never yields
/// [`WatchUpdate::Listed`].
pub(crate) fn watch_events(
    client: Client,
    namespace: Option<&str>,
    forbidden_confirmation: Duration,
) -> BoxStream<'static, WatchUpdate<WatchedEvent>> {
    let [protobuf, json] = collections(client, namespace);
    watch_either(protobuf, Some(json), StreamingLists::Never, forbidden_confirmation)
}

/// The Warning events from the present on, in protobuf and in JSON.
#[must_use]
pub fn collections(client: Client, namespace: Option<&str>) -> [Box<dyn Collection<Object = WatchedEvent>>; 2] {
    let selection = Selection { watch_fields: Some("type=Warning".to_owned()), ..Selection::default() };
    let api: Api<ApiEvent> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let json = Json { api, selection: selection.clone(), map: json::convert };
    let protobuf = Protobuf::<DecodeEvent>::new(client, namespace, selection);
    [Box::new(FromNow(protobuf)), Box::new(FromNow(json))]
}
