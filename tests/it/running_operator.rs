//! Starts the operator inside the test process.

use std::time::Duration;

use kube::Client;
use orchestr::{
    alerts::{
        address::AddressPolicy,
        delivery::{DeliveryOptions, DeliveryTimings},
        destination::UrlPolicy,
    },
    app,
    config::{LogFormat, Logging, RunConfig, StreamingLists, TelemetryConfig, Timings},
    metrics::Metrics,
    watchdog::Heartbeat,
};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{proxy::Proxy, support::TIMEOUT};

/// The flags an operator is started with.
pub struct OperatorBuilder {
    client: Client,
    config: RunConfig,
    metrics: Metrics,
}

/// A running operator. It stops when the value is dropped; [`stop`](Self::stop) also waits for its end.
pub struct RunningOperator {
    shutdown: DropGuard,
    task: JoinHandle<()>,
}

impl OperatorBuilder {
    pub fn new(client: Client, namespace: &str) -> Self {
        let config = RunConfig {
            namespaces: Some(vec![namespace.to_owned()]),
            own_namespace_only: false,
            cluster_name: None,
            streaming_lists: StreamingLists::Auto,
            pod_log_reads: 8,
            max_objects_per_namespace: 20,
            webhooks: DeliveryOptions {
                urls: UrlPolicy { plain_http: true, addresses: AddressPolicy { private: true, loopback: true } },
                proxy_from_env: false,
            },
            leader_election: None,
            logging: Logging { format: LogFormat::Text, filter: "info".to_owned() },
            telemetry: TelemetryConfig::default(),
            // Shorter than in production, so that tests wait less. Tests of the delays themselves set other ones.
            timings: Timings {
                status_write_interval: Duration::from_millis(200),
                forbidden_confirmation: Duration::from_secs(1),
                alerts: DeliveryTimings {
                    secrets_retry_interval: Duration::from_secs(2),
                    ..DeliveryTimings::default()
                },
                ..Timings::default()
            },
        };
        Self { client, config, metrics: Metrics::default() }
    }

    pub fn client(self, client: Client) -> Self {
        Self { client, ..self }
    }

    /// Connects to the API server through a proxy.
    pub fn through(self, proxy: &Proxy) -> Self {
        self.client(proxy.client())
    }

    pub fn namespaces(mut self, namespaces: &[&str]) -> Self {
        let namespaces = namespaces.iter().map(|&name| name.to_owned()).collect();
        self.config.namespaces = RunConfig::namespaces(namespaces).unwrap();
        self
    }

    /// Counts and reports to these metrics.
    pub fn metrics(self, metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone(), ..self }
    }

    /// Watches all namespaces.
    pub fn whole_cluster(self) -> Self {
        self.namespaces(&[])
    }

    /// Refuses objects that select pods of other namespaces.
    pub fn own_namespace_only(mut self) -> Self {
        self.config.own_namespace_only = true;
        self
    }

    pub fn streaming_lists(mut self, streaming_lists: StreamingLists) -> Self {
        self.config.streaming_lists = streaming_lists;
        self
    }

    pub fn max_objects_per_namespace(mut self, max: usize) -> Self {
        self.config.max_objects_per_namespace = max;
        self
    }

    pub fn timings(mut self, timings: Timings) -> Self {
        self.config.timings = timings;
        self
    }

    /// Divides the pacing of alerts by 15: messages to chat receivers are 2 s apart, resends to Alertmanager 4 s.
    pub fn fast_alerts(mut self) -> Self {
        self.config.timings.alerts.pacing_divisor = 15;
        self
    }

    pub fn cluster_name(mut self, name: &str) -> Self {
        self.config.cluster_name = Some(name.to_owned());
        self
    }

    /// Requires https for webhooks, which makes the tests' http receivers unusable.
    pub fn https_only(mut self) -> Self {
        self.config.webhooks.urls.plain_http = false;
        self
    }

    pub fn start(self) -> RunningOperator {
        let shutdown = CancellationToken::new();
        let token = shutdown.clone();
        let run = async move {
            app::run(self.client, &self.config, self.metrics, Heartbeat::default(), token).await;
        };
        let task = tokio::spawn(run);
        RunningOperator { shutdown: shutdown.drop_guard(), task }
    }
}

impl RunningOperator {
    pub async fn stop(self) {
        drop(self.shutdown);
        tokio::time::timeout(TIMEOUT, self.task).await.expect("the operator stops").unwrap();
    }
}
