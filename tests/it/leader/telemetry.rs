//! The metrics and the heartbeat of replicas.

use std::io::Write;

use orchestr_testbed::{Receiver, eventually, free_port, page};
use tempfile::NamedTempFile;

use super::support::Cluster;
use crate::{proxy::ProxyAction, support::TIMEOUT, telemetry::Page};

/// Where a replica serves its metrics, and its heartbeat webhook.
struct Telemetry {
    port: u16,
    url_file: NamedTempFile,
}

impl Telemetry {
    fn new(receiver: &Receiver, name: &str) -> Self {
        let mut url_file = NamedTempFile::new().unwrap();
        writeln!(url_file, "{}", receiver.url(&format!("/{name}"))).unwrap();
        Self { port: free_port().unwrap(), url_file }
    }

    fn flags(&self) -> [String; 4] {
        let (address, file) = (format!("127.0.0.1:{}", self.port), self.url_file.path().display().to_string());
        ["--metrics-address".to_owned(), address, "--heartbeat-url-file".to_owned(), file]
    }

    /// Waits until the page fulfils `wanted`, and returns it.
    async fn wait_for(&self, what: &str, wanted: impl Fn(&Page) -> bool) -> Page {
        eventually(what, TIMEOUT, async || {
            let text = page(self.port, "/metrics", "").await.map_err(|error| error.to_string())?;
            let page = Page::parse(&text);
            if wanted(&page) { Ok(page) } else { Err(page.text) }
        })
        .await
        .unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_leader_says_that_it_leads_and_pings() {
    let cluster = Cluster::start("leader-metrics").await;
    let pings = Receiver::start().await.unwrap();
    let [first, second] = ["replica-a", "replica-b"].map(|name| Telemetry::new(&pings, name));
    let flags = first.flags();
    let _leader = cluster.replica_with("replica-a", &flags.each_ref().map(String::as_str));
    cluster.wait_until_settled("replica-a").await;
    let flags = second.flags();
    let follower = cluster.replica_with("replica-b", &flags.each_ref().map(String::as_str));
    first.wait_for("the leader says so", |page| page.value("orchestr_leader") == 1.0).await;
    let page = second.wait_for("the follower is synced", |page| page.value("orchestr_synced") == 1.0).await;
    assert_eq!(page.value("orchestr_leader"), 0.0, "{}", page.text);
    pings.wait_for(1, TIMEOUT).await.unwrap();
    follower.wait_for_log("this replica does not lead").await;
    assert!(pings.received().iter().all(|ping| ping.path == "/replica-a"), "{:?}", pings.received());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_may_not_use_the_lease_pings_nobody() {
    let cluster = Cluster::start("leader-no-ping").await;
    let pings = Receiver::start().await.unwrap();
    let telemetry = Telemetry::new(&pings, "replica-a");
    let proxy = cluster.proxy("replica-a").await;
    proxy.rule(|request| match request.path.contains("/leases") {
        true => ProxyAction::Refuse(403, "leases is forbidden"),
        false => ProxyAction::Forward,
    });
    let flags = telemetry.flags();
    let replica = cluster.replica_through_with("replica-a", &proxy, &flags.each_ref().map(String::as_str));
    let page = telemetry.wait_for("it is synced", |page| page.value("orchestr_synced") == 1.0).await;
    assert_eq!(page.value("orchestr_leader"), 0.0, "{}", page.text);
    replica.wait_for_log("this replica does not lead").await;
    assert!(pings.received().is_empty(), "{:?}", pings.received());
}

#[tokio::test(flavor = "multi_thread")]
async fn incidents_stay_on_the_page_until_another_replica_leads() {
    let cluster = Cluster::start("leader-incidents").await;
    let pings = Receiver::start().await.unwrap();
    let telemetry = Telemetry::new(&pings, "replica-a");
    let proxy = cluster.proxy("replica-a").await;
    let flags = telemetry.flags();
    let _first = cluster.replica_through_with("replica-a", &proxy, &flags.each_ref().map(String::as_str));
    cluster.wait_until_settled("replica-a").await;
    let incidents = |page: &Page| page.sum("orchestr_incident_pods", &[]);
    telemetry.wait_for("the incident is shown", |page| incidents(page) == 1.0).await;
    proxy.rule(|_| ProxyAction::Refuse(503, "cut off"));
    proxy.end_watches();
    let page = telemetry.wait_for("it stops leading", |page| page.value("orchestr_leader") == 0.0).await;
    assert_eq!(incidents(&page), 1.0, "an outage is no recovery");
    let _second = cluster.replica("replica-b");
    cluster.wait_for_leader(&["replica-b"]).await;
    proxy.rule(|_| ProxyAction::Forward);
    telemetry.wait_for("the new leader reports it", |page| incidents(page) == 0.0).await;
}
