//! Reads the Secrets that a webhook refers to: by name and in the object's own namespace. No Secret is ever listed or
//! watched.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use http::HeaderMap;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use ring::digest::{Context, SHA256};
use rustls::ClientConfig;
use tokio::time::timeout;

use super::http_client::{HttpClient, private_roots};
use crate::{
    alerts::{
        CustomFormat, EndpointSpec,
        destination::{Destination, UrlPolicy},
        formats::{Receiver, receiver},
        headers::headers,
        signature::SigningKeys,
    },
    api::SecretKeySource,
    bounded::{RequestLimiter, RequestLimits},
    hex::hex,
};

/// The limits of all reads of Secrets.
const LIMITS: RequestLimits = RequestLimits { concurrency: 8, per_second: 50, burst: 100 };
const TIMEOUT: Duration = Duration::from_secs(10);

/// The values of a Secret by key.
type Data = BTreeMap<String, Vec<u8>>;

/// Why nothing is known about a Secret. It says nothing about the Secret itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// With a status code other than 403 and 404, such as 500 while the key service that decrypts Secrets is down.
    #[error("the API server answers {0} to requests for its Secrets")]
    Answered(u16),
    #[error("the API server does not answer requests for its Secrets")]
    NotAnswered,
}

/// A Secret as it was read.
pub(super) struct ReadSecret {
    /// Its UID and resource version.
    version: String,
    data: Data,
}

/// An error of the inner result says that the Secret does not exist, or must not be read.
pub(super) type Answer = Result<Found, Unavailable>;
pub(super) type Found = Result<Arc<ReadSecret>, String>;

/// Reads of Secrets, by their names.
pub(super) type SharedReads = BTreeMap<String, Shared<BoxFuture<'static, Answer>>>;

/// Everything needed to send to a receiver. Its `Debug` output holds no secret values.
#[derive(Clone)]
pub struct Endpoint {
    pub destination: Destination,
    /// The format if a spec describes it.
    pub custom: Option<Arc<CustomFormat>>,
    /// Headers to add to each request.
    pub headers: HeaderMap,
    pub keys: Option<SigningKeys>,
    /// Absent for plain HTTP.
    pub tls: Option<Arc<ClientConfig>>,
}

impl Endpoint {
    pub(in crate::alerts) fn receiver(&self) -> &dyn Receiver {
        match &self.custom {
            Some(custom) => &**custom,
            None => receiver(self.destination.format()),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("destination", &self.destination).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct WebhookSecrets {
    /// A hash of the webhook's spec and of the UIDs and versions of its Secrets.
    pub config: String,
    /// Identifies the receiver: see [`Destination::identity`]. Empty if the webhook cannot be used.
    pub receiver: String,
    /// How earlier versions identified it: by the format, and by the UID and version of the Secret that holds the URL.
    pub versioned_receiver: String,
    /// An error says why the webhook cannot be used. It names the Secret and the key, but no values.
    pub endpoint: Result<Arc<Endpoint>, String>,
}

pub struct SecretReader {
    client: Client,
    limiter: RequestLimiter,
    urls: UrlPolicy,
    /// Caches the system's CA certificates.
    http: Arc<HttpClient>,
}

impl SecretReader {
    #[must_use]
    pub fn new(client: Client, urls: UrlPolicy, http: Arc<HttpClient>) -> Arc<Self> {
        Arc::new(Self { client, limiter: RequestLimiter::new(LIMITS), urls, http })
    }

    /// Reads the Secrets of one webhook of an object in `namespace`.
    ///
    /// # Errors
    /// If the API server does not answer, or cannot read a Secret. A Secret that does not exist or may not be read makes the
    /// webhook unusable.
    pub async fn read(self: &Arc<Self>, namespace: &str, spec: &EndpointSpec) -> Result<WebhookSecrets, Unavailable> {
        self.read_shared(namespace, spec, &self.reads(namespace, [spec])).await
    }

    /// The reads of the Secrets of some webhooks. Webhooks with the same Secret share one read, and none waits for a Secret
    /// that only others need: a read begins when the first webhook needs it.
    pub(super) fn reads<'a>(
        self: &Arc<Self>,
        namespace: &str,
        specs: impl IntoIterator<Item = &'a EndpointSpec>,
    ) -> SharedReads {
        let read = |name: &str| {
            let (reader, namespace, name) = (Arc::clone(self), namespace.to_owned(), name.to_owned());
            (name.clone(), async move { reader.get(&namespace, &name).await }.boxed().shared())
        };
        specs.into_iter().flat_map(EndpointSpec::secret_names).map(read).collect()
    }

    /// [`read`](Self::read) by these reads.
    pub(super) async fn read_shared(
        &self,
        namespace: &str,
        spec: &EndpointSpec,
        reads: &SharedReads,
    ) -> Result<WebhookSecrets, Unavailable> {
        let mut hash = Context::new(&SHA256);
        hash.update(&spec.hash);
        let mut versioned = Context::new(&SHA256);
        versioned.update(format!("{:?}\0{}", spec.format, spec.url_from.secret_key_ref.key).as_bytes());
        let mut found = BTreeMap::new();
        for name in spec.secret_names() {
            let Some(read) = reads.get(name) else { return Err(Unavailable::NotAnswered) };
            let secret = read.clone().await?;
            let version = secret.as_ref().map_or_else(|error| error, |secret| &secret.version);
            hash.update(format!("\0{name}\0{version}").as_bytes());
            if name == spec.url_from.secret_key_ref.name {
                versioned.update(format!("\0{name}\0{version}").as_bytes());
            }
            found.insert(name, secret);
        }
        let digest = |hash: Context| hex(&hash.finish().as_ref()[..8]);
        // Also if the rest of the spec is wrong: alerts that were sent are kept alive.
        let endpoint = self.endpoint(spec, &found).await.map(Arc::new);
        let receiver = endpoint.as_ref().map(|endpoint| endpoint.destination.identity(namespace)).unwrap_or_default();
        Ok(WebhookSecrets { config: digest(hash), receiver, versioned_receiver: digest(versioned), endpoint })
    }

    async fn get(&self, namespace: &str, name: &str) -> Answer {
        let _permit = self.limiter.acquire(namespace).await;
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        match timeout(TIMEOUT, api.get(name)).await {
            Ok(Ok(secret)) => {
                let metadata = secret.metadata;
                let version = [metadata.uid, metadata.resource_version].map(Option::unwrap_or_default).join(".");
                let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
                Ok(Ok(Arc::new(ReadSecret { version, data: data.collect() })))
            }
            Ok(Err(kube::Error::Api(status))) if status.is_not_found() => Ok(Err(format!(
                "Secret {namespace}/{name} does not exist: make it with `kubectl create secret generic`"
            ))),
            Ok(Err(kube::Error::Api(status))) if status.is_forbidden() => Ok(Err(format!(
                "may not get Secret {namespace}/{name}: a Role must allow the operator's service account to get it"
            ))),
            Ok(Err(kube::Error::Api(status))) => Err(Unavailable::Answered(status.code)),
            Ok(Err(_)) | Err(_) => Err(Unavailable::NotAnswered),
        }
    }

    async fn endpoint(&self, spec: &EndpointSpec, found: &BTreeMap<&str, Found>) -> Result<Endpoint, String> {
        let secret = |name: &str| match found.get(name) {
            Some(Ok(secret)) => Ok(&secret.data),
            Some(Err(error)) => Err(error.clone()),
            None => Err(format!("Secret {name} was not read")),
        };
        let value = |source: &SecretKeySource| {
            let reference = &source.secret_key_ref;
            let missing =
                || format!("Secret {} has no key {}, which spec.webhooks names", reference.name, reference.key);
            secret(&reference.name)?.get(&reference.key).ok_or_else(missing)
        };
        let invalid = |source: &SecretKeySource, problem: &dyn fmt::Display| {
            let reference = &source.secret_key_ref;
            format!("key {} of Secret {} {problem}", reference.key, reference.name)
        };
        let destination = Destination::new(spec.format, value(&spec.url_from)?, self.urls)
            .map_err(|error| invalid(&spec.url_from, &error))?;
        let keys = match &spec.signing_key_from {
            Some(source) => Some(SigningKeys::parse(value(source)?).map_err(|error| invalid(source, &error))?),
            None => None,
        };
        let headers = match &spec.headers_from {
            Some(source) => {
                let name = &source.secret_ref.name;
                let entries = secret(name)?.iter().map(|(key, value)| (key.as_str(), value.as_slice()));
                headers(entries).map_err(|error| format!("Secret {name} as headers: {error}"))?
            }
            None => HeaderMap::new(),
        };
        let private = match &spec.ca_from {
            Some(source) => Some(private_roots(value(source)?).map_err(|error| invalid(source, &error))?),
            None => None,
        };
        let tls = match (destination.url().scheme(), private) {
            ("http", _) => None,
            (_, Some(private)) => Some(private),
            (_, None) => Some(self.http.public_roots().await?),
        };
        Ok(Endpoint { destination, custom: spec.custom.clone(), headers, keys, tls })
    }
}
