//! Serves the metrics of an operator inside the test process.

use std::{
    collections::BTreeMap,
    io::Write,
    net::TcpListener,
    sync::atomic::{AtomicUsize, Ordering},
};

use orchestr::{
    alerts::{address::AddressPolicy, delivery::DeliveryOptions, destination::UrlPolicy},
    metrics::Metrics,
    telemetry::{
        heartbeat::{self, HeartbeatTimings, HeartbeatWebhook},
        server::serve,
    },
    watchdog::Heartbeat,
};
use orchestr_testbed::{Receiver, eventually, page};
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    alerts::support::{spec, webhook},
    pod_statuses::{ago, controlled_by, crash_looping, healthy},
    proxy::{Proxy, ProxyAction},
    running_operator::RunningOperator,
    support::TIMEOUT,
    test_env::{TestEnv, listed},
};

/// A page of metrics. It ends with this value.
pub struct MetricsPage {
    pub metrics: Metrics,
    pub port: u16,
    _server: JoinSet<()>,
}

impl MetricsPage {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let metrics = Metrics::with_state();
        let (own, mut server) = (metrics.clone(), JoinSet::new());
        server.spawn(async move { serve(listener, &own, &Heartbeat::default()).await.unwrap() });
        Self { metrics, port, _server: server }
    }

    pub async fn read(&self) -> Page {
        Page::parse(&page(self.port, "/metrics", "").await.unwrap())
    }

    /// Waits until the page fulfils `wanted`, and returns it.
    pub async fn wait_for(&self, what: &str, wanted: impl Fn(&Page) -> bool) -> Page {
        eventually(what, TIMEOUT, async || {
            let page = self.read().await;
            if wanted(&page) { Ok(page) } else { Err(page.text) }
        })
        .await
        .unwrap()
    }
}

/// A page in Prometheus' text format.
pub struct Page {
    pub text: String,
    /// The value of each series, by its name and labels as they are written.
    pub series: BTreeMap<String, f64>,
}

impl Page {
    pub fn parse(text: &str) -> Self {
        let mut series = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(series.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{name} is there twice");
        }
        Self { text: text.to_owned(), series }
    }

    /// The value of a series; 0 if the page lacks it.
    pub fn value(&self, series: &str) -> f64 {
        self.series.get(series).copied().unwrap_or_default()
    }

    /// The sum of the series whose name and labels contain all of these parts.
    pub fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let is_wanted = |series: &str| {
            let own = series.split('{').next() == Some(name);
            own && labels.iter().all(|label| series.contains(label))
        };
        self.series.iter().filter(|(series, _)| is_wanted(series)).map(|(_, value)| value).sum()
    }

    /// The names of the metrics, and their types.
    pub fn types(&self) -> BTreeMap<&str, &str> {
        let types = self.text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        types.collect()
    }
}

/// A cluster in which every metric has a value: a crash that is over, one that is not, a node that is gone, a webhook that
/// works and one that does not, a watch that failed, and a heartbeat.
pub struct Scenario {
    pub env: TestEnv,
    pub page: MetricsPage,
    pub node: String,
    _operator: RunningOperator,
    _receiver: Receiver,
    _proxy: Proxy,
    _heartbeat: JoinSet<()>,
    _url_file: tempfile::NamedTempFile,
}

/// The owners of the pods on the node that is gone.
const OWNERS: [&str; 6] = ["a", "b", "c", "a", "b", "c"];

impl Scenario {
    pub async fn start(name: &str) -> Self {
        let env = TestEnv::new(name).await;
        let (receiver, page) = (Receiver::start().await.unwrap(), MetricsPage::start());
        let node = format!("node-of-{}", env.namespace);
        env.secret("ops", &[("url", &receiver.url("/hunter2"))]).await;
        // Nothing listens there.
        env.secret("bad", &[("url", "http://127.0.0.1:1/hunter2")]).await;
        let mut spec = spec(&[webhook("ops", "Generic", json!({})), webhook("bad", "Slack", json!({}))]);
        spec["thresholds"] = json!({"notReady": "1s"});
        env.object("cluster", spec).await;
        for (index, owner) in OWNERS.into_iter().enumerate() {
            let owner = controlled_by("StatefulSet", owner, owner);
            let changes = json!({"metadata": {"ownerReferences": owner}, "spec": {"nodeName": node}});
            env.pod_with(&format!("pod-{index}"), changes, healthy()).await;
        }
        env.pod("cart", healthy()).await;
        let proxy = Proxy::start(env.client.clone()).await;
        let failures = AtomicUsize::new(0);
        proxy.rule(move |request| {
            let is_first =
                request.is_watch() && request.path.ends_with("/events") && failures.fetch_add(1, Ordering::SeqCst) == 0;
            if is_first { ProxyAction::Refuse(500, "an odd day") } else { ProxyAction::Forward }
        });
        let operator = env.operator().through(&proxy).metrics(&page.metrics).start();
        env.wait_for_ready("cluster", "Watching").await;

        env.set_status("cart", crash_looping(3)).await;
        env.until("the crash is shown", |status| listed(status) == ["cart"]).await;
        env.delete_pod("cart").await;
        env.until("the crash is over", |status| listed(status).is_empty()).await;
        env.pod("cart-1", crash_looping(4)).await;
        let mut silent = healthy();
        silent["conditions"] = json!([
            {"type": "PodScheduled", "status": "True"},
            {"type": "ContainersReady", "status": "True"},
            {"type": "Ready", "status": "False", "lastTransitionTime": ago(0)},
        ]);
        for index in 0..OWNERS.len() {
            env.set_status(&format!("pod-{index}"), silent.clone()).await;
        }
        let mut url_file = tempfile::NamedTempFile::new().unwrap();
        writeln!(url_file, "{}", receiver.url("/ping")).unwrap();
        let mut heartbeat = JoinSet::new();
        let pings = HeartbeatWebhook {
            url_file: url_file.path().to_owned(),
            namespaces: None,
            options: DeliveryOptions {
                urls: UrlPolicy { plain_http: true, addresses: AddressPolicy { private: true, loopback: true } },
                proxy_from_env: false,
            },
            timings: HeartbeatTimings::default(),
        };
        heartbeat.spawn(heartbeat::run(pings, page.metrics.clone(), Heartbeat::default()));
        page.wait_for("everything is reported", |page| {
            page.sum("orchestr_common_cause_pods", &[&node]) == OWNERS.len() as f64
                && page.sum("orchestr_failing_webhooks", &[]) == 1.0
                && page.sum("orchestr_notifications_total", &["delivered"]) >= 1.0
                && page.sum("orchestr_heartbeats_total", &["delivered"]) >= 1.0
                && page.sum("orchestr_watch_restarts_total", &["events"]) >= 1.0
                && page.sum("orchestr_log_reads_total", &[]) >= 1.0
        })
        .await;
        Self {
            env,
            page,
            node,
            _operator: operator,
            _receiver: receiver,
            _proxy: proxy,
            _heartbeat: heartbeat,
            _url_file: url_file,
        }
    }
}
