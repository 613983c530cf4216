//! The exam on a real API server: one operator, and an object for each scenario.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use orchestr::api::Orchestr;
use orchestr_testbed::{ControlPlane, Options, eventually};
use serde_json::{Value, json};

use crate::test_env::{TestEnv, condition};

use super::{
    grade::{Answer, Grade, Result, assert_passed, grade},
    pure,
    scenario::{Scenario, WRITTEN_AT, scenarios},
    table::assert_documented,
};

/// How long after the last event the answers may change: missing pods become a problem after 30 s.
const SETTLED: Duration = Duration::from_secs(40);

/// The limit of the wait for the answers.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Requests at a time.
const CONCURRENT: usize = 16;

#[tokio::test(flavor = "multi_thread")]
async fn finds_the_causes_on_a_real_api_server() {
    let scenarios = scenarios(present());
    let env = TestEnv::with_own_plane("exam", Options::default()).await;
    set_up(&env, &scenarios).await;
    // The watch does not show events of type Normal.
    create_events(&env, &scenarios, |event| event["type"] == "Normal").await;
    let operator = env.operator().whole_cluster().start();
    until_watching(&env, &scenarios).await;
    create_events(&env, &scenarios, |event| event["type"] != "Normal").await;
    let results = answers(&env, &scenarios).await;
    operator.stop().await;
    assert_passed(&results);
    assert_documented(&documented(results));
}

/// The operator does not list all events when it starts, but those of the pods with a problem.
#[tokio::test(flavor = "multi_thread")]
async fn finds_events_that_precede_its_start() {
    let mut scenarios = scenarios(present());
    scenarios.retain(|scenario| scenario.events_before_start);
    let env = TestEnv::with_own_plane("exam", Options::default()).await;
    set_up(&env, &scenarios).await;
    create_events(&env, &scenarios, |_| true).await;
    let operator = env.operator().whole_cluster().start();
    let results = answers(&env, &scenarios).await;
    operator.stop().await;
    assert_passed(&results);
}

/// Without fractions of a second, like the times in objects.
pub fn present() -> Timestamp {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap()
}

/// The sentences of the documentation do not depend on the time of the run.
fn documented(results: Vec<Result>) -> Vec<Result> {
    let now = WRITTEN_AT.parse().unwrap();
    let written = scenarios(now);
    let pure: BTreeMap<_, _> = written
        .iter()
        .filter_map(|scenario| pure::examine(scenario, now))
        .map(|result| (result.scenario.name.clone(), result))
        .collect();
    let cause = |result: &Result| result.answer.as_ref().map(|answer| answer.cause);
    let prefer = |result: Result| match pure.get(&result.scenario.name) {
        Some(pure) if cause(pure) == cause(&result) => pure.clone(),
        _ => result,
    };
    results.into_iter().map(prefer).collect()
}

/// Creates the namespaces, the scenarios' objects, and an Orchestr object in each namespace.
pub async fn set_up(env: &TestEnv, scenarios: &[Scenario]) {
    let tasks = scenarios.iter().map(|scenario| async move {
        env.plane.ensure_namespace(&scenario.name).await.unwrap();
        for object in &scenario.objects {
            create(&env.plane, &env.client, object).await;
        }
        let spec = scenario.spec();
        let object =
            json!({"apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": "exam"}, "spec": spec});
        let objects: Api<Orchestr> = Api::namespaced(env.client.clone(), &scenario.name);
        objects.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    });
    stream::iter(tasks).buffer_unordered(CONCURRENT).collect::<()>().await;
}

/// Creates an object and its status through the API, and then sets in etcd what the API server sets itself: the identity
/// and the times of creation and deletion.
async fn create(plane: &ControlPlane, client: &Client, object: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name, namespace) =
        (text(&object["kind"]), text(&object["metadata"]["name"]), text(&object["metadata"]["namespace"]));
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> = match namespace.as_str() {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    let mut new = object.clone();
    let metadata = new["metadata"].as_object_mut().unwrap();
    for field in SET_BY_THE_SERVER {
        metadata.remove(field);
    }
    let context = format!("{namespace}/{name}");
    api.create(&PostParams::default(), &serde_json::from_value(new).unwrap())
        .await
        .unwrap_or_else(|error| panic!("{context}: {error}"));
    let patch = json!({"status": object["status"]});
    let stored = match kind.as_str() {
        // It has no status.
        "StorageClass" => api.get(&name).await,
        _ => api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await,
    };
    let stored = stored.unwrap_or_else(|error| panic!("{context}: {error}"));
    let mut stored = serde_json::to_value(stored).unwrap();
    for field in SET_BY_THE_SERVER {
        if let Some(value) = object["metadata"].get(field) {
            stored["metadata"][field] = value.clone();
        }
    }
    if kind == "Node" {
        // The API server adds a taint, which is removed when the kubelet is ready.
        stored["spec"] = object["spec"].clone();
    }
    let folder = match resource.plural.as_str() {
        "nodes" => "minions",
        plural => plural,
    };
    let key = ["/registry", folder, &namespace, &name].join("/").replace("//", "/");
    plane.put(&key, stored.to_string()).await.unwrap();
}

const SET_BY_THE_SERVER: [&str; 6] =
    ["uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"];

/// Waits until the operator has processed everything that was created before.
pub async fn until_watching(env: &TestEnv, scenarios: &[Scenario]) {
    let objects: Api<Orchestr> = Api::all(env.client.clone());
    eventually("the operator watches", TIMEOUT, async || {
        let objects = objects.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let is_watching =
            |object: &Orchestr| object.status.as_ref().is_some_and(|status| condition(status, "Ready").1 == "Watching");
        let watching = objects.iter().filter(|object| is_watching(object)).count();
        if watching == scenarios.len() { Ok(()) } else { Err(format!("{watching} of {}", scenarios.len())) }
    })
    .await
    .unwrap();
}

/// Creates the scenarios' events that are selected.
pub async fn create_events(env: &TestEnv, scenarios: &[Scenario], selects: impl Fn(&Value) -> bool) {
    let events = scenarios
        .iter()
        .flat_map(|scenario| scenario.events.iter().enumerate().map(move |(number, event)| (scenario, number, event)))
        .filter(|(_, _, event)| selects(event));
    let tasks = events.map(|(scenario, number, event)| async move {
        let mut event = event.clone();
        let name = event["involvedObject"]["name"].as_str().unwrap().to_owned();
        // The event recorder appends the time of the first event in nanoseconds.
        event["metadata"] = json!({"name": format!("{name}.{:016x}", 0x18ba_0000_0000_0000_u64 + number as u64)});
        let api: Api<Event> = Api::namespaced(env.client.clone(), &scenario.name);
        api.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await.map(drop)
    });
    stream::iter(tasks).buffer_unordered(CONCURRENT).try_collect::<()>().await.unwrap();
}

/// The answers once all are right, or else when they have not changed for a while.
async fn answers(env: &TestEnv, scenarios: &[Scenario]) -> Vec<Result> {
    let objects: Api<Orchestr> = Api::all(env.client.clone());
    let (begun, mut changed, mut known) = (Instant::now(), Instant::now(), String::new());
    // A problem that must not appear cannot be awaited.
    let waits = scenarios.iter().any(|scenario| scenario.expect.healthy && !scenario.events.is_empty());
    eventually("the answers are settled", 2 * TIMEOUT, async || {
        let objects = objects.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let statuses: BTreeMap<_, _> =
            objects.items.into_iter().map(|object| (object.metadata.namespace.unwrap(), object.status)).collect();
        let results: Vec<_> = scenarios
            .iter()
            .map(|scenario| match statuses.get(&scenario.name).and_then(Option::as_ref) {
                Some(status) => grade(scenario, Answer::of(status, scenario)),
                None => grade(scenario, None),
            })
            .collect();
        let summary = format!("{:?}", results.iter().map(|own| (&own.grade, &own.answer)).collect::<Vec<_>>());
        if summary != known {
            (known, changed) = (summary, Instant::now());
        }
        let is_right = |result: &Result| result.grade == Grade::Right && result.faults.is_empty();
        let all_right = results.iter().all(is_right) && (!waits || begun.elapsed() > SETTLED);
        if all_right || changed.elapsed() > SETTLED || begun.elapsed() > TIMEOUT {
            return Ok(results);
        }
        Err(format!("{} are not right", results.iter().filter(|result| !is_right(result)).count()))
    })
    .await
    .unwrap()
}
