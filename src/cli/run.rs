//! `orchestr run`.

use std::process::ExitCode;

use clap::{Args, ValueEnum, builder::PossibleValue, value_parser};
use tokio_util::sync::CancellationToken;

use crate::{
    app,
    config::{LogFormat, Logging, RunConfig, StreamingLists, Timings},
    telemetry::logging,
    watchdog::{self, Heartbeat},
};

use super::{
    Failure,
    connect::{ConnectionFlags, Retries, connect},
    preflight::preflight,
    webhook_flags::WebhookFlags,
};

#[derive(Debug, Args)]
pub(super) struct RunFlags {
    #[command(flatten)]
    connection: ConnectionFlags,

    /// Watch only these namespaces, which requires only Roles in them; the whole cluster by default
    #[arg(long, env = "ORCHESTR_NAMESPACES", value_name = "NAMESPACE,…", value_delimiter = ',')]
    namespaces: Vec<String>,

    /// Refuse objects that do not restrict spec.pods.namespaces to their own namespace
    #[arg(long, env = "ORCHESTR_OWN_NAMESPACE_ONLY")]
    own_namespace_only: bool,

    /// The name of this cluster in alerts, so that people can tell the alerts of several clusters apart
    #[arg(long, env = "ORCHESTR_CLUSTER_NAME", value_name = "NAME")]
    cluster_name: Option<String>,

    /// When to stream the initial list of pods, which takes less memory than pages
    #[arg(long, env = "ORCHESTR_STREAMING_LISTS", value_name = "WHEN", value_enum, default_value_t)]
    streaming_lists: StreamingLists,

    /// How many container logs to read concurrently
    #[arg(
        long, env = "ORCHESTR_POD_LOG_READS", value_name = "COUNT", default_value = "8",
        value_parser = value_parser!(u16).range(1..=256),
    )]
    pod_log_reads: u16,

    /// How many Orchestr objects of a namespace to watch, the oldest ones; 0 for all
    #[arg(long, env = "ORCHESTR_MAX_OBJECTS_PER_NAMESPACE", value_name = "COUNT", default_value = "20")]
    max_objects_per_namespace: u32,

    #[command(flatten)]
    webhooks: WebhookFlags,

    /// The format of the operator's own log
    #[arg(long, env = "ORCHESTR_LOG_FORMAT", value_name = "FORMAT", value_enum, default_value_t)]
    log_format: LogFormat,

    /// The filter of the operator's own log, such as warn or orchestr=debug
    #[arg(long, env = "ORCHESTR_LOG", value_name = "FILTER", default_value = "info")]
    log: String,
}

impl RunFlags {
    fn into_config(self) -> Result<(ConnectionFlags, RunConfig), Failure> {
        let config = RunConfig {
            namespaces: RunConfig::namespaces(self.namespaces).map_err(Failure::new)?,
            own_namespace_only: self.own_namespace_only,
            cluster_name: RunConfig::cluster_name(self.cluster_name).map_err(Failure::new)?,
            streaming_lists: self.streaming_lists,
            pod_log_reads: self.pod_log_reads.into(),
            max_objects_per_namespace: self.max_objects_per_namespace as usize,
            webhooks: self.webhooks.access(),
            logging: Logging { format: self.log_format, filter: self.log },
            timings: Timings::default(),
        };
        Ok((self.connection, config))
    }
}

pub(super) async fn run(flags: RunFlags) -> Result<ExitCode, Failure> {
    let (connection, config) = flags.into_config()?;
    logging::init(&config.logging).map_err(|error| Failure::new(format!("--log: {error}")))?;
    let cluster = connect(&connection, Retries::AtTheCaller).await?;
    preflight(&cluster, config.namespaces.as_deref()).await?;
    log_start(&config);
    let (heartbeat, shutdown) = (Heartbeat::default(), CancellationToken::new());
    watchdog::start(heartbeat.clone(), shutdown.clone())
        .map_err(|error| Failure::new(format!("cannot start the watchdog: {error}")))?;
    app::run(cluster.client, &config, heartbeat, shutdown).await;
    Ok(ExitCode::SUCCESS)
}

/// Logs the version and the flags, so that a log sent with a bug report contains them. None of them is secret.
fn log_start(config: &RunConfig) {
    let RunConfig {
        namespaces,
        own_namespace_only,
        cluster_name,
        streaming_lists,
        pod_log_reads,
        max_objects_per_namespace,
        webhooks,
        logging,
        timings: _,
    } = config;
    let streaming_lists = streaming_lists.to_possible_value();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        namespaces = namespaces.as_ref().map_or_else(|| "all".to_owned(), |names| names.join(",")),
        own_namespace_only,
        cluster_name,
        streaming_lists = streaming_lists.as_ref().map(PossibleValue::get_name),
        pod_log_reads,
        max_objects_per_namespace,
        webhook_allow_http = webhooks.urls.plain_http,
        webhook_refuse_private = !webhooks.urls.addresses.private,
        webhook_allow_loopback = webhooks.urls.addresses.loopback,
        webhook_proxy_from_env = webhooks.proxy_from_env,
        log = logging.filter,
        "started"
    );
}
