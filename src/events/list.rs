//! Lists the events about one pod, or about all pods and controllers of a namespace.

use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Event as ApiEvent;
use kube::{Api, Client};
use tokio::time::timeout;

use crate::{
    pods::Uid,
    watch::{
        collection::{Collection, PAGE_SIZE, Part, Selection, WrongEncoding},
        json::Json,
        protobuf::Protobuf,
    },
};

use super::{WatchedEvent, json, protobuf::DecodeEvent};

/// How many events about one pod are requested. More are rare, because those that occur again are counted.
const OF_POD: u32 = 100;
/// How many events of a namespace are read. Some thousand are possible if hundreds of pods are broken.
const OF_NAMESPACE: usize = 10_000;
const TIMEOUT: Duration = Duration::from_secs(10);

/// Events of a namespace.
#[derive(Debug)]
pub(crate) struct NamespaceEvents {
    pub(crate) events: Vec<WatchedEvent>,
    /// Whether these are all: at most [`OF_NAMESPACE`] are read.
    pub(crate) is_complete: bool,
}

/// The first events about a pod, also those of type Normal: about a kill, the kubelet writes one of that type.
///
/// # Errors
/// When the API server does not return them in time. There is no need to retry, because events are only evidence.
pub(crate) async fn list_events(client: &Client, namespace: &str, pod: Uid) -> kube::Result<Vec<WatchedEvent>> {
    let fields = format!("involvedObject.uid={pod}");
    list(client, namespace, fields, OF_POD, OF_POD as usize).await
}

/// The Warning events of a namespace. The API server reads as much for them as for those about one pod, because it has no
/// index of the pods that events are about.
///
/// # Errors
/// As those of [`list_events`].
pub(crate) async fn list_namespace_events(client: &Client, namespace: &str) -> kube::Result<NamespaceEvents> {
    list_of_namespace(client, namespace, "type=Warning").await
}

/// The events about kills of containers in a namespace. Their type is Normal.
///
/// # Errors
/// As those of [`list_events`].
pub(crate) async fn list_kills(client: &Client, namespace: &str) -> kube::Result<NamespaceEvents> {
    list_of_namespace(client, namespace, "type=Normal,reason=Killing").await
}

async fn list_of_namespace(client: &Client, namespace: &str, fields: &str) -> kube::Result<NamespaceEvents> {
    let mut events = list(client, namespace, fields.to_owned(), PAGE_SIZE, OF_NAMESPACE + 1).await?;
    let is_complete = events.len() <= OF_NAMESPACE;
    events.truncate(OF_NAMESPACE);
    Ok(NamespaceEvents { events, is_complete })
}

async fn list(
    client: &Client,
    namespace: &str,
    fields: String,
    page_size: u32,
    limit: usize,
) -> kube::Result<Vec<WatchedEvent>> {
    let selection = Selection { page_size, list_fields: Some(fields), ..Selection::default() };
    let list = async {
        let protobuf = Protobuf::<DecodeEvent>::new(client.clone(), Some(namespace), selection.clone());
        match first_objects(&protobuf, limit).await {
            Err(kube::Error::Service(error)) if error.is::<WrongEncoding>() => {
                let api = Api::<ApiEvent>::namespaced(client.clone(), namespace);
                first_objects(&Json { api, selection, map: json::convert }, limit).await
            }
            result => result,
        }
    };
    let timed_out = || kube::Error::ReadEvents(std::io::ErrorKind::TimedOut.into());
    timeout(TIMEOUT, list).await.unwrap_or_else(|_| Err(timed_out()))
}

/// The first objects of a list. At most `limit`, also if the server sends more.
async fn first_objects(
    events: &impl Collection<Object = WatchedEvent>,
    limit: usize,
) -> kube::Result<Vec<WatchedEvent>> {
    let (mut found, mut next) = (Vec::new(), None);
    loop {
        let mut parts = events.page(next.as_deref()).await?;
        next = loop {
            match parts.try_next().await? {
                Some(Part::Object(event)) => found.push(event),
                Some(Part::End { token, .. }) => break token,
                None => break None,
            }
            if found.len() >= limit {
                return Ok(found);
            }
        };
        if next.is_none() {
            return Ok(found);
        }
    }
}
