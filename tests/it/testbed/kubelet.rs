//! Tests how the API server forwards each answer of the kubelet.

use std::{fmt::Write, time::Duration};

use futures::AsyncReadExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{LogParams, PostParams},
};
use orchestr_testbed::{Answer, Kubelet, shared};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(30);

/// A kubelet with its own node, and a namespace.
async fn kubelet(node: &str) -> (Kubelet, Api<Pod>, String) {
    let plane = shared().await;
    let kubelet = Kubelet::start(plane, node).await.unwrap();
    let namespace = plane.namespace(node).await.unwrap();
    let pods = Api::namespaced(plane.admin().unwrap(), &namespace);
    (kubelet, pods, namespace)
}

async fn create(pods: &Api<Pod>, name: &str, node: Option<&str>, containers: &[&str]) {
    let containers: Vec<_> = containers.iter().map(|name| json!({"name": name, "image": "example/app:1"})).collect();
    let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": containers}});
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
}

fn params(tail: Option<i64>, limit: Option<i64>) -> LogParams {
    LogParams { container: Some("app".to_owned()), tail_lines: tail, limit_bytes: limit, ..LogParams::default() }
}

/// Reads a log as bytes, and returns those received before an error. kube's `logs` accepts only complete UTF-8.
async fn read(pods: &Api<Pod>, pod: &str, params: &LogParams) -> (Vec<u8>, std::io::Result<usize>) {
    let stream = pods.log_stream(pod, params).await.unwrap();
    let mut stream = std::pin::pin!(stream);
    let mut bytes = Vec::new();
    let end = tokio::time::timeout(LIMIT, stream.read_to_end(&mut bytes)).await.expect("the log ends");
    (bytes, end)
}

/// The code and message of the error response.
async fn refusal(pods: &Api<Pod>, pod: &str, params: &LogParams) -> (u16, String) {
    match pods.logs(pod, params).await {
        Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn answers_with_logs_of_every_kind() {
    let (kubelet, pods, namespace) = kubelet("logs").await;
    create(&pods, "web", Some("logs"), &["app"]).await;
    let script = |answer| kubelet.script(&namespace, "web", "app", false, answer);

    let mut log = String::new();
    for line in 0..1000 {
        writeln!(log, "line {line}").unwrap();
    }
    script(Answer::text(log.clone()));
    let (bytes, _) = read(&pods, "web", &params(Some(2), None)).await;
    assert_eq!(bytes, b"line 998\nline 999\n");
    let (bytes, _) = read(&pods, "web", &params(Some(2), Some(11))).await;
    assert_eq!(bytes, b"line 998\nli", "the limit keeps the start of the tail");
    let (bytes, _) = read(&pods, "web", &params(None, None)).await;
    assert_eq!(bytes, log.as_bytes());

    script(Answer::text(""));
    let (bytes, _) = read(&pods, "web", &params(Some(2), None)).await;
    assert_eq!(bytes, b"");

    let binary = b"\xff\xfe\x00 \x1b[31mred\x1b[0m \xe2\x80\n".to_vec();
    script(Answer::Text(binary.clone()));
    let (bytes, _) = read(&pods, "web", &params(Some(2), None)).await;
    assert_eq!(bytes, binary);

    script(Answer::Text(vec![b'x'; 3_000_000]));
    let (bytes, _) = read(&pods, "web", &params(None, None)).await;
    assert_eq!(bytes.len(), 3_000_000);
    let (bytes, _) = read(&pods, "web", &params(Some(20), None)).await;
    let last_record = 3_000_000 % 16_384;
    assert_eq!(bytes.len(), 19 * 16_384 + last_record, "a record of containerd's is a line");

    script(Answer::Slow { text: b"a\nb\nc\n".to_vec(), chunk: 2, every: Duration::from_millis(20) });
    let (bytes, _) = read(&pods, "web", &params(Some(2), None)).await;
    assert_eq!(bytes, b"b\nc\n");

    script(Answer::KubeletErrorText);
    let (bytes, _) = read(&pods, "web", &params(Some(2), None)).await;
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("unable to retrieve container logs for containerd://"), "{text}");

    script(Answer::Broken(b"begun\n".to_vec()));
    let (bytes, end) = read(&pods, "web", &params(None, None)).await;
    assert_eq!(bytes, b"begun\n");
    assert!(end.is_ok(), "the API server hides that a log broke off");

    // The container is restarted between two reads. The previous instance has another log.
    script(Answer::InTurn(vec![Answer::text("first\n"), Answer::text("second\n")]));
    kubelet.script(&namespace, "web", "app", true, Answer::text("before\n"));
    let previous = LogParams { previous: true, ..params(Some(5), Some(99)) };
    for (params, wanted) in [
        (&params(None, None), "first\n"),
        (&params(None, None), "second\n"),
        (&previous, "before\n"),
        (&params(None, None), "second\n"),
    ] {
        assert_eq!(pods.logs("web", params).await.unwrap(), wanted);
    }
    let requests = kubelet.requests_for(&namespace, "web");
    let asked = requests.iter().find(|request| request.previous()).unwrap();
    assert_eq!((&*asked.namespace, &*asked.container), (&*namespace, "app"));
    assert_eq!((&*asked.query["tailLines"], &*asked.query["limitBytes"]), ("5", "99"));
    kubelet.wait_until_idle(LIMIT).await.unwrap();
}

#[tokio::test]
async fn rejects_requests_like_a_real_kubelet() {
    let (kubelet, pods, namespace) = kubelet("refusals").await;
    create(&pods, "web", Some("refusals"), &["app"]).await;
    let script = |answer| kubelet.script(&namespace, "web", "app", false, answer);
    let params = params(Some(20), Some(4096));

    let (code, message) = refusal(&pods, "web", &params).await;
    assert_eq!(code, 404);
    assert!(message.contains("the server could not find the requested resource"), "{message}");

    script(Answer::waiting_to_start("web", "app", "ContainerCreating"));
    let waits = r#"container "app" in pod "web" is waiting to start: ContainerCreating"#;
    assert_eq!(refusal(&pods, "web", &params).await, (400, waits.to_owned()));

    script(Answer::no_previous("web", "app"));
    let none = r#"previous terminated container "app" in pod "web" not found"#;
    assert_eq!(refusal(&pods, "web", &params).await, (400, none.to_owned()));

    script(Answer::Status(500, "disk on fire".to_owned()));
    let (code, message) = refusal(&pods, "web", &params).await;
    assert_eq!(code, 500);
    assert!(message.contains("disk on fire"), "{message}");

    // Nothing listens on the port of a node whose machine is gone.
    drop(kubelet);
    let (code, message) = refusal(&pods, "web", &params).await;
    assert_eq!(code, 500);
    assert!(message.contains("connection refused"), "{message}");
}

#[tokio::test]
async fn keeps_connections_open_and_notices_disconnects() {
    let (kubelet, pods, namespace) = kubelet("hangs").await;
    create(&pods, "web", Some("hangs"), &["app"]).await;
    let script = |answer| kubelet.script(&namespace, "web", "app", false, answer);
    let params = params(None, None);

    script(Answer::Hanging);
    let reads = futures::future::join(pods.logs("web", &params), pods.logs("web", &params));
    tokio::select! {
        answers = reads => panic!("it answered {answers:?}"),
        requests = kubelet.wait_for_requests(2, LIMIT) => assert_eq!(requests.unwrap().len(), 2),
    }
    kubelet.wait_until_idle(LIMIT).await.unwrap();
    assert_eq!(kubelet.peak_in_flight(), 2);

    // The API server holds back the last kilobytes of a log until the log ends, unless it is followed.
    script(Answer::Stalling(vec![b'x'; 100_000]));
    {
        let stream = pods.log_stream("web", &params).await.unwrap();
        let mut begun = [0; 50_000];
        std::pin::pin!(stream).read_exact(&mut begun).await.unwrap();
        assert_eq!(kubelet.in_flight(), 1);
    }
    kubelet.wait_until_idle(LIMIT).await.unwrap();

    script(Answer::Endless);
    {
        let stream = pods.log_stream("web", &params).await.unwrap();
        let mut some = vec![0; 5_000_000];
        std::pin::pin!(stream).read_exact(&mut some).await.unwrap();
        assert_eq!(kubelet.in_flight(), 1);
    }
    kubelet.wait_until_idle(LIMIT).await.unwrap();
}

/// The table in the kubelet's documentation.
#[tokio::test]
async fn gets_no_request_that_the_api_server_can_answer() {
    let (kubelet, pods, _) = kubelet("unasked").await;
    create(&pods, "web", Some("unasked"), &["app"]).await;
    create(&pods, "two", Some("unasked"), &["app", "other"]).await;
    create(&pods, "nowhere", None, &["app"]).await;
    create(&pods, "lost", Some("gone"), &["app"]).await;
    let default = LogParams::default();

    let (code, message) = refusal(&pods, "absent", &default).await;
    assert_eq!((code, &*message), (404, r#"pods "absent" not found"#));

    let (code, message) = refusal(&pods, "two", &default).await;
    assert_eq!(code, 400);
    assert!(message.starts_with("a container name must be specified for pod two"), "{message}");

    let unknown = LogParams { container: Some("sidecar".to_owned()), ..LogParams::default() };
    let (code, message) = refusal(&pods, "web", &unknown).await;
    assert_eq!((code, &*message), (400, "container sidecar is not valid for pod web"));

    assert_eq!(pods.logs("nowhere", &default).await.unwrap(), "");

    let (code, message) = refusal(&pods, "lost", &default).await;
    assert_eq!((code, &*message), (404, r#"pods "gone" not found"#));

    let (code, message) = refusal(&pods, "web", &params(None, Some(0))).await;
    assert_eq!(code, 422);
    assert!(message.contains("limitBytes"), "{message}");

    assert_eq!(kubelet.requests(), []);
}
