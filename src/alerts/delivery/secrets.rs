//! Reads the Secrets that a webhook refers to: by name and in the object's own namespace. No Secret is ever listed or
//! watched.

use std::{collections::BTreeMap, fmt, sync::Arc};

use http::HeaderMap;
use kube::Client;
use ring::digest::{Context, SHA256};
use rustls::ClientConfig;

pub use super::secret_reads::{Unavailable, Unusable};
use super::{
    http_client::{HttpClient, private_roots},
    secret_reads::{Data, SecretReads},
};
use crate::{
    alerts::{
        CustomFormat, EndpointSpec,
        destination::{Destination, UrlPolicy},
        formats::{Receiver, receiver},
        headers::headers,
        signature::SigningKeys,
    },
    api::SecretKeySource,
    hex::hex,
};

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
    pub endpoint: Result<Arc<Endpoint>, Unusable>,
}

pub struct SecretReader {
    reads: SecretReads,
    urls: UrlPolicy,
    /// Caches the system's CA certificates.
    http: Arc<HttpClient>,
}

impl SecretReader {
    #[must_use]
    pub fn new(client: Client, urls: UrlPolicy, http: Arc<HttpClient>) -> Self {
        Self { reads: SecretReads::new(client), urls, http }
    }

    /// Reads the Secrets of a webhook of an object in `namespace`.
    ///
    /// # Errors
    /// If the API server does not answer, or cannot read the Secret. A Secret that does not exist or may not be read
    /// makes the endpoint [`Unusable`].
    pub async fn read(&self, namespace: &str, spec: &EndpointSpec) -> Result<WebhookSecrets, Unavailable> {
        let mut hash = Context::new(&SHA256);
        hash.update(&spec.hash);
        let mut versioned = Context::new(&SHA256);
        versioned.update(format!("{:?}\0{}", spec.format, spec.url_from.secret_key_ref.key).as_bytes());
        let mut found: BTreeMap<&str, Result<Arc<Data>, Unusable>> = BTreeMap::new();
        for name in spec.secret_names() {
            let secret = self.reads.get(namespace, name).await?;
            let version = secret.as_ref().map_or_else(|error| &error.0, |secret| &secret.version);
            hash.update(format!("\0{name}\0{version}").as_bytes());
            if name == spec.url_from.secret_key_ref.name {
                versioned.update(format!("\0{name}\0{version}").as_bytes());
            }
            found.insert(name, secret.map(|secret| secret.data));
        }
        let digest = |hash: Context| hex(&hash.finish().as_ref()[..8]);
        // Also if the rest of the spec is wrong: alerts that were sent are kept alive.
        let endpoint = self.endpoint(spec, &found).await.map(Arc::new);
        let receiver = endpoint.as_ref().map(|endpoint| endpoint.destination.identity(namespace)).unwrap_or_default();
        Ok(WebhookSecrets { config: digest(hash), receiver, versioned_receiver: digest(versioned), endpoint })
    }

    async fn endpoint(
        &self,
        spec: &EndpointSpec,
        found: &BTreeMap<&str, Result<Arc<Data>, Unusable>>,
    ) -> Result<Endpoint, Unusable> {
        let secret = |name: &str| match found.get(name) {
            Some(Ok(data)) => Ok(data),
            Some(Err(error)) => Err(error.clone()),
            None => Err(Unusable(format!("Secret {name} was not read"))),
        };
        let value = |source: &SecretKeySource| {
            let reference = &source.secret_key_ref;
            let missing = || {
                Unusable(format!("Secret {} has no key {}, which spec.webhooks names", reference.name, reference.key))
            };
            secret(&reference.name)?.get(&reference.key).ok_or_else(missing)
        };
        let invalid = |source: &SecretKeySource, problem: &dyn fmt::Display| {
            let reference = &source.secret_key_ref;
            Unusable(format!("key {} of Secret {} {problem}", reference.key, reference.name))
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
                headers(entries).map_err(|error| Unusable(format!("Secret {name} as headers: {error}")))?
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
            (_, None) => Some(self.http.public_roots().await.map_err(|error| Unusable(error.to_string()))?),
        };
        Ok(Endpoint { destination, custom: spec.custom.clone(), headers, keys, tls })
    }
}
