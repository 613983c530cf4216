//! The validated configuration of `orchestr run`.
//!
//! The flags are parsed in [`crate::cli`]. The configuration of each object comes from its spec, see [`crate::settings`].

use std::{
    fmt, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    path::PathBuf,
    time::Duration,
};

use clap::ValueEnum;

use crate::{
    alerts::delivery::{DeliveryOptions, DeliveryTimings},
    leader::LeaseOptions,
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
    /// The file of the alert log; `-` is standard output.
    pub alert_log: Option<PathBuf>,
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

/// Where to listen: on all addresses, of IPv6 and IPv4, or on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsAddress(SocketAddr);

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.ip() == Ipv6Addr::UNSPECIFIED { write!(f, ":{}", self.0.port()) } else { self.0.fmt(f) }
    }
}

impl MetricsAddress {
    /// Listens.
    ///
    /// # Errors
    /// If the port is in use or not allowed, or this machine does not have the address.
    pub fn bind(&self) -> io::Result<TcpListener> {
        let listener = match TcpListener::bind(self.0) {
            // On Linux, this includes IPv4. A kernel may have no IPv6.
            Err(error) if self.0.ip() == Ipv6Addr::UNSPECIFIED && error.kind() != io::ErrorKind::AddrInUse => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, self.0.port()))?
            }
            bound => bound?,
        };
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

/// The value of a flag that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--{flag}: {value:?} {rule}")]
pub struct ConfigError {
    flag: &'static str,
    value: String,
    rule: &'static str,
}

const NAMESPACE: &str = "is not a namespace: lower-case letters, digits and '-', at most 63 of them";
const LEASE_NAME: &str = "is not a name: lower-case letters, digits, '-' and '.', at most 253 of them";
const CLUSTER_NAME: &str = "is not a name: at most 63 characters, none of them a control character";
const METRICS_ADDRESS: &str = "must be :PORT or IP:PORT, such as :8080 or 127.0.0.1:8080";

impl RunConfig {
    /// Validates the namespaces of a flag, and returns them sorted and unique. Empty names are dropped, so that an empty
    /// environment variable means all namespaces, which is absent.
    ///
    /// # Errors
    /// When a value is not a valid name.
    pub fn namespaces(flag: &'static str, given: Vec<String>) -> Result<Option<Vec<String>>, ConfigError> {
        let mut namespaces: Vec<_> = given.into_iter().filter_map(|name| non_empty(Some(name))).collect();
        namespaces.iter().try_for_each(|name| check(flag, name, NAMESPACE, is_dns_label(name)))?;
        namespaces.sort_unstable();
        namespaces.dedup();
        Ok((!namespaces.is_empty()).then_some(namespaces))
    }

    /// Parses `--metrics-address`: `:8080` for all addresses, or one, such as `127.0.0.1:8080` or `[::1]:8080`. An empty
    /// address means none, so that the environment variable may be empty.
    ///
    /// # Errors
    /// When it is no address.
    pub fn metrics_address(given: Option<String>) -> Result<Option<MetricsAddress>, ConfigError> {
        let Some(value) = non_empty(given) else { return Ok(None) };
        let full = if value.starts_with(':') { format!("[::]{value}") } else { value.clone() };
        let wrong = |_| ConfigError { flag: "metrics-address", value, rule: METRICS_ADDRESS };
        full.parse().map(|address| Some(MetricsAddress(address))).map_err(wrong)
    }

    /// Validates `--lease-name` and `--lease-namespace`. `holder` is the name of this replica.
    ///
    /// # Errors
    /// When a value is not a valid name.
    pub fn lease(name: String, namespace: Option<String>, holder: &str) -> Result<LeaseOptions, ConfigError> {
        check("lease-name", &name, LEASE_NAME, name.len() <= 253 && name.split('.').all(is_dns_label))?;
        let namespace = non_empty(namespace);
        namespace.iter().try_for_each(|name| check("lease-namespace", name, NAMESPACE, is_dns_label(name)))?;
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
        let name = non_empty(given);
        let is_valid = |name: &str| name.chars().count() <= 63 && !name.contains(char::is_control);
        name.iter().try_for_each(|name| check("cluster-name", name, CLUSTER_NAME, is_valid(name)))?;
        Ok(name)
    }
}

fn non_empty(given: Option<String>) -> Option<String> {
    given.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn check(flag: &'static str, value: &str, rule: &'static str, is_valid: bool) -> Result<(), ConfigError> {
    if is_valid { Ok(()) } else { Err(ConfigError { flag, value: value.to_owned(), rule }) }
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
        RunConfig::namespaces("namespaces", given.iter().map(|&name| name.to_owned()).collect())
    }

    fn wrong<T>(flag: &'static str, value: &str, rule: &'static str) -> Result<T, ConfigError> {
        Err(ConfigError { flag, value: value.to_owned(), rule })
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
        for value in ["a\nb", &"a".repeat(64)] {
            assert_eq!(name(value), wrong("cluster-name", value, CLUSTER_NAME));
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
        for value in ["", "A", "a/b", "a..b", &"a".repeat(64)] {
            assert_eq!(lease(value, "", ""), wrong("lease-name", value, LEASE_NAME), "{value}");
        }
        assert_eq!(lease("a", "a.b", ""), wrong("lease-namespace", "a.b", NAMESPACE));
    }

    #[test]
    fn rejects_invalid_names_of_namespaces() {
        for value in ["Shop", "shop/cart", "-a", "a-", "*", "a.b", &"a".repeat(64)] {
            assert_eq!(namespaces(&["ml", value]), wrong("namespaces", value, NAMESPACE));
        }
        let error = namespaces(&["*"]).unwrap_err().to_string();
        assert!(error.starts_with(r#"--namespaces: "*" is not a namespace: lower-case"#), "{error}");
    }

    fn address(given: &str) -> Result<Option<MetricsAddress>, ConfigError> {
        RunConfig::metrics_address(Some(given.to_owned()))
    }

    #[test]
    fn an_address_is_a_port_or_an_ip_with_a_port() {
        for text in [":8080", "127.0.0.1:8080", "[::1]:8080", "0.0.0.0:0"] {
            assert_eq!(address(text).unwrap().unwrap().to_string(), text);
        }
        assert_eq!((address(" "), RunConfig::metrics_address(None)), (Ok(None), Ok(None)));
        for value in ["8080", ":", ":x", ":65536", "localhost:8080", "127.0.0.1", "::1:8080:", "http://a:1"] {
            assert_eq!(address(value), wrong("metrics-address", value, METRICS_ADDRESS));
        }
    }

    #[test]
    fn listens_on_all_addresses_and_reports_a_port_in_use() {
        let first = address(":0").unwrap().unwrap().bind().unwrap();
        let port = first.local_addr().unwrap().port();
        std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let second = address(&format!(":{port}")).unwrap().unwrap().bind();
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AddrInUse);
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
