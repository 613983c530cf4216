//! Requests only the metadata of the objects of a collection, in JSON.

use std::fmt::Debug;

use futures::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture};
use kube::{
    Api, Client, Resource,
    api::WatchParams,
    core::{PartialObjectMeta, Request},
};
use serde::de::DeserializeOwned;

use super::{
    collection::{Collection, Parts, Selection, WatchEvents, version_of},
    json::{request_page, watch_event},
};

/// The metadata of a collection. `map` converts that of each object.
pub(crate) struct Metadata<K, F> {
    pub(crate) api: Api<K>,
    pub(crate) selection: Selection,
    pub(crate) map: F,
}

impl<K, O, F> Collection for Metadata<K, F>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Default,
    O: Send + 'static,
    F: Fn(PartialObjectMeta<K>) -> O + Copy + Send + Sync + 'static,
{
    type Object = O;

    fn page<'a>(&'a self, token: Option<&str>) -> BoxFuture<'a, kube::Result<Parts<O>>> {
        let request = Request::new(self.api.resource_url()).list_metadata(&self.selection.list(token));
        request_page(self.api.clone().into_client(), request.map_err(kube::Error::BuildRequest), self.map).boxed()
    }

    fn version(&self) -> BoxFuture<'_, kube::Result<String>> {
        let request = Request::new(self.api.resource_url()).list_metadata(&Selection::one());
        let (client, map) = (self.api.clone().into_client(), self.map);
        async move { version_of(request_page(client, request.map_err(kube::Error::BuildRequest), map).await?).await }
            .boxed()
    }

    fn cluster_client(&self) -> Option<Client> {
        self.api.namespace().is_none().then(|| self.api.clone().into_client())
    }

    fn watch<'a>(
        &'a self,
        params: &WatchParams,
        resource_version: &str,
    ) -> BoxFuture<'a, kube::Result<WatchEvents<O>>> {
        let (params, resource_version, map) = (self.selection.watch(params), resource_version.to_owned(), self.map);
        async move {
            let events = self.api.watch_metadata(&params, &resource_version).await?;
            Ok(events.map_ok(move |event| watch_event(event, map)).boxed())
        }
        .boxed()
    }
}
