//! A control plane starts, answers, and refuses what it should.

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::PostParams};
use orchestr_testbed::shared;

#[tokio::test]
async fn draws_pods_as_kubectl_does() {
    let plane = shared().await;
    let namespace = plane.namespace("table").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(plane.admin().unwrap(), &namespace);
    let pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "waiting"},
        "spec": {"containers": [{"name": "app", "image": "example/app:1"}]},
    }))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();

    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let table = plane.table(&path).await.unwrap();
    let row = table.row(&namespace, "waiting").unwrap();
    assert_eq!(table.cell(row, "STATUS"), Some("Pending"));
    assert_eq!(table.cell(row, "READY"), Some("0/1"));
    let printed = table.to_string();
    assert!(
        printed.starts_with("NAME      READY   STATUS    RESTARTS   AGE\nwaiting   0/1     Pending   0 "),
        "{printed}"
    );
    assert!(table.wide().contains("NOMINATED NODE"), "{}", table.wide());
}
