//! What cannot be waited for ends with 2, and what never comes with 3.

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, api::PostParams};
use serde_json::json;

use super::support::{Rollout, Wait, creating, stateful_set};
use crate::{
    command::{assert_fails, assert_usage_error, ends, orchestr},
    pod_statuses::healthy,
    test_env::TestEnv,
};

#[test]
fn rejects_command_lines_that_name_no_target() {
    assert_usage_error(&mut orchestr(&["wait"]), &["<KIND/NAME>"]);
    for (target, message) in [
        ("cart", "must be KIND/NAME, such as deployment/cart"),
        ("cronjob/cart", "is of a kind that cannot be waited for"),
        ("deploy/../secrets", "is not the name of an object"),
    ] {
        assert_usage_error(&mut orchestr(&["wait", target]), &[message]);
    }
    assert_usage_error(&mut orchestr(&["wait", "deploy/cart", "--timeout", "5"]), &["is not a duration such as 90s"]);
    assert_fails(&mut orchestr(&["wait", "pods"]), "pods: name a pod as pod/NAME, or select pods with --selector");
    assert_fails(
        &mut orchestr(&["wait", "-l", "app on cart"]),
        "--selector: \"app on cart\" is not a label requirement such as app=cart, app!=cart, app in (cart,shop), app, !app or cores>2",
    );
    let many: Vec<String> = (0..51).map(|index| format!("deploy/cart-{index}")).collect();
    let args: Vec<&str> = ["wait"].into_iter().chain(many.iter().map(String::as_str)).collect();
    assert_fails(&mut orchestr(&args), "51 objects are too many to wait for: at most 50 can be named");
}

#[tokio::test(flavor = "multi_thread")]
async fn says_what_does_not_exist_or_may_not_be_read() {
    let env = TestEnv::new("wait-nothing").await;
    let (namespace, kubeconfig) = (env.namespace.as_str(), env.plane.admin_kubeconfig().to_str().unwrap());
    let wait = |namespace: &str, more: &[&str]| {
        orchestr(&[&["wait", "--kubeconfig", kubeconfig, "-n", namespace], more].concat())
    };
    let sentence = format!("there is no deployment \"cart\" in namespace \"{namespace}\"");
    assert_fails(&mut wait(namespace, &["deploy/cart"]), &sentence);
    assert_fails(&mut wait(namespace, &["pod/cart"]), &sentence.replace("deployment", "pod"));
    assert_fails(&mut wait("nosuchns", &["-l", "app=cart"]), "there is no namespace \"nosuchns\"");
    assert_fails(&mut wait("../x", &["deploy/cart"]), "--namespace: \"../x\" is not the name of a namespace");
    let (code, _, err) = ends(&mut wait(namespace, &["deploy/cart", "--context", "nosuch"]));
    assert!(code == 2 && err.contains("the kubeconfig has no context \"nosuch\""), "{err}");

    stateful_set(&env, "manual", json!({"type": "OnDelete"})).await;
    env.set_status_of::<k8s_openapi::api::apps::v1::StatefulSet>(
        "manual",
        json!({"observedGeneration": 1, "replicas": 2}),
    )
    .await;
    let (code, out, err) = ends(&mut wait(namespace, &["sts/manual"]));
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(
        err.contains("statefulset/manual: its update strategy is OnDelete: nothing shows when its rollout is complete"),
        "{err}"
    );

    // An account that may read Deployments but not their pods.
    Rollout::new(&env, "cart", 1).await;
    let accounts = Api::<ServiceAccount>::namespaced(env.client.clone(), namespace);
    let account = serde_json::from_value(json!({"metadata": {"name": "half"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let subject = format!("--serviceaccount={namespace}:half");
    for grant in [
        &[
            "create",
            "role",
            "half",
            "--namespace",
            namespace,
            "--verb=get,list,watch",
            "--resource=deployments.apps,replicasets.apps",
        ][..],
        &["create", "rolebinding", "half", "--namespace", namespace, "--role=half", &subject],
    ] {
        let granted = env.plane.kubectl(grant, None).await.unwrap();
        assert!(granted.status.success(), "{}", granted.stderr);
    }
    let access = env.plane.service_account(namespace, "half").await.unwrap();
    let kubeconfig = access.kubeconfig().to_str().unwrap().to_owned();
    let wanted = format!("RBAC does not allow \"system:serviceaccount:{namespace}:half\" to ");
    let err = orchestr_testbed::eventually("the grant is in effect", crate::support::TIMEOUT, async || {
        let (code, _, err) =
            ends(&mut orchestr(&["wait", "--kubeconfig", &kubeconfig, "-n", namespace, "deploy/cart"]));
        assert_eq!(code, 2, "{err}");
        if err.contains("deployments.apps") || err.contains("replicasets") { Err(err) } else { Ok(err) }
    })
    .await
    .unwrap();
    assert!(err.contains(&wanted) && err.contains(" pods in namespace "), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn times_out_with_what_is_still_missing() {
    let env = TestEnv::new("wait-late").await;
    let rollout = Rollout::new(&env, "cart", 2).await;
    rollout.pod(&env, "a", creating()).await;
    rollout.pod(&env, "b", crate::pod_statuses::not_ready(40)).await;
    // The first requests must be answered within the time.
    let ended = Wait::start(&env, &["deploy/cart", "-l", "app=none", "--timeout", "5s"]).ends().await;
    assert_eq!(ended.code, 3, "{ended:#?}");
    for part in [
        "deployment/cart timed out after 5s: 0 of 2 replicas updated",
        "cart-new-a  ContainerCreating",
        "cart-new-b  Running  NotReady",
        "pods -l app=none timed out after 5s: no pod has these labels",
    ] {
        assert!(ended.out.contains(part), "{part:?} is missing: {ended:#?}");
    }

    // With 0, everything is checked once.
    let ended = Wait::start(&env, &["deploy/cart", "--timeout", "0"]).ends().await;
    assert_eq!(ended.code, 3, "{ended:#?}");
    env.set_status("cart-new-a", healthy()).await;
    env.set_status("cart-new-b", healthy()).await;
    rollout.is_done(&env).await;
    let ended = Wait::start(&env, &["deploy/cart", "--timeout", "0"]).ends().await;
    assert_eq!(ended.code, 0, "{ended:#?}");
}
