//! `orchestr run`.

use std::process::ExitCode;

use clap::{Args, ValueEnum, builder::PossibleValue, value_parser};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    app,
    config::{CHECK_INTERVAL, LogFormat, Logging, RunConfig, StreamingLists},
    telemetry::logging,
};

use super::{
    Failure,
    connect::{ConnectionFlags, Retries, connect},
    preflight::preflight,
    webhook_flags::WebhookFlags,
};

/// The flags of `orchestr run`.
#[derive(Debug, Args)]
pub(super) struct RunFlags {
    #[command(flatten)]
    connection: ConnectionFlags,

    /// Watch pods and Orchestr objects of these namespaces only, which takes no more than Roles in them
    #[arg(long, env = "ORCHESTR_NAMESPACES", value_name = "NAMESPACE,…", value_delimiter = ',')]
    namespaces: Vec<String>,

    /// What alerts call this cluster; two clusters with the same objects are then told apart by people, too
    #[arg(long, env = "ORCHESTR_CLUSTER_NAME", value_name = "NAME")]
    cluster_name: Option<String>,

    /// Whether the first list of pods is streamed, which takes less memory
    #[arg(long, env = "ORCHESTR_STREAMING_LISTS", value_name = "WHEN", value_enum, default_value_t)]
    streaming_lists: StreamingLists,

    /// How many containers' logs are read at once
    #[arg(
        long, env = "ORCHESTR_POD_LOG_READS", value_name = "COUNT", default_value = "8",
        value_parser = value_parser!(u16).range(1..=256),
    )]
    pod_log_reads: u16,

    #[command(flatten)]
    webhooks: WebhookFlags,

    /// How the operator's own log looks; auto: text on a terminal, else JSON
    #[arg(long, env = "ORCHESTR_LOG_FORMAT", value_name = "FORMAT", value_enum, default_value_t)]
    log_format: LogFormat,

    /// Which lines of the operator's own log are written, such as warn or orchestr=debug
    #[arg(long, env = "ORCHESTR_LOG", value_name = "FILTER", default_value = "info")]
    log: String,
}

impl RunFlags {
    fn validated(self) -> Result<(ConnectionFlags, RunConfig), Failure> {
        let config = RunConfig {
            namespaces: RunConfig::namespaces(self.namespaces).map_err(Failure::new)?,
            cluster_name: RunConfig::cluster_name(self.cluster_name).map_err(Failure::new)?,
            streaming_lists: self.streaming_lists,
            pod_log_reads: self.pod_log_reads.into(),
            check_interval: CHECK_INTERVAL,
            webhooks: self.webhooks.access(),
            logging: Logging { format: self.log_format, filter: self.log },
        };
        Ok((self.connection, config))
    }
}

pub(super) async fn run(flags: RunFlags) -> Result<ExitCode, Failure> {
    let (connection, config) = flags.validated()?;
    logging::init(&config.logging).map_err(|error| Failure::new(format!("--log: {error}")))?;
    let cluster = connect(&connection, Retries::AtTheCaller).await?;
    preflight(&cluster, config.namespaces.as_deref()).await?;
    log_start(&config);
    let shutdown = CancellationToken::new();
    let terminated = shutdown.clone().drop_guard();
    let signals = signals().map_err(|error| Failure::new(format!("can't listen for signals: {error}")))?;
    tokio::spawn(async move {
        signals.await;
        drop(terminated);
    });
    app::run(cluster.client, &config, shutdown).await;
    Ok(ExitCode::SUCCESS)
}

/// Says how the operator runs: the first thing to know of a log that somebody sends. Nothing in it is secret.
fn log_start(config: &RunConfig) {
    let RunConfig { namespaces, cluster_name, streaming_lists, pod_log_reads, webhooks, logging, check_interval: _ } =
        config;
    let streaming_lists = streaming_lists.to_possible_value();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        namespaces = namespaces.as_ref().map_or_else(|| "all".to_owned(), |names| names.join(",")),
        cluster_name,
        streaming_lists = streaming_lists.as_ref().map(PossibleValue::get_name),
        pod_log_reads,
        webhook_allow_http = webhooks.urls.plain_http,
        webhook_refuse_private = !webhooks.urls.addresses.private,
        webhook_allow_loopback = webhooks.urls.addresses.loopback,
        webhook_proxy_from_env = webhooks.proxy_from_env,
        log = logging.filter,
        "started"
    );
}

/// Ends with the first SIGTERM or SIGINT.
fn signals() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
