//! The cluster goes back to an earlier state: etcd is restored from a backup under the running operator.

use std::time::Duration;

use orchestr::{api::OrchestrStatus, config::StreamingLists};
use orchestr_testbed::{Backup, Options, Receiver};
use serde_json::{Value, json};

use crate::{
    alerts::support::{delivery, spec, webhook},
    pod_statuses::{crash_looping, healthy},
    proxy::{ProxiedRequest, Proxy, ProxyAction},
    support::TIMEOUT,
    test_env::{TestEnv, condition, listed},
};

/// Within this time, the operator must report the cluster as it is.
const SOON: Duration = Duration::from_secs(60);

/// A cluster with a backup, to which much was written afterwards: `late` was created, `web` fails, `gone` was deleted and
/// `mended` does not fail any more.
struct Cluster {
    env: TestEnv,
    receiver: Receiver,
    backup: Option<Backup>,
}

impl Cluster {
    async fn start(name: &str) -> Self {
        let env = TestEnv::with_own_plane(name, Options::default()).await;
        let receiver = Receiver::start().await.unwrap();
        env.secret("ops", &[("url", &receiver.url("/hook?routing_key=0123456789abcdef0123456789abcdef"))]).await;
        for name in ["cart", "gone", "mended"] {
            env.pod(name, crash_looping(3)).await;
        }
        web(&env, healthy()).await;
        env.object("cluster", spec(&[webhook("ops", "PagerDuty", json!({}))])).await;
        Self { env, receiver, backup: None }
    }

    async fn change_after_a_backup(&mut self) {
        let env = &self.env;
        self.wait_until_sent(&["cart", "gone", "mended"]).await;
        self.backup = Some(env.plane.back_up().await.unwrap());
        env.pod("late", crash_looping(1)).await;
        env.set_status("web", crash_looping(2)).await;
        env.set_status("mended", healthy()).await;
        env.delete_pod("gone").await;
        for round in 0..100 {
            env.patch_pod("cart", json!({"metadata": {"labels": {"round": round.to_string()}}})).await;
        }
        env.until("the changes are reported", |status| listed(status) == ["cart", "late", "web"]).await;
        self.wait_until_sent(&["cart", "late", "web"]).await;
    }

    async fn restore(&self) {
        self.env.plane.kill_api_server().await.unwrap();
        self.env.plane.restore(self.backup.as_ref().unwrap()).await.unwrap();
        // Its kubelet writes that it still fails, before the operator sees that it did not at the time of the backup.
        web(&self.env, crash_looping(2)).await;
        self.env.plane.start_api_server().await.unwrap();
    }

    /// Waits until exactly the incidents of these pods are firing, and the state of their alerts is stored.
    async fn wait_until_sent(&self, pods: &[&str]) {
        self.env
            .wait_for_status_within(2 * TIMEOUT, "cluster", "the alerts are stored", |status| firing(status) == pods)
            .await;
    }

    /// How often a receiver was told that this pod's incident began.
    fn announced(&self, pod: &str) -> usize {
        let events = self.receiver.received().into_iter().map(|request| request.json());
        let is_of_pod = |event: &Value| event["payload"]["component"] == pod && event["event_action"] == "trigger";
        events.filter(is_of_pod).count()
    }
}

/// Writes the pod `web` to etcd.
async fn web(env: &TestEnv, status: Value) {
    let uid = json!({"metadata": {"uid": "00000000-0000-4000-9000-000000000001"}});
    env.pod_with("web", uid, status).await;
}

/// The pods whose incidents are firing according to the stored state of the webhook, if no message is pending.
fn firing(status: &OrchestrStatus) -> Vec<String> {
    let Some(ops) = delivery(status, "ops").filter(|ops| ops.pending.is_none()) else { return Vec::new() };
    let alerts = ops.alerts.iter().filter(|alert| alert.phase == orchestr::api::AlertPhase::Firing);
    let mut firing: Vec<_> = alerts.map(|alert| alert.owner.name.clone()).collect();
    firing.sort();
    firing
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_restored_cluster_as_it_is_and_sends_nothing_again() {
    for (name, lists) in [("streamed", StreamingLists::Auto), ("paged", StreamingLists::Never)] {
        let mut cluster = Cluster::start(name).await;
        let env = &cluster.env;
        let proxy = Proxy::start(env.client.clone()).await;
        let _operator = env.operator().through(&proxy).whole_cluster().streaming_lists(lists).fast_alerts().start();
        cluster.change_after_a_backup().await;
        let env = &cluster.env;
        let lists = |request: &ProxiedRequest| request.is_streaming_list() || request.is_first_page();
        let listed_before = proxy.count(lists);
        cluster.restore().await;
        let status = env
            .wait_for_status_within(SOON, "cluster", "the restored pods are reported", |status| {
                listed(status) == ["cart", "gone", "mended", "web"]
            })
            .await;
        assert_eq!((status.watched_pods, condition(&status, "PodsHealthy").0), (4, "False"), "{name}");
        env.pod("new", crash_looping(1)).await;
        cluster.wait_until_sent(&["cart", "gone", "mended", "new", "web"]).await;
        assert_eq!(["cart", "web", "late", "new"].map(|pod| cluster.announced(pod)), [1, 1, 1, 1], "{name}");
        assert!(proxy.count(lists) - listed_before <= 2, "{name}: {:#?}", proxy.requests(lists));
    }
}

/// Generations continue from the backup, so another spec may have the generation of the one that was in force.
#[tokio::test(flavor = "multi_thread")]
async fn a_spec_of_the_same_generation_comes_into_force() {
    let mut cluster = Cluster::start("generation").await;
    let env = &cluster.env;
    let proxy = Proxy::start(env.client.clone()).await;
    let _operator = env.operator().through(&proxy).whole_cluster().fast_alerts().start();
    cluster.change_after_a_backup().await;
    let env = &cluster.env;
    let spec = |max: u32| {
        let mut spec = spec(&[webhook("ops", "PagerDuty", json!({}))]);
        spec["report"] = json!({"maxPods": max});
        spec
    };
    env.update_spec("cluster", spec(40)).await;
    let replaced = env.until("the spec is in force", |status| status.observed_generation == Some(2)).await;
    assert_eq!(replaced.omitted_pods, 0);
    proxy.rule(|_| ProxyAction::Refuse(503, "down"));
    cluster.restore().await;
    env.update_spec("cluster", spec(1)).await;
    proxy.rule(|_| ProxyAction::Forward);
    let status = env
        .wait_for_status_within(SOON, "cluster", "the other spec is in force", |status| status.omitted_pods == 3)
        .await;
    assert_eq!(status.observed_generation, Some(2));
}
