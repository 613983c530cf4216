//! How the operator runs: what the flags mean once they have been checked.
//!
//! The raw flags are [`crate::cli`]'s. What each object asks for is in its spec, [`crate::settings`].

use std::time::Duration;

use clap::ValueEnum;

use crate::alerts::delivery::DeliveryOptions;

/// How often `status.lastCheckTime` is refreshed: users are promised five minutes.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(4 * 60);

/// How `orchestr run` runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunConfig {
    /// The only namespaces that are listed and watched, sorted, each once. Absent: the whole cluster,
    /// which takes cluster-wide rights; present: Roles in these namespaces are enough. Never empty.
    pub namespaces: Option<Vec<String>>,
    /// What alerts call this cluster; absent if it has no name. Never empty.
    pub cluster_name: Option<String>,
    /// Whether the first list of pods is streamed.
    pub streaming_lists: StreamingLists,
    /// How many containers' logs are read at once, over all objects: 1 to 256.
    pub pod_log_reads: usize,
    /// How often an object's `status.lastCheckTime` is refreshed at least.
    pub check_interval: Duration,
    /// What webhooks may do.
    pub webhooks: DeliveryOptions,
    /// What the operator says of itself.
    pub logging: Logging,
}

/// Whether the first list of pods is streamed (Kubernetes' `WatchList`, on by default from 1.34): it
/// costs both sides a fraction of the memory of a list in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum StreamingLists {
    /// Where the API server offers it, else in pages
    #[default]
    Auto,
    /// Even where the API server refuses it: then no pod is ever read
    Always,
    /// In pages
    Never,
}

/// What the operator says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logging {
    /// How a line looks.
    pub format: LogFormat,
    /// Which lines: `tracing-subscriber`'s directives, such as `info` or `orchestr=debug`.
    pub filter: String,
}

/// How a line of the operator's own log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text where a person reads it on a terminal, else JSON
    #[default]
    Auto,
    /// One JSON object per line
    Json,
    /// For people
    Text,
}

/// Why a flag can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not what Kubernetes takes for a namespace's name.
    #[error("--namespaces: {0:?} is not a namespace: lower-case letters, digits and '-', at most 63 of them")]
    Namespace(String),
    /// Not fit to be a label's value.
    #[error("--cluster-name: {0:?} is not a name: at most 63 characters, none of them a control character")]
    ClusterName(String),
}

impl RunConfig {
    /// Sorts and checks the namespaces of `--namespaces`. Empty names are passed over, so that a variable
    /// that is set to nothing confines the operator to nothing less than the cluster.
    ///
    /// # Errors
    /// When one can't be a namespace.
    pub fn namespaces(given: Vec<String>) -> Result<Option<Vec<String>>, ConfigError> {
        let mut namespaces: Vec<_> =
            given.into_iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
        if let Some(wrong) = namespaces.iter().find(|name| !is_dns_label(name)) {
            return Err(ConfigError::Namespace(wrong.clone()));
        }
        namespaces.sort_unstable();
        namespaces.dedup();
        Ok((!namespaces.is_empty()).then_some(namespaces))
    }
}

impl RunConfig {
    /// Checks `--cluster-name`. An empty name counts as no name, so that the variable may be set to nothing.
    ///
    /// # Errors
    /// When it is too long, or holds control characters.
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

/// RFC 1123's label, which names of namespaces are.
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
    fn namespaces_are_sorted_and_each_stands_once() {
        assert_eq!(namespaces(&["shop", " ml", "shop"]), Ok(Some(vec!["ml".to_owned(), "shop".to_owned()])));
    }

    #[test]
    fn nothing_means_the_whole_cluster() {
        assert_eq!(namespaces(&[]), Ok(None));
        assert_eq!(namespaces(&["", " "]), Ok(None));
    }

    #[test]
    fn a_cluster_name_is_short_and_printable_or_absent() {
        let name = |given: &str| RunConfig::cluster_name(Some(given.to_owned()));
        assert_eq!(RunConfig::cluster_name(None), Ok(None));
        assert_eq!(name(" "), Ok(None));
        assert_eq!(name(" prod-eu "), Ok(Some("prod-eu".to_owned())));
        for wrong in ["a\nb", &"a".repeat(64)] {
            assert_eq!(name(wrong), Err(ConfigError::ClusterName(wrong.to_owned())));
        }
    }

    #[test]
    fn what_cannot_be_a_namespace_is_named() {
        for wrong in ["Shop", "shop/cart", "-a", "a-", "*", "a.b", &"a".repeat(64)] {
            assert_eq!(namespaces(&["ml", wrong]), Err(ConfigError::Namespace(wrong.to_owned())));
        }
    }
}
