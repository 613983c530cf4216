//! Lists the events about one pod, or about all pods and controllers of a namespace, and watches those that occur from now on.

use std::time::Duration;

use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Event as ApiEvent;
use kube::{Client, Resource};
use tokio::time::timeout;

use crate::{
    pods::Uid,
    watch::{
        StreamingLists, WatchUpdate,
        collection::{Collection, PAGE_SIZE, Selection},
        decode::Decoder,
        watch_collection,
    },
};

use super::WatchedEvent;

/// How many events about one pod are requested. More are rare, because those that occur again are counted.
const OF_POD: u32 = 100;
/// How many events of a namespace are read. Some thousand are possible if hundreds of pods are broken.
const OF_NAMESPACE: usize = 10_000;
/// How many events about preempted pods are read.
const PREEMPTED: usize = 1000;
const TIMEOUT: Duration = Duration::from_secs(10);

/// Events of a namespace.
#[derive(Debug)]
pub(crate) struct NamespaceEvents {
    pub(crate) events: Vec<WatchedEvent>,
    /// Whether these are all: at most [`OF_POD`] or [`OF_NAMESPACE`] are read.
    pub(crate) is_complete: bool,
}

/// Which events of a namespace are listed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Listed {
    /// The first about a pod, also those of type Normal: about a kill, the kubelet writes one of that type.
    OfPod(Uid),
    /// All Warnings. The API server reads as much for them as for those about one pod, because it has no index of the pods
    /// that events are about.
    Warnings,
    /// Those about kills of containers. Their type is Normal.
    Kills,
    /// Those about pods that the scheduler has preempted. Their type is Normal as well.
    Preempted,
}

/// Lists events of a namespace.
///
/// # Errors
/// When the API server does not return them in time. There is no need to retry, because events are only evidence.
pub(crate) async fn list_events(client: &Client, namespace: &str, listed: Listed) -> kube::Result<NamespaceEvents> {
    let (fields, page_size, limit) = match listed {
        Listed::OfPod(uid) => (format!("involvedObject.uid={uid}"), OF_POD, OF_POD as usize),
        Listed::Warnings => ("type=Warning".to_owned(), PAGE_SIZE, OF_NAMESPACE),
        Listed::Kills => ("type=Normal,reason=Killing".to_owned(), PAGE_SIZE, OF_NAMESPACE),
        Listed::Preempted => ("type=Normal,reason=Preempted".to_owned(), PAGE_SIZE, PREEMPTED),
    };
    let selection = Selection { page_size, list_fields: Some(fields), ..Selection::default() };
    let (collection, mut events) = (collection(client.clone(), Some(namespace), selection), Vec::new());
    match timeout(TIMEOUT, collection.for_each(limit, |event| events.push(event))).await {
        Ok(is_complete) => Ok(NamespaceEvents { is_complete: is_complete?, events }),
        Err(_) => Err(kube::Error::ReadEvents(std::io::ErrorKind::TimedOut.into())),
    }
}

/// Watches the Warning events of a namespace, or of all namespaces, that occur from now on. The stream never ends, and never
/// yields [`WatchUpdate::Listed`].
pub(crate) fn watch_events(
    client: Client,
    namespace: Option<&str>,
    forbidden_confirmation: Duration,
) -> BoxStream<'static, WatchUpdate<WatchedEvent>> {
    watch_collection(warnings(client, namespace), StreamingLists::Never, forbidden_confirmation)
}

/// The Warning events from now on.
///
/// They are not listed: there may be a hundred thousand of them, which the API server reads from etcd without a cache. A list
/// of one event gives the resource version to start from. It must come from the events themselves, because they may be
/// stored in another etcd than the pods. When a watch cannot resume, it starts in the present again, and the events in between
/// are lost.
#[must_use]
pub fn warnings(client: Client, namespace: Option<&str>) -> Collection<WatchedEvent> {
    let selection = Selection { watch_fields: Some("type=Warning".to_owned()), ..Selection::default() };
    collection(client, namespace, selection).starting_now()
}

fn collection(client: Client, namespace: Option<&str>, selection: Selection) -> Collection<WatchedEvent> {
    let decoder = Decoder::new::<ApiEvent>(WatchedEvent::from_json, WatchedEvent::from_protobuf);
    Collection::new(client, &ApiEvent::url_path(&(), namespace), selection, decoder)
}
