//! Silences and quiet hours, from the spec to the receiver.

use orchestr_testbed::{Receiver, eventually};
use serde_json::{Value, json};

use super::support::{delivery, spec, webhook};
use crate::{
    pod_statuses::{ago, crash_looping},
    support::TIMEOUT,
    test_env::{TestEnv, condition},
};

/// Of each request, the owners of its alerts.
fn owners(receiver: &Receiver) -> Vec<String> {
    let owners = |request: Value| -> Vec<String> {
        let alerts = request["alerts"].as_array().unwrap().iter();
        alerts.map(|alert| alert["labels"]["owner_name"].as_str().unwrap().to_owned()).collect()
    };
    receiver.received().iter().map(|request| owners(request.json()).join(" ")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_back_a_silenced_incident_until_the_silence_ends() {
    let env = TestEnv::new("silences").await;
    let receiver = Receiver::start().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/"))]).await;
    // Both are critical, because none of their owners' pods works: they pass quiet hours, and not silences.
    env.pod("cart-0", crash_looping(7)).await;
    env.pod("web-0", crash_looping(7)).await;
    let until = ago(-3_600);
    let silence = |until: &str| json!([{"name": "migration", "until": until, "match": {"owners": ["cart-*"]}}]);
    let mut spec = spec(&[webhook("ops", "Generic", json!({}))]);
    spec["silences"] = silence(&until);
    spec["quietHours"] = json!([{"name": "always", "start": "00:00", "end": "24:00", "timeZone": "Pacific/Auckland"}]);
    env.object("cluster", spec).await;
    let _operator = env.operator().fast_alerts().start();

    receiver.wait_for(1, TIMEOUT).await.unwrap();
    let status = env
        .until("an incident is held back, and the other one is sent", |status| {
            delivery(status, "ops").is_some_and(|ops| ops.muted.is_some() && ops.last_success.is_some())
        })
        .await;
    assert_eq!(owners(&receiver), ["web-0"]);
    let muted = delivery(&status, "ops").unwrap().muted.clone().unwrap();
    assert_eq!((muted.count, muted.by.as_str(), muted.ended), (1, "silence migration", 0));
    assert_eq!(
        condition(&status, "AlertsDelivered"),
        (
            "True",
            "Delivered",
            format!("webhook ops accepted every message; 1 incident is held back until {until} by silence migration")
                .as_str()
        )
    );

    let soon = ago(-3);
    env.update_spec("cluster", json!({"silences": silence(&soon)})).await;
    receiver.wait_for(2, TIMEOUT).await.unwrap();
    assert!(ago(0) >= soon, "it was sent before {soon}");
    // The quiet hours do not hold it back, and the message also lists what the receiver was sent before.
    assert_eq!(owners(&receiver), ["web-0", "cart-0 web-0"]);
    env.until("nothing is held back", |status| {
        delivery(status, "ops").is_some_and(|ops| ops.muted.is_none())
            && condition(status, "AlertsDelivered").2
                == "webhook ops accepted every message; silence migration has expired"
    })
    .await;

    let nowhere = json!([{"name": "nights", "start": "22:00", "end": "07:00", "timeZone": "Mars/Olympus"}]);
    env.update_spec("cluster", json!({"quietHours": nowhere})).await;
    env.until("the time zone does not exist", |status| {
        let (_, reason, message) = condition(status, "Ready");
        reason == "InvalidSpec"
            && message.starts_with("spec.quietHours[0].timeZone: \"Mars/Olympus\" is not a time zone")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_entry_stops_neither_checks_nor_other_webhooks() {
    let env = TestEnv::new("wrong-part").await;
    let [working, wrong] = [Receiver::start().await.unwrap(), Receiver::start().await.unwrap()];
    env.secret("ops", &[("url", &working.url("/"))]).await;
    env.secret("dev", &[("url", &wrong.url("/"))]).await;
    env.pod("cart-0", crash_looping(7)).await;
    let both = |wanted: Value| {
        // What is wrong with the spec is sent whatever a webhook matches.
        let routed =
            json!({"match": {"namespaces": [env.namespace], "reasons": ["Crash"], "severities": ["critical"]}});
        [webhook("ops", "Generic", routed), webhook("dev", "Generic", json!({"match": wanted}))]
    };
    env.object("cluster", spec(&both(json!({})))).await;
    let _operator = env.operator().fast_alerts().start();
    working.wait_for(1, TIMEOUT).await.unwrap();
    wrong.wait_for(1, TIMEOUT).await.unwrap();

    let mut typos = spec(&both(json!({"namespaces": ["[z-a]"]})));
    typos["quietHours"] = json!([{"name": "nights", "start": "00:00", "end": "24:00", "timeZone": "Europe/Berln"}]);
    env.update_spec("cluster", typos).await;
    // Two writers share the status.
    let status = env
        .until("the webhook cannot be used", |status| {
            let reasons = ["AlertsDelivered", "Ready"].map(|kind| condition(status, kind).1);
            reasons == ["WebhookUnusable", "InvalidSpec"]
        })
        .await;
    let (_, reason, message) = condition(&status, "Ready");
    assert_eq!((reason, condition(&status, "Stalled").0), ("InvalidSpec", ""));
    assert!(
        message.contains("spec.webhooks[1].match.namespaces[0]: ") && message.contains("Europe/Berln"),
        "{message}"
    );
    assert!(condition(&status, "AlertsDelivered").2.contains("spec.webhooks[1].match.namespaces[0]: "), "{status:?}");
    env.pod("web-0", crash_looping(7)).await;
    // The receiver that works is sent the new incident, and told of the spec once.
    eventually("both are sent", TIMEOUT, async || {
        let sent = owners(&working).join(" ");
        let is_sent = sent.contains("web-0") && sent.contains("cluster");
        if is_sent { Ok(()) } else { Err(sent) }
    })
    .await
    .unwrap();
    assert_eq!(wrong.received().len(), 1, "a webhook that is wrong is sent nothing, no end either");

    let mut corrected = spec(&both(json!({})));
    corrected["quietHours"] = json!(null);
    env.update_spec("cluster", corrected).await;
    let status = env.wait_for_ready("cluster", "Watching").await;
    assert_eq!(status.problematic_pod_count, 2);
    eventually("the other receiver is sent what it missed", TIMEOUT, async || {
        let sent = owners(&wrong).join(" ");
        if sent.contains("web-0") { Ok(()) } else { Err(sent) }
    })
    .await
    .unwrap();
    for request in wrong.received() {
        assert_eq!(request.json()["status"], "firing", "nothing seemed to be over");
    }
}
