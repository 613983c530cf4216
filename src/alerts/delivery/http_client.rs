//! Posts one message to a receiver, and classifies the outcome. The addresses of the receiver's name are checked before each
//! connection, because they may change at any time.
//!
//! Requests share nothing with those to the API server: neither credentials nor connections. They use a proxy only if
//! the operator's flags allow it. Redirects are not followed, and responses are not decompressed.

use std::{
    error::Error,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Uri, header};
use hyper_util::client::proxy::matcher::Matcher;
use jiff::Timestamp;
use reqwest::{
    Client, Proxy, Response,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect, retry,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep, timeout, timeout_at},
};
use url::{Host, Url};

use super::DeliveryOptions;
use crate::{
    alerts::{
        address::{AddressPolicy, AddressRefusal},
        destination::UrlPolicy,
        retry::{AttemptOutcome, retry_after},
    },
    leader::{Leadership, NotLeader},
    version,
};

/// The fractions of a webhook's timeout for resolving the receiver's name and for establishing the connection. They are
/// less than the timeout, so that an unreachable receiver can be distinguished from one that may have received the
/// message but did not answer in time.
const RESOLVE_SHARE: f64 = 0.8;
const CONNECT_SHARE: f64 = 0.9;
/// How many bytes of a response's body are read at most.
pub(super) const BODY_LIMIT: usize = 4 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a request that this replica may not send any more waits to be aborted. That takes less than a second: the longer
/// time is only a bound.
const NOT_LEADER_PATIENCE: Duration = Duration::from_secs(60);

pub struct HttpClient {
    leadership: Leadership,
    urls: UrlPolicy,
    lookup: Lookup,
    proxies: Option<Matcher>,
    public_roots: OnceCell<Result<Arc<ClientConfig>, &'static str>>,
}

/// Why receivers' certificates cannot be verified. The texts hold no content of a Secret.
const NO_ROOTS: &str = "this system has no CA certificates, as in /etc/ssl/certs: no receiver can be trusted";
const NO_CERTIFICATE: &str = "holds no certificate in PEM";
const NO_TLS: &str = "TLS can't be set up";

pub struct Post<'a> {
    pub method: Method,
    /// Secret.
    pub url: &'a Url,
    /// Absent for plain HTTP.
    pub tls: Option<Arc<ClientConfig>>,
    pub headers: HeaderMap,
    pub content_type: HeaderValue,
    pub body: Vec<u8>,
    /// From name resolution to the head of the response.
    pub timeout: Duration,
}

impl HttpClient {
    #[must_use]
    pub fn new(options: DeliveryOptions, lookup: Lookup) -> Self {
        Self {
            leadership: Leadership::always(),
            urls: options.urls,
            lookup,
            proxies: options.proxy_from_env.then(Matcher::from_env),
            public_roots: OnceCell::new(),
        }
    }

    /// Sends nothing while this replica does not lead.
    #[must_use]
    pub(crate) fn led_by(self, leadership: Leadership) -> Self {
        Self { leadership, ..self }
    }

    /// Which URLs are accepted.
    pub(super) fn urls(&self) -> UrlPolicy {
        self.urls
    }

    /// A TLS configuration that trusts the system's CA certificates. They are read once, when first needed.
    ///
    /// # Errors
    /// If the system has none.
    pub async fn public_roots(&self) -> Result<Arc<ClientConfig>, &'static str> {
        let read = || async {
            let read_files = tokio::task::spawn_blocking(|| {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() { Err(NO_ROOTS) } else { tls_config(roots) }
            });
            Ok(Arc::new(read_files.await.unwrap_or(Err(NO_TLS))?))
        };
        self.public_roots.get_or_init(read).await.clone()
    }

    /// Sends a request. The body of the response is discarded.
    pub async fn post(&self, post: Post<'_>) -> AttemptOutcome {
        self.exchange(post).await.0
    }

    /// Sends a request. Returns the beginning of the response's body, at most [`BODY_LIMIT`] bytes.
    pub(super) async fn exchange(&self, post: Post<'_>) -> (AttemptOutcome, Vec<u8>) {
        let no_answer = |outcome| (outcome, Vec::new());
        let deadline = Instant::now() + post.timeout;
        let proxy = match self.proxy(post.url) {
            Ok(proxy) => proxy,
            Err(outcome) => return no_answer(outcome),
        };
        let has_proxy = proxy.is_some();
        // The resolver is not called for a literal address in the URL, so the address is checked here.
        if let Some(Err(refusal)) = literal_address(post.url).map(|address| self.urls.addresses.check(address)) {
            return no_answer(AttemptOutcome::AddressRefused(refusal));
        }
        let Some(client) = self.client(&post, proxy) else {
            return no_answer(AttemptOutcome::Unusable("the HTTP client can't be set up".to_owned()));
        };
        let request = client
            .request(post.method, post.url.clone())
            .headers(post.headers)
            .header(header::CONTENT_TYPE, post.content_type)
            .header(header::CONNECTION, "close")
            .body(post.body);
        let answer = match timeout_at(deadline, self.leadership.guard(request.send())).await {
            Ok(Ok(answer)) => Ok(answer),
            // That is no answer of the receiver, so there is no outcome. The dispatcher is about to end the task that waits
            // for one, and the next leader sends the message with the same ID.
            Ok(Err(NotLeader)) => {
                sleep(NOT_LEADER_PATIENCE).await;
                return no_answer(AttemptOutcome::Interrupted);
            }
            Err(elapsed) => Err(elapsed),
        };
        match answer {
            Ok(Ok(response)) => {
                let status = response.status().as_u16();
                let wait = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
                let retry_after = wait.and_then(|value| retry_after(value, Timestamp::now()));
                (AttemptOutcome::Answered { status, retry_after }, read_body(response).await)
            }
            Ok(Err(error)) => no_answer(classify(&error, has_proxy)),
            Err(_) => no_answer(AttemptOutcome::TimedOut),
        }
    }

    /// A client for one request. Connections are not reused: messages to a receiver are seconds apart, and the receiver
    /// may close an idle connection just as the next message is written. Then it would be unknown whether the message
    /// arrived.
    fn client(&self, post: &Post<'_>, proxy: Option<Proxy>) -> Option<Client> {
        let tls = match &post.tls {
            Some(config) => ClientConfig::clone(config),
            None => tls_config(RootCertStore::empty()).ok()?,
        };
        let builder = Client::builder()
            .tls_backend_preconfigured(tls)
            .http1_only()
            .redirect(redirect::Policy::none())
            .referer(false)
            .retry(retry::never())
            .pool_max_idle_per_host(0)
            .user_agent(version::user_agent())
            .connect_timeout(post.timeout.mul_f64(CONNECT_SHARE))
            .no_proxy();
        let builder = match proxy {
            // The proxy resolves the receiver's name. Its own name comes from the operator's environment and may have any
            // address.
            Some(proxy) => builder.proxy(proxy),
            None => builder.dns_resolver(CheckingResolver {
                lookup: Arc::clone(&self.lookup),
                policy: self.urls.addresses,
                timeout: post.timeout.mul_f64(RESOLVE_SHARE),
            }),
        };
        builder.build().ok()
    }

    fn proxy(&self, url: &Url) -> Result<Option<Proxy>, AttemptOutcome> {
        let unusable =
            || AttemptOutcome::Unusable("the proxy that the environment names is not an http:// one".to_owned());
        let Some(proxies) = &self.proxies else { return Ok(None) };
        let Ok(destination) = url.as_str().parse::<Uri>() else { return Ok(None) };
        let Some(intercept) = proxies.intercept(&destination) else { return Ok(None) };
        if url.scheme() == "http" {
            let problem = "a proxy sees the whole of an http:// URL, which is a secret: use https:// or NO_PROXY";
            return Err(AttemptOutcome::Unusable(problem.to_owned()));
        }
        if intercept.uri().scheme_str() != Some("http") {
            return Err(unusable());
        }
        let proxy = Proxy::all(intercept.uri().to_string()).map_err(|_| unusable())?;
        Ok(Some(match intercept.basic_auth() {
            Some(value) => proxy.custom_http_auth(value.clone()),
            None => proxy,
        }))
    }
}

/// A TLS configuration that trusts only the CA certificates of a PEM text.
///
/// # Errors
/// If it holds no certificate, or one that is malformed.
pub fn private_roots(pem: &[u8]) -> Result<Arc<ClientConfig>, &'static str> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|_| NO_CERTIFICATE)?;
        roots.add(certificate).map_err(|_| NO_CERTIFICATE)?;
    }
    if roots.is_empty() { Err(NO_CERTIFICATE) } else { Ok(Arc::new(tls_config(roots)?)) }
}

fn tls_config(roots: RootCertStore) -> Result<ClientConfig, &'static str> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(builder.map_err(|_| NO_TLS)?.with_root_certificates(roots).with_no_client_auth())
}

fn literal_address(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Domain(_) => None,
        Host::Ipv4(address) => Some(IpAddr::V4(address)),
        Host::Ipv6(address) => Some(IpAddr::V6(address)),
    }
}

/// Classifies an error by its causes. The error's own text is never used: it holds the URL.
fn classify(error: &reqwest::Error, has_proxy: bool) -> AttemptOutcome {
    let is_untrusted = |error: &rustls::Error| {
        matches!(error, rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented)
    };
    if let Some(refusal) = causes(error).find_map(|cause| cause.downcast_ref::<AddressRefusal>()) {
        AttemptOutcome::AddressRefused(*refusal)
    } else if causes(error).any(|cause| cause.downcast_ref().is_some_and(is_untrusted)) {
        AttemptOutcome::Untrusted
    } else if error.is_builder() {
        AttemptOutcome::Unusable("the HTTP client does not accept the URL".to_owned())
    } else if error.is_connect() && has_proxy {
        // The proxy failed, so nothing is known about the receiver.
        AttemptOutcome::Unreachable
    } else if error.is_dns() {
        AttemptOutcome::Unresolved
    } else if error.is_connect() {
        let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        match causes(error).any(|cause| cause.downcast_ref().is_some_and(is_refused)) {
            true => AttemptOutcome::ConnectionRefused,
            false => AttemptOutcome::Unreachable,
        }
    } else if causes(error).any(|cause| cause.downcast_ref().is_some_and(hyper::Error::is_canceled)) {
        // The connection closed before the request was written.
        AttemptOutcome::Unreachable
    } else {
        AttemptOutcome::Interrupted
    }
}

/// An error and all its causes. An `io::Error` holds its cause as a value, which its `source` skips.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner as &(dyn Error + 'static)),
        None => error.source(),
    })
}

async fn read_body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while body.len() < BODY_LIMIT
            && let Ok(Some(chunk)) = response.chunk().await
        {
            body.extend(chunk.iter().take(BODY_LIMIT - body.len()));
        }
    };
    // An error or a timeout does not matter, because the status is already known.
    let _ = timeout(BODY_TIMEOUT, read).await;
    body
}

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
/// If it allows none of them, the error is an [`AddressRefusal`].
struct CheckingResolver {
    lookup: Lookup,
    policy: AddressPolicy,
    timeout: Duration,
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

#[cfg(test)]
mod tests {
    use super::{super::system_lookup, *};
    use crate::alerts::address::AddressPolicy;

    #[tokio::test]
    async fn a_request_that_a_follower_may_not_send_has_no_outcome() {
        let mut options = DeliveryOptions::default();
        options.urls.addresses = AddressPolicy { private: true, loopback: true };
        let http = HttpClient::new(options, system_lookup()).led_by(Leadership::follower());
        let url = Url::parse("http://127.0.0.1:9/").unwrap();
        let post = http.post(Post {
            method: Method::POST,
            url: &url,
            tls: None,
            headers: HeaderMap::new(),
            content_type: HeaderValue::from_static("text/plain"),
            body: Vec::new(),
            timeout: Duration::from_millis(100),
        });
        assert!(timeout(Duration::from_secs(1), post).await.is_err(), "it waits to be aborted");
    }
}
