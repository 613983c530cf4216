//! Resolves the names of receivers, and checks the addresses of a name before each connection, because they may change
//! at any time.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::time::timeout;

use crate::alerts::address::AddressPolicy;

/// How many addresses of a name are tried.
const MAX_ADDRESSES: usize = 8;

/// Looks up the addresses of a name. The port 0 stands for the port of the URL.
pub type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// The system's resolver.
#[must_use]
pub fn system_lookup() -> Lookup {
    Arc::new(|host| Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.collect()) }))
}

/// Resolves names to those of their addresses that the policy allows.
///
/// If it allows none of them, the error is an [`AddressRefusal`](crate::alerts::address::AddressRefusal).
pub(super) struct CheckingResolver {
    pub lookup: Lookup,
    pub policy: AddressPolicy,
    pub timeout: Duration,
}

impl Resolve for CheckingResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let lookup = timeout(self.timeout, (self.lookup)(name.as_str().to_owned()));
        let policy = self.policy;
        Box::pin(async move {
            let mut refusal = None;
            let mut allowed = Vec::new();
            for address in lookup.await??.into_iter().take(MAX_ADDRESSES) {
                match policy.check(address.ip()) {
                    Ok(()) => allowed.push(address),
                    Err(error) => refusal = Some(error),
                }
            }
            match refusal {
                Some(error) if allowed.is_empty() => Err(error.into()),
                None if allowed.is_empty() => Err("the name has no addresses".into()),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}
