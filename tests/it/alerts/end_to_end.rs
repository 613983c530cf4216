//! Alerts from the failing pod to the receivers, through the whole operator.

use std::time::{Duration, Instant};

use kube::api::{EvictParams, ListParams, PostParams};
use orchestr::api::AlertPhase;
use orchestr_testbed::{Received, Receiver, Reply};
use serde_json::{Value, json};

use super::support::{delivery, ids, spec, webhook};
use crate::{
    pod_statuses::{ago, container, controlled_by, crash_looping, healthy},
    proxy::{ProxiedRequest, Proxy},
    support::TIMEOUT,
    test_env::{TestEnv, condition},
};

/// The maximum number of webhooks, with their names and formats.
const WEBHOOKS: [(&str, &str); 10] = [
    ("generic", "Generic"),
    ("alertmanager", "Alertmanager"),
    ("slack", "Slack"),
    ("discord", "Discord"),
    ("teams", "Teams"),
    ("pagerduty", "PagerDuty"),
    ("cloudevents", "CloudEvents"),
    ("second", "Generic"),
    ("third", "Generic"),
    ("fourth", "Generic"),
];

/// The requests to one webhook: their paths begin with its name.
fn to<'a>(received: &'a [Received], webhook: &str) -> Vec<&'a Received> {
    received.iter().filter(|request| request.path.split(['/', '?']).nth(1) == Some(webhook)).collect()
}

/// Whether a message reports a resolution.
fn is_end(format: &str, message: &Value) -> bool {
    match format {
        "Generic" => message["status"] == "resolved",
        "CloudEvents" => message["data"]["status"] == "resolved",
        "Alertmanager" => message[0]["endsAt"].as_str().is_some_and(|end| end <= ago(0).as_str()),
        "PagerDuty" => message["event_action"] == "resolve",
        _ => message.to_string().contains("RESOLVED"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_one_alert_and_one_resolution_in_every_format() {
    let env = TestEnv::new("formats").await;
    let receiver = Receiver::start().await.unwrap();
    let mut webhooks = Vec::new();
    for (name, format) in WEBHOOKS {
        let query = if format == "PagerDuty" { "?routing_key=0123456789abcdef0123456789abcdef" } else { "" };
        env.secret(name, &[("url", &receiver.url(&format!("/{name}{query}")))]).await;
        webhooks.push(webhook(name, format, json!({})));
    }
    env.pod("cart-0", crash_looping(7)).await;
    env.pod("web-0", healthy()).await;
    env.object("cluster", spec(&webhooks)).await;
    let _operator = env.operator().cluster_name("prod-eu").start();

    let received = receiver.wait_for(WEBHOOKS.len(), TIMEOUT).await.unwrap();
    for (name, format) in WEBHOOKS {
        let sent = to(&received, name);
        assert_eq!(sent.len(), 1, "{name}");
        let (request, text) = (sent[0], String::from_utf8(sent[0].body.clone()).unwrap());
        for word in ["OOMKilled", "cart-0", env.namespace.as_str(), "prod-eu"] {
            assert!(text.contains(word), "{name} lacks {word}: {text}");
        }
        assert!(!is_end(format, &request.json()), "{name}: {text}");
        println!("{name}: {}", serde_json::to_string_pretty(&request.json()).unwrap());
    }
    let status = env
        .until("all is recorded", |status| {
            status.webhooks.len() == WEBHOOKS.len()
                && status.webhooks.iter().all(|webhook| webhook.last_success.is_some())
        })
        .await;
    assert_eq!(condition(&status, "AlertsDelivered").0, "True", "{status:#?}");

    env.delete_pod("cart-0").await;
    let ended = |received: &[Received], (name, format): (&str, &str)| {
        to(received, name).iter().filter(|request| is_end(format, &request.json())).count()
    };
    orchestr_testbed::eventually("every receiver has the resolution", 2 * TIMEOUT, async || {
        let received = receiver.received();
        let lacking: Vec<_> = WEBHOOKS.iter().filter(|webhook| ended(&received, **webhook) == 0).collect();
        if lacking.is_empty() { Ok(()) } else { Err(format!("{lacking:?} lack it")) }
    })
    .await
    .unwrap();
    let received = receiver.received();
    for webhook in WEBHOOKS.iter().filter(|(_, format)| *format != "Alertmanager") {
        assert_eq!((to(&received, webhook.0).len(), ended(&received, *webhook)), (2, 1), "{}", webhook.0);
    }
    // Removing the webhooks from the spec removes their state and the condition.
    env.update_spec("cluster", json!({"webhooks": null})).await;
    env.until("nothing is left of the webhooks", |status| {
        status.webhooks.is_empty() && condition(status, "AlertsDelivered").0.is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_the_same_message_until_the_receiver_accepts_it() {
    let env = TestEnv::new("trouble").await;
    let names = ["failing", "busy", "small", "gone"];
    let mut receivers = Vec::new();
    for name in names {
        let receiver = Receiver::start().await.unwrap();
        receiver.then(match name {
            "failing" => vec![Reply::Status(500), Reply::Close],
            "busy" => vec![Reply::Header(429, "Retry-After", "4".to_owned())],
            "small" => vec![Reply::Status(413), Reply::Status(413)],
            _ => vec![Reply::Status(410)],
        });
        env.secret(name, &[("url", &receiver.url("/"))]).await;
        receivers.push(receiver);
    }
    let [failing, busy, small, gone] = receivers.as_slice() else { panic!("there are four") };
    env.pod("cart-0", crash_looping(7)).await;
    env.object("cluster", spec(&names.map(|name| webhook(name, "Generic", json!({}))))).await;
    let _operator = env.operator().start();

    let tried = failing.wait_for(3, TIMEOUT).await.unwrap();
    assert!(ids(&tried).iter().all(|id| *id == ids(&tried)[0]), "{:?}", ids(&tried));
    assert!(tried[2].header("webhook-timestamp") > tried[0].header("webhook-timestamp"), "each attempt has its time");
    let tried = busy.wait_for(2, TIMEOUT).await.unwrap();
    assert!(tried[1].at - tried[0].at >= Duration::from_secs(4), "{:?}", tried[1].at - tried[0].at);
    let tried = small.wait_for(3, TIMEOUT).await.unwrap();
    assert_eq!((ids(&tried)[0], ids(&tried)[0]), (ids(&tried)[1], ids(&tried)[2]));
    assert!(tried[2].body.len() < tried[0].body.len());

    let status = env
        .until("three were delivered", |status| {
            let delivered = |name: &&str| delivery(status, name).is_some_and(|webhook| webhook.last_success.is_some());
            names[..3].iter().all(delivered) && condition(status, "AlertsDelivered").1 == "ReceiverGone"
        })
        .await;
    assert!(delivery(&status, "gone").unwrap().stopped);
    assert_eq!(
        condition(&status, "AlertsDelivered").2,
        "1 of 4 webhooks: gone: the receiver answered 410: the webhook was deleted"
    );
    assert_eq!(gone.received().len(), 1);
    // A webhook that stopped after 410 starts again with a new URL.
    gone.then([]);
    env.secret("gone", &[("url", &gone.url("/new"))]).await;
    let sent = gone.wait_for(2, TIMEOUT).await.unwrap();
    assert_eq!((sent[1].path.as_str(), ids(&sent)[0]), ("/new", ids(&sent)[1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_a_missing_secret_and_follows_its_changes() {
    let env = TestEnv::new("secrets").await;
    let (old, new) = (Receiver::start().await.unwrap(), Receiver::start_tls().await.unwrap());
    env.pod("cart-0", crash_looping(7)).await;
    let reference = |key: &str| json!({"secretKeyRef": {"name": "ops-webhook", "key": key}});
    let headers = json!({"secretRef": {"name": "headers-webhook"}});
    let changes = json!({"headersFrom": headers});
    env.secret("headers", &[("authorization", "Bearer s3cr3t")]).await;
    env.object("cluster", spec(&[webhook("ops", "Generic", changes)])).await;
    let _operator = env.operator().fast_alerts().start();
    let status = env
        .until("the webhook can't be used", |status| condition(status, "AlertsDelivered").1 == "WebhookUnusable")
        .await;
    let expected = format!(
        "1 of 1 webhooks: ops: Secret {}/ops-webhook does not exist: make it with `kubectl create secret generic`",
        env.namespace
    );
    assert_eq!(condition(&status, "AlertsDelivered"), ("False", "WebhookUnusable", expected.as_str()));

    env.secret("ops", &[("address", "it is under another key")]).await;
    env.until("the key is missing", |status| {
        condition(status, "AlertsDelivered").2
            == "1 of 1 webhooks: ops: Secret ops-webhook has no key url, which spec.webhooks names"
    })
    .await;
    env.secret("ops", &[("url", &old.url("/old"))]).await;
    let received = old.wait_for(1, TIMEOUT).await.unwrap();
    assert_eq!(received[0].header("authorization"), "Bearer s3cr3t");
    env.until("it is delivered", |status| condition(status, "AlertsDelivered").0 == "True").await;

    // Another receiver, over HTTPS with its own CA, gets the resolved message.
    env.secret("ops", &[("url", &new.url("/new")), ("ca", new.ca_pem())]).await;
    let changed = webhook("ops", "Generic", json!({"headersFrom": headers, "caFrom": reference("ca")}));
    env.update_spec("cluster", json!({"webhooks": [changed]})).await;
    env.delete_pod("cart-0").await;
    orchestr_testbed::eventually("the new receiver has the end", 2 * TIMEOUT, async || {
        let ended = new.received().iter().any(|request| request.json()["status"] == "resolved");
        if ended { Ok(()) } else { Err(format!("{} requests", new.received().len())) }
    })
    .await
    .unwrap();
    let sent: Vec<_> = old.received().iter().map(|request| request.json()["status"].clone()).collect();
    assert_eq!(sent, ["firing", "resolved"], "the old receiver learns that nothing more comes");
    let status = serde_json::to_string(&env.objects().get("cluster").await.unwrap()).unwrap();
    assert!(!status.contains("s3cr3t") && !status.contains("127.0.0.1"), "nothing of a Secret is in the object");
    env.delete_secret("headers").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_a_missing_permission_for_secrets_until_granted() {
    let env = TestEnv::new("rights").await;
    let receiver = Receiver::start().await.unwrap();
    env.plane.ensure_namespace("orchestr-system").await.unwrap();
    env.plane.ensure_service_account("orchestr-system", "orchestr").await.unwrap();
    let account = env.plane.service_account("orchestr-system", "orchestr").await.unwrap();
    // The rights of deploy/, in this namespace.
    let rules: Vec<Value> = [
        ("", "pods", "list watch"),
        ("", "pods/log", "get"),
        ("kopf.dev", "orchestrs", "get list patch watch"),
        ("kopf.dev", "orchestrs/status", "patch"),
    ]
    .iter()
    .map(|(group, resource, verbs)| {
        json!({"apiGroups": [group], "resources": [resource], "verbs": verbs.split(' ').collect::<Vec<_>>()})
    })
    .collect();
    let manifests = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "orchestr"}, "rules": rules},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "orchestr"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "orchestr"},
         "subjects": [{"kind": "ServiceAccount", "name": "orchestr", "namespace": "orchestr-system"}]},
    ]});
    let apply = ["apply", "-n", &env.namespace, "-f"];
    let applied = env.plane.kubectl(&[&apply[..], &["-"]].concat(), Some(&manifests.to_string())).await.unwrap();
    assert!(applied.status.success(), "{}", applied.stderr);
    env.secret("ops", &[("url", &receiver.url("/"))]).await;
    env.pod("cart-0", crash_looping(7)).await;
    env.object("cluster", spec(&[webhook("ops", "Generic", json!({}))])).await;
    let operator = env.operator().client(kube::Client::try_from(account.config()).unwrap()).start();
    let status = env
        .until("the webhook can't be used", |status| condition(status, "AlertsDelivered").1 == "WebhookUnusable")
        .await;
    let expected = format!(
        "1 of 1 webhooks: ops: may not get Secret {}/ops-webhook: a Role must allow the operator's service account \
         to get it",
        env.namespace
    );
    assert_eq!(condition(&status, "AlertsDelivered").2, expected);
    let role = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/webhooks/secret-reader.yaml");
    let applied = env.plane.kubectl(&[&apply[..], &[role]].concat(), None).await.unwrap();
    assert!(applied.status.success(), "{}", applied.stderr);
    receiver.wait_for(1, TIMEOUT).await.unwrap();
    env.until("it is delivered", |status| condition(status, "AlertsDelivered").0 == "True").await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resends_open_alerts_to_a_new_url_only() {
    let env = TestEnv::new("moved").await;
    let (old, new) = (Receiver::start().await.unwrap(), Receiver::start().await.unwrap());
    let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    env.secret("ops", &[("url", &old.url("/")), ("key", key)]).await;
    env.pod("cart-0", crash_looping(7)).await;
    let signed = json!({"signingKeyFrom": {"secretKeyRef": {"name": "ops-webhook", "key": "key"}}});
    env.object("cluster", spec(&[webhook("ops", "Generic", signed)])).await;
    let _operator = env.operator().fast_alerts().start();
    old.wait_for(1, TIMEOUT).await.unwrap();
    let state = async || delivery(&env.status("cluster").await, "ops").unwrap().clone();
    let first = state().await;
    // The Secrets of a working webhook are read when a message is due, and every five minutes. A change of the spec
    // makes the operator read them immediately.
    env.secret("ops", &[("url", &old.url("/")), ("key", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")]).await;
    let longer = |timeout: &str| {
        let reference = json!({"secretKeyRef": {"name": "ops-webhook", "key": "key"}});
        json!({"webhooks": [webhook("ops", "Generic", json!({"signingKeyFrom": reference, "timeout": timeout}))]})
    };
    env.update_spec("cluster", longer("11s")).await;
    orchestr_testbed::eventually("the new key is noticed", TIMEOUT, async || match state().await.config {
        now if now != first.config => Ok(()),
        now => Err(now),
    })
    .await
    .unwrap();
    let ops = state().await;
    assert_eq!((ops.alerts[0].phase, &ops.pending), (AlertPhase::Firing, &None), "nothing is to be sent again");
    assert_eq!((ops.receiver, old.received().len()), (first.receiver, 1), "a new signing key is no new receiver");
    env.secret("ops", &[("url", &new.url("/")), ("key", key)]).await;
    env.update_spec("cluster", longer("12s")).await;
    let sent = new.wait_for(1, 2 * TIMEOUT).await.unwrap();
    assert_eq!((sent[0].json()["status"].as_str(), sent.len()), (Some("firing"), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn resolves_a_deleted_pod_within_seconds() {
    let env = TestEnv::new("deleted").await;
    let receiver = Receiver::start().await.unwrap();
    let url = receiver.url("/?routing_key=0123456789abcdef0123456789abcdef");
    env.secret("ops", &[("url", &url)]).await;
    env.pod("cart-0", crash_looping(7)).await;
    env.pod("mail-0", crash_looping(7)).await;
    env.object("cluster", spec(&[webhook("ops", "PagerDuty", json!({}))])).await;
    let operator = env.operator().start();
    receiver.wait_for(2, TIMEOUT).await.unwrap();
    env.until("both are recorded", |status| {
        let firing = |status: &orchestr::api::WebhookStatus| {
            status.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count()
        };
        delivery(status, "ops").is_some_and(|ops| firing(ops) == 2)
    })
    .await;
    let deleted = Instant::now();
    env.delete_pod("cart-0").await;
    let received = receiver.wait_for(3, TIMEOUT).await.unwrap();
    println!("resolved {:?} after the pod was deleted", received[2].at - deleted);
    assert_eq!(received[2].json()["event_action"], "resolve");
    assert!(received[2].at - deleted < Duration::from_secs(20), "{:?}", received[2].at - deleted);
    assert_eq!(received[2].json()["payload"], Value::Null, "an end says that it is one, and no more");

    // The receiver fails briefly when the object is deleted.
    receiver.then([Reply::Status(503)]);
    env.objects().delete("cluster", &kube::api::DeleteParams::default()).await.unwrap();
    let received = receiver.wait_for(5, TIMEOUT).await.unwrap();
    let last = received[4].json();
    assert_eq!(last["event_action"], "resolve");
    let opened = |request: &&Received| request.json()["dedup_key"] == last["dedup_key"];
    assert_eq!(received.iter().filter(opened).count(), 3, "its beginning, and the end that was tried twice");
    let summary = last["payload"]["summary"].as_str().unwrap();
    assert!(summary.starts_with("NO LONGER WATCHED: "), "{summary}");
    operator.stop().await;
    assert_eq!(receiver.received().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_operators_back_off_from_each_other() {
    let env = TestEnv::new("rivals").await;
    let receiver = Receiver::start().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/"))]).await;
    env.pod("cart-0", crash_looping(7)).await;
    env.object("cluster", spec(&[webhook("ops", "Generic", json!({}))])).await;
    let proxy = Proxy::start(env.client.clone()).await;
    let first = env.operator().through(&proxy).start();
    receiver.wait_for(1, TIMEOUT).await.unwrap();
    // The second operator requires https, so it considers the webhook unusable.
    let second = env.operator().through(&proxy).https_only().start();
    env.until("the second one writes", |status| condition(status, "AlertsDelivered").1 == "WebhookUnusable").await;
    let before = proxy.count(ProxiedRequest::is_delivery_state_write);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let writes = proxy.count(ProxiedRequest::is_delivery_state_write) - before;
    println!("two operators wrote {writes} times in 20 s");
    assert!((1..=12).contains(&writes), "{writes} writes");
    assert_eq!(receiver.received().len(), 1, "nothing is sent twice");
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_a_404_within_seconds() {
    let env = TestEnv::new("rollout").await;
    let receiver = Receiver::start().await.unwrap();
    receiver.then([Reply::Status(404)]);
    env.secret("ops", &[("url", &receiver.url("/"))]).await;
    env.pod("cart-0", crash_looping(7)).await;
    env.object("cluster", spec(&[webhook("ops", "Generic", json!({}))])).await;
    let _operator = env.operator().start();
    let tried = receiver.wait_for(2, TIMEOUT).await.unwrap();
    assert_eq!(ids(&tried)[0], ids(&tried)[1]);
    env.until("it is delivered", |status| condition(status, "AlertsDelivered").0 == "True").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_receiver_delays_only_its_own_alerts() {
    let mut medians = Vec::new();
    for hanging in [false, true] {
        let env = TestEnv::new("hanging").await;
        let (slow, quick) = (Receiver::start().await.unwrap(), Receiver::start().await.unwrap());
        if hanging {
            slow.then(vec![Reply::Hang; 20]);
        }
        env.secret("slow", &[("url", &slow.url("/"))]).await;
        env.secret("quick", &[("url", &quick.url("/"))]).await;
        let webhooks = [webhook("slow", "Generic", json!({"timeout": "60s"})), webhook("quick", "Generic", json!({}))];
        for number in 0..6 {
            env.pod(&format!("cart-{number}"), healthy()).await;
        }
        env.object("cluster", spec(&webhooks)).await;
        let _operator = env.operator().start();
        env.wait_for_ready("cluster", "Watching").await;
        let mut latencies = Vec::new();
        for number in 0..6 {
            let begun = Instant::now();
            env.set_status(&format!("cart-{number}"), crash_looping(3)).await;
            let all = |status: &orchestr::api::OrchestrStatus| status.problematic_pod_count == number + 1;
            env.until("the failure is in the status", all).await;
            latencies.push(begun.elapsed());
            // The first failure has reached both receivers before the next ones come.
            if number == 0 {
                slow.wait_for(1, TIMEOUT).await.unwrap();
                quick.wait_for(1, TIMEOUT).await.unwrap();
            }
        }
        assert_eq!(slow.received().len(), 1, "one request at a time");
        latencies.sort_unstable();
        println!("detection with a hanging receiver: {hanging}: {latencies:?}");
        medians.push(latencies[latencies.len() / 2]);
        slow.release();
    }
    // A status is written at most once a second; the receiver hangs for a minute.
    assert!(medians.iter().all(|median| *median < Duration::from_secs(10)), "{medians:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_pods_by_owner_and_counts_a_storm() {
    let env = TestEnv::new("storm").await;
    let receiver = Receiver::start().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/"))]).await;
    let owner = controlled_by("ReplicaSet", "cart-5d9f", "u-1");
    let cart = json!({"labels": {"pod-template-hash": "5d9f"}, "ownerReferences": owner});
    env.load_crashing((0..500).map(|number| format!("cart-5d9f-{number}")), &cart).await;
    // The API server's watch cache lags slightly behind etcd.
    orchestr_testbed::eventually("the API server has the pods", TIMEOUT, async || {
        let cached = ListParams::default().match_any();
        match env.pods().list_metadata(&cached).await.unwrap().items.len() {
            500 => Ok(()),
            few => Err(format!("it has {few}")),
        }
    })
    .await
    .unwrap();
    let mut quietly = spec(&[webhook("ops", "Generic", json!({}))]);
    quietly["logs"] = json!({"enabled": false});
    // No other namespace needs space for its alerts.
    quietly["pods"] = json!({"namespaces": [env.namespace]});
    env.object("cluster", quietly).await;
    let (begun, operator) = (Instant::now(), env.operator().start());
    let first = receiver.wait_for(1, TIMEOUT).await.unwrap()[0].json();
    let alerts = first["alerts"].as_array().unwrap();
    assert_eq!((alerts.len(), &first["truncatedAlerts"]), (1, &json!(0)), "{first}");
    let shown = [&alerts[0]["labels"]["owner_name"], &alerts[0]["annotations"]["pods"]];
    assert_eq!(shown, ["cart", "500"]);

    // A thousand more, each with its own owner. They wait for the next message.
    env.load_crashing((0..1000).map(|number| format!("single-{number}")), &json!({})).await;
    env.until("all are queued", |status| {
        let Some(ops) = delivery(status, "ops") else { return false };
        ops.alerts.len() == 100 && ops.storm.is_some() && status.problematic_pod_count == 1500
    })
    .await;
    operator.stop().await;
    env.let_an_hour_pass("cluster").await;
    let operator = env.operator().start();
    let digest = orchestr_testbed::eventually("the storm is counted exactly", TIMEOUT, async || {
        let message = receiver.received().last().unwrap().json();
        let storm =
            message["alerts"].as_array().unwrap().iter().find(|alert| {
                alert["labels"]["alertname"] == "OrchestrStorm" && alert["annotations"]["problems"] == "901"
            });
        let annotations = storm.map(|storm| storm["annotations"].clone());
        annotations.map(|annotations| (message.clone(), annotations)).ok_or_else(|| message.to_string())
    });
    let (digest, storm) = digest.await.unwrap();
    let (shown, left_out) = (digest["alerts"].as_array().unwrap().len() - 1, &digest["truncatedAlerts"]);
    println!("{shown} shown, {left_out} left out, storm: {storm}, {} bytes", digest.to_string().len());
    assert!((20..=100).contains(&shown), "some of 100 are named, the others in the next message");
    assert!((901..1001).contains(&left_out.as_u64().unwrap()), "901 are counted");
    assert!(storm["reasons"].to_string().contains("OOMKilled"), "{storm}");
    let status = env
        .until("it is recorded", |status| {
            delivery(status, "ops").is_some_and(|ops| ops.pending.is_none() && ops.alerts.len() == 100)
        })
        .await;
    let ops = delivery(&status, "ops").unwrap();
    let named = receiver.received().iter().map(|request| request.json().to_string()).collect::<String>();
    for alert in ops.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing) {
        assert!(named.contains(&format!("\"{}\"", alert.owner.name)), "{} was never named", alert.owner.name);
    }
    assert_eq!(
        ops.storm.as_ref().map(|storm| (storm.overflow.as_ref().unwrap().count, storm.phase)),
        Some((901, AlertPhase::Firing))
    );
    assert_eq!(ops.dropped, 0);
    // One message in half a minute, and one for the hour that passed.
    let (requests, seconds) = (receiver.received().len(), begun.elapsed().as_secs());
    println!("{requests} requests in {seconds} s");
    assert!(requests as u64 <= 2 + seconds / 30, "{requests} requests in {seconds} s");
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_two_messages_for_a_flapping_pod_and_none_for_a_drain() {
    let env = TestEnv::new("quiet").await;
    let receiver = Receiver::start().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/"))]).await;
    for number in 0..3 {
        env.pod(&format!("old-{number}"), healthy()).await;
    }
    env.object("cluster", spec(&[webhook("ops", "Generic", json!({}))])).await;
    let operator = env.operator().start();
    env.wait_for_ready("cluster", "Watching").await;
    // Old pods terminate on SIGTERM; new ones start.
    for number in 0..3 {
        let name = format!("old-{number}");
        env.pods().delete(&name, &kube::api::DeleteParams::default().grace_period(60)).await.unwrap();
        env.set_status(&name, stopped()).await;
        let new = json!({"metadata": {"creationTimestamp": ago(0)}});
        env.pod_with(&format!("new-{number}"), new, json!({"phase": "Pending"})).await;
        env.set_status(&format!("new-{number}"), healthy()).await;
        env.delete_pod(&name).await;
    }
    env.wait_until_caught_up().await;
    drain(&env).await;
    // The pod fails and recovers four times, and the status shows each change.
    env.pod("flapping", healthy()).await;
    for round in 0..4 {
        let running =
            json!({"containerStatuses": healthy()["containerStatuses"], "conditions": healthy()["conditions"]});
        env.set_status("flapping", crash_looping(round)).await;
        env.until("it fails", |status| status.problematic_pod_count == 1).await;
        env.set_status("flapping", running).await;
        env.until("it recovers", |status| status.problematic_pod_count == 0).await;
    }
    env.until("it is gone", |status| {
        delivery(status, "ops").is_some_and(|ops| ops.alerts.iter().any(|alert| alert.gone_since.is_some()))
    })
    .await;
    assert_eq!(receiver.wait_for(1, TIMEOUT).await.unwrap().len(), 1, "one beginning, whatever came after it");
    operator.stop().await;
    env.let_an_hour_pass("cluster").await;
    let operator = env.operator().start();
    env.until("its resolution is sent", |status| {
        let alerts = &delivery(status, "ops").unwrap().alerts;
        alerts.iter().all(|alert| alert.phase == AlertPhase::Resolved)
    })
    .await;
    let received: Vec<Value> = receiver.received().iter().map(Received::json).collect();
    let kinds: Vec<_> = received.iter().map(|message| message["status"].as_str().unwrap()).collect();
    println!("the flapping pod: {kinds:?}");
    assert_eq!(kinds, ["firing", "resolved"], "{received:#?}");
    for message in &received {
        let alerts = message["alerts"].as_array().unwrap();
        assert_eq!((alerts.len(), &alerts[0]["labels"]["owner_name"]), (1, &json!("flapping")), "{message:#}");
    }
    operator.stop().await;
}

/// The container has ended because of SIGTERM.
fn stopped() -> Value {
    let ended = json!({"exitCode": 143, "reason": "Error", "finishedAt": ago(0)});
    json!({"containerStatuses": [container("app", json!({"state": {"terminated": ended}}))]})
}

/// Drains a node: its pods are evicted and terminate in time, and replacements start on another node.
async fn drain(env: &TestEnv) {
    let app = container("app", json!({"state": {"waiting": {"reason": "ContainerCreating"}}}));
    let conditions = json!([{"type": "PodScheduled", "status": "True"}]);
    let created = json!({"phase": "Pending", "conditions": conditions, "containerStatuses": [app]});
    let unscheduled = json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": ago(0),
    }]});
    let names = |what: &str| (0..3).map(|number| format!("{what}-{number}")).collect::<Vec<_>>();
    for name in names("drained") {
        env.pod(&name, healthy()).await;
    }
    for name in names("drained") {
        env.pods().evict(&name, &EvictParams::default()).await.unwrap();
    }
    for name in names("moved") {
        let new = json!({"metadata": {"creationTimestamp": ago(0)}, "spec": {"nodeName": null}});
        env.pod_with(&name, new, unscheduled.clone()).await;
    }
    for name in names("drained") {
        let pod = env.pods().get(&name).await.unwrap();
        assert!(pod.metadata.deletion_timestamp.is_some(), "{name} is within its grace");
        env.set_status(&name, stopped()).await;
    }
    env.wait_until_caught_up().await;
    for name in names("moved") {
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": "node-2"});
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
        env.pods()
            .create_subresource::<Value, Value>("binding", &name, &PostParams::default(), &binding)
            .await
            .unwrap();
        env.set_status(&name, created.clone()).await;
    }
    env.wait_until_caught_up().await;
    for (drained, moved) in names("drained").iter().zip(names("moved")) {
        env.delete_pod(drained).await;
        env.set_status(&moved, healthy()).await;
    }
    env.wait_until_caught_up().await;
}
