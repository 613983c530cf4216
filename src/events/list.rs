//! Lists the Warning events about one pod.

use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Event as ApiEvent;
use kube::{Api, Client};
use tokio::time::timeout;

use crate::{
    pods::Uid,
    watch::{
        collection::{Collection, Part, Selection, WrongEncoding},
        json::Json,
        protobuf::Protobuf,
    },
};

use super::{WatchedEvent, json, protobuf::DecodeEvent};

/// How many events are requested. More are rare, because those that occur again are counted.
const LIMIT: u32 = 50;
const TIMEOUT: Duration = Duration::from_secs(10);

/// The first Warning events about a pod.
///
/// # Errors
/// When the API server does not return them in time. There is no need to retry, because events are only evidence.
pub(crate) async fn list_events(client: &Client, namespace: &str, pod: Uid) -> kube::Result<Vec<WatchedEvent>> {
    let selection = Selection {
        page_size: LIMIT,
        list_fields: Some(format!("involvedObject.uid={pod},type=Warning")),
        ..Selection::default()
    };
    let list = async {
        let protobuf = Protobuf::<DecodeEvent>::new(client.clone(), Some(namespace), selection.clone());
        match first_page(&protobuf).await {
            Err(kube::Error::Service(error)) if error.is::<WrongEncoding>() => {
                let api = Api::<ApiEvent>::namespaced(client.clone(), namespace);
                first_page(&Json { api, selection, map: json::convert }).await
            }
            result => result,
        }
    };
    let timed_out = || kube::Error::ReadEvents(std::io::ErrorKind::TimedOut.into());
    timeout(TIMEOUT, list).await.unwrap_or_else(|_| Err(timed_out()))
}

/// The objects of a page. At most [`LIMIT`], also if the server sends more.
async fn first_page(events: &impl Collection<Object = WatchedEvent>) -> kube::Result<Vec<WatchedEvent>> {
    let mut parts = events.page(None).await?;
    let mut found = Vec::new();
    while let Some(Part::Object(event)) = parts.try_next().await? {
        found.push(event);
        if found.len() >= LIMIT as usize {
            break;
        }
    }
    Ok(found)
}
