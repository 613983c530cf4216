//! `orchestr run`.

use std::{env, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, ValueEnum, builder::PossibleValue, value_parser};
use kube::{
    api::ListParams,
    core::{Request, Resource},
};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    alerts::delivery::AlertLog,
    api::Orchestr,
    app,
    config::{LogFormat, Logging, MetricsAddress, RunConfig, StreamingLists, TelemetryConfig, Timings},
    metrics::Metrics,
    telemetry::{
        self,
        heartbeat::{HeartbeatTimings, HeartbeatWebhook},
        logging,
    },
    version,
    watchdog::{self, Heartbeat},
};

use super::{
    Failure,
    api_error::{Grant, Permission},
    connect::{Cluster, ConnectionFlags, Retries, connect},
    webhook::WebhookFlags,
};

/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait for the CRD, which is usually applied together with the operator: the API server needs a moment to
/// establish it.
const CRD_TIMEOUT: Duration = Duration::from_secs(30);
const CRD_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How long the last lines of the alert log may take to be written at the end.
const ALERT_LOG_PATIENCE: Duration = Duration::from_millis(500);

/// What the exit codes mean, for the help.
const EXIT_CODES: &str = "\
Exit codes:
  0  the operator has ended after SIGTERM or SIGINT
  2  it could not start, or could not end in time";

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
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

    #[command(flatten)]
    webhooks: WebhookFlags,

    /// Run several replicas, of which only the one that holds a Lease writes and sends
    #[arg(long, env = "ORCHESTR_LEADER_ELECT")]
    leader_elect: bool,

    /// The name of the Lease
    #[arg(long, env = "ORCHESTR_LEASE_NAME", value_name = "NAME", default_value = "orchestr")]
    lease_name: String,

    /// The namespace of the Lease; by default that of the pod, or of the kubeconfig's context
    #[arg(long, env = "ORCHESTR_LEASE_NAMESPACE", value_name = "NAMESPACE")]
    lease_namespace: Option<String>,

    /// Serve metrics and probes here, such as :8080 or 127.0.0.1:8080; nowhere by default
    #[arg(long, env = "ORCHESTR_METRICS_ADDRESS", value_name = "[IP]:PORT")]
    metrics_address: Option<String>,

    /// Serve metrics that count problems, and name no namespace, object, owner or cause
    #[arg(long, env = "ORCHESTR_METRICS_WITHOUT_INCIDENTS")]
    metrics_without_incidents: bool,

    /// Ping the URL in this file once a minute while pods are watched and alerts are delivered
    #[arg(long, env = "ORCHESTR_HEARTBEAT_URL_FILE", value_name = "FILE")]
    heartbeat_url_file: Option<PathBuf>,

    /// The heartbeat depends only on the webhooks of objects in these namespaces; all by default
    #[arg(long, env = "ORCHESTR_HEARTBEAT_NAMESPACES", value_name = "NAMESPACE,…", value_delimiter = ',')]
    heartbeat_namespaces: Vec<String>,

    /// Append a line of JSON for each message that is sent to a webhook to this file; - is standard output
    #[arg(long, env = "ORCHESTR_ALERT_LOG", value_name = "FILE")]
    alert_log: Option<PathBuf>,

    /// The format of the operator's own log
    #[arg(long, env = "ORCHESTR_LOG_FORMAT", value_name = "FORMAT", value_enum, default_value_t)]
    log_format: LogFormat,

    /// The filter of the operator's own log, such as warn or orchestr=debug
    #[arg(long, env = "ORCHESTR_LOG", value_name = "FILTER", default_value = "info")]
    log: String,
}

impl RunFlags {
    fn into_config(self) -> Result<(ConnectionFlags, RunConfig), Failure> {
        let holder = env::var("HOSTNAME").unwrap_or_default();
        let lease = RunConfig::lease(self.lease_name, self.lease_namespace, &holder).map_err(Failure::new)?;
        let config = RunConfig {
            namespaces: RunConfig::namespaces("namespaces", self.namespaces).map_err(Failure::new)?,
            own_namespace_only: self.own_namespace_only,
            cluster_name: RunConfig::cluster_name(self.cluster_name).map_err(Failure::new)?,
            streaming_lists: self.streaming_lists,
            pod_log_reads: self.pod_log_reads.into(),
            webhooks: self.webhooks.access(),
            leader_election: self.leader_elect.then_some(lease),
            logging: Logging { format: self.log_format, filter: self.log },
            telemetry: TelemetryConfig {
                metrics_address: RunConfig::metrics_address(self.metrics_address).map_err(Failure::new)?,
                metrics_without_incidents: self.metrics_without_incidents,
                alert_log: self.alert_log,
                heartbeat_url_file: self.heartbeat_url_file.filter(|file| !file.as_os_str().is_empty()),
                heartbeat_namespaces: RunConfig::namespaces("heartbeat-namespaces", self.heartbeat_namespaces)
                    .map_err(Failure::new)?,
            },
            timings: Timings::default(),
        };
        Ok((self.connection, config))
    }
}

pub(super) async fn run(flags: RunFlags) -> Result<ExitCode, Failure> {
    let (connection, config) = flags.into_config()?;
    logging::init(&config.logging).map_err(|error| Failure::new(format!("--log: {error}")))?;
    logging::report_panics_without_contents();
    let heartbeat = Heartbeat::default();
    let metrics = start_telemetry(&config, &heartbeat)?;
    let alert_log = start_alert_log(&config, &metrics)?;
    let cluster = connect(&connection, Retries::AtTheCaller).await?;
    preflight(&cluster, config.namespaces.as_deref()).await?;
    log_start(&config);
    let shutdown = CancellationToken::new();
    watchdog::start(heartbeat.clone(), shutdown.clone())
        .map_err(|error| Failure::new(format!("cannot start the watchdog: {error}")))?;
    app::run(cluster.client, &config, metrics, alert_log.clone(), heartbeat, shutdown).await;
    alert_log.close(ALERT_LOG_PATIENCE);
    Ok(ExitCode::SUCCESS)
}

/// Waits until the CRD is installed and Orchestr objects may be listed in the whole cluster, or in one of these namespaces: the
/// others may be gone, and the permission with them. Otherwise the operator prints one message and exits, instead of logging
/// errors in a loop. Permissions for pods are not checked here: they may change while the operator is running, and each object's
/// conditions report them.
///
/// # Errors
/// When the CRD is still missing after half a minute, the list is forbidden, or a request fails.
async fn preflight(cluster: &Cluster, namespaces: Option<&[String]>) -> Result<(), Failure> {
    let deadline = Instant::now() + CRD_TIMEOUT;
    let mut logged = false;
    while !serves_objects(cluster, namespaces).await? {
        if Instant::now() >= deadline {
            return Err(Failure::new(
                "the CustomResourceDefinition of Orchestr is not installed: apply it with `orchestr crd | kubectl apply \
                 --server-side -f -`",
            ));
        }
        if !std::mem::replace(&mut logged, true) {
            tracing::info!("waiting for the CustomResourceDefinition of Orchestr");
        }
        sleep(CRD_POLL_INTERVAL).await;
    }
    Ok(())
}

/// Whether the API server serves Orchestr objects. Discovery may name them before they can be listed, so both are
/// checked.
async fn serves_objects(cluster: &Cluster, namespaces: Option<&[String]>) -> Result<bool, Failure> {
    let version = Orchestr::api_version(&());
    let resources = match within(cluster, cluster.client.list_api_group_resources(&version)).await? {
        Ok(list) => list.resources,
        Err(error) if is_not_found(&error) => return Ok(false),
        Err(error) => return Err(cluster.target.describe(&error)),
    };
    if !resources.iter().any(|resource| resource.kind == Orchestr::kind(&())) {
        return Ok(false);
    }
    let everywhere = [None];
    let places: Vec<_> =
        namespaces.map_or(everywhere.to_vec(), |names| names.iter().map(|n| Some(n.as_str())).collect());
    let (mut is_any_readable, mut denied) = (false, None);
    for namespace in places {
        let permission = Permission { verb: "list", resource: "orchestrs.kopf.dev", namespace, grant: Grant::Install };
        let request = Request::new(Orchestr::url_path(&(), namespace))
            .list(&ListParams::default().limit(1))
            .map_err(Failure::new)?;
        match within(cluster, cluster.client.request_text(request)).await? {
            Ok(_) => is_any_readable = true,
            Err(error) if is_not_found(&error) => return Ok(false),
            Err(error) => {
                let is_denied = matches!(&error, kube::Error::Api(status) if status.code == 403);
                let failure = cluster.target.describe_denied(&error, &permission);
                if !is_denied {
                    return Err(failure);
                }
                denied.get_or_insert(failure);
            }
        }
    }
    denied.filter(|_| !is_any_readable).map_or(Ok(true), Err)
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

async fn within<T>(cluster: &Cluster, response: impl Future<Output = T>) -> Result<T, Failure> {
    timeout(REQUEST_TIMEOUT, response).await.map_err(|_| cluster.target.timed_out(REQUEST_TIMEOUT.as_secs()))
}

/// Serves metrics and probes from now on, so that a probe does not fail while the operator waits for the CRD.
fn start_telemetry(config: &RunConfig, heartbeat: &Heartbeat) -> Result<Metrics, Failure> {
    let TelemetryConfig {
        metrics_address,
        metrics_without_incidents,
        heartbeat_url_file,
        heartbeat_namespaces,
        alert_log: _,
    } = &config.telemetry;
    let bind = |address: &MetricsAddress| {
        address.bind().map_err(|error| Failure::new(format!("cannot listen on --metrics-address {address}: {error}")))
    };
    let listener = metrics_address.as_ref().map(bind).transpose()?;
    let metrics = match &listener {
        None => Metrics::default(),
        Some(_) if *metrics_without_incidents => Metrics::without_incidents(),
        Some(_) => Metrics::with_state(),
    };
    let webhook = heartbeat_url_file.as_ref().map(|file| HeartbeatWebhook {
        url_file: file.clone(),
        namespaces: heartbeat_namespaces.clone(),
        options: config.webhooks,
        timings: HeartbeatTimings::default(),
    });
    if let Some(webhook) = &webhook {
        let unusable = |error| Failure::new(format!("--heartbeat-url-file {}: {error}", webhook.url_file.display()));
        webhook.destination().map_err(unusable)?;
    }
    telemetry::start(listener, webhook, metrics.clone(), heartbeat.clone())
        .map_err(|error| Failure::new(format!("cannot start the thread of metrics and probes: {error}")))?;
    Ok(metrics)
}

fn start_alert_log(config: &RunConfig, metrics: &Metrics) -> Result<AlertLog, Failure> {
    let Some(target) = &config.telemetry.alert_log else { return Ok(AlertLog::default()) };
    let unusable = |error| Failure::new(format!("--alert-log {}: {error}", target.display()));
    AlertLog::start(target, metrics.clone()).map_err(unusable)
}

/// Logs the version and the flags, so that a log sent with a bug report contains them. None of them is secret.
fn log_start(config: &RunConfig) {
    let RunConfig {
        namespaces,
        own_namespace_only,
        cluster_name,
        streaming_lists,
        pod_log_reads,
        webhooks,
        leader_election,
        logging,
        telemetry,
        timings: _,
    } = config;
    let streaming_lists = streaming_lists.to_possible_value();
    tracing::info!(
        version = version::VERSION,
        revision = version::REVISION,
        namespaces = namespaces.as_ref().map_or_else(|| "all".to_owned(), |names| names.join(",")),
        own_namespace_only,
        cluster_name,
        streaming_lists = streaming_lists.as_ref().map(PossibleValue::get_name),
        pod_log_reads,
        webhook_allow_http = webhooks.urls.plain_http,
        webhook_refuse_private = !webhooks.urls.addresses.private,
        webhook_allow_loopback = webhooks.urls.addresses.loopback,
        webhook_proxy_from_env = webhooks.proxy_from_env,
        metrics_address = telemetry.metrics_address.map(|address| address.to_string()),
        metrics_without_incidents = telemetry.metrics_without_incidents,
        alert_log = telemetry.alert_log.as_ref().map(|file| file.display().to_string()),
        heartbeat = telemetry.heartbeat_url_file.is_some(),
        leader_elect = leader_election.is_some(),
        log = logging.filter,
        "started"
    );
}
