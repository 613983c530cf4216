//! The validated configuration of `orchestr run`.
//!
//! The flags are parsed in [`crate::cli`]. The configuration of each object comes from its spec, see [`crate::settings`].

use std::{path::PathBuf, time::Duration};

use clap::ValueEnum;

use crate::{
    alerts::delivery::{DeliveryOptions, DeliveryTimings},
    leader::LeaseOptions,
    metrics::{AddressError, MetricsAddress},
};

pub use crate::watch::StreamingLists;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunConfig {
    /// The only namespaces to watch, sorted and unique; never empty. Absent: the whole cluster, which needs cluster-wide
    /// rights.
    pub namespaces: Option<Vec<String>>,
    /// Whether an object may select only pods of its own namespace.
    pub own_namespace_only: bool,
    /// The name of this cluster in alerts; never empty.
    pub cluster_name: Option<String>,
    pub streaming_lists: StreamingLists,
    /// How many container logs are read concurrently, for all objects together: 1 to 256.
    pub pod_log_reads: usize,
    pub webhooks: DeliveryOptions,
    /// Absent: this is the only replica.
    pub leader_election: Option<LeaseOptions>,
    pub logging: Logging,
    pub telemetry: TelemetryConfig,
    pub timings: Timings,
}

/// Delays that integration tests shorten. `orchestr run` always uses the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// The longest time between two updates of an object's `status.lastCheckTime`. The documentation promises five
    /// minutes.
    pub check_interval: Duration,
    /// The shortest time between two writes of one status.
    pub status_write_interval: Duration,
    /// How long every request must be forbidden before the permission counts as lost: a starting API server may deny
    /// every request until its authorizer is ready.
    pub forbidden_confirmation: Duration,
    /// How long a status waits for its logs.
    pub log_wait: Duration,
    pub alerts: DeliveryTimings,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            check_interval: Duration::from_secs(4 * 60),
            status_write_interval: Duration::from_secs(1),
            forbidden_confirmation: Duration::from_secs(5),
            log_wait: Duration::from_millis(150),
            alerts: DeliveryTimings::default(),
        }
    }
}

/// How the operator is observed from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// Where to serve metrics and probes.
    pub metrics_address: Option<MetricsAddress>,
    /// Whether the metrics name no incidents.
    pub metrics_without_incidents: bool,
    /// The file with the URL of the heartbeat webhook.
    pub heartbeat_url_file: Option<PathBuf>,
    /// The namespaces whose webhooks the heartbeat depends on; absent: all.
    pub heartbeat_namespaces: Option<Vec<String>>,
}

/// The configuration of the operator's own log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logging {
    pub format: LogFormat,
    /// Directives of `tracing-subscriber`, such as `info` or `orchestr=debug`.
    pub filter: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, otherwise JSON
    #[default]
    Auto,
    /// One JSON object per line
    Json,
    /// Readable text
    Text,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("--namespaces: {0:?} is not a namespace: lower-case letters, digits and '-', at most 63 of them")]
    Namespace(String),
    #[error("--heartbeat-namespaces: {0:?} is not a namespace: lower-case letters, digits and '-', at most 63 of them")]
    HeartbeatNamespace(String),
    #[error("--metrics-address: {0:?} {1}")]
    MetricsAddress(String, AddressError),
    #[error("--cluster-name: {0:?} is not a name: at most 63 characters, none of them a control character")]
    ClusterName(String),
    #[error("--lease-name: {0:?} is not a name: lower-case letters, digits, '-' and '.', at most 253 of them")]
    LeaseName(String),
    #[error("--lease-namespace: {0:?} is not a namespace: lower-case letters, digits and '-', at most 63 of them")]
    LeaseNamespace(String),
}

impl RunConfig {
    /// Validates `--namespaces`. Empty names are dropped, so that an empty environment variable means the whole cluster.
    ///
    /// # Errors
    /// When a value is not a valid name.
    pub fn namespaces(given: Vec<String>) -> Result<Option<Vec<String>>, ConfigError> {
        namespaces(given).map_err(ConfigError::Namespace)
    }

    /// Validates `--heartbeat-namespaces` like `--namespaces`.
    ///
    /// # Errors
    /// When a value is not a valid name.
    pub fn heartbeat_namespaces(given: Vec<String>) -> Result<Option<Vec<String>>, ConfigError> {
        namespaces(given).map_err(ConfigError::HeartbeatNamespace)
    }

    /// Parses `--metrics-address`. An empty address means none, so that the environment variable may be empty.
    ///
    /// # Errors
    /// When it is no address.
    pub fn metrics_address(given: Option<&str>) -> Result<Option<MetricsAddress>, ConfigError> {
        let Some(text) = given.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
        text.parse().map(Some).map_err(|error| ConfigError::MetricsAddress(text.to_owned(), error))
    }

    /// Validates `--lease-name` and `--lease-namespace`. `holder` is the name of this replica.
    ///
    /// # Errors
    /// When a value is not a valid name.
    pub fn lease(name: String, namespace: Option<String>, holder: &str) -> Result<LeaseOptions, ConfigError> {
        if name.len() > 253 || !name.split('.').all(is_dns_label) {
            return Err(ConfigError::LeaseName(name));
        }
        let namespace = namespace.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        if let Some(invalid) = namespace.as_ref().filter(|name| !is_dns_label(name)) {
            return Err(ConfigError::LeaseNamespace(invalid.clone()));
        }
        let is_plain = |char: &char| char.is_ascii_alphanumeric() || matches!(char, '-' | '.');
        let holder: String = holder.chars().filter(is_plain).take(253).collect();
        let holder = if holder.is_empty() { "orchestr".to_owned() } else { holder };
        Ok(LeaseOptions { name, namespace, holder })
    }

    /// Validates `--cluster-name`. An empty name means no name, so that the environment variable may be empty.
    ///
    /// # Errors
    /// When it is longer than 63 characters or contains control characters.
    pub fn cluster_name(given: Option<String>) -> Result<Option<String>, ConfigError> {
        let Some(name) = given.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        if name.chars().count() > 63 || name.contains(char::is_control) {
            return Err(ConfigError::ClusterName(name));
        }
        Ok(Some(name))
    }
}

/// The names, sorted and unique; absent without any. The error is an invalid name.
fn namespaces(given: Vec<String>) -> Result<Option<Vec<String>>, String> {
    let mut namespaces: Vec<_> =
        given.into_iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    if let Some(invalid) = namespaces.iter().find(|name| !is_dns_label(name)) {
        return Err(invalid.clone());
    }
    namespaces.sort_unstable();
    namespaces.dedup();
    Ok((!namespaces.is_empty()).then_some(namespaces))
}

/// Whether a name is an RFC 1123 label, as the names of namespaces are.
fn is_dns_label(name: &str) -> bool {
    let bytes = name.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespaces(given: &[&str]) -> Result<Option<Vec<String>>, ConfigError> {
        RunConfig::namespaces(given.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn sorts_and_deduplicates_namespaces() {
        assert_eq!(namespaces(&["shop", " ml", "shop"]), Ok(Some(vec!["ml".to_owned(), "shop".to_owned()])));
    }

    #[test]
    fn no_namespaces_mean_the_whole_cluster() {
        assert_eq!(namespaces(&[]), Ok(None));
        assert_eq!(namespaces(&["", " "]), Ok(None));
    }

    #[test]
    fn validates_cluster_names() {
        let name = |given: &str| RunConfig::cluster_name(Some(given.to_owned()));
        assert_eq!(RunConfig::cluster_name(None), Ok(None));
        assert_eq!(name(" "), Ok(None));
        assert_eq!(name(" prod-eu "), Ok(Some("prod-eu".to_owned())));
        for wrong in ["a\nb", &"a".repeat(64)] {
            assert_eq!(name(wrong), Err(ConfigError::ClusterName(wrong.to_owned())));
        }
    }

    #[test]
    fn validates_the_names_of_the_lease() {
        let lease = |name: &str, namespace: &str, holder: &str| {
            RunConfig::lease(name.to_owned(), Some(namespace.to_owned()), holder)
        };
        let options = |namespace: Option<&str>, holder: &str| LeaseOptions {
            name: "orchestr.a".to_owned(),
            namespace: namespace.map(str::to_owned),
            holder: holder.to_owned(),
        };
        assert_eq!(lease("orchestr.a", "shop", "orchestr-7d9f-x"), Ok(options(Some("shop"), "orchestr-7d9f-x")));
        assert_eq!(lease("orchestr.a", "", "a\nb é"), Ok(options(None, "ab")));
        assert_eq!(lease("orchestr.a", " ", ""), Ok(options(None, "orchestr")));
        for wrong in ["", "A", "a/b", "a..b", &"a".repeat(64)] {
            assert_eq!(lease(wrong, "", ""), Err(ConfigError::LeaseName(wrong.to_owned())), "{wrong}");
        }
        assert_eq!(lease("a", "a.b", ""), Err(ConfigError::LeaseNamespace("a.b".to_owned())));
    }

    #[test]
    fn rejects_invalid_names_of_namespaces() {
        for wrong in ["Shop", "shop/cart", "-a", "a-", "*", "a.b", &"a".repeat(64)] {
            assert_eq!(namespaces(&["ml", wrong]), Err(ConfigError::Namespace(wrong.to_owned())));
        }
    }

    #[test]
    fn the_timings_are_those_of_the_documentation() {
        assert_eq!(
            Timings::default(),
            Timings {
                // docs/status.md: `lastCheckTime` is at most five minutes old.
                check_interval: Duration::from_secs(240),
                status_write_interval: Duration::from_secs(1),
                forbidden_confirmation: Duration::from_secs(5),
                log_wait: Duration::from_millis(150),
                // docs/alerts.md: Secrets of an unusable webhook are first read again after 10 s. docs/receivers: the pace of each
                // format is not divided.
                alerts: DeliveryTimings {
                    secrets_retry_interval: Duration::from_secs(10),
                    secrets_max_age: Duration::from_secs(30),
                    unstored_after: Duration::from_secs(300),
                    pacing_divisor: 1,
                },
            }
        );
    }
}
