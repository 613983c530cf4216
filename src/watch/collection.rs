//! The requests for a collection, and their responses, independent of the encoding.

use std::io;

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::BoxStream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{ListParams, WatchParams},
    core::Status,
};

/// Objects per page of a list. Smaller pages cost round trips. Larger ones cost memory in JSON: kube holds the bytes of a
/// page twice while it decodes them.
pub(crate) const PAGE_SIZE: u32 = 500;

/// The response came in another encoding than requested. A proxy may cause this; an API server does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the response came in another encoding than requested")]
pub struct WrongEncoding;

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

impl Selection {
    pub(crate) fn list(&self, token: Option<&str>) -> ListParams {
        ListParams {
            continue_token: token.map(str::to_owned),
            field_selector: self.list_fields.clone(),
            label_selector: self.labels.clone(),
            ..ListParams::default().limit(self.page_size)
        }
    }

    /// A list of one object. A selector would only make the API server search for one that matches.
    pub(crate) fn one() -> ListParams {
        ListParams::default().limit(1)
    }

    pub(crate) fn watch(&self, params: &WatchParams) -> WatchParams {
        WatchParams { field_selector: self.watch_fields.clone(), label_selector: self.labels.clone(), ..params.clone() }
    }
}

/// The requests for a collection of objects, in one encoding. A [`WrongEncoding`] is wrapped in a
/// [`kube::Error::Service`].
pub trait Collection: Send + Sync {
    type Object: Send + 'static;

    /// Requests a page of a list: the first, or the one that a continue token refers to.
    fn page<'a>(&'a self, token: Option<&str>) -> BoxFuture<'a, kube::Result<Parts<Self::Object>>>;

    /// The present resource version of the collection: that of a list of one object, which no cache delays.
    fn version(&self) -> BoxFuture<'_, kube::Result<String>>;

    /// For requests about the cluster itself. Absent if the objects are those of one namespace: who may read it usually may
    /// not read others.
    fn cluster_client(&self) -> Option<Client>;

    /// The UID of the namespace `kube-system`, which another cluster at the same address does not share. Absent if it cannot
    /// be read, for example without the permission to list namespaces.
    fn cluster(&self) -> BoxFuture<'static, Option<String>> {
        let client = self.cluster_client();
        async move {
            let only = ListParams::default().fields("metadata.name=kube-system");
            let namespaces = Api::<Namespace>::all(client?).list_metadata(&only).await.ok()?;
            namespaces.items.into_iter().next()?.metadata.uid
        }
        .boxed()
    }

    /// Opens a watch.
    fn watch<'a>(
        &'a self,
        params: &WatchParams,
        resource_version: &str,
    ) -> BoxFuture<'a, kube::Result<WatchEvents<Self::Object>>>;
}

/// The parts of a page. The last one is [`Part::End`].
pub type Parts<K> = BoxStream<'static, kube::Result<Part<K>>>;

/// The resource version of a page.
pub(super) async fn version_of<K>(mut page: Parts<K>) -> kube::Result<String> {
    loop {
        match page.next().await {
            Some(Ok(Part::Object(_))) => {}
            Some(Ok(Part::End { resource_version, .. })) if resource_version.is_empty() => return Err(no_version()),
            Some(Ok(Part::End { resource_version, .. })) => return Ok(resource_version),
            Some(Err(error)) => return Err(error),
            None => return Err(kube::Error::ReadEvents(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

fn no_version() -> kube::Error {
    kube::Error::ReadEvents(io::Error::other("a list without a resource version"))
}

/// The events of a watch.
pub type WatchEvents<K> = BoxStream<'static, kube::Result<WatchEvent<K>>>;

pub enum Part<K> {
    Object(K),
    /// The end of the page. Without a continue token, it is the last page, and the list is complete as of this resource
    /// version.
    End {
        token: Option<String>,
        resource_version: String,
    },
}

/// An event of a watch.
pub enum WatchEvent<K> {
    /// An object was created or changed, or is part of a streaming list.
    Applied { object: K, resource_version: String },
    /// An object was deleted. The resource version is that of the deletion.
    Deleted { object: K, resource_version: String },
    /// All events up to this version were sent. `ends_list` marks the end of a streaming list.
    Bookmark { resource_version: String, ends_list: bool },
    /// The watch cannot continue.
    Error(Box<Status>),
    /// The response ended regularly. If the stream ends without this, the response may have been cut off.
    End,
}
