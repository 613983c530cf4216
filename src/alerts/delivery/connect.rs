//! Connections to receivers. Addresses are judged here, right before each is connected to, so that it
//! makes no difference what a name led to before, nor how an address is spelled.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use futures::future::BoxFuture;
use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use crate::alerts::{address::AddressPolicy, retry::AttemptOutcome};

/// How names become addresses.
pub type Lookup = Arc<dyn Fn(String, u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// How many addresses of a name are tried.
const ADDRESSES: usize = 8;
/// The longest answer of a proxy to CONNECT, in bytes.
const PROXY_ANSWER: usize = 8 * 1024;
/// The least time that an attempt at one of several addresses has.
const PATIENCE: Duration = Duration::from_secs(2);

/// The system's own resolver.
#[must_use]
pub fn system_lookup() -> Lookup {
    Arc::new(|host, port| Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) }))
}

/// What a request is written to.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Makes connections.
pub(super) struct Connector {
    pub addresses: AddressPolicy,
    pub lookup: Lookup,
    pub proxies: Option<Matcher>,
}

impl Connector {
    /// Connects to a URL's host, by TLS where there is a configuration for it.
    pub async fn connect(
        &self,
        url: &Url,
        tls: Option<Arc<ClientConfig>>,
        deadline: Instant,
    ) -> Result<Box<dyn Stream>, AttemptOutcome> {
        let stream = match self.proxy(url) {
            Some(proxy) => through_proxy(&proxy?, url, deadline).await?,
            None => self.direct(url, deadline).await?,
        };
        let Some(tls) = tls else { return Ok(Box::new(stream)) };
        let name = match url.host() {
            Some(Host::Domain(name)) => {
                ServerName::try_from(name.to_owned()).map_err(|_| AttemptOutcome::Unreachable)?
            }
            Some(Host::Ipv4(address)) => ServerName::IpAddress(IpAddr::V4(address).into()),
            Some(Host::Ipv6(address)) => ServerName::IpAddress(IpAddr::V6(address).into()),
            None => return Err(AttemptOutcome::Unreachable),
        };
        match timeout_at(deadline, TlsConnector::from(tls).connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(error)) if is_untrusted(&error) => Err(AttemptOutcome::Untrusted),
            Ok(Err(_)) | Err(_) => Err(AttemptOutcome::Unreachable),
        }
    }

    async fn direct(&self, url: &Url, deadline: Instant) -> Result<TcpStream, AttemptOutcome> {
        let port = url.port_or_known_default().ok_or(AttemptOutcome::Unreachable)?;
        let found = match url.host().ok_or(AttemptOutcome::Unreachable)? {
            Host::Ipv4(address) => vec![SocketAddr::new(IpAddr::V4(address), port)],
            Host::Ipv6(address) => vec![SocketAddr::new(IpAddr::V6(address), port)],
            Host::Domain(name) => match timeout_at(deadline, (self.lookup)(name.to_owned(), port)).await {
                Ok(Ok(found)) if !found.is_empty() => found,
                _ => return Err(AttemptOutcome::Unresolved),
            },
        };
        let mut refusal = None;
        let mut allowed = Vec::new();
        for address in found.into_iter().take(ADDRESSES) {
            match self.addresses.check(address.ip()) {
                Ok(()) => allowed.push(address),
                Err(why) => refusal = Some(why),
            }
        }
        if let (Some(refusal), true) = (refusal, allowed.is_empty()) {
            return Err(AttemptOutcome::AddressRefused(refusal));
        }
        reach(&allowed, deadline).await
    }

    fn proxy(&self, url: &Url) -> Option<Result<Proxy, AttemptOutcome>> {
        let destination: Uri = url.as_str().parse().ok()?;
        let intercept = self.proxies.as_ref()?.intercept(&destination)?;
        let uri = intercept.uri();
        Some(match (uri.scheme_str(), uri.host()) {
            (Some("http"), Some(host)) => Ok(Proxy {
                host: host.trim_matches(['[', ']']).to_owned(),
                port: uri.port_u16().unwrap_or(80),
                authorization: intercept
                    .basic_auth()
                    .and_then(|value| value.to_str().ok().map(str::to_owned))
                    .or_else(|| intercept.raw_auth().map(|(user, password)| basic(user, password))),
            }),
            _ => Err(AttemptOutcome::Unusable("the proxy that the environment names is not an http:// one".to_owned())),
        })
    }
}

struct Proxy {
    host: String,
    port: u16,
    authorization: Option<String>,
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

/// Tries one address after the other, each for its share of what time there is.
async fn reach(addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream, AttemptOutcome> {
    let mut refused = 0;
    for (tried, address) in addresses.iter().enumerate() {
        let now = Instant::now();
        let left = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let share = (deadline.saturating_duration_since(now) / left).max(PATIENCE);
        match timeout_at((now + share).min(deadline), TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Without it the last part of a request waits for a slow receiver's acknowledgement.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => refused += 1,
            Ok(Err(_)) | Err(_) => {}
        }
    }
    Err(if refused == addresses.len() { AttemptOutcome::ConnectionRefused } else { AttemptOutcome::Unreachable })
}

/// A tunnel through a proxy, which the operator's environment names: its address is not judged.
async fn through_proxy(proxy: &Proxy, url: &Url, deadline: Instant) -> Result<TcpStream, AttemptOutcome> {
    let tunnel = async {
        let found = tokio::net::lookup_host((proxy.host.as_str(), proxy.port))
            .await
            .map_err(|_| AttemptOutcome::Unreachable)?;
        // What refuses is the proxy, not the receiver.
        let reached = reach(&found.take(ADDRESSES).collect::<Vec<_>>(), deadline).await;
        let mut stream = reached.map_err(|_| AttemptOutcome::Unreachable)?;
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let mut request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
        if let Some(value) = &proxy.authorization {
            request += &format!("Proxy-Authorization: {value}\r\n");
        }
        request += "\r\n";
        stream.write_all(request.as_bytes()).await.map_err(|_| AttemptOutcome::Unreachable)?;
        let mut answer = Vec::new();
        // Byte by byte: what follows the empty line belongs to the receiver.
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() > PROXY_ANSWER {
                return Err(AttemptOutcome::Unreachable);
            }
            answer.push(stream.read_u8().await.map_err(|_| AttemptOutcome::Unreachable)?);
        }
        let took = answer.starts_with(b"HTTP/1.1 2") || answer.starts_with(b"HTTP/1.0 2");
        if took { Ok(stream) } else { Err(AttemptOutcome::Unreachable) }
    };
    timeout_at(deadline, tunnel).await.unwrap_or(Err(AttemptOutcome::Unreachable))
}

fn is_untrusted(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented))
}
