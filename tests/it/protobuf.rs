//! Lists and watches of pods in protobuf, from a real API server and with faults on the way.

use std::time::Duration;

use futures::{StreamExt, stream::BoxStream};
use kube::{
    Client,
    runtime::watcher::{Error, Result},
};
use orchestr::{
    pods::{WatchedPod, pods},
    watch::{WatchUpdate, list_watch::ListWatch},
};

use crate::{
    pod_statuses::{crash_looping, healthy},
    proxy::{ProxiedRequest, Proxy, ProxyAction},
    support::TIMEOUT,
    test_env::TestEnv,
};

type Events = BoxStream<'static, Result<WatchUpdate<WatchedPod>>>;

const WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

fn events(client: Client, namespace: Option<&str>, streaming: bool, page_size: u32) -> Events {
    ListWatch::new(pods(client, namespace, page_size), streaming).into_stream()
}

/// The next update, except `Behind` and `CaughtUp`.
async fn next(events: &mut Events) -> Result<WatchUpdate<WatchedPod>> {
    loop {
        match tokio::time::timeout(TIMEOUT, events.next()).await.expect("something happens").unwrap() {
            Ok(WatchUpdate::Behind | WatchUpdate::CaughtUp) => {}
            other => return other,
        }
    }
}

async fn list(events: &mut Events) -> Vec<String> {
    assert!(matches!(next(events).await, Ok(WatchUpdate::Relisting)));
    let mut names = Vec::new();
    loop {
        match next(events).await.unwrap() {
            WatchUpdate::Listed(seen) => names.push(seen.pod.unwrap().name.to_string()),
            WatchUpdate::Synced => return names,
            other => panic!("{other:?}"),
        }
    }
}

async fn applied(events: &mut Events) -> (String, String) {
    match next(events).await {
        Ok(WatchUpdate::Applied(seen)) => {
            let pod = seen.pod.unwrap();
            (pod.name.to_string(), pod.statuses.first().map(|own| own.restarts.to_string()).unwrap_or_default())
        }
        other => panic!("{other:?}"),
    }
}

async fn env() -> (TestEnv, Proxy) {
    let env = TestEnv::new("protobuf").await;
    env.pod("cart", healthy()).await;
    let proxy = Proxy::start(env.client.clone()).await;
    (env, proxy)
}

/// Whether this watch resumes another.
fn resumes(request: &ProxiedRequest) -> bool {
    request.is_watch() && !request.query.contains_key("sendInitialEvents")
}

fn lists(proxy: &Proxy) -> usize {
    proxy.count(|request| !resumes(request) && !request.is_of_version())
}

#[tokio::test(flavor = "multi_thread")]
async fn resumes_a_watch_after_a_broken_connection() {
    let (env, proxy) = env().await;
    let mut events = events(proxy.client(), Some(&env.namespace), true, 500);
    assert_eq!(list(&mut events).await, ["cart"]);
    env.set_status("cart", crash_looping(1)).await;
    assert_eq!(applied(&mut events).await, ("cart".to_owned(), "1".to_owned()));
    for restarts in 2..4 {
        // Changes during the interruption are neither lost nor repeated.
        proxy.break_watches();
        env.set_status("cart", crash_looping(restarts)).await;
        assert_eq!(applied(&mut events).await, ("cart".to_owned(), restarts.to_string()));
    }
    assert_eq!(lists(&proxy), 1);
    assert!(proxy.count(resumes) >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_watch_that_ends_immediately() {
    let (env, proxy) = env().await;
    proxy.on(resumes, ProxyAction::Answer(WATCH, b""));
    let mut events = events(proxy.client(), Some(&env.namespace), true, 500);
    list(&mut events).await;
    proxy.end_watches();
    for _ in 0..3 {
        let error = next(&mut events).await.unwrap_err();
        assert!(matches!(&error, Error::WatchFailed(_)) && error.to_string().contains("ended early"), "{error}");
    }
    assert_eq!((proxy.count(resumes), lists(&proxy)), (3, 1), "each is reported before the next");
    proxy.rule(|_| ProxyAction::Forward);
    env.set_status("cart", crash_looping(1)).await;
    assert_eq!(applied(&mut events).await.1, "1");
}

/// Like an API server of 1.33 or older, which sends no bookmark for ten minutes if nothing changes.
#[tokio::test(flavor = "multi_thread")]
async fn reopens_the_watch_of_a_quiet_cluster_without_an_error() {
    let (env, proxy) = env().await;
    let mut config = proxy.config();
    // Longer than a watch that catches up may be silent.
    config.read_timeout = Some(Duration::from_millis(2_500));
    let client = Client::try_from(config).unwrap();
    let mut events = events(client, Some(&env.namespace), true, 500);
    assert_eq!(list(&mut events).await, ["cart"]);
    let quiet = tokio::time::timeout(Duration::from_secs(10), next(&mut events)).await;
    assert!(quiet.is_err(), "{:?}", quiet.unwrap().err());
    assert!(proxy.count(resumes) >= 2);
    assert_eq!(lists(&proxy), 1);
    env.set_status("cart", crash_looping(1)).await;
    assert_eq!(applied(&mut events).await.1, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn restarts_a_streaming_list_that_ends_early() {
    let (env, proxy) = env().await;
    // An empty pod, and no bookmark.
    let pod = b"\0\0\0\x1c\x0a\x05ADDED\x12\x13\x0a\x11k8s\0\x0a\x07\x0a\0\x12\x03Pod\x12\x02\x0a\0";
    proxy.rule(|_| ProxyAction::Answer(WATCH, pod));
    let mut events = events(proxy.client(), Some(&env.namespace), true, 500);
    assert!(matches!(next(&mut events).await, Ok(WatchUpdate::Relisting)));
    assert!(matches!(next(&mut events).await, Ok(WatchUpdate::Listed(_))));
    assert!(matches!(next(&mut events).await, Err(Error::WatchFailed(_))));
    proxy.rule(|_| ProxyAction::Forward);
    assert_eq!(list(&mut events).await, ["cart"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_again_after_410_gone() {
    for (code, anew) in [(410, true), (400, true), (500, false), (429, false), (403, false)] {
        let (env, proxy) = env().await;
        proxy.on(resumes, ProxyAction::Refuse(code, "no"));
        let mut events = events(proxy.client(), Some(&env.namespace), true, 500);
        list(&mut events).await;
        proxy.end_watches();
        let error = next(&mut events).await.unwrap_err();
        assert!(matches!(&error, Error::WatchStartFailed(kube::Error::Api(status)) if status.code == code), "{error}");
        proxy.rule(|_| ProxyAction::Forward);
        if anew {
            assert_eq!(list(&mut events).await, ["cart"], "{code}");
        }
        env.set_status("cart", crash_looping(1)).await;
        assert_eq!(applied(&mut events).await.1, "1");
        assert_eq!(lists(&proxy), 1 + usize::from(anew), "{code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_again_only_after_errors_that_require_it() {
    // An error event with a Status of code 410 or 500.
    for (event, anew) in [
        (&b"\0\0\0\x20\x0a\x05ERROR\x12\x17\x0a\x15k8s\0\x0a\x0a\x0a\0\x12\x06Status\x12\x03\x30\x9a\x03"[..], true),
        (&b"\0\0\0\x20\x0a\x05ERROR\x12\x17\x0a\x15k8s\0\x0a\x0a\x0a\0\x12\x06Status\x12\x03\x30\xf4\x03"[..], false),
    ] {
        let (env, proxy) = env().await;
        proxy.on(resumes, ProxyAction::Answer(WATCH, event));
        let mut events = events(proxy.client(), Some(&env.namespace), true, 500);
        list(&mut events).await;
        proxy.end_watches();
        let error = next(&mut events).await.unwrap_err();
        let code = if anew { 410 } else { 500 };
        assert!(matches!(&error, Error::WatchError(status) if status.code == code), "{error:?}");
        proxy.rule(|_| ProxyAction::Forward);
        if anew {
            assert_eq!(list(&mut events).await, ["cart"], "{code}");
        }
        env.set_status("cart", crash_looping(1)).await;
        assert_eq!(applied(&mut events).await.1, "1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn detects_answers_that_are_no_objects() {
    for (kind, body) in [
        ("application/json", &b"{}"[..]),
        ("application/json", b"<h1>Maintenance</h1>\n"),
        ("text/html", b"<h1>Maintenance</h1>"),
        ("application/vnd.kubernetes.protobuf", b"{}{}{}"),
    ] {
        for streaming in [true, false] {
            let (env, proxy) = env().await;
            proxy.rule(move |_| ProxyAction::Answer(kind, body));
            let mut events = events(proxy.client(), Some(&env.namespace), streaming, 500);
            let mut event = next(&mut events).await;
            if event.is_ok() {
                event = next(&mut events).await;
            }
            let (Error::WatchStartFailed(error) | Error::InitialListFailed(error) | Error::WatchFailed(error)) =
                event.unwrap_err()
            else {
                panic!("{kind}");
            };
            let is_cut = streaming && body == b"{}";
            let is_json = kind == "application/json";
            let is_expected = match error {
                kube::Error::ReadEvents(_) => is_cut,
                kube::Error::SerdeError(_) => is_json && !is_cut,
                kube::Error::Service(_) => !is_json,
                _ => false,
            };
            assert!(is_expected, "{kind}: {error:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_all_pages_on_one_connection() {
    let (env, proxy) = env().await;
    for number in 0..5 {
        env.pod(&format!("pod-{number}"), healthy()).await;
    }
    // The bytes after the list in its envelope arrive later.
    proxy.rule(
        |request| {
            if request.is_watch() { ProxyAction::Forward } else { ProxyAction::EndLate(Duration::from_millis(20)) }
        },
    );
    let mut events = events(proxy.client(), Some(&env.namespace), false, 1);
    assert_eq!(list(&mut events).await.len(), 6);
    assert_eq!(proxy.count(|request| !request.is_watch()), 6);
    // hyper may have opened a second connection before the first one could be reused.
    assert!(proxy.connections() <= 2, "{} connections", proxy.connections());
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_http_status_of_an_empty_error() {
    let (env, proxy) = env().await;
    proxy.rule(|_| ProxyAction::Refuse(0, ""));
    let mut events = events(proxy.client(), Some(&env.namespace), false, 500);
    let Error::InitialListFailed(kube::Error::Api(status)) = next(&mut events).await.unwrap_err() else {
        panic!("no refusal");
    };
    assert_eq!((status.code, &status.message[..]), (503, "HTTP 503 Service Unavailable"));
}
