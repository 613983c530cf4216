//! `orchestr webhook test`.

use orchestr_testbed::{Receiver, Reply};
use serde_json::json;

use super::support::{spec, webhook};
use crate::{
    command::{ends, orchestr},
    world::World,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_tried_out_and_what_helps_is_told() {
    let world = World::new("try").await;
    let (good, lost) = (Receiver::start().await.unwrap(), Receiver::start().await.unwrap());
    lost.then([Reply::Status(404)]);
    world.secret("good", &[("url", &good.url("/"))]).await;
    world.secret("lost", &[("url", &lost.url("/"))]).await;
    let webhooks = ["good", "lost", "absent"].map(|name| webhook(name, "Slack", json!({})));
    world.object("cluster", spec(&webhooks)).await;
    let name = format!("{}/cluster", world.namespace);
    let kubeconfig = world.plane.admin_kubeconfig().to_str().unwrap().to_owned();
    let test = |more: &[&str]| {
        let mut args = vec!["webhook", "test", &name, "--kubeconfig", &kubeconfig];
        args.extend(["--webhook-allow-http", "--webhook-allow-loopback"]);
        args.extend(more);
        ends(&mut orchestr(&args))
    };
    let (code, told, failure) = test(&[]);
    assert_eq!((code, failure.as_str()), (1, ""));
    println!("{told}");
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[0].starts_with("good (Slack): test alert: taken, 200 in "), "{told}");
    assert!(lines[1].starts_with("good (Slack): its end: taken, 200 in "), "{told}");
    assert!(lines[2].ends_with(": the receiver answered 404: there is no such webhook"), "{told}");
    assert_eq!(lines[3], "  hint: the webhook was deleted, or the URL is not copied completely");
    assert_eq!(
        lines[4],
        format!("absent (Slack): not taken: Secret {}/absent-webhook does not exist", world.namespace)
    );
    assert!(lines[5].starts_with("  hint: "), "{told}");
    let received = good.received();
    assert_eq!(received.len(), 2);
    assert!(String::from_utf8_lossy(&received[0].body).contains("orchestr webhook test"), "it is marked");

    assert_eq!(test(&["--webhook", "good"]).0, 0);
    let (code, _, failure) = test(&["--webhook", "bad"]);
    assert_eq!((code, failure), (2, format!("orchestr: {name} has no webhook \"bad\": it has good, lost, absent\n")));
    let strict = ends(&mut orchestr(&["webhook", "test", &name, "--kubeconfig", &kubeconfig, "--webhook", "good"]));
    assert_eq!(strict.0, 1);
    assert!(strict.1.contains("key url of Secret good-webhook must begin with https://"), "{strict:?}");
}
