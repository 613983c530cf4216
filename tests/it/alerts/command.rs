//! `orchestr webhook test`.

use std::{net::TcpListener, sync::mpsc};

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, api::PostParams};
use orchestr_testbed::{Receiver, Reply};
use serde_json::json;

use super::support::{spec, webhook};
use crate::{
    command::{ends, orchestr},
    support::TIMEOUT,
    test_env::TestEnv,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_tried_out_and_what_helps_is_told() {
    let env = TestEnv::new("try").await;
    let (good, lost) = (Receiver::start().await.unwrap(), Receiver::start().await.unwrap());
    lost.then([Reply::Status(404)]);
    env.secret("good", &[("url", &good.url("/"))]).await;
    env.secret("lost", &[("url", &lost.url("/"))]).await;
    let webhooks = ["good", "lost", "absent"].map(|name| webhook(name, "Slack", json!({})));
    env.object("cluster", spec(&webhooks)).await;
    let name = format!("{}/cluster", env.namespace);
    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap().to_owned();
    let test = |more: &[&str]| {
        let mut args = vec!["webhook", "test", &name, "--kubeconfig", &kubeconfig];
        args.extend(["--webhook-allow-http", "--webhook-allow-loopback"]);
        args.extend(more);
        ends(&mut orchestr(&args))
    };
    let (code, told, failure) = test(&[]);
    assert_eq!((code, failure.as_str()), (1, ""));
    println!("{told}");
    let (rights, lines): (Vec<&str>, Vec<&str>) =
        told.lines().partition(|line| line.contains("the operator's account") || line.contains("secret-reader.yaml"));
    for (index, name) in ["good", "lost", "absent"].iter().enumerate() {
        assert_eq!(
            rights[2 * index],
            format!(
                "{name} (Slack): the operator's account orchestr-system/orchestr may not get Secret {}/{name}-webhook",
                env.namespace
            )
        );
    }
    assert!(lines[0].starts_with("good (Slack): test alert: taken, 200 in "), "{told}");
    assert!(lines[1].starts_with("good (Slack): its end: taken, 200 in "), "{told}");
    assert!(lines[2].ends_with(": the receiver answered 404: there is no such webhook"), "{told}");
    assert_eq!(lines[3], "  hint: the webhook was deleted, or the URL is not copied completely");
    assert_eq!(
        lines[4],
        format!(
            "absent (Slack): not taken: Secret {}/absent-webhook does not exist: make it with `kubectl create secret \
             generic`",
            env.namespace
        )
    );
    assert_eq!(lines.len(), 5, "{told}");
    let received = good.received();
    assert_eq!(received.len(), 2);
    assert!(String::from_utf8_lossy(&received[0].body).contains("orchestr webhook test"), "it is marked");

    let (code, told, _) = test(&["--webhook", "good"]);
    assert_eq!((code, told.lines().count()), (1, 4), "it is taken, but not from the operator: {told}");
    env.allow_secrets("orchestr-system", "orchestr", &["good-webhook"]).await;
    let may = "good (Slack): the operator's account orchestr-system/orchestr may read its Secrets\n";
    let (code, told, _) = test(&["--webhook", "good"]);
    assert!(code == 0 && told.starts_with(may), "{told}");
    let other = test(&["--webhook", "good", "--operator-account", "tools/orchestr"]);
    assert!(other.0 == 1 && other.1.contains("account tools/orchestr may not get Secret"), "{other:?}");
    let (code, _, failure) = test(&["--webhook", "bad"]);
    assert_eq!((code, failure), (2, format!("orchestr: {name} has no webhook \"bad\": it has good, lost, absent\n")));
    let strict = ends(&mut orchestr(&["webhook", "test", &name, "--kubeconfig", &kubeconfig, "--webhook", "good"]));
    assert_eq!(strict.0, 1);
    assert!(
        strict.1.contains("key url of Secret good-webhook is an http:// URL, which only --webhook-allow-http allows"),
        "{strict:?}"
    );
}

/// As by `kubectl exec` in the operator's pod: with its account and rights, and with no others.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_tried_out_with_the_rights_of_the_operator() {
    let env = TestEnv::new("try-inside").await;
    let namespace = env.namespace.as_str();
    let receiver = Receiver::start().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/"))]).await;
    env.object("cluster", spec(&[webhook("ops", "Slack", json!({}))])).await;
    let accounts = Api::<ServiceAccount>::namespaced(env.client.clone(), namespace);
    for name in ["operator", "person"] {
        let account = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        accounts.create(&PostParams::default(), &account).await.unwrap();
        env.allow_secrets(namespace, name, &["ops-webhook"]).await;
    }
    let (object, operator) = (format!("{namespace}/cluster"), format!("{namespace}/operator"));
    for (name, expected) in [
        ("operator", format!("ops (Slack): its Secrets are read with the operator's account {operator}\n")),
        (
            "person",
            format!(
                "ops (Slack): whether the operator's account {operator} may read its Secrets could not be checked: you \
                 may not create subjectaccessreviews\n"
            ),
        ),
    ] {
        let access = env.plane.service_account(namespace, name).await.unwrap();
        let mut command = orchestr(&["webhook", "test", &object, "--operator-account", &operator]);
        // As the Deployment has them.
        command.env("ORCHESTR_WEBHOOK_ALLOW_HTTP", "true").env("ORCHESTR_WEBHOOK_ALLOW_LOOPBACK", "true");
        let (code, told, _) = ends(command.env("KUBECONFIG", access.kubeconfig()));
        assert_eq!(code, 0, "{told}");
        assert!(told.starts_with(&expected), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hints_name_what_is_wrong() {
    let env = TestEnv::new("hints").await;
    // Nobody listens on a port that was just given back.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let webhooks = [
        (
            "http",
            "Slack",
            "http://hooks.example.com/x",
            "key url of Secret http-webhook is an http:// URL, which only \
          --webhook-allow-http allows",
        ),
        (
            "key",
            "PagerDuty",
            "https://events.example.com/v2/enqueue",
            "key url of Secret key-webhook lacks its \
          routing_key: it must end with ?routing_key=<the integration key>, which is letters and digits",
        ),
        ("dns", "Slack", "https://does-not-exist.invalid/x", "the host name of the receiver cannot be resolved"),
        ("port", "Slack", &format!("https://{closed}/x"), "the receiver's host refuses the connection"),
        (
            "metadata",
            "Slack",
            "https://[fd00:ec2::23]/x",
            "names an address that is refused: it is a cloud's metadata \
          service",
        ),
    ];
    for (name, _, url, _) in &webhooks {
        env.secret(name, &[("url", url)]).await;
    }
    env.secret("typo", &[("uri", "https://hooks.example.com")]).await;
    let mut all: Vec<_> = webhooks.iter().map(|(name, format, ..)| webhook(name, format, json!({}))).collect();
    all.push(webhook("typo", "Slack", json!({})));
    env.object("cluster", spec(&all)).await;
    let (name, kubeconfig) = (format!("{}/cluster", env.namespace), env.plane.admin_kubeconfig().to_str().unwrap());
    let (code, told, failure) =
        ends(&mut orchestr(&["webhook", "test", &name, "--kubeconfig", kubeconfig, "--webhook-allow-loopback"]));
    assert_eq!((code, failure.as_str()), (1, ""), "{told}");
    for (name, _, _, reason) in &webhooks {
        assert!(told.contains(reason), "{name}: {told}");
    }
    assert!(told.contains("Secret typo-webhook has no key url, which spec.webhooks names"), "{told}");
    assert!(told.contains("\n  hint: check the host's name in the URL (DNS does not know it)"), "{told}");
    assert!(told.contains("\n  hint: check the port in the URL, and that the receiver runs"), "{told}");
}

/// A proxy that tunnels one connection to `port`, whatever it is asked for, and tells what that was.
fn proxy(port: u16) -> (String, mpsc::Receiver<String>) {
    use std::io::{BufRead, BufReader, Write, copy};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let head: Vec<String> = BufReader::new(client.try_clone().unwrap())
            .lines()
            .map_while(Result::ok)
            .take_while(|line| !line.is_empty())
            .collect();
        tell.send(head.join("\n")).unwrap();
        client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").unwrap();
        let mut server = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || copy(&mut from, &mut to));
        let _ = copy(&mut server, &mut client);
    });
    (url, told)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_of_the_environment_is_used_where_it_is_allowed_and_not_otherwise() {
    let env = TestEnv::new("proxied").await;
    let receiver = Receiver::start_tls().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/")), ("ca", receiver.ca_pem())]).await;
    let ca = json!({"secretKeyRef": {"name": "ops-webhook", "key": "ca"}});
    env.allow_secrets("orchestr-system", "orchestr", &["ops-webhook"]).await;
    let changes = json!({"caFrom": ca, "sendResolved": false});
    env.object("cluster", spec(&[webhook("ops", "Generic", changes)])).await;
    let name = format!("{}/cluster", env.namespace);
    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap().to_owned();
    let (url, told) = proxy(receiver.port());
    let url = url.replace("http://", "http://user:pass@");
    let test = |more: &[&str]| {
        let mut args = vec!["webhook", "test", &name, "--kubeconfig", &kubeconfig, "--webhook-allow-loopback"];
        args.extend(more);
        ends(orchestr(&args).env("HTTPS_PROXY", &url))
    };
    let (code, output, failure) = test(&[]);
    assert_eq!((code, failure.as_str()), (0, ""), "{output}");
    assert!(told.try_recv().is_err(), "nobody asked for a proxy");
    let (code, output, failure) = test(&["--webhook-proxy-from-env"]);
    assert_eq!((code, failure.as_str()), (0, ""), "{output}");
    let asked = told.recv_timeout(TIMEOUT).unwrap();
    assert!(asked.starts_with(&format!("CONNECT 127.0.0.1:{} HTTP/1.1", receiver.port())), "{asked}");
    assert!(asked.contains("Proxy-Authorization: Basic dXNlcjpwYXNz"), "{asked}");
    assert_eq!(receiver.received().len(), 2);
}
