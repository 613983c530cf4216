//! API servers and load balancers that answer lists and watches in unusual ways.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use orchestr::config::{StreamingLists, Timings};
use orchestr_testbed::Options;

use crate::{
    pod_statuses::{crash_looping, healthy},
    proxy::{ProxiedRequest, Proxy, ProxyAction, SETTLE_TIME},
    test_env::{TestEnv, condition, listed, watch_all},
};

const WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// In protobuf, or in JSON if the server offers nothing else.
fn encodings() -> [(&'static str, ProxyAction); 2] {
    [("protobuf", ProxyAction::Forward), ("JSON", ProxyAction::Mangle(Arc::new(str::to_owned)))]
}

#[tokio::test(flavor = "multi_thread")]
async fn backs_off_lists_while_watches_fail() {
    const LONG: Duration = Duration::from_secs(15);
    let refusals = [403, 400, 404, 405, 406, 410].map(|code| (code.to_string(), ProxyAction::Refuse(code, "no")));
    let mut cases = Vec::new();
    for (encoding, list) in encodings() {
        for (what, watch) in &refusals {
            cases.push((format!("{what} in {encoding}"), list.clone(), watch.clone()));
        }
        let kind = if encoding == "JSON" { "application/json" } else { WATCH };
        cases.push((format!("an empty watch in {encoding}"), list, ProxyAction::Answer(kind, b"")));
    }
    let lists = join_all(cases.into_iter().map(async |(what, list, watch)| {
        let env = TestEnv::new("no-watch").await;
        env.pod("cart", crash_looping(3)).await;
        env.object("cluster", watch_all()).await;
        let proxy = Proxy::start(env.client.clone()).await;
        proxy.rule(move |request| match request.is_of_pods() {
            true if request.is_watch() => watch.clone(),
            true => list.clone(),
            false => ProxyAction::Forward,
        });
        let operator = env.operator().through(&proxy).streaming_lists(StreamingLists::Never).start();
        env.until("what is listed is reported", |status| listed(status) == ["cart"]).await;
        tokio::time::sleep(LONG).await;
        operator.stop().await;
        (proxy.count(|request| request.is_first_page() || request.is_streaming_list()), what)
    }))
    .await;
    // With delays that double from a quarter of a second, there are at most eight within that time.
    let too_many: Vec<_> = lists.iter().filter(|(count, _)| *count > 8).collect();
    assert!(too_many.is_empty(), "lists within {LONG:?}: {too_many:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_pages_after_three_failed_streaming_lists() {
    for (code, tries) in [(500, 3), (504, 3), (405, 3)] {
        let env = TestEnv::new("no-progress").await;
        env.pod("cart", crash_looping(3)).await;
        env.object("cluster", watch_all()).await;
        let proxy = Proxy::start(env.client.clone()).await;
        proxy.on(ProxiedRequest::is_streaming_list, ProxyAction::Refuse(code, "etcd"));
        let _operator = env.operator().through(&proxy).start();
        env.until("pages are read", |status| listed(status) == ["cart"]).await;
        assert_eq!(
            (proxy.count(ProxiedRequest::is_streaming_list), proxy.count(ProxiedRequest::is_first_page)),
            (tries, 1),
            "{code}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_a_failed_page_and_continues_the_list() {
    let env = TestEnv::with_own_plane("failed-page", Options { streaming_lists: false, ..Options::default() }).await;
    let shape = orchestr_testbed::pods::Shape { namespaces: 1, workloads: 10, crash_looping: 10, ..Default::default() };
    env.plane.ensure_namespace("team-0").await.unwrap();
    env.plane.load((0..1200).map(|index| orchestr_testbed::pods::filler(index, &shape))).await.unwrap();
    for (encoding, list) in encodings() {
        for (what, action, lists) in [
            ("500", ProxyAction::Refuse(500, "etcd"), 1),
            ("429", ProxyAction::Refuse(429, "busy"), 1),
            ("a reset connection", ProxyAction::Cut, 1),
            // The token has expired.
            ("410", ProxyAction::Refuse(410, "too old"), 2),
        ] {
            let proxy = Proxy::start(env.client.clone()).await;
            let (failures, list) = (AtomicUsize::new(0), list.clone());
            proxy.rule(move |request| match request.is_of_pods() {
                true if request.is_later_page() && failures.fetch_add(1, Ordering::SeqCst) == 0 => action.clone(),
                true => list.clone(),
                false => ProxyAction::Forward,
            });
            let name = format!("{}-{}", what.replace(' ', "-"), encoding.to_lowercase());
            env.object(&name, watch_all()).await;
            let _operator =
                env.operator().through(&proxy).whole_cluster().streaming_lists(StreamingLists::Never).start();
            let status = env.wait_for_status(&name, "all are read", |status| status.watched_pods == 1200).await;
            assert_eq!(status.problematic_pod_count, 120);
            assert_eq!(proxy.count(ProxiedRequest::is_first_page), lists, "{what} in {encoding}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forgets_a_pod_deleted_during_a_streamed_list() {
    let replace = |text: &[u8], from: &[u8], to: &[u8]| {
        let at = text.windows(from.len()).position(|window| window == from).unwrap();
        [&text[..at], to, &text[at + from.len()..]].concat()
    };
    let holds = |text: &[u8], what: &str| text.windows(what.len()).any(|window| window == what.as_bytes());
    // The event of the pod `web` is replaced by the deletion of `cart`.
    let in_json = {
        let cart = Mutex::new(Vec::new());
        move |line: &str| {
            if holds(line.as_bytes(), r#""name":"cart""#) {
                let line = replace(line.as_bytes(), br#""type":"ADDED""#, br#""type":"DELETED""#);
                *cart.lock().unwrap() = line;
            } else if holds(line.as_bytes(), r#""name":"web""#) {
                return String::from_utf8(cart.lock().unwrap().clone()).unwrap();
            }
            line.to_owned()
        }
    };
    let in_protobuf = {
        let cart = Mutex::new(Vec::new());
        move |event: &[u8]| {
            if holds(event, "\x0a\x04cart") {
                *cart.lock().unwrap() = replace(event, b"\x0a\x05ADDED", b"\x0a\x07DELETED");
            } else if holds(event, "\x0a\x03web") {
                return cart.lock().unwrap().clone();
            }
            event.to_vec()
        }
    };
    for action in [ProxyAction::Mangle(Arc::new(in_json)), ProxyAction::MangleBytes(Arc::new(in_protobuf))] {
        let env = TestEnv::new("deleted-early").await;
        env.pod("aside", crash_looping(1)).await;
        env.pod("cart", crash_looping(3)).await;
        env.pod("web", healthy()).await;
        env.object("cluster", watch_all()).await;
        let proxy = Proxy::start(env.client.clone()).await;
        proxy.on(ProxiedRequest::is_streaming_list, action);
        let _operator = env.operator().through(&proxy).start();
        let status = env.until("the list is complete", |status| status.watched_pods > 0).await;
        assert_eq!((listed(&status), status.watched_pods), (vec!["aside"], 1));
    }
}

/// In JSON, the end of a watch does not show whether it was cut off.
#[tokio::test(flavor = "multi_thread")]
async fn opens_a_long_watch_after_catching_up() {
    join_all(encodings().map(async |(encoding, list)| {
        let env = TestEnv::new("caught-up").await;
        env.pod("cart", crash_looping(3)).await;
        env.object("cluster", watch_all()).await;
        let proxy = Proxy::start(env.client.clone()).await;
        proxy.on(ProxiedRequest::is_of_pods, list);
        let operator = env.operator().through(&proxy).start();
        env.until("it is reported", |status| listed(status) == ["cart"]).await;
        tokio::time::sleep(SETTLE_TIME).await;
        let watches =
            |of: &str| proxy.count(|request: &ProxiedRequest| request.is_watch() && request.path.ends_with(of));
        let before = ["/pods", "/orchestrs"].map(watches);
        proxy.end_watches();
        tokio::time::sleep(Duration::from_secs(15)).await;
        let after = ["/pods", "/orchestrs"].map(watches);
        for (before, after) in before.into_iter().zip(after) {
            assert!((1..=3).contains(&(after - before)), "{encoding}: {before}, then {after}");
        }
        operator.stop().await;
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_lost_permission_only_after_confirmation() {
    let env = TestEnv::new("blip").await;
    env.pod("cart", crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let proxy = Proxy::start(env.client.clone()).await;
    let _operator = env.operator().through(&proxy).timings(Timings::default()).start();
    env.until("it is reported", |status| listed(status) == ["cart"]).await;
    let record = env.record("cluster").await;

    // As during the start of an API server whose authorizer is not ready yet.
    let refuse = |request: &ProxiedRequest| {
        if request.is_of_pods() { ProxyAction::Refuse(403, "forbidden") } else { ProxyAction::Forward }
    };
    proxy.rule(refuse);
    proxy.end_watches();
    tokio::time::sleep(SETTLE_TIME).await;
    proxy.rule(|_| ProxyAction::Forward);
    env.set_status("cart", healthy()).await;
    env.until("the watch continues", |status| listed(status).is_empty()).await;
    let reasons: Vec<String> = record
        .states()
        .await
        .iter()
        .map(|(_, object)| condition(object.status.as_ref().unwrap(), "Ready").1.to_owned())
        .collect();
    assert!(reasons.iter().all(|reason| reason == "Watching"), "{reasons:?}");

    proxy.rule(refuse);
    proxy.end_watches();
    let soon = Duration::from_secs(30);
    let denied = |status: &orchestr::api::OrchestrStatus| condition(status, "Ready").1 == "PodAccessDenied";
    env.wait_for_status_within(soon, "cluster", "the refusal is confirmed", denied).await;
}

/// An API server of several whose cache lags behind: whoever accepts any version gets a list without the newest pod.
#[tokio::test(flavor = "multi_thread")]
async fn does_not_report_health_from_a_cache_that_lags_behind() {
    let env = TestEnv::new("lagging").await;
    env.pod("aside", healthy()).await;
    env.pod("cart", crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let record = env.record("cluster").await;
    let proxy = Proxy::start(env.client.clone()).await;
    let without_cart = {
        let before = Mutex::new(Vec::new());
        move |event: &[u8]| {
            let mut before = before.lock().unwrap();
            if !event.windows(6).any(|window| window == b"\x0a\x04cart") {
                *before = event.to_vec();
            }
            before.clone()
        }
    };
    let lagging = ProxyAction::MangleBytes(Arc::new(without_cart));
    let takes_any_version =
        |request: &ProxiedRequest| request.query.get("resourceVersion").is_some_and(|own| own == "0");
    proxy.rule(move |request| match request.is_of_pods() && takes_any_version(request) {
        true => lagging.clone(),
        false => ProxyAction::Forward,
    });
    let _operator = env.operator().through(&proxy).start();
    let status = env.wait_for_ready("cluster", "Watching").await;
    assert_eq!((listed(&status), condition(&status, "PodsHealthy").0), (vec!["cart"], "False"));
    for (_, object) in record.states().await {
        assert_ne!(condition(&object.status.unwrap_or_default(), "PodsHealthy").0, "True");
    }
    assert_eq!(proxy.requests(takes_any_version).len(), 0);
}

/// A watch of a version that the API server says is still to come: its etcd was restored, or it lags behind.
#[tokio::test(flavor = "multi_thread")]
async fn lists_again_with_a_delay_if_every_version_is_too_large() {
    const LONG: Duration = Duration::from_secs(15);
    let env = TestEnv::new("too-large").await;
    env.pod("cart", crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let proxy = Proxy::start(env.client.clone()).await;
    // Each list is older than the one before, and each watch is of the future.
    let version = AtomicUsize::new(1 << 30);
    let older = move |list: &str| {
        let version = version.fetch_sub(1, Ordering::SeqCst);
        let start = list.find(r#""metadata":{"resourceVersion":""#).unwrap();
        let digits = start + r#""metadata":{"resourceVersion":""#.len();
        let end = digits + list[digits..].find('"').unwrap();
        format!("{}{version}{}", &list[..digits], &list[end..])
    };
    let older = ProxyAction::Mangle(Arc::new(older));
    proxy.rule(move |request| match request.is_of_pods() {
        true if request.is_watch() => {
            ProxyAction::Refuse(504, "Timeout: Too large resource version: 1073741824, current: 900")
        }
        true => older.clone(),
        false => ProxyAction::Forward,
    });
    let operator = env.operator().through(&proxy).streaming_lists(StreamingLists::Never).start();
    env.until("what is listed is reported", |status| listed(status) == ["cart"]).await;
    tokio::time::sleep(LONG).await;
    let lists = proxy.count(ProxiedRequest::is_first_page);
    assert!((2..=8).contains(&lists), "{lists} lists within {LONG:?}");
    operator.stop().await;
}

/// A load balancer or a restored etcd may lead to another cluster whose versions are higher: a watch of it continues
/// without an error, and says nothing about what was there before.
#[tokio::test(flavor = "multi_thread")]
async fn lists_again_if_the_address_leads_to_another_cluster() {
    let env = TestEnv::with_own_plane("other-cluster", Options::default()).await;
    env.pod("cart", crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let proxy = Proxy::start(env.client.clone()).await;
    let _operator = env.operator().through(&proxy).whole_cluster().start();
    env.until("the pod is reported", |status| listed(status) == ["cart"]).await;

    let of_the_cluster =
        |request: &ProxiedRequest| request.query.get("fieldSelector").is_some_and(|own| own.contains("kube-system"));
    let another = ProxyAction::Mangle(Arc::new(|list: &str| list.replace(r#""uid":""#, r#""uid":"0"#)));
    let lists = |request: &ProxiedRequest| request.is_streaming_list() || request.is_first_page();
    for (what, answer, expected) in [("the same", ProxyAction::Forward, 0), ("another", another, 1)] {
        let (listed_before, resumed_before) = (proxy.count(lists), proxy.count(ProxiedRequest::resumes_watch));
        proxy.rule(|_| ProxyAction::Refuse(503, "down"));
        proxy.end_watches();
        proxy.wait_for_requests("the watch is retried", resumed_before + 4, ProxiedRequest::resumes_watch).await;
        let asked_before = proxy.count(of_the_cluster);
        proxy.on(of_the_cluster, answer);
        proxy.wait_for_requests("the cluster is identified", asked_before + 1, of_the_cluster).await;
        proxy.wait_for_requests("it is listed again", listed_before + expected, lists).await;
        let marker = format!("{}-cluster", what.replace(' ', "-"));
        env.pod(&marker, crash_looping(1)).await;
        env.until("the watch continues", |status| listed(status).contains(&marker.as_str())).await;
        assert_eq!(proxy.count(lists) - listed_before, expected, "{what} cluster");
    }
}

/// An overloaded API server may refuse lists for a long time, and serve watches.
#[tokio::test(flavor = "multi_thread")]
async fn watches_continue_while_lists_are_refused() {
    let env = TestEnv::new("no-lists").await;
    env.pod("cart", crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let (proxy, _operator) = env.proxied_operator().await;
    env.until("the pod is reported", |status| listed(status) == ["cart"]).await;
    let resumed_before = proxy.count(ProxiedRequest::resumes_watch);
    proxy.rule(|_| ProxyAction::Refuse(503, "down"));
    proxy.end_watches();
    proxy.wait_for_requests("the watch is retried", resumed_before + 4, ProxiedRequest::resumes_watch).await;
    let is_list = |request: &ProxiedRequest| request.is_of_pods() && !request.is_watch();
    proxy.on(is_list, ProxyAction::Refuse(429, "busy"));
    env.set_status("cart", healthy()).await;
    env.until("the watch continues", |status| listed(status).is_empty()).await;
    let asked_before = proxy.count(is_list);
    proxy.wait_for_requests("the version is requested again", asked_before + 2, is_list).await;
    proxy.rule(|_| ProxyAction::Forward);
    env.set_status("cart", crash_looping(5)).await;
    env.until("the watch goes on", |status| listed(status) == ["cart"]).await;
}
