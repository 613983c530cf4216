use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
    task::JoinSet,
};

use super::*;
use crate::{
    api::{Cause, CommonCause, NamespacedName, Owner, ProblemKind},
    metrics::{ObjectReport, ProblemCount},
    report::Incident,
};

struct Server {
    address: SocketAddr,
    metrics: Metrics,
    heartbeat: Heartbeat,
    /// Ends with this value.
    _task: JoinSet<()>,
}

impl Server {
    fn start() -> Self {
        Self::with(Metrics::with_state())
    }

    fn with(metrics: Metrics) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let heartbeat = Heartbeat::default();
        let mut task = JoinSet::new();
        let (own_metrics, own_heartbeat) = (metrics.clone(), heartbeat.clone());
        task.spawn(async move { serve(listener, &own_metrics, &own_heartbeat).await.unwrap() });
        Self { address, metrics, heartbeat, _task: task }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The status line and the body of the response.
    async fn get(&self, path: &str) -> (String, String) {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await
    }

    async fn send(&self, request: &[u8]) -> (String, String) {
        let mut stream = self.connect().await;
        stream.write_all(request).await.unwrap();
        let mut response = Vec::new();
        timeout(Duration::from_secs(30), stream.read_to_end(&mut response)).await.expect("it answers").unwrap();
        let response = String::from_utf8(response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
        (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
    }

    /// Reports incidents with the longest names that are shown.
    fn report(&self, incidents: usize) {
        let name = "n".repeat(253);
        let incident = |index: usize| Incident {
            key: format!("{index:016x}").into(),
            namespace: name.as_str().into(),
            owner: Owner { kind: name.clone(), name: format!("owner-{index}") }.into(),
            container: name.as_str().into(),
            kind: ProblemKind::Crash,
            reason: name.as_str().into(),
            pods: 1,
            ..Incident::default()
        };
        let incidents: Vec<_> = (0..incidents).map(incident).collect();
        let object = NamespacedName::new("shop", "cluster");
        self.metrics.object_reported(&object, &ObjectReport::default(), &incidents);
    }
}

fn series<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    page.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))).collect()
}

#[tokio::test]
async fn livez_follows_the_event_loop_and_readyz_the_sync() {
    let server = Server::start();
    let ok = ("HTTP/1.1 200 OK".to_owned(), "ok\n".to_owned());
    let unavailable = |why: &str| ("HTTP/1.1 503 Service Unavailable".to_owned(), format!("{why}\n"));
    assert_eq!(server.get("/livez").await, ok);
    assert_eq!(server.get("/readyz").await, unavailable("not all pods are known"));
    server.metrics.set_synced(true);
    server.heartbeat.set_late(true);
    assert_eq!(server.get("/livez?verbose").await, unavailable("the event loop makes no progress"));
    assert_eq!(server.get("/readyz").await, ok);
    assert_eq!(server.get("/readyz").await, ok, "a follower can take over");
    assert_eq!(series(&server.get("/metrics").await.1, "orchestr_leader"), ["orchestr_leader 0"]);
    server.metrics.set_leader(true);
    assert_eq!(series(&server.get("/metrics").await.1, "orchestr_leader"), ["orchestr_leader 1"]);
}

#[tokio::test]
async fn a_page_without_incidents_names_no_namespace_owner_or_cause() {
    for (metrics, names) in [(Metrics::with_state(), true), (Metrics::without_incidents(), false)] {
        let server = Server::with(metrics);
        let problem = |reason| ProblemCount { namespace: "payments", reason, pods: 2 };
        let cause = CommonCause { kind: "Secret".to_owned(), name: "payments/db".to_owned(), pods: 4, ..cause() };
        let report = ObjectReport {
            problems: vec![problem("Error"), problem("OOMKilled")],
            common_causes: &[cause],
            ..ObjectReport::default()
        };
        let incident = Incident {
            key: "5f0c2a915f0c2a91".into(),
            namespace: "payments".into(),
            owner: Owner { kind: "Deployment".to_owned(), name: "ledger".to_owned() }.into(),
            container: "app".into(),
            kind: ProblemKind::Crash,
            reason: "Error".into(),
            cause: Cause::OutOfMemory,
            pods: 2,
            ..Incident::default()
        };
        server.metrics.object_reported(&NamespacedName::new("payments", "cluster"), &report, &[incident]);
        server.metrics.container_terminated("payments", "Error");
        let page = server.get("/metrics").await.1;
        let is_named = ["payments", "ledger", "OutOfMemory", "OOMKilled"].map(|name| page.contains(name));
        let problems = series(&page, "orchestr_problem_pods");
        assert_eq!(is_named, [names; 4], "{page}");
        if !names {
            assert_eq!(problems, ["orchestr_problem_pods 4"]);
        }
        assert!(page.contains("orchestr_container_terminations_total"), "{page}");
    }
}

fn cause() -> CommonCause {
    serde_json::from_value(serde_json::json!({
        "kind": "", "name": "", "owners": 2, "pods": 0, "since": "2026-01-01T00:00:00Z", "message": "",
    }))
    .unwrap()
}

#[tokio::test]
async fn answers_only_get_and_head_of_its_three_paths() {
    let server = Server::start();
    assert_eq!(server.get("/").await.0, "HTTP/1.1 404 Not Found");
    assert_eq!(server.send(b"POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await.0, "HTTP/1.1 405 Method Not Allowed");
    let head = server.send(b"HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(head, ("HTTP/1.1 200 OK".to_owned(), String::new()));
    let huge = format!("GET /livez HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(64 * 1024));
    let mut stream = server.connect().await;
    // The server may close the connection before it has read all of it.
    let _ = stream.write_all(huge.as_bytes()).await;
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    assert!(!response.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&response));
    for odd in ["\r\n\r\n", "GET\r\n\r\n", "\u{0}\u{1}", "GET /livez HTTP/9\r\n\r\n"] {
        let mut stream = server.connect().await;
        stream.write_all(odd.as_bytes()).await.unwrap();
    }
    assert_eq!(server.get("/livez").await.0, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn connections_that_send_nothing_do_not_fail_a_probe() {
    let server = Server::start();
    let mut idle = Vec::new();
    for _ in 0..5 * CONNECTIONS {
        let mut stream = server.connect().await;
        stream.write_all(b"GET /livez HT").await.unwrap();
        idle.push(stream);
    }
    let begun = Instant::now();
    assert_eq!(server.get("/livez").await.0, "HTTP/1.1 200 OK");
    assert!(begun.elapsed() < REQUEST_TIMEOUT, "{:?}", begun.elapsed());
    // The oldest were closed.
    let mut byte = [0];
    let closed = timeout(REQUEST_TIMEOUT / 2, idle[0].read(&mut byte)).await.expect("it is closed");
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
}

#[tokio::test]
async fn clients_that_connect_all_the_time_do_not_fail_a_probe() {
    let server = Server::start();
    let (address, is_done) = (server.address, Arc::new(AtomicBool::new(false)));
    // The clients have threads of their own, so that connections queue up while the server is busy.
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let is_done = Arc::clone(&is_done);
            std::thread::spawn(move || {
                for _ in 0..20_000 {
                    if is_done.load(Ordering::Relaxed) {
                        break;
                    }
                    if let Ok(mut stream) = std::net::TcpStream::connect(address) {
                        _ = io::Write::write_all(&mut stream, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
                    }
                }
            })
        })
        .collect();
    let mut failed = Vec::new();
    for number in 0..50 {
        let answer = timeout(REQUEST_TIMEOUT, async {
            let socket = TcpSocket::new_v4()?;
            socket.bind(SocketAddr::from(([127, 0, 0, 2], 0)))?;
            let mut stream = socket.connect(address).await?;
            stream.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").await?;
            let mut response = String::new();
            stream.read_to_string(&mut response).await?;
            io::Result::Ok(response)
        });
        match answer.await {
            Ok(Ok(response)) if response.starts_with("HTTP/1.1 200 OK") => {}
            other => failed.push((number, other)),
        }
    }
    is_done.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert!(failed.is_empty(), "{} of 50 probes failed: {failed:?}", failed.len());
}

#[tokio::test]
async fn scrapers_that_never_read_delay_nothing() {
    let server = Server::start();
    server.report(2_000);
    let mut stuck = Vec::new();
    for _ in 0..PAGES {
        let mut stream = server.connect().await;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        // The page has begun, so it takes a place.
        stream.readable().await.unwrap();
        stuck.push(stream);
    }
    assert_eq!(server.get("/metrics").await.0, "HTTP/1.1 503 Service Unavailable");
    assert_eq!(server.get("/livez").await.0, "HTTP/1.1 200 OK");
    let begun = Instant::now();
    server.report(100);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let freed = async {
        while server.get("/metrics").await.0 != "HTTP/1.1 200 OK" {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(2 * CONNECTION_TIMEOUT, freed).await.expect("the places are free again");
}

#[tokio::test]
async fn ten_thousand_incidents_have_two_thousand_series() {
    let server = Server::start();
    server.report(10_000);
    let (_, page) = server.get("/metrics").await;
    assert_eq!(series(&page, "orchestr_incident_pods").len(), 2_000);
    assert_eq!(series(&page, "orchestr_incident_start_time_seconds").len(), 2_000);
    assert_eq!(series(&page, "orchestr_incident_series_omitted"), ["orchestr_incident_series_omitted 8000"]);
    assert!(page.len() < 6 << 20, "{} bytes", page.len());
}
