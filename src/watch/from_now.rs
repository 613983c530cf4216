//! Watches a collection from the present on, without a list of it.

use futures::{FutureExt, StreamExt, future::BoxFuture};
use kube::api::WatchParams;

use super::collection::{Collection, Part, Parts, WatchEvents};

/// A collection whose lists are empty: only the resource version of a list is used, from which a watch starts. The first
/// page has it, so the pages of `C` should be small.
pub(crate) struct FromNow<C>(pub(crate) C);

impl<C: Collection> Collection for FromNow<C> {
    type Object = C::Object;

    fn page<'a>(&'a self, _token: Option<&str>) -> BoxFuture<'a, kube::Result<Parts<C::Object>>> {
        async move {
            let parts = self.0.page(None).await?;
            let end = parts.filter_map(async |part| match part {
                Ok(Part::Object(_)) => None,
                Ok(Part::End { resource_version, .. }) if resource_version.is_empty() => Some(Err(no_version())),
                Ok(Part::End { resource_version, .. }) => Some(Ok(Part::End { token: None, resource_version })),
                Err(error) => Some(Err(error)),
            });
            Ok(end.boxed())
        }
        .boxed()
    }

    fn watch<'a>(
        &'a self,
        params: &WatchParams,
        resource_version: &str,
    ) -> BoxFuture<'a, kube::Result<WatchEvents<C::Object>>> {
        self.0.watch(params, resource_version)
    }
}

fn no_version() -> kube::Error {
    kube::Error::ReadEvents(std::io::Error::other("a list without a resource version"))
}
