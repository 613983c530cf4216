//! The requests for a collection of objects.

use std::{io, sync::Arc};

use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use http::{HeaderValue, header};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{ListParams, WatchParams},
    core::{Request, request},
};

use super::{
    decode::{Decoder, Part, WatchEvent},
    response::Response,
};

/// Objects per page of a list. Smaller pages cost round trips. Larger ones cost the API server more memory.
pub(crate) const PAGE_SIZE: u32 = 500;

/// After how many objects of a list other tasks may go on.
const AT_ONCE: usize = 50;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Compared with JSON, a list in protobuf costs the API server half the time and a watch a quarter, and the network carries
/// two thirds of the bytes (docs/performance.md). A server or a proxy that does not support it answers in JSON.
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf, application/json");

/// Which objects of a collection are requested.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    /// Objects per page of a list that is not streamed.
    pub(crate) page_size: u32,
    /// The field selector of lists.
    pub(crate) list_fields: Option<String>,
    /// The field selector of watches.
    pub(crate) watch_fields: Option<String>,
    /// The label selector of both.
    pub(crate) labels: Option<String>,
}

impl Default for Selection {
    fn default() -> Self {
        Self { page_size: PAGE_SIZE, list_fields: None, watch_fields: None, labels: None }
    }
}

/// A collection of objects, and how it is requested.
pub struct Collection<K> {
    client: Client,
    request: Request,
    /// Absent if only the metadata of objects is requested, for which kube knows the header.
    accept: Option<HeaderValue>,
    selection: Selection,
    /// Whether lists are empty: only their resource version is used, from which a watch starts.
    is_from_now: bool,
    decoder: Arc<Decoder<K>>,
}

impl<K: Send + 'static> Collection<K> {
    /// The objects with this path.
    pub(crate) fn new(client: Client, path: &str, selection: Selection, decoder: Decoder<K>) -> Self {
        let accept = Some(if decoder.from_protobuf.is_some() { PROTOBUF } else { JSON });
        let decoder = Arc::new(decoder);
        Self { client, request: Request::new(path), accept, selection, is_from_now: false, decoder }
    }

    /// Requests only the metadata of the objects.
    pub(crate) fn only_metadata(self) -> Self {
        Self { accept: None, ..self }
    }

    /// Leaves out the objects that exist when the list is requested.
    pub(crate) fn starting_now(self) -> Self {
        Self { is_from_now: true, ..self }
    }

    /// Requests JSON only, as from a server that does not support protobuf. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn in_json(self) -> Self {
        Self { accept: Some(JSON), ..self }
    }

    async fn send(&self, request: Result<http::Request<Vec<u8>>, request::Error>) -> kube::Result<Response<K>> {
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        if let Some(accept) = &self.accept {
            request.headers_mut().insert(header::ACCEPT, accept.clone());
        }
        Response::new(&self.client, request, Arc::clone(&self.decoder)).await
    }

    async fn list(&self, params: &ListParams) -> kube::Result<Parts<K>> {
        let request = match self.accept {
            Some(_) => self.request.list(params),
            None => self.request.list_metadata(params),
        };
        let response = self.send(request).await?;
        let parts = stream::unfold(response, async |mut response| {
            let part = response.next_part().await;
            Some((part, response))
        });
        Ok(parts.boxed())
    }

    /// Requests a page of a list: the first, or the one that a continue token refers to.
    pub(crate) async fn page(&self, token: Option<&str>) -> kube::Result<Parts<K>> {
        if self.is_from_now {
            let end = Part::End { token: None, resource_version: self.version().await? };
            return Ok(stream::once(async { Ok(end) }).boxed());
        }
        let Selection { page_size, list_fields, labels, .. } = self.selection.clone();
        let params = ListParams {
            continue_token: token.map(str::to_owned),
            field_selector: list_fields,
            label_selector: labels,
            ..ListParams::default().limit(page_size)
        };
        self.list(&params).await
    }

    /// The present resource version of the collection: that of a list of one object, which no cache delays. A selector would
    /// only make the API server search for an object that matches.
    pub(crate) async fn version(&self) -> kube::Result<String> {
        let mut parts = self.list(&ListParams::default().limit(1)).await?;
        while let Some(part) = parts.try_next().await? {
            match part {
                Part::Object(_) => {}
                Part::End { resource_version, .. } if resource_version.is_empty() => {
                    return Err(kube::Error::ReadEvents(io::Error::other("a list without a resource version")));
                }
                Part::End { resource_version, .. } => return Ok(resource_version),
            }
        }
        Err(kube::Error::ReadEvents(io::ErrorKind::UnexpectedEof.into()))
    }

    /// The UID of the namespace `kube-system`, which another cluster at the same address does not share. Absent if it cannot
    /// be read, for example without the permission to list namespaces. It is not asked for if the objects are those of one
    /// namespace: who may read it usually may not read others.
    pub(super) async fn cluster(&self) -> Option<String> {
        if self.request.url_path.contains("/namespaces/") {
            return None;
        }
        let only = ListParams::default().fields("metadata.name=kube-system");
        let namespaces = Api::<Namespace>::all(self.client.clone()).list_metadata(&only).await.ok()?;
        namespaces.items.into_iter().next()?.metadata.uid
    }

    /// Opens a watch.
    pub(super) async fn watch(&self, params: &WatchParams, resource_version: &str) -> kube::Result<WatchEvents<K>> {
        let Selection { watch_fields, labels, .. } = self.selection.clone();
        let params = WatchParams { field_selector: watch_fields, label_selector: labels, ..params.clone() };
        let request = match self.accept {
            Some(_) => self.request.watch(&params, resource_version),
            None => self.request.watch_metadata(&params, resource_version),
        };
        let response = self.send(request).await?;
        let events = stream::unfold(response, async |mut response| {
            let event = response.next_event().await?;
            Some((event, response))
        });
        Ok(events.boxed())
    }

    /// Passes the objects of a list to `see`, one at a time. Returns whether these are all: at most `limit` are read, also if
    /// the server sends more.
    pub(crate) async fn for_each(&self, limit: usize, mut see: impl FnMut(K)) -> kube::Result<bool> {
        let (mut count, mut next) = (0, None);
        loop {
            let mut parts = self.page(next.as_deref()).await?;
            next = loop {
                match parts.try_next().await? {
                    Some(Part::Object(_)) if count == limit => return Ok(false),
                    Some(Part::Object(object)) => see(object),
                    Some(Part::End { token, .. }) => break token,
                    None => break None,
                }
                count += 1;
                if count % AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
            };
            if next.is_none() || count >= limit {
                return Ok(next.is_none());
            }
        }
    }
}

/// The parts of a page. The last one is [`Part::End`].
pub(crate) type Parts<K> = BoxStream<'static, kube::Result<Part<K>>>;

/// The events of a watch.
pub(crate) type WatchEvents<K> = BoxStream<'static, kube::Result<WatchEvent<K>>>;
