//! API servers, and what stands in front of them, that answer lists and watches of pods in odd ways.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use orchestr::config::StreamingLists;
use orchestr_testbed::Options;

use crate::{
    proxy::{A_WHILE, Fate, Proxy, Seen},
    world::{World, condition, config, crash_looping, healthy, listed, operate, watch_all},
};

const WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Whether a list of pods begins, in pages or streamed.
fn begins_a_list(seen: &Seen) -> bool {
    is_first_page(seen) || is_streaming_list(seen)
}

fn is_first_page(seen: &Seen) -> bool {
    seen.is_of_pods() && !seen.is_watch() && !seen.query.contains_key("continue")
}

fn is_streaming_list(seen: &Seen) -> bool {
    seen.is_of_pods() && seen.query.contains_key("sendInitialEvents")
}

fn is_later_page(seen: &Seen) -> bool {
    seen.is_of_pods() && seen.query.contains_key("continue")
}

/// In protobuf, or in JSON because nothing else is to be had.
fn encodings() -> [(&'static str, Fate); 2] {
    [("protobuf", Fate::Forward), ("JSON", Fate::Mangle(Arc::new(str::to_owned)))]
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_ever_further_apart_while_no_watch_lives() {
    const LONG: Duration = Duration::from_secs(15);
    let refusals = [403, 400, 404, 405, 406, 410].map(|code| (code.to_string(), Fate::Refuse(code, "no")));
    let mut cases = Vec::new();
    for (encoding, list) in encodings() {
        for (what, watch) in &refusals {
            cases.push((format!("{what} in {encoding}"), list.clone(), watch.clone()));
        }
        let kind = if encoding == "JSON" { "application/json" } else { WATCH };
        cases.push((format!("an empty watch in {encoding}"), list, Fate::Answer(kind, b"")));
    }
    let lists = join_all(cases.into_iter().map(async |(what, list, watch)| {
        let world = World::new("no-watch").await;
        world.pod("cart", crash_looping(3)).await;
        world.object("cluster", watch_all()).await;
        let proxy = Proxy::start(world.client.clone()).await;
        proxy.rule(move |seen| match seen.is_of_pods() {
            true if seen.is_watch() => watch.clone(),
            true => list.clone(),
            false => Fate::Forward,
        });
        let mut config = config(&[&world.namespace]);
        config.streaming_lists = StreamingLists::Never;
        let operator = operate(proxy.client(), config);
        world.status_where("cluster", "what is listed is reported", |status| listed(status) == ["cart"]).await;
        tokio::time::sleep(LONG).await;
        operator.stop().await;
        (proxy.count(begins_a_list), what)
    }))
    .await;
    // With delays that double from a quarter of a second, there are at most eight within that time.
    let too_many: Vec<_> = lists.iter().filter(|(count, _)| *count > 8).collect();
    assert!(too_many.is_empty(), "lists within {LONG:?}: {too_many:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn streaming_lists_that_fail_again_and_again_give_way_to_pages() {
    for (code, tries) in [(500, 3), (504, 3), (405, 3)] {
        let world = World::new("no-progress").await;
        world.pod("cart", crash_looping(3)).await;
        world.object("cluster", watch_all()).await;
        let proxy = Proxy::start(world.client.clone()).await;
        proxy.rule(move |seen| if is_streaming_list(seen) { Fate::Refuse(code, "etcd") } else { Fate::Forward });
        let operator = world.operate_as(proxy.client());
        world.status_where("cluster", "pages are read", |status| listed(status) == ["cart"]).await;
        assert_eq!((proxy.count(is_streaming_list), proxy.count(is_first_page)), (tries, 1), "{code}");
        operator.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_fails_is_asked_for_again_and_the_list_goes_on() {
    let world = World::alone("failed-page", Options { streaming_lists: false, ..Options::default() }).await;
    let shape = orchestr_testbed::pods::Shape { namespaces: 1, workloads: 10, crash_looping: 10, ..Default::default() };
    world.plane.ensure_namespace("team-0").await.unwrap();
    world.plane.load((0..1200).map(|index| orchestr_testbed::pods::filler(index, &shape))).await.unwrap();
    for (encoding, list) in encodings() {
        for (what, fate, lists) in [
            ("500", Fate::Refuse(500, "etcd"), 1),
            ("429", Fate::Refuse(429, "busy"), 1),
            ("a reset connection", Fate::Cut, 1),
            // The token has expired.
            ("410", Fate::Refuse(410, "too old"), 2),
        ] {
            let proxy = Proxy::start(world.client.clone()).await;
            let (failures, list) = (AtomicUsize::new(0), list.clone());
            proxy.rule(move |seen| match seen.is_of_pods() {
                true if is_later_page(seen) && failures.fetch_add(1, Ordering::SeqCst) == 0 => fate.clone(),
                true => list.clone(),
                false => Fate::Forward,
            });
            let mut config = config(&[]);
            config.streaming_lists = StreamingLists::Never;
            let name = format!("{}-{}", what.replace(' ', "-"), encoding.to_lowercase());
            world.object(&name, watch_all()).await;
            let operator = operate(proxy.client(), config);
            let status = world.status_where(&name, "all are read", |status| status.watched_pods == 1200).await;
            assert_eq!(status.problematic_pod_count, 120);
            // In JSON, the first page of a list in protobuf comes before.
            let lists = lists + usize::from(encoding == "JSON");
            assert_eq!(proxy.count(is_first_page), lists, "{what} in {encoding}");
            operator.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_deleted_before_a_streamed_list_ends_is_gone() {
    let replace = |text: &[u8], from: &[u8], to: &[u8]| {
        let at = text.windows(from.len()).position(|window| window == from).unwrap();
        [&text[..at], to, &text[at + from.len()..]].concat()
    };
    let holds = |text: &[u8], what: &str| text.windows(what.len()).any(|window| window == what.as_bytes());
    // In the place of the pod `web`, the list says that `cart` is deleted.
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
    for fate in [Fate::Mangle(Arc::new(in_json)), Fate::MangleBytes(Arc::new(in_protobuf))] {
        let world = World::new("deleted-early").await;
        world.pod("aside", crash_looping(1)).await;
        world.pod("cart", crash_looping(3)).await;
        world.pod("web", healthy()).await;
        world.object("cluster", watch_all()).await;
        let proxy = Proxy::start(world.client.clone()).await;
        proxy.rule(move |seen| if is_streaming_list(seen) { fate.clone() } else { Fate::Forward });
        let operator = world.operate_as(proxy.client());
        let status = world.status_where("cluster", "the list is complete", |status| status.watched_pods > 0).await;
        assert_eq!((listed(&status), status.watched_pods), (vec!["aside"], 1));
        operator.stop().await;
    }
}

/// In JSON, the end of a watch does not show whether it was cut off.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_has_caught_up_is_followed_by_a_longer_one() {
    for (encoding, list) in encodings() {
        let world = World::new("caught-up").await;
        world.pod("cart", crash_looping(3)).await;
        world.object("cluster", watch_all()).await;
        let proxy = Proxy::start(world.client.clone()).await;
        proxy.rule(move |seen| if seen.is_of_pods() { list.clone() } else { Fate::Forward });
        let operator = world.operate_as(proxy.client());
        world.status_where("cluster", "it is reported", |status| listed(status) == ["cart"]).await;
        tokio::time::sleep(A_WHILE).await;
        let watches = |of: &str| proxy.count(|seen: &Seen| seen.is_watch() && seen.path.ends_with(of));
        let before = ["/pods", "/orchestrs"].map(watches);
        proxy.end_watches();
        tokio::time::sleep(Duration::from_secs(15)).await;
        let after = ["/pods", "/orchestrs"].map(watches);
        for (before, after) in before.into_iter().zip(after) {
            assert!((1..=3).contains(&(after - before)), "{encoding}: {before}, then {after}");
        }
        operator.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_is_lost_only_once_its_refusal_is_confirmed() {
    let world = World::new("blip").await;
    world.pod("cart", crash_looping(3)).await;
    world.object("cluster", watch_all()).await;
    let proxy = Proxy::start(world.client.clone()).await;
    let operator = world.operate_as(proxy.client());
    world.status_where("cluster", "it is reported", |status| listed(status) == ["cart"]).await;
    let record = world.record("cluster").await;

    // As while an API server starts whose authorizer is not ready.
    let refuse = |seen: &Seen| if seen.is_of_pods() { Fate::Refuse(403, "forbidden") } else { Fate::Forward };
    proxy.rule(refuse);
    proxy.end_watches();
    tokio::time::sleep(A_WHILE).await;
    proxy.rule(|_| Fate::Forward);
    world.set_status("cart", healthy()).await;
    world.status_where("cluster", "the watch goes on", |status| listed(status).is_empty()).await;
    let reasons: Vec<String> = record
        .states()
        .iter()
        .map(|(_, object)| condition(object.status.as_ref().unwrap(), "Ready").1.to_owned())
        .collect();
    assert!(reasons.iter().all(|reason| reason == "Watching"), "{reasons:?}");

    proxy.rule(refuse);
    proxy.end_watches();
    let soon = Duration::from_secs(30);
    let denied = |status: &orchestr::api::OrchestrStatus| condition(status, "Ready").1 == "PodAccessDenied";
    world.status_within(soon, "cluster", "the refusal is confirmed", denied).await;
    operator.stop().await;
}
