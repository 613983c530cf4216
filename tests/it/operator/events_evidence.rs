//! Warning events as evidence for the causes of problems, and the requests that they cost.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
    runtime::watcher,
};
use orchestr::{
    api::{Cause, OrchestrStatus},
    events::{WatchedEvent, warnings},
    watch::{WatchUpdate, list_watch::ListWatch},
};
use serde_json::{Value, json};

use crate::{
    pod_statuses::{ago, controlled_by, crash_looping, healthy, merge, not_ready},
    proxy::{ProxiedRequest, Proxy, ProxyAction, SETTLE_TIME},
    support::TIMEOUT,
    test_env::{TestEnv, condition, listed, watch_all},
};

use super::rights::{account, grant, grant_objects, grant_pods};

type Updates = BoxStream<'static, watcher::Result<WatchUpdate<WatchedEvent>>>;

const ANSWER: &str = "Readiness probe failed: HTTP probe failed with statuscode: 503";

impl ProxiedRequest {
    /// Whether events are listed or watched, not written.
    fn is_of_events(&self) -> bool {
        self.method == "GET" && self.path.ends_with("/events")
    }

    /// Whether this lists the events about a pod whose problem is older than the watch.
    fn is_of_events_about_a_pod(&self) -> bool {
        self.is_of_events() && self.query.get("fieldSelector").is_some_and(|fields| fields.contains("involvedObject"))
    }

    /// Whether this belongs to the watch of events.
    fn is_of_event_watch(&self) -> bool {
        self.is_of_events() && !self.is_of_events_about_a_pod()
    }

    /// The parameters that decide which events are requested.
    fn selection(&self) -> (bool, Option<&str>, Option<&str>) {
        let get = |name: &str| self.query.get(name).map(String::as_str);
        (self.is_watch(), get("limit"), get("fieldSelector"))
    }
}

/// The requests of a watch that starts in the present.
const START: [(bool, Option<&str>, Option<&str>); 2] = [(false, Some("1"), None), (true, None, Some("type=Warning"))];

impl TestEnv {
    async fn uid(&self, pod: &str) -> String {
        self.pods().get(pod).await.unwrap().uid().unwrap()
    }

    /// Writes an event about a pod's container `app`, or updates the event of this name.
    async fn warn(&self, pod: &str, name: &str, changes: Value) {
        let uid = self.uid(pod).await;
        let mut event = warning(&self.namespace, pod, &uid, name);
        for (key, value) in changes.as_object().unwrap() {
            event[key] = value.clone();
        }
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = PatchParams::apply("tests").force();
        events.patch(event["metadata"]["name"].as_str().unwrap(), &params, &Patch::Apply(&event)).await.unwrap();
    }

    async fn wait_for_evidence(&self, object: &str, evidence: &str) -> OrchestrStatus {
        self.wait_for_status(object, evidence, |status| evidence_of(status).iter().any(|line| line.contains(evidence)))
            .await
    }
}

fn evidence_of(status: &OrchestrStatus) -> Vec<&str> {
    status.problematic_pods.iter().flat_map(|pod| &pod.evidence).map(String::as_str).collect()
}

fn warning(namespace: &str, pod: &str, uid: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{pod}.{name}"), "namespace": namespace},
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": pod, "uid": uid,
            "fieldPath": "spec.containers{app}",
        },
        "type": "Warning", "reason": "Unhealthy", "message": ANSWER, "count": 1,
        "firstTimestamp": ago(0), "lastTimestamp": ago(0), "source": {"component": "kubelet"},
        "reportingComponent": "kubelet",
    })
}

/// The pod `cart`, which is not ready, the healthy pod `web`, an object that reports them, and an operator whose watch of
/// events is open.
async fn env_with_open_watch(
    proxy_rule: Option<ProxyAction>,
) -> (TestEnv, Proxy, crate::running_operator::RunningOperator) {
    let env = TestEnv::new("evidence").await;
    env.pod("cart", not_ready(600)).await;
    env.pod("web", healthy()).await;
    env.object("cluster", watch_all()).await;
    let proxy = Proxy::start(env.client.clone()).await;
    if let Some(action) = proxy_rule {
        proxy.on(ProxiedRequest::is_of_events, action);
    }
    let operator = env.operator().through(&proxy).start();
    env.until("it is reported", |status| listed(status) == ["cart"]).await;
    proxy.wait_for_requests("the watch of events", 1, |request| request.is_of_events() && request.is_watch()).await;
    (env, proxy, operator)
}

#[tokio::test(flavor = "multi_thread")]
async fn shows_an_event_within_a_second_and_counts_its_repetitions() {
    for rule in [None, Some(ProxyAction::Mangle(Arc::new(str::to_owned)))] {
        let (env, _proxy, _operator) = env_with_open_watch(rule).await;
        env.warn("cart", "a", json!({"lastTimestamp": "2026-01-01T14:02:10Z"})).await;
        let written = Instant::now();
        env.wait_for_evidence("cluster", &format!("Unhealthy ×1, last 14:02:10Z: {ANSWER}")).await;
        assert!(written.elapsed() < Duration::from_secs(1), "it took {:?}", written.elapsed());

        env.warn("cart", "a", json!({"count": 41, "lastTimestamp": "2026-01-01T14:09:00Z"})).await;
        let status = env.wait_for_evidence("cluster", &format!("Unhealthy ×41, last 14:09:00Z: {ANSWER}")).await;
        assert_eq!(evidence_of(&status).len(), 1, "{status:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_events_of_a_pod_that_is_still_healthy() {
    let (env, _proxy, _operator) = env_with_open_watch(None).await;
    env.warn("web", "a", json!({"message": "Readiness probe failed: early"})).await;
    env.warn("cart", "b", json!({})).await;
    env.wait_for_evidence("cluster", ANSWER).await;
    env.set_status("web", not_ready(600)).await;
    let status = env.until("both are reported", |status| listed(status) == ["cart", "web"]).await;
    assert!(evidence_of(&status).iter().any(|line| line.contains("early")), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn opens_one_watch_after_a_list_of_one_event() {
    let (env, proxy, _operator) = env_with_open_watch(None).await;
    for count in 1..=4 {
        env.warn("cart", "a", json!({"count": count})).await;
        env.warn("cart", "b", json!({"count": count, "reason": "FailedMount", "message": "no volume"})).await;
    }
    env.wait_for_evidence("cluster", "×4").await;
    let requests = proxy.requests(ProxiedRequest::is_of_event_watch);
    assert_eq!(requests.iter().map(ProxiedRequest::selection).collect::<Vec<_>>(), START);
    assert!(requests[1].query["resourceVersion"].parse::<u64>().is_ok_and(|version| version > 0));
    let namespace = format!("/api/v1/namespaces/{}/events", env.namespace);
    assert!(requests.iter().all(|request| request.path == namespace), "{requests:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_the_events_of_one_pod_of_each_owner_at_a_start() {
    let env = TestEnv::new("earlier").await;
    let owner = |name: &str| json!({"metadata": {"ownerReferences": controlled_by("StatefulSet", name, name)}});
    for index in 0..3 {
        env.pod_with(&format!("db-{index}"), owner("db"), not_ready(600)).await;
    }
    env.pod("cart", not_ready(600)).await;
    env.pod("web", healthy()).await;
    for pod in ["db-0", "db-1", "db-2", "cart", "web"] {
        env.warn(pod, "a", json!({"message": format!("{ANSWER} from {pod}"), "count": 41})).await;
    }
    env.object("cluster", watch_all()).await;
    env.object("other", watch_all()).await;
    let (proxy, _operator) = env.proxied_operator().await;
    env.wait_for_evidence("cluster", "from cart").await;
    env.wait_for_evidence("other", "from db-").await;
    tokio::time::sleep(SETTLE_TIME).await;
    let watch = proxy.requests(ProxiedRequest::is_of_event_watch);
    assert_eq!(watch.iter().map(ProxiedRequest::selection).collect::<Vec<_>>(), START);
    let lists = proxy.requests(ProxiedRequest::is_of_events_about_a_pod);
    let lists: Vec<_> = lists.iter().map(ProxiedRequest::selection).collect();
    assert_eq!(lists.len(), 2, "{lists:?}");
    let cart = format!("involvedObject.uid={}", env.uid("cart").await);
    assert!(lists.contains(&(false, Some("100"), Some(&cart))), "{lists:?}");
}

/// The liveness probe of `cart` kills it in each run. Of `web`, which ends alike, only an event in another namespace says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_cause_outlives_its_events_and_concerns_only_their_own_pod() {
    let (env, evil) = (TestEnv::new("outlived").await, TestEnv::new("evil").await);
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10, "failureThreshold": 3});
    let app = json!({"name": "app", "image": "app:1", "livenessProbe": probe});
    let mut status = crash_looping(6);
    let last = &mut status["containerStatuses"][0]["lastState"]["terminated"];
    (last["reason"], last["startedAt"], last["finishedAt"]) = (json!("Error"), json!(ago(125)), json!(ago(65)));
    for pod in ["cart", "web"] {
        env.pod_with(pod, json!({"spec": {"containers": [app]}}), status.clone()).await;
    }
    let words = "Container app failed liveness probe, will be restarted";
    let kill = json!({"type": "Normal", "reason": "Killing", "message": words, "firstTimestamp": ago(95), "lastTimestamp": ago(95)});
    env.warn("cart", "kill", kill.clone()).await;
    let mut forged = warning(&evil.namespace, "web", &env.uid("web").await, "kill");
    merge(&mut forged, &kill);
    evil.create::<Event>(forged).await;
    env.object("cluster", watch_all()).await;
    let causes = |status: &OrchestrStatus| {
        let cause = |pod: &str| status.problematic_pods.iter().find(|own| own.name == pod).map(|own| own.cause);
        [cause("cart"), cause("web")]
    };
    let expected = [Some(Cause::LivenessProbe), Some(Cause::Signal)];
    let operator = env.operator().start();
    env.until("the list of events has proved it", |status| causes(status) == expected).await;
    operator.stop().await;

    env.api::<Event>().delete("cart.kill", &DeleteParams::default()).await.unwrap();
    let _operator = env.operator().start();
    env.patch_object("cluster", json!({"spec": {"report": {"maxPods": 7}}})).await;
    let status = env.until("it follows the spec", |status| status.observed_generation == Some(2)).await;
    assert_eq!(causes(&status), expected);
    env.set_status("web", healthy()).await;
    let status = env.until("the other is well", |status| listed(status) == ["cart"]).await;
    assert_eq!(causes(&status)[0], expected[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_explain_no_problem_change_no_status() {
    let (env, proxy, _operator) = env_with_open_watch(None).await;
    tokio::time::sleep(SETTLE_TIME).await;
    let writes = proxy.count(ProxiedRequest::is_status_write);
    let object_uid = env.objects().get("cluster").await.unwrap().uid().unwrap();
    env.warn("web", "healthy", json!({})).await;
    env.warn("cart", "normal", json!({"type": "Normal"})).await;
    env.warn("cart", "policy", json!({"reason": "PolicyViolation"})).await;
    env.warn(
        "cart",
        "without-uid",
        json!({"involvedObject": {"kind": "Pod", "namespace": env.namespace, "name": "cart"}}),
    )
    .await;
    env.warn("cart", "without-object", json!({"involvedObject": {"namespace": env.namespace}})).await;
    let of_object = json!({"kind": "Orchestr", "namespace": env.namespace, "name": "cluster", "uid": object_uid});
    env.warn("cart", "own", json!({"involvedObject": of_object})).await;
    tokio::time::sleep(SETTLE_TIME).await;
    assert_eq!(proxy.count(ProxiedRequest::is_status_write), writes);
    assert_eq!(evidence_of(&env.status("cluster").await), [""; 0]);
    env.warn("cart", "last", json!({})).await;
    let status = env.wait_for_evidence("cluster", ANSWER).await;
    assert_eq!(evidence_of(&status).len(), 1, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn survives_a_flood_of_events_about_one_pod() {
    let (env, _proxy, _operator) = env_with_open_watch(None).await;
    let uid = env.uid("cart").await;
    let events = (0..10_000).map(|index| {
        let name = format!("flood-{index}");
        let mut event = warning(&env.namespace, "cart", &uid, &name);
        event["metadata"]["uid"] = format!("00000000-0000-4000-8000-{index:012x}").into();
        event["metadata"]["creationTimestamp"] = ago(0).into();
        // Each message is different, with control characters and a password.
        let word = format!("{index:x}").replace(|char: char| char.is_ascii_digit(), "z");
        event["message"] =
            format!("Readiness probe failed: \u{1b}[31mpassword=hunter2{index}\r\n {word} \u{202e}").into();
        (format!("/registry/events/{}/cart.{name}", env.namespace), event.to_string())
    });
    env.plane.load(events).await.unwrap();
    let status = env.wait_for_evidence("cluster", "Readiness probe failed").await;
    env.set_status("web", not_ready(600)).await;
    let status_after = env.until("changes are reported", |status| listed(status) == ["cart", "web"]).await;
    for status in [status, status_after] {
        let evidence = evidence_of(&status);
        assert!((1..=8).contains(&evidence.len()), "{evidence:?}");
        let text = serde_json::to_string(&status).unwrap();
        assert!(!text.contains("hunter2"), "{text}");
        assert!(
            !evidence.iter().any(|line| line.contains(|char: char| char.is_control() || char == '\u{202e}')),
            "{evidence:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cuts_messages_of_a_megabyte() {
    let (env, _proxy, _operator) = env_with_open_watch(None).await;
    env.warn("cart", "long", json!({"message": format!("{ANSWER} {}", "é".repeat(1 << 19))})).await;
    let status = env.wait_for_evidence("cluster", ANSWER).await;
    assert!(evidence_of(&status).iter().all(|line| line.len() <= 1024), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_in_the_present_again_after_410_gone() {
    let (env, proxy, _operator) = env_with_open_watch(None).await;
    let before = proxy.count(ProxiedRequest::is_of_event_watch);
    proxy.rule(|request| match request.is_of_events() && request.is_watch() {
        true => ProxyAction::Refuse(410, "too old resource version"),
        false => ProxyAction::Forward,
    });
    proxy.end_watches();
    tokio::time::sleep(Duration::from_secs(8)).await;
    // With delays that double from a quarter of a second, there are at most seven lists and watches within that time.
    let refused = proxy.requests(ProxiedRequest::is_of_event_watch).split_off(before);
    assert!((4..=14).contains(&refused.len()), "{} requests", refused.len());
    let starts_again = |request: &ProxiedRequest| START.contains(&request.selection());
    assert!(refused.iter().all(starts_again), "{refused:?}");
    assert_eq!(condition(&env.status("cluster").await, "Ready").1, "Watching");

    proxy.rule(|_| ProxyAction::Forward);
    let watches = |request: &ProxiedRequest| request.is_of_events() && request.is_watch();
    proxy.wait_for_requests("the watch of events", proxy.count(watches) + 1, watches).await;
    env.warn("cart", "a", json!({})).await;
    env.wait_for_evidence("cluster", ANSWER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_the_events_of_each_namespace() {
    let (one, other) = (TestEnv::new("one").await, TestEnv::new("other").await);
    let proxy = Proxy::start(one.client.clone()).await;
    for env in [&one, &other] {
        env.pod("cart", not_ready(600)).await;
        env.object(
            "cluster",
            json!({
                "alerts": {"checkRunningPods": true}, "pods": {"namespaces": [env.namespace]},
            }),
        )
        .await;
    }
    let _operator = one.operator().through(&proxy).namespaces(&[&one.namespace, &other.namespace]).start();
    let watches = |request: &ProxiedRequest| request.is_of_events() && request.is_watch();
    proxy.wait_for_requests("the watches of events", 2, watches).await;
    for env in [&one, &other] {
        env.until("it is reported", |status| listed(status) == ["cart"]).await;
        env.warn("cart", "a", json!({})).await;
        env.wait_for_evidence("cluster", ANSWER).await;
        let path = format!("/api/v1/namespaces/{}/events", env.namespace);
        assert_eq!(proxy.count(|request| watches(request) && request.path == path), 1);
    }
    assert_eq!(proxy.count(watches), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn says_once_that_events_are_not_read_and_recovers() {
    let env = TestEnv::new("no-events").await;
    env.pod("cart", not_ready(600)).await;
    let proxy = Proxy::start(account(&env).await).await;
    grant_objects(&env).await;
    grant_pods(&env, &["list", "watch"]).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().through(&proxy).start();
    let message = |status: &OrchestrStatus| condition(status, "Ready").2.to_owned();
    let status = env.until("it is said", |status| message(status).contains("events are not read")).await;
    assert_eq!((condition(&status, "Ready").1, listed(&status)), ("Watching", vec!["cart"]));
    let text = message(&status);
    assert_eq!(text.matches("events are not read").count(), 1, "{text}");
    for part in ["cannot list resource \"events\"", &format!("system:serviceaccount:{}:operator", env.namespace)] {
        assert!(text.contains(part), "{text}");
    }
    // Refused requests are repeated with delays, and change nothing.
    let writes = proxy.count(ProxiedRequest::is_status_write);
    tokio::time::sleep(2 * SETTLE_TIME).await;
    assert_eq!(proxy.count(ProxiedRequest::is_status_write), writes);
    assert!(proxy.count(ProxiedRequest::is_of_events) <= 12, "{}", proxy.count(ProxiedRequest::is_of_events));

    env.warn("cart", "a", json!({})).await;
    grant(&env, "events", json!([{"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch"]}])).await;
    let status = env.wait_for_evidence("cluster", ANSWER).await;
    assert!(!message(&status).contains("events are not read"), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn decodes_the_same_events_from_protobuf_and_json() {
    let env = TestEnv::new("encodings").await;
    env.pod("cart", healthy()).await;
    let mut watches = Vec::new();
    let events = || warnings(env.client.clone(), Some(&env.namespace));
    for collection in [events(), events().in_json()] {
        let mut updates = ListWatch::new(collection, false).into_stream();
        while !matches!(next(&mut updates).await, WatchUpdate::CaughtUp) {}
        watches.push(updates);
    }
    let (time, micro) = ("2026-01-01T14:02:10Z", "2026-01-01T14:02:10.123456Z");
    let about = |kind: &str, uid: &str, field_path: &str| json!({"kind": kind, "namespace": env.namespace, "name": "cart", "uid": uid, "fieldPath": field_path});
    for (name, changes) in [
        ("plain", json!({"count": 3, "firstTimestamp": "2026-01-01T14:00:00Z", "lastTimestamp": time})),
        (
            "series",
            json!({
                "eventTime": micro, "series": {"count": 7, "lastObservedTime": micro}, "action": "Probe",
                "reportingInstance": "node-1", "count": null, "firstTimestamp": null, "lastTimestamp": null,
                "source": null,
            }),
        ),
        (
            "long",
            json!({
                "message": format!("é{}", " x".repeat(1000)),
                "involvedObject": about("Pod", "u", "spec.initContainers{setup}"),
            }),
        ),
        (
            "bare",
            json!({
                "message": null, "count": null, "firstTimestamp": null, "lastTimestamp": null,
                "involvedObject": about("ReplicaSet", "r", ""),
            }),
        ),
        ("no-object", json!({"involvedObject": {"namespace": env.namespace}})),
    ] {
        env.warn("cart", name, changes).await;
    }
    let mut received = Vec::new();
    for updates in &mut watches {
        let mut events = Vec::new();
        while events.len() < 5 {
            if let WatchUpdate::Applied(event) = next(updates).await {
                events.push(event);
            }
        }
        received.push(events);
    }
    assert_eq!(received[0], received[1]);
    let fields = |index: usize| {
        let event = received[0][index].event.as_ref()?;
        Some((event.count, event.last, event.involved.container.as_str(), event.message.len()))
    };
    let time = time.parse().ok();
    assert_eq!(fields(0), Some((3, time, "app", ANSWER.len())));
    assert_eq!(fields(1), Some((7, time, "app", ANSWER.len())));
    // It is cut before a word, and marked.
    assert!(fields(2).is_some_and(|(count, _, container, length)| (count, container, length) == (1, "setup", 1024)));
    assert!(fields(3).is_some_and(|(count, last, container, _)| count == 1 && last.is_some() && container.is_empty()));
    assert_eq!(fields(4), None);
}

async fn next(updates: &mut Updates) -> WatchUpdate<WatchedEvent> {
    tokio::time::timeout(TIMEOUT, updates.next()).await.expect("an update").unwrap().unwrap()
}
