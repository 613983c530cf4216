//! Lists and watches pods in protobuf.

use bytes::Bytes;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::{Client, api::WatchParams};

use crate::watch::{
    collection::{Collection, Part, Parts, Selection, WatchEvents},
    protobuf::{Buffer, Decode, Decoded, PageReader, Protobuf},
};

use super::WatchedPod;

/// The pods of a namespace, or of all namespaces.
pub struct Pods(Protobuf<DecodePod>);

struct DecodePod;

impl Decode for DecodePod {
    type Api = ApiPod;
    type Object = WatchedPod;

    fn decode(raw: Bytes) -> Decoded<WatchedPod> {
        let object = WatchedPod::from_protobuf(raw);
        Decoded { resource_version: object.resource_version.clone(), object }
    }
}

impl Pods {
    /// `page_size` applies to lists that are not streamed.
    #[must_use]
    pub fn new(client: Client, namespace: Option<&str>, page_size: u32) -> Self {
        Self(Protobuf::new(client, namespace, Selection { page_size, ..Selection::default() }))
    }
}

impl Collection for Pods {
    type Object = WatchedPod;

    fn page<'a>(&'a self, token: Option<&str>) -> BoxFuture<'a, kube::Result<Parts<WatchedPod>>> {
        self.0.page(token)
    }

    fn version(&self) -> BoxFuture<'_, kube::Result<String>> {
        self.0.version()
    }

    fn cluster_client(&self) -> Option<Client> {
        self.0.cluster_client()
    }

    fn watch<'a>(
        &'a self,
        params: &WatchParams,
        resource_version: &str,
    ) -> BoxFuture<'a, kube::Result<WatchEvents<WatchedPod>>> {
        self.0.watch(params, resource_version)
    }
}

/// Decodes a complete page. For benchmarks and tests: [`Pods`] decodes each pod as it arrives.
#[doc(hidden)]
#[must_use]
pub fn read_page(bytes: &[u8]) -> Option<Vec<WatchedPod>> {
    let (mut page, mut buffer, mut pods) = (PageReader::default(), Buffer::default(), Vec::new());
    buffer.push(bytes);
    loop {
        match page.next::<DecodePod>(&mut buffer).ok()?? {
            Part::Object(pod) => pods.push(pod),
            Part::End { .. } => return Some(pods),
        }
    }
}

#[cfg(test)]
mod tests;
