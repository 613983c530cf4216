//! Pings a webhook once a minute while the operator watches and delivers. A dead man's switch at the other end alerts when
//! the pings stop: nothing inside a cluster can report that the whole cluster is gone.

use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
    time::Duration,
};

use http::{HeaderMap, HeaderValue, Method};
use tokio::time::{Instant, sleep};

use crate::{
    alerts::{
        delivery::{DeliveryOptions, HttpClient, http_client::Post, system_lookup},
        destination::Destination,
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

impl HeartbeatWebhook {
    /// Reads the URL.
    ///
    /// # Errors
    /// If the file cannot be read, or its content is not a URL that is allowed. The text contains no part of the URL.
    pub fn destination(&self) -> Result<Destination, String> {
        let mut content = Vec::new();
        let read = File::open(&self.url_file).and_then(|file| file.take(FILE_LIMIT).read_to_end(&mut content));
        read.map_err(|error: io::Error| format!("cannot read the file: {error}"))?;
        Destination::new(WebhookFormat::Generic, &content, self.options.urls)
            .map_err(|error| format!("the file's content {error}"))
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
            Ok(()) => ping(&webhook, &http).await,
            Err(reason) => Err(reason.to_string()),
        };
        if health.is_ok() {
            metrics.heartbeat_sent(if pinged.is_ok() { "delivered" } else { "failed" });
        }
        let pause = if pinged.is_ok() { webhook.timings.interval } else { webhook.timings.retry };
        let problem = pinged.err().unwrap_or_default();
        if problem != last_problem {
            match health {
                _ if problem.is_empty() => tracing::info!("the heartbeat webhook is pinged again"),
                // The state at startup, and again after another replica takes over.
                Err(reason @ (Unhealthy::NotSynced | Unhealthy::NotLeader)) => {
                    tracing::info!(%reason, "the heartbeat webhook is not pinged");
                }
                _ => tracing::warn!(reason = problem, "the heartbeat webhook is not pinged"),
            }
            last_problem = problem;
        }
        sleep(pause).await;
    }
}

async fn ping(webhook: &HeartbeatWebhook, http: &HttpClient) -> Result<(), String> {
    let destination = webhook.destination()?;
    let url = destination.url();
    let tls = match url.scheme() {
        "https" => Some(http.public_roots().await?),
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
        outcome => Err(outcome.reason()),
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
        webhook.destination().map(|own| own.url().to_string())
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
