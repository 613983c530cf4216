//! Watches a collection from the present on, without a list of it.

use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use kube::{Client, api::WatchParams};

use super::collection::{Collection, Part, Parts, WatchEvents};

/// A collection whose lists are empty: only the resource version of a list is used, from which a watch starts.
pub(crate) struct FromNow<C>(pub(crate) C);

impl<C: Collection> Collection for FromNow<C> {
    type Object = C::Object;

    fn page<'a>(&'a self, _token: Option<&str>) -> BoxFuture<'a, kube::Result<Parts<C::Object>>> {
        async move {
            let resource_version = self.0.version().await?;
            let end = Part::End { token: None, resource_version };
            Ok(stream::once(async { Ok(end) }).boxed())
        }
        .boxed()
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
    ) -> BoxFuture<'a, kube::Result<WatchEvents<C::Object>>> {
        self.0.watch(params, resource_version)
    }
}
