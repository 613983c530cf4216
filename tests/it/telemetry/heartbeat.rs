//! The heartbeat webhook, with a real receiver and a real operator.

use std::{io::Write, time::Duration};

use orchestr::{
    alerts::{address::AddressPolicy, delivery::DeliveryOptions, destination::UrlPolicy},
    metrics::Metrics,
    telemetry::heartbeat::{HeartbeatTimings, HeartbeatWebhook, run},
    watchdog::Heartbeat,
};
use orchestr_testbed::{Receiver, Reply};
use tokio::task::JoinSet;

use crate::{
    support::TIMEOUT,
    test_env::{TestEnv, watch_all},
};

fn webhook(file: &tempfile::NamedTempFile) -> HeartbeatWebhook {
    HeartbeatWebhook {
        url_file: file.path().to_owned(),
        namespaces: None,
        options: DeliveryOptions {
            urls: UrlPolicy { plain_http: true, addresses: AddressPolicy { private: true, loopback: true } },
            proxy_from_env: false,
        },
        timings: HeartbeatTimings { interval: Duration::from_millis(100), retry: Duration::from_millis(20) },
    }
}

fn url_file(url: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "{url}").unwrap();
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn pings_only_while_the_operator_is_synced_and_leads() {
    let env = TestEnv::new("heartbeat").await;
    let receiver = Receiver::start().await.unwrap();
    let file = url_file(&receiver.url("/ping/hunter2"));
    let metrics = Metrics::default();
    let mut pings = JoinSet::new();
    pings.spawn(run(webhook(&file), metrics.clone(), Heartbeat::default()));
    // Nothing is synced yet: several intervals pass before the operator starts.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(receiver.received().len(), 0);
    let _operator = env.operator().metrics(&metrics).start();
    env.object("cluster", watch_all()).await;
    env.wait_for_ready("cluster", "Watching").await;
    receiver.then([Reply::Status(500)]);
    let received = receiver.wait_for(3, TIMEOUT).await.unwrap();
    assert!(received.iter().all(|ping| ping.path == "/ping/hunter2" && ping.body.is_empty()), "{received:?}");

    // A moved switch: the file is read before each ping.
    let moved = Receiver::start().await.unwrap();
    std::fs::write(file.path(), moved.url("/moved")).unwrap();
    moved.wait_for(2, TIMEOUT).await.unwrap();

    metrics.set_leader(false);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let count = moved.received().len();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(moved.received().len(), count, "another replica leads");
    metrics.set_leader(true);
    moved.wait_for(count + 1, TIMEOUT).await.unwrap();
}
