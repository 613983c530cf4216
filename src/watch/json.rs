//! Requests a collection in JSON. Watches use kube's API client. Lists do not: it would hold a whole page in memory, its
//! text and its objects.

use std::fmt::Debug;

use futures::{AsyncBufRead, AsyncBufReadExt, FutureExt, StreamExt, TryStreamExt, future::BoxFuture, stream};
use http::Request as HttpRequest;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::WatchParams,
    core::{self, Request},
};
use serde::de::{DeserializeOwned, Error};

use super::{
    collection::{Collection, Part, Parts, Selection, WatchEvent, WatchEvents, version_of},
    json_page::{JsonPage, PageMetadata},
};

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
        let request = Request::new(self.api.resource_url()).list(&self.selection.list(token));
        request_page(self.api.clone().into_client(), request.map_err(kube::Error::BuildRequest), self.map).boxed()
    }

    fn version(&self) -> BoxFuture<'_, kube::Result<String>> {
        let request = Request::new(self.api.resource_url()).list(&Selection::one());
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
            let events = self.api.watch(&params, &resource_version).await?;
            Ok(events.map_ok(move |event| watch_event(event, map)).boxed())
        }
        .boxed()
    }
}

/// Requests a page.
pub(crate) async fn request_page<K, O, F>(
    client: Client,
    request: kube::Result<HttpRequest<Vec<u8>>>,
    map: F,
) -> kube::Result<Parts<O>>
where
    K: DeserializeOwned + Send + 'static,
    O: Send + 'static,
    F: Fn(K) -> O + Copy + Send + Sync + 'static,
{
    let body = client.request_stream(request?).await?;
    Ok(read_page(Box::pin(body), map))
}

/// The objects of a page as they arrive.
fn read_page<K, O, B, F>(body: B, map: F) -> Parts<O>
where
    K: DeserializeOwned + Send + 'static,
    O: Send + 'static,
    B: AsyncBufRead + Unpin + Send + 'static,
    F: Fn(K) -> O + Copy + Send + Sync + 'static,
{
    let page = (body, JsonPage::default());
    let parts = stream::try_unfold(Some(page), move |page| async move {
        let Some((mut body, mut page)) = page else { return Ok(None) };
        Ok(Some(match next_object::<K>(&mut body, &mut page).await? {
            Some(object) => (Part::Object(map(object)), Some((body, page))),
            None => (end(&page)?, None),
        }))
    });
    parts.boxed()
}

/// An event of kube. kube does not distinguish a regular end from a cut connection, so there is no `WatchEvent::End`.
pub(super) fn watch_event<K: ResourceExt, O>(event: core::WatchEvent<K>, map: impl Fn(K) -> O) -> WatchEvent<O> {
    match event {
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
    }
}

/// The next object of a page; absent at the end of the response.
async fn next_object<K: DeserializeOwned>(
    body: &mut (impl AsyncBufRead + Unpin),
    page: &mut JsonPage,
) -> kube::Result<Option<K>> {
    loop {
        let bytes = body.fill_buf().await.map_err(kube::Error::ReadEvents)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let (read, object) = page.read(bytes).map_err(|error| kube::Error::SerdeError(Error::custom(error)))?;
        body.consume_unpin(read);
        if let Some(object) = object {
            return serde_json::from_slice(&object).map(Some).map_err(kube::Error::SerdeError);
        }
    }
}

fn end<O>(page: &JsonPage) -> kube::Result<Part<O>> {
    let PageMetadata { token, resource_version } = page.end().map_err(kube::Error::SerdeError)?;
    let token = token.filter(|token| !token.is_empty());
    let resource_version = resource_version.unwrap_or_default();
    if token.is_none() && resource_version.is_empty() {
        return Err(kube::Error::SerdeError(Error::custom("a list without a resource version")));
    }
    Ok(Part::End { token, resource_version })
}
