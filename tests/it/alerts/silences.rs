//! Silences and quiet hours, from the spec to the receiver.

use orchestr_testbed::Receiver;
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
    let operator = env.operator().fast_alerts().start();

    receiver.wait_for(1, TIMEOUT).await.unwrap();
    let status = env
        .wait_for_status("cluster", "an incident is held back, and the other one is sent", |status| {
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
    env.wait_for_status("cluster", "nothing is held back", |status| {
        delivery(status, "ops").is_some_and(|ops| ops.muted.is_none())
            && condition(status, "AlertsDelivered").2
                == "webhook ops accepted every message; silence migration has expired"
    })
    .await;

    let nowhere = json!([{"name": "nights", "start": "22:00", "end": "07:00", "timeZone": "Mars/Olympus"}]);
    env.update_spec("cluster", json!({"quietHours": nowhere})).await;
    env.wait_for_status("cluster", "the time zone does not exist", |status| {
        let (_, reason, message) = condition(status, "Ready");
        reason == "InvalidSpec"
            && message.starts_with("spec.quietHours[0].timeZone: \"Mars/Olympus\" is not a time zone")
    })
    .await;
    operator.stop().await;
}
