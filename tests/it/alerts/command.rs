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
async fn webhook_test_reports_the_result_with_a_hint() {
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
    let (code, output, failure) = test(&[]);
    assert_eq!((code, failure.as_str()), (1, ""));
    println!("{output}");
    let (rights, lines): (Vec<&str>, Vec<&str>) =
        output.lines().partition(|line| line.contains("the operator's account") || line.contains("secret-reader.yaml"));
    for (index, name) in ["good", "lost", "absent"].iter().enumerate() {
        assert_eq!(
            rights[2 * index],
            format!(
                "{name} (Slack): the operator's account orchestr-system/orchestr may not get Secret {}/{name}-webhook",
                env.namespace
            )
        );
    }
    assert!(lines[0].starts_with("good (Slack): test alert: delivered, 200 in "), "{output}");
    assert!(lines[1].starts_with("good (Slack): resolved alert: delivered, 200 in "), "{output}");
    assert!(lines[2].ends_with(": the receiver answered 404: the webhook does not exist"), "{output}");
    assert_eq!(lines[3], "  hint: the webhook was deleted, or the URL is not copied completely");
    assert_eq!(
        lines[4],
        format!(
            "absent (Slack): not delivered: Secret {}/absent-webhook does not exist: make it with `kubectl create secret \
             generic`",
            env.namespace
        )
    );
    assert_eq!(lines.len(), 5, "{output}");
    let received = good.received();
    assert_eq!(received.len(), 2);
    assert!(String::from_utf8_lossy(&received[0].body).contains("orchestr webhook test"), "it is marked");

    let (code, output, _) = test(&["--webhook", "good"]);
    assert_eq!((code, output.lines().count()), (1, 4), "it is delivered, but the operator could not send it: {output}");
    env.allow_secrets("orchestr-system", "orchestr", &["good-webhook"]).await;
    let may = "good (Slack): the operator's account orchestr-system/orchestr may read its Secrets\n";
    let (code, output, _) = test(&["--webhook", "good"]);
    assert!(code == 0 && output.starts_with(may), "{output}");
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

/// Like `kubectl exec` in the operator's pod: with exactly the rights of the operator's account.
#[tokio::test(flavor = "multi_thread")]
async fn webhook_test_uses_the_rights_of_the_operator() {
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
        // As in the Deployment.
        command.env("ORCHESTR_WEBHOOK_ALLOW_HTTP", "true").env("ORCHESTR_WEBHOOK_ALLOW_LOOPBACK", "true");
        let (code, output, _) = ends(command.env("KUBECONFIG", access.kubeconfig()));
        assert_eq!(code, 0, "{output}");
        assert!(output.starts_with(&expected), "{output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hints_name_the_cause() {
    let env = TestEnv::new("hints").await;
    // A port that was just released refuses connections.
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
    let (code, output, failure) =
        ends(&mut orchestr(&["webhook", "test", &name, "--kubeconfig", kubeconfig, "--webhook-allow-loopback"]));
    assert_eq!((code, failure.as_str()), (1, ""), "{output}");
    for (name, _, _, reason) in &webhooks {
        assert!(output.contains(reason), "{name}: {output}");
    }
    assert!(output.contains("Secret typo-webhook has no key url, which spec.webhooks names"), "{output}");
    assert!(output.contains("\n  hint: check the host's name in the URL (DNS does not know it)"), "{output}");
    assert!(output.contains("\n  hint: check the port in the URL, and that the receiver runs"), "{output}");
}

/// A proxy that tunnels every connection to `port`, and reports the heads of the requests that it gets.
fn proxy(port: u16) -> (String, mpsc::Receiver<String>) {
    use std::io::{BufRead, BufReader, Write, copy};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://user:pass@localhost:{}", listener.local_addr().unwrap().port());
    let (report, reported) = mpsc::channel();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let head: Vec<String> = BufReader::new(client.try_clone().unwrap())
                .lines()
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            if report.send(head.join("\n")).is_err() {
                return;
            }
            client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").unwrap();
            if !head[0].starts_with("CONNECT") {
                continue;
            }
            let mut server = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || copy(&mut from, &mut to));
            std::thread::spawn(move || copy(&mut server, &mut client));
        }
    });
    (url, reported)
}

#[tokio::test(flavor = "multi_thread")]
async fn uses_the_proxy_of_the_environment_only_if_a_flag_allows_it() {
    let env = TestEnv::new("proxied").await;
    let receiver = Receiver::start_tls().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/")), ("ca", receiver.ca_pem())]).await;
    env.secret("name", &[("url", "https://alerts.example.com/"), ("ca", receiver.ca_pem())]).await;
    env.secret("plain", &[("url", "http://alerts.example.com/a?b=c"), ("ca", receiver.ca_pem())]).await;
    env.allow_secrets("orchestr-system", "orchestr", &["ops-webhook", "name-webhook", "plain-webhook"]).await;
    let webhooks = ["ops", "name", "plain"].map(|name| {
        let ca = json!({"secretKeyRef": {"name": format!("{name}-webhook"), "key": "ca"}});
        webhook(name, "Generic", json!({"caFrom": ca, "sendResolved": false}))
    });
    env.object("cluster", spec(&webhooks)).await;
    let name = format!("{}/cluster", env.namespace);
    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap().to_owned();
    let (url, reported) = proxy(receiver.port());
    let test = |webhook: &str, no_proxy: &str, more: &[&str]| {
        let mut args = vec!["webhook", "test", &name, "--webhook", webhook, "--kubeconfig", &kubeconfig];
        args.extend(more);
        let mut command = orchestr(&args);
        ends(command.env("HTTPS_PROXY", &url).env("HTTP_PROXY", &url).env("NO_PROXY", no_proxy))
    };
    const PROXY: &str = "--webhook-proxy-from-env";
    const LOOPBACK: &str = "--webhook-allow-loopback";

    for (no_proxy, flags) in [("", &[LOOPBACK][..]), ("127.0.0.0/8", &[LOOPBACK, PROXY])] {
        let (code, output, failure) = test("ops", no_proxy, flags);
        assert_eq!((code, failure.as_str()), (0, ""), "{output}");
        assert!(reported.try_recv().is_err(), "{no_proxy:?} {flags:?}");
    }
    let (code, output, failure) = test("ops", "example.com", &[LOOPBACK, PROXY]);
    assert_eq!((code, failure.as_str()), (0, ""), "{output}");
    let head = reported.recv_timeout(TIMEOUT).unwrap();
    assert!(head.starts_with(&format!("CONNECT 127.0.0.1:{} HTTP/1.1", receiver.port())), "{head}");
    // In lower case, because names of headers are case-insensitive.
    const CREDENTIALS: &str = "proxy-authorization: basic dxnlcjpwyxnz";
    assert!(head.to_lowercase().contains(CREDENTIALS), "{head}");
    assert_eq!(receiver.received().len(), 3);

    // The proxy resolves the receiver's name, and the address rules do not apply to the proxy itself.
    let (code, output, _) = test("name", "", &[PROXY]);
    assert!(code == 1 && output.contains("the receiver's certificate is not trusted"), "{output}");
    let head = reported.recv_timeout(TIMEOUT).unwrap();
    assert!(head.starts_with("CONNECT alerts.example.com:443 HTTP/1.1"), "{head}");
    let (code, output, _) = test("plain", "", &[PROXY, "--webhook-allow-http"]);
    assert!(code == 1 && output.contains("a proxy sees the whole of an http:// URL"), "{output}");
    assert!(reported.try_recv().is_err(), "the URL is a secret");
    assert_eq!(receiver.received().len(), 3);
}
