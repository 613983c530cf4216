//! Pings a webhook once a minute while the operator watches and delivers. A dead man's switch at the other end alerts when
//! the pings stop: nothing inside a cluster can report that the whole cluster is gone.

use std::{fs::File, io::Read, path::PathBuf, time::Duration};

use http::{HeaderMap, HeaderValue, Method};
use tokio::time::{Instant, sleep};

use crate::{
    alerts::{
        delivery::{
            DeliveryOptions, HttpClient,
            http_client::{Post, TlsError},
            system_lookup,
        },
        destination::{Destination, UrlError},
        retry::AttemptOutcome,
    },
    api::WebhookFormat,
    metrics::{Metrics, Unhealthy},
    watchdog::Heartbeat,
};

/// The timeout of a ping.
const TIMEOUT: Duration = Duration::from_secs(10);
/// More than a URL may have.
const FILE_LIMIT: u64 = 4 * 1_024;

/// Where to send pings, and what they depend on.
#[derive(Clone, Debug)]
pub struct HeartbeatWebhook {
    /// The file that contains the URL, which is a secret. It is read before each ping, so that it may be changed.
    pub url_file: PathBuf,
    /// Only webhooks of objects in these namespaces count; absent: all.
    pub namespaces: Option<Vec<String>>,
    pub options: DeliveryOptions,
    pub timings: HeartbeatTimings,
}

/// Intervals that tests shorten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatTimings {
    /// Between two pings.
    pub interval: Duration,
    /// Between two attempts if the first one failed, and between two checks whether a ping may be sent.
    pub retry: Duration,
}

impl Default for HeartbeatTimings {
    fn default() -> Self {
        Self { interval: Duration::from_secs(60), retry: Duration::from_secs(5) }
    }
}

/// Why the URL cannot be used. Contains no part of it.
#[derive(Debug, thiserror::Error)]
pub enum HeartbeatError {
    #[error("cannot read the file: {0}")]
    Read(std::io::Error),
    #[error("the file's content {0}")]
    Url(UrlError),
    #[error(transparent)]
    Tls(TlsError),
}

/// Why no ping arrived.
#[derive(Debug, thiserror::Error)]
enum NoPing {
    #[error(transparent)]
    Unhealthy(Unhealthy),
    #[error(transparent)]
    Unusable(HeartbeatError),
    #[error("{0}")]
    Failed(String),
}

impl HeartbeatWebhook {
    /// Reads the URL.
    ///
    /// # Errors
    /// If the file cannot be read, or its content is not a URL that is allowed.
    pub fn destination(&self) -> Result<Destination, HeartbeatError> {
        let mut content = Vec::new();
        let file = File::open(&self.url_file).map_err(HeartbeatError::Read)?;
        file.take(FILE_LIMIT).read_to_end(&mut content).map_err(HeartbeatError::Read)?;
        Destination::new(WebhookFormat::Generic, &content, self.options.urls).map_err(HeartbeatError::Url)
    }
}

/// Sends pings until the future is dropped.
pub async fn run(webhook: HeartbeatWebhook, metrics: Metrics, heartbeat: Heartbeat) {
    let http = HttpClient::new(webhook.options, system_lookup());
    let mut last_problem = String::new();
    loop {
        let health = match heartbeat.is_alive() {
            true => metrics.is_delivering(webhook.namespaces.as_deref(), Instant::now()),
            false => Err(Unhealthy::NotAlive),
        };
        let pinged = match health {
            Ok(()) => ping(&webhook, &http, &metrics).await,
            Err(reason) => Err(NoPing::Unhealthy(reason)),
        };
        let problem = pinged.as_ref().err().map(ToString::to_string).unwrap_or_default();
        if problem != last_problem {
            match &pinged {
                Ok(()) => tracing::info!("the heartbeat webhook is pinged again"),
                // It begins like this, and ends so when another replica leads.
                Err(NoPing::Unhealthy(reason @ (Unhealthy::NotSynced | Unhealthy::NotLeader))) => {
                    tracing::info!(%reason, "the heartbeat webhook is not pinged");
                }
                Err(reason) => tracing::warn!(%reason, "the heartbeat webhook is not pinged"),
            }
            last_problem = problem;
        }
        sleep(if pinged.is_ok() { webhook.timings.interval } else { webhook.timings.retry }).await;
    }
}

async fn ping(webhook: &HeartbeatWebhook, http: &HttpClient, metrics: &Metrics) -> Result<(), NoPing> {
    let sent = send(webhook, http).await;
    metrics.heartbeat_sent(if sent.is_ok() { "delivered" } else { "failed" });
    sent
}

async fn send(webhook: &HeartbeatWebhook, http: &HttpClient) -> Result<(), NoPing> {
    let destination = webhook.destination().map_err(NoPing::Unusable)?;
    let url = destination.url();
    let tls = match url.scheme() {
        "https" => {
            let roots = http.public_roots().await;
            Some(roots.map_err(|error| NoPing::Unusable(HeartbeatError::Tls(error)))?)
        }
        _ => None,
    };
    let post = Post {
        method: Method::POST,
        url,
        tls,
        headers: HeaderMap::new(),
        content_type: HeaderValue::from_static("text/plain"),
        body: Vec::new(),
        timeout: TIMEOUT,
    };
    match http.post(post).await {
        AttemptOutcome::Answered { status: 200..=299, .. } => Ok(()),
        outcome => Err(NoPing::Failed(outcome.reason())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::alerts::destination::UrlPolicy;

    fn destination(content: &[u8]) -> Result<String, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        let webhook = HeartbeatWebhook {
            url_file: file.path().to_owned(),
            namespaces: None,
            options: DeliveryOptions { urls: UrlPolicy::default(), proxy_from_env: false },
            timings: HeartbeatTimings::default(),
        };
        webhook.destination().map(|own| own.url().to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_url_obeys_the_rules_of_webhooks_and_is_never_quoted() {
        assert_eq!(destination(b"https://example.com/ping/hunter2\n").unwrap(), "https://example.com/ping/hunter2");
        let long = [b"https://example.com/hunter2".as_slice(), &[b'a'; 5_000]].concat();
        for (content, expected) in [
            (b"http://example.com/hunter2".as_slice(), "is an http:// URL"),
            (b"https://127.0.0.1/hunter2", "loopback"),
            (b"https://169.254.169.254/hunter2", "metadata"),
            (b"https://user:hunter2@example.com", "must not hold a user name"),
            (b"hunter2", "is not a URL"),
            (&long, "is not a URL"),
            (b"", "is not a URL"),
        ] {
            let error = destination(content).unwrap_err();
            assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
        }
    }
}
