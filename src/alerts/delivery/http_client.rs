//! One request to a receiver. This client has nothing of the cluster's: no credentials, no connections,
//! no proxy unless it is allowed one. It follows no redirect, keeps no cookie and unpacks nothing.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use http::{HeaderMap, HeaderValue, Request, header};
use http_body_util::{BodyExt, BodyStream, Full};
use hyper::{
    body::{Bytes, Incoming},
    client::conn::http1,
};
use hyper_util::{client::proxy::matcher::Matcher, rt::TokioIo};
use jiff::Timestamp;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio::{
    sync::OnceCell,
    time::{Instant, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::{
    DeliveryOptions,
    connect::{Connector, Lookup},
};
use crate::alerts::retry::{AttemptOutcome, retry_after};

/// How much of an answer's body is read, in bytes: enough for a receiver to be through with its answer.
const BODY_LIMIT: usize = 4 * 1024;
/// How long it is read.
const BODY_TIME: Duration = Duration::from_secs(1);
/// How long an answer's head may be, in bytes.
const HEAD_LIMIT: usize = 16 * 1024;

const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("orchestr/", env!("CARGO_PKG_VERSION")));

/// Sends requests to receivers.
pub struct HttpClient {
    connector: Connector,
    public: OnceCell<Result<Arc<ClientConfig>, TlsError>>,
}

/// Why no receiver's certificate could be checked. It names no content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The system has no certificates.
    #[error("this system has no CA certificates, as in /etc/ssl/certs: no receiver can be trusted")]
    NoRoots,
    /// A private CA that can't be used.
    #[error("holds no certificate in PEM")]
    NoCertificate,
    /// The TLS library refuses what it is given.
    #[error("TLS can't be set up")]
    Setup,
}

/// One request.
pub struct Post<'a> {
    /// Where to. A secret.
    pub url: &'a Url,
    /// By which certificates it is trusted; absent for plain HTTP.
    pub tls: Option<Arc<ClientConfig>>,
    /// Further headers.
    pub headers: HeaderMap,
    /// The header `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
    /// How long it may take, from the name's resolution to the answer's head.
    pub timeout: Duration,
}

impl HttpClient {
    /// A client that connects to what `options` allow.
    #[must_use]
    pub fn new(options: DeliveryOptions, lookup: Lookup) -> Self {
        Self {
            connector: Connector {
                addresses: options.urls.addresses,
                lookup,
                proxies: options.proxy_from_env.then(Matcher::from_env),
            },
            public: OnceCell::new(),
        }
    }

    /// Trust in the system's CAs. They are read when they are first needed.
    ///
    /// # Errors
    /// When there are none.
    pub async fn public_roots(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let read = || async {
            // Files are read.
            tokio::task::spawn_blocking(|| {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() { Err(TlsError::NoRoots) } else { configured(roots) }
            })
            .await
            .unwrap_or(Err(TlsError::Setup))
        };
        self.public.get_or_init(read).await.clone()
    }

    /// Posts, and tells how it ended. The answer's body is never kept.
    pub async fn post(&self, post: Post<'_>) -> AttemptOutcome {
        let deadline = Instant::now() + post.timeout;
        let Some(request) = request(&post) else {
            return AttemptOutcome::Unusable("the URL can't be requested".to_owned());
        };
        let stream = match self.connector.connect(post.url, post.tls, deadline).await {
            Ok(stream) => stream,
            Err(outcome) => return outcome,
        };
        let handshake = http1::Builder::new().max_buf_size(HEAD_LIMIT).handshake(TokioIo::new(stream));
        let Ok(Ok((mut sender, connection))) = timeout_at(deadline, handshake).await else {
            return AttemptOutcome::Unreachable;
        };
        let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
        match timeout_at(deadline, sender.send_request(request)).await {
            Err(_) => AttemptOutcome::TimedOut,
            Ok(Err(error)) if error.is_canceled() => AttemptOutcome::Unreachable,
            Ok(Err(_)) => AttemptOutcome::Interrupted,
            Ok(Ok(answer)) => {
                let status = answer.status().as_u16();
                let wait = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
                let retry_after = wait.and_then(|value| retry_after(value, Timestamp::now()));
                drain(answer.into_body()).await;
                AttemptOutcome::Answered { status, retry_after }
            }
        }
    }
}

/// Trust in the CAs of a PEM text, and in no other.
///
/// # Errors
/// When it holds no certificate.
pub fn private_roots(pem: &[u8]) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|_| TlsError::NoCertificate)?;
        roots.add(certificate).map_err(|_| TlsError::NoCertificate)?;
    }
    if roots.is_empty() { Err(TlsError::NoCertificate) } else { configured(roots) }
}

fn configured(roots: RootCertStore) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| TlsError::Setup)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn request(post: &Post<'_>) -> Option<Request<Full<Bytes>>> {
    let url = post.url;
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let mut request = Request::post(format!("{}{query}", url.path()))
        .header(header::HOST, format!("{}{port}", url.host_str()?))
        .body(Full::new(Bytes::copy_from_slice(&post.body)))
        .ok()?;
    let headers = request.headers_mut();
    headers.extend(post.headers.clone());
    headers.insert(header::USER_AGENT, USER_AGENT);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(post.content_type));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    Some(request)
}

/// Lets a receiver end its answer, within bounds.
async fn drain(body: Incoming) {
    let mut left = BODY_LIMIT;
    let mut body = BodyStream::new(body.boxed());
    let read = async {
        while let Some(Ok(frame)) = body.next().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                break;
            }
        }
    };
    // What it says doesn't matter, nor whether it comes to an end.
    let _ = timeout_at(Instant::now() + BODY_TIME, read).await;
}
