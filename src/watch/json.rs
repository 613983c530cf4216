//! Requests a collection in JSON, through kube's API client.

use std::fmt::Debug;

use futures::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture, stream};
use kube::{Api, Resource, ResourceExt, api::WatchParams, core};
use serde::de::DeserializeOwned;

use super::collection::{Collection, Part, Parts, Selection, WatchEvent, WatchEvents};

/// A bookmark with this annotation ends the initial events of a streaming list.
pub(crate) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A collection in JSON. `map` converts each object.
pub(crate) struct Json<K, F> {
    pub(crate) api: Api<K>,
    pub(crate) selection: Selection,
    pub(crate) map: F,
}

impl<K, O, F> Collection for Json<K, F>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    O: Send + 'static,
    F: Fn(K) -> O + Copy + Send + Sync + 'static,
{
    type Object = O;

    fn page<'a>(&'a self, token: Option<&str>) -> BoxFuture<'a, kube::Result<Parts<O>>> {
        let params = self.selection.list(token);
        let map = self.map;
        async move {
            let list = self.api.list(&params).await?;
            let token = list.metadata.continue_.filter(|token| !token.is_empty());
            let resource_version = list.metadata.resource_version.unwrap_or_default();
            if token.is_none() && resource_version.is_empty() {
                return Err(kube::Error::SerdeError(serde::de::Error::custom("a list without a resource version")));
            }
            let objects = list.items.into_iter().map(move |object| Ok(Part::Object(map(object))));
            let end = Ok(Part::End { token, resource_version });
            Ok(stream::iter(objects.chain([end])).boxed())
        }
        .boxed()
    }

    fn watch<'a>(
        &'a self,
        params: &WatchParams,
        resource_version: &str,
    ) -> BoxFuture<'a, kube::Result<WatchEvents<O>>> {
        let (params, resource_version, map) = (self.selection.watch(params), resource_version.to_owned(), self.map);
        async move {
            let events = self.api.watch(&params, &resource_version).await?;
            // kube does not distinguish a regular end from a cut connection, so this never sends `WatchEvent::End`.
            let events = events.map_ok(move |event| match event {
                core::WatchEvent::Added(object) | core::WatchEvent::Modified(object) => {
                    let resource_version = object.resource_version().unwrap_or_default();
                    WatchEvent::Applied { object: map(object), resource_version }
                }
                core::WatchEvent::Deleted(object) => {
                    let resource_version = object.resource_version().unwrap_or_default();
                    WatchEvent::Deleted { object: map(object), resource_version }
                }
                core::WatchEvent::Bookmark(bookmark) => WatchEvent::Bookmark {
                    ends_list: bookmark.metadata.annotations.contains_key(INITIAL_EVENTS_END),
                    resource_version: bookmark.metadata.resource_version,
                },
                core::WatchEvent::Error(status) => WatchEvent::Error(status),
            });
            Ok(events.boxed())
        }
        .boxed()
    }
}
