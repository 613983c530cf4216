//! What the flags of several commands share.

use std::{sync::Arc, time::Duration};

use clap::Args;

use crate::{
    api::{GoDuration, ParseDurationError, is_object_name},
    clock::ClusterClock,
    logs::LogPolicy,
};

use super::{
    Failure,
    connect::{Cluster, ConnectionFlags, Retries, connect},
};

/// The bytes of a log that are shown, at most.
const LOG_BYTES: u32 = 16 * 1024;

/// Parses a duration such as `90s` or `1h30m`.
pub(super) fn duration(text: &str) -> Result<Duration, ParseDurationError> {
    GoDuration::from(text).parse()
}

/// The flags of commands that read objects of one namespace, with their logs.
#[derive(Debug, Args)]
pub(super) struct ObjectFlags {
    /// The namespace of the objects; that of the context by default
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// How many lines of a log to print, the last ones
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000), default_value_t = 20)]
    log_lines: u32,

    #[command(flatten)]
    connection: ConnectionFlags,
}

/// The namespace of a cluster that the flags name.
pub(super) struct ConnectedNamespace {
    pub(super) cluster: Cluster,
    /// Follows the responses of the cluster.
    pub(super) clock: ClusterClock,
    pub(super) namespace: String,
}

impl ObjectFlags {
    pub(super) fn log_policy(&self) -> Arc<LogPolicy> {
        let (redact, redact_patterns) = (true, Vec::new());
        Arc::new(LogPolicy { tail_lines: self.log_lines, max_bytes: LOG_BYTES, redact, redact_patterns })
    }

    /// Connects to the cluster. No request is sent yet.
    pub(super) async fn connect(&self, retries: Retries) -> Result<ConnectedNamespace, Failure> {
        let mut cluster = connect(&self.connection, retries).await?;
        let clock = ClusterClock::default();
        cluster.client = clock.wrap_client(cluster.client, |_, _, _| {});
        let namespace = self.namespace.clone().unwrap_or_else(|| cluster.client.default_namespace().to_owned());
        if !is_object_name(&namespace) {
            return Err(Failure::new(format!("--namespace: {namespace:?} is not the name of a namespace")));
        }
        Ok(ConnectedNamespace { cluster, clock, namespace })
    }
}
