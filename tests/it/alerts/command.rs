//! `orchestr webhook test`.

use std::{net::TcpListener, sync::mpsc};

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
    let world = World::new("proxied").await;
    let receiver = Receiver::start_tls().await.unwrap();
    world.secret("ops", &[("url", &receiver.url("/")), ("ca", receiver.ca_pem())]).await;
    let ca = json!({"secretKeyRef": {"name": "ops-webhook", "key": "ca"}});
    let changes = json!({"caFrom": ca, "sendResolved": false});
    world.object("cluster", spec(&[webhook("ops", "Generic", changes)])).await;
    let name = format!("{}/cluster", world.namespace);
    let kubeconfig = world.plane.admin_kubeconfig().to_str().unwrap().to_owned();
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
    let asked = told.recv().unwrap();
    assert!(asked.starts_with(&format!("CONNECT 127.0.0.1:{} HTTP/1.1", receiver.port())), "{asked}");
    assert!(asked.contains("Proxy-Authorization: Basic dXNlcjpwYXNz"), "{asked}");
    assert_eq!(receiver.received().len(), 2);
}
