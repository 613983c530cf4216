//! Starts the operator inside the test process.

use std::{sync::Arc, time::Duration};

use http::{Request, Response};
use kube::{Client, client::Body};
use orchestr::{
    alerts::{
        address::AddressPolicy,
        delivery::{AlertLog, DeliveryOptions, DeliveryTimings},
        destination::UrlPolicy,
    },
    app,
    config::{LogFormat, Logging, RunConfig, StreamingLists, TelemetryConfig, Timings},
    metrics::Metrics,
    watchdog::Heartbeat,
};
use tokio::{runtime::Handle, sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{proxy::Proxy, support::TIMEOUT};

/// The flags an operator is started with.
pub struct OperatorBuilder {
    client: Client,
    config: RunConfig,
    metrics: Metrics,
    events_watch: EventsWatch,
}

/// Whether the operator that was started last receives the events that are written now. Clones share the state.
#[derive(Clone)]
pub struct EventsWatch(Arc<watch::Sender<bool>>);

/// A running operator. Whoever drops it stops it and waits for its end.
pub struct RunningOperator {
    shutdown: CancellationToken,
    /// Until it has ended.
    task: Option<JoinHandle<()>>,
}

impl OperatorBuilder {
    pub fn new(client: Client, namespace: &str, events_watch: EventsWatch) -> Self {
        let config = RunConfig {
            namespaces: Some(vec![namespace.to_owned()]),
            own_namespace_only: false,
            cluster_name: None,
            streaming_lists: StreamingLists::Auto,
            pod_log_reads: 8,
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
        Self { client, config, metrics: Metrics::default(), events_watch }
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
        self.config.namespaces = RunConfig::namespaces("namespaces", namespaces).unwrap();
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
        let client = self.events_watch.observe(self.client);
        let run = async move {
            app::run(client, &self.config, self.metrics, AlertLog::default(), Heartbeat::default(), token).await;
        };
        let task = tokio::spawn(run);
        RunningOperator { shutdown, task: Some(task) }
    }
}

impl Default for EventsWatch {
    /// Until an operator is started, nobody is waited for.
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(true)))
    }
}

impl EventsWatch {
    /// Returns the client of an operator that is about to start.
    fn observe(&self, client: Client) -> Client {
        self.0.send_replace(false);
        let (state, namespace) = (Arc::clone(&self.0), client.default_namespace().to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, state) = (client.clone(), Arc::clone(&state));
            async move {
                let is_of_events = request.uri().path().ends_with("/events");
                let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
                // The watch begins at the version of a list that has been answered.
                if is_of_events && is_watch {
                    state.send_replace(true);
                }
                let response: Response<Body> = client.send(request).await?;
                // Without the right to read events the operator receives none.
                if is_of_events && !response.status().is_success() {
                    state.send_replace(true);
                }
                Ok::<_, kube::Error>(response)
            }
        });
        Client::new(service, namespace)
    }

    pub async fn until_watched(&self) {
        let mut state = self.0.subscribe();
        let watched = state.wait_for(|&is_watched| is_watched);
        tokio::time::timeout(TIMEOUT, watched).await.expect("the operator watches events").unwrap();
    }
}

impl RunningOperator {
    pub async fn stop(mut self) {
        self.shutdown.cancel();
        if let Some(task) = self.task.take() {
            tokio::time::timeout(TIMEOUT, task).await.expect("the operator stops").unwrap();
        }
    }
}

impl Drop for RunningOperator {
    fn drop(&mut self) {
        self.shutdown.cancel();
        if let Some(task) = self.task.take().filter(|_| !std::thread::panicking()) {
            let end = tokio::time::timeout(TIMEOUT, task);
            tokio::task::block_in_place(|| Handle::current().block_on(end)).expect("the operator stops").unwrap();
        }
    }
}
