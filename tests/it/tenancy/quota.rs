//! The quota of Orchestr objects in a tenant's namespace.

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use orchestr::api::Orchestr;
use orchestr_testbed::{attacks::Size, eventually};
use serde_json::json;

use crate::{
    support::TIMEOUT,
    test_env::{TestEnv, watch_all},
};

#[tokio::test(flavor = "multi_thread")]
async fn the_quota_refuses_the_21st_object() {
    let env = TestEnv::new("quota").await;
    let quota: ResourceQuota = serde_yaml::from_str(include_str!("../../../deploy/tenancy/quota.yaml")).unwrap();
    let hard = quota.spec.as_ref().unwrap().hard.clone();
    let quotas: Api<ResourceQuota> = Api::namespaced(env.client.clone(), &env.namespace);
    let name = quota.metadata.name.clone().unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    // The admission of the API server counts objects from here on. In a cluster, the quota controller of
    // kube-controller-manager writes the first count, and the count after a deletion.
    let status = json!({"status": {"hard": hard, "used": {"count/orchestrs.kopf.dev": "0"}}});
    quotas.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    eventually("the quota is in force", TIMEOUT, async || {
        env.object("probe", watch_all()).await;
        env.objects().delete("probe", &DeleteParams::default()).await.unwrap();
        let used = quotas.get_status(&name).await.unwrap().status.and_then(|status| status.used).unwrap_or_default();
        let used = used["count/orchestrs.kopf.dev"].0.clone();
        if used == "0" { Err("nothing is counted yet".to_owned()) } else { Ok(()) }
    })
    .await
    .unwrap();
    let status = json!({"status": {"used": {"count/orchestrs.kopf.dev": "0"}}});
    quotas.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let mut created = 0;
    let refusal = loop {
        let object: Orchestr = serde_json::from_value(json!({
            "apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": format!("o{created}")}, "spec": watch_all(),
        }))
        .unwrap();
        match env.objects().create(&PostParams::default(), &object).await {
            Ok(_) => created += 1,
            Err(error) => break error.to_string(),
        }
        assert!(created < 50);
    };
    assert_eq!((created, Size::FULL.objects), (20, 20), "an attack creates as many as it may: {refusal}");
    assert!(refusal.contains("exceeded quota") && refusal.contains("count/orchestrs.kopf.dev"), "{refusal}");
}
