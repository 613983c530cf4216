//! Tests of the control plane: start, tables, RBAC, Pod Security, direct writes to etcd, and restarts.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, Client,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use orchestr_testbed::{
    ControlPlane, Options, eventually,
    pods::{Shape, filler, filler_name},
    shared, until,
};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(30);

fn pod(name: &str) -> Pod {
    let containers = json!([{"name": "app", "image": "example/app:1"}]);
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"containers": containers}})).unwrap()
}

fn code<T: std::fmt::Debug>(refused: kube::Result<T>) -> (u16, String) {
    match refused {
        Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn renders_pods_like_kubectl() {
    let plane = shared().await;
    let namespace = plane.namespace("table").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(plane.admin().unwrap(), &namespace);
    pods.create(&PostParams::default(), &pod("waiting")).await.unwrap();

    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let table = plane.table(&path).await.unwrap();
    let row = table.row(&namespace, "waiting").unwrap();
    assert_eq!(table.cell(row, "STATUS"), Some("Pending"));
    assert_eq!(table.cell(row, "READY"), Some("0/1"));

    let args = ["get", "pods", "-n", &namespace];
    let said = plane.kubectl(&args, None).await.unwrap();
    let age = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "").replace(' ', "");
    assert_eq!(age(&table.to_string()), age(&said.stdout));
    let said = plane.kubectl(&[&args[..], &["-o", "wide"]].concat(), None).await.unwrap();
    assert_eq!(age(&table.wide()), age(&said.stdout));
}

#[tokio::test]
async fn runs_kubectl() {
    let plane = shared().await;
    let said = plane.kubectl(&["version"], None).await.unwrap();
    assert!(said.status.success(), "{}", said.stderr);
    assert!(said.stdout.contains("Server Version: v1.36"), "{}", said.stdout);

    let namespace = plane.namespace("kubectl").await.unwrap();
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}});
    let args = ["apply", "-n", &namespace, "-f", "-"];
    let said = plane.kubectl(&args, Some(&manifest.to_string())).await.unwrap();
    assert_eq!(said.stdout, "configmap/made created\n", "{}", said.stderr);

    let said = plane.kubectl(&["get", "pods", "-n", &namespace, "absent"], None).await.unwrap();
    assert_eq!(said.status.code(), Some(1));
    assert!(said.stderr.contains(r#"pods "absent" not found"#), "{}", said.stderr);
    assert!(plane.metrics().await.unwrap().contains("\napiserver_request_total{"));
}

#[tokio::test]
async fn gives_a_service_account_its_rights_and_no_more() {
    let plane = shared().await;
    let namespace = plane.namespace("rights").await.unwrap();
    plane.ensure_service_account(&namespace, "reader").await.unwrap();
    let access = plane.service_account(&namespace, "reader").await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(access.client().unwrap());

    let (refused, message) = code(pods.list(&ListParams::default()).await);
    assert_eq!(refused, 403);
    let who = format!("User \"system:serviceaccount:{namespace}:reader\" cannot list resource \"pods\"");
    assert!(message.contains(&who), "{message}");

    let account = format!("--serviceaccount={namespace}:reader");
    let args = ["create", "rolebinding", "view", "--clusterrole=view", &account, "-n", &namespace];
    let said = plane.kubectl(&args, None).await.unwrap();
    assert!(said.status.success(), "{}", said.stderr);
    eventually("the right to list pods", LIMIT, async || {
        pods.list(&ListParams::default()).await.map_err(|error| error.to_string())
    })
    .await
    .unwrap();

    // The same rights apply with its kubeconfig.
    let said = plane.kubectl_as(access.kubeconfig(), &["get", "secrets"], None).await.unwrap();
    assert!(said.stderr.contains("Forbidden"), "{said:?}");
    let said = plane.kubectl_as(access.kubeconfig(), &["get", "pods"], None).await.unwrap();
    assert!(said.status.success(), "{said:?}");
}

#[tokio::test]
async fn authenticates_users_by_name_and_groups() {
    let plane = shared().await;
    let jane = Client::try_from(plane.user("jane", &["developers", "on-call"])).unwrap();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())
        .unwrap();
    let answer: serde_json::Value = jane.request(request).await.unwrap();
    let user = &answer["status"]["userInfo"];
    assert_eq!(user["username"], "jane");
    assert_eq!(user["groups"], json!(["developers", "on-call", "system:authenticated"]));
}

#[tokio::test]
async fn enforces_pod_security() {
    let plane = shared().await;
    let namespace = plane.namespace("security").await.unwrap();
    let label = "pod-security.kubernetes.io/enforce=restricted";
    let said = plane.kubectl(&["label", "namespace", &namespace, label], None).await.unwrap();
    assert!(said.status.success(), "{}", said.stderr);
    let pods: Api<Pod> = Api::namespaced(plane.admin().unwrap(), &namespace);
    let (refused, message) = code(pods.create(&PostParams::default(), &pod("root")).await);
    assert_eq!(refused, 403);
    assert!(message.contains("violates PodSecurity \"restricted"), "{message}");
}

#[tokio::test]
async fn serves_objects_written_directly_to_etcd() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let shape = Shape::default();
    let (namespace, name) = filler_name(0, &shape);
    let pods: Api<Pod> = Api::namespaced(plane.admin().unwrap(), &namespace);
    let appears = until(pods, &name, LIMIT, |pod| pod.is_some());
    let some = (0..500).map(|index| filler(index, &shape));
    let (loaded, appeared) = tokio::join!(plane.load(some), appears);
    assert_eq!(loaded.unwrap(), 500);
    appeared.unwrap();
    let more = (500..2500).map(|index| filler(index, &shape));
    assert_eq!(plane.load_at_rest(more).await.unwrap(), 2000);

    let table = plane.table("/api/v1/pods").await.unwrap();
    assert_eq!(table.rows.len(), 2500);
    let status = |name: &str| {
        let row = table.row(&namespace, name).unwrap();
        (table.cell(row, "STATUS").unwrap(), table.cell(row, "READY").unwrap())
    };
    assert_eq!(status(&name), ("CrashLoopBackOff", "0/1"));
    // Another workload of the same namespace.
    let (other, healthy) = filler_name(100 * 2 + 1, &shape);
    let row = table.row(&other, &healthy).unwrap();
    assert_eq!(table.cell(row, "STATUS"), Some("Running"));
    assert_eq!(table.cell(row, "READY"), Some("1/1"));

    let prefix = format!("/registry/pods/{namespace}/");
    assert_eq!(plane.delete_prefix(&prefix).await.unwrap(), 25);
    eventually("the deletion is noticed", LIMIT, async || {
        let left = plane.table("/api/v1/pods").await.map_err(|error| error.to_string())?;
        if left.rows.len() == 2475 { Ok(()) } else { Err(format!("{} left", left.rows.len())) }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn keeps_its_data_but_not_its_history_after_a_restart() {
    let options = Options { audit_log: true, streaming_lists: false, ..Options::default() };
    let plane = ControlPlane::start(options).await.unwrap();
    let namespace = plane.namespace("restart").await.unwrap();
    let client = plane.admin().unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let map = |name: &str| serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    maps.create(&PostParams::default(), &map("kept")).await.unwrap();
    let old = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    maps.create(&PostParams::default(), &map("later")).await.unwrap();

    let (url, before) = (plane.url().to_owned(), plane.api_server_pid().unwrap());
    let etcd = plane.etcd_pid();
    plane.compact_etcd().await.unwrap();
    plane.stop_api_server().await.unwrap();
    assert_eq!(plane.api_server_pid(), None);
    assert!(plane.stop_api_server().await.is_err());
    let mut impatient = plane.admin_config();
    impatient.default_retry = false;
    let refused = Client::try_from(impatient).unwrap().apiserver_version().await;
    assert!(!matches!(refused, Ok(_) | Err(kube::Error::Api(_))), "{refused:?}");
    plane.start_api_server().await.unwrap();
    assert_ne!(plane.api_server_pid().unwrap(), before);
    assert_eq!((plane.url(), plane.etcd_pid()), (&*url, etcd));

    let kept = maps.get("kept").await.unwrap();
    assert_eq!(kept.metadata.namespace, Some(namespace));
    let mut events = std::pin::pin!(maps.watch(&WatchParams::default(), &old).await.unwrap());
    let event = futures::TryStreamExt::try_next(&mut events).await.unwrap();
    assert!(matches!(&event, Some(WatchEvent::Error(status)) if status.code == 410), "{event:?}");

    // It does not stream lists, as its options require, and the audit log contains each request.
    let streamed = LISTED_AS_STREAM.replace("NS", kept.metadata.namespace.as_deref().unwrap());
    let request = http::Request::get(streamed).body(Vec::new()).unwrap();
    let (refused, message) = code(client.request_text(request).await);
    assert_eq!(refused, 422, "{message}");
    let log = plane.audit_log().unwrap();
    let created = log.iter().filter(|event| {
        event["verb"] == "create"
            && event["objectRef"]["resource"] == "configmaps"
            && event["user"]["username"] == "admin"
    });
    assert_eq!(created.count(), 2);
}

const LISTED_AS_STREAM: &str = "/api/v1/namespaces/NS/configmaps?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

#[tokio::test]
async fn reports_why_it_does_not_start() {
    let options = Options { extra_api_server_args: vec!["--no-such-flag".to_owned()], ..Options::default() };
    let error = ControlPlane::start(options).await.unwrap_err().to_string();
    assert!(error.starts_with("kube-apiserver ended (exit status: 1)"), "{error}");
    assert!(error.contains("unknown flag: --no-such-flag"), "{error}");
}

#[tokio::test]
async fn goes_back_to_a_backup() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let namespace = plane.namespace("backup").await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(plane.admin().unwrap(), &namespace);
    let map = |name: &str| serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    maps.create(&PostParams::default(), &map("before")).await.unwrap();
    let backup = plane.back_up().await.unwrap();
    for number in 0..20 {
        maps.create(&PostParams::default(), &map(&format!("after-{number}"))).await.unwrap();
    }
    let version = async || maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let last: u64 = version().await.parse().unwrap();
    assert!(plane.restore(&backup).await.is_err(), "the API server is running");
    plane.kill_api_server().await.unwrap();
    plane.restore(&backup).await.unwrap();
    plane.start_api_server().await.unwrap();
    let maps = maps.list(&ListParams::default()).await.unwrap();
    let names: Vec<_> = maps.items.iter().filter_map(|map| map.metadata.name.as_deref()).collect();
    assert_eq!(names, ["before"]);
    let version: u64 = maps.metadata.resource_version.unwrap().parse().unwrap();
    assert!(version < last, "{version} follows {last}");
}
