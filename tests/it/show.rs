//! `orchestr show`, on statuses that the operator wrote.

use serde_json::{Value, json};

use crate::{
    command::{assert_fails, ends, fed, list, orchestr},
    pod_statuses::{crash_looping, healthy},
    test_env::{TestEnv, condition, watch_with},
};

#[tokio::test]
async fn prints_the_status_of_an_object() {
    let env = TestEnv::new("show").await;
    let namespace = env.namespace.as_str();
    env.pod("well", healthy()).await;
    env.object("mine", watch_with(json!({"pods": {"namespaces": [namespace]}}))).await;
    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    let name = format!("{namespace}/mine");
    let show = |more: &[&str]| orchestr(&[&["show", "--kubeconfig", kubeconfig, &name], more].concat());
    assert_fails(&mut show(&[]), &format!("{name} has no status yet: is the operator running?"));

    let operator = env.operator().start();
    env.wait_for_status("mine", "the pods are healthy", |status| condition(status, "PodsHealthy").0 == "True").await;
    let (code, out, err) = ends(&mut show(&[]));
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let expected = "s ago\nthe 1 pod is healthy\n";
    assert!(out.starts_with(&format!("{name}, checked ")) && out.ends_with(expected), "{out}");

    env.pod("cart", crash_looping(7)).await;
    env.wait_for_status("mine", "the pod is listed", |status| status.problematic_pod_count == 1).await;
    let (code, out, err) = ends(&mut show(&["cart"]));
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    for part in ["\nIncidents\n", "\nPods\n", &format!("  {namespace}/cart  CrashLoopBackOff  "), "container app: "] {
        assert!(out.contains(part), "{part:?} is missing from:\n{out}");
    }
    // A name that is not in the status may be misspelt.
    let sentence = format!("the status of {name} names no pod, owner or incident \"crat\"");
    assert_fails(&mut show(&["crat"]), &sentence);
    operator.stop().await;

    // The status of an object that selects no pod does not say that they are healthy.
    let (code, _, err) = ends(&mut orchestr(&["show", "--kubeconfig", kubeconfig, &format!("{namespace}/other")]));
    assert_eq!(code, 2);
    assert!(err.contains("404") && err.contains("not found"), "{err}");
}

#[test]
fn rejects_a_file_without_the_object() {
    let object = |kind: &str, status: Value| json!({"apiVersion": "kopf.dev/v1", "kind": kind, "metadata": {"namespace": "shop", "name": "cart"}, "status": status});
    let absent = "orchestr: standard input does not contain the Orchestr object shop/cart\n";
    for (input, err) in [
        ("", absent),
        ("hunter2", absent),
        ("{\"password\": hunter2", "orchestr: standard input is neither JSON nor YAML\n"),
        (&list(&[]), absent),
        (&object("Deployment", json!({})).to_string(), absent),
        (
            &object("Orchestr", Value::Null).to_string(),
            "orchestr: shop/cart has no status yet: is the operator running?\n",
        ),
        (
            &object("Orchestr", json!({"problematicPodCount": "hunter2"})).to_string(),
            "orchestr: shop/cart: status.problematicPodCount has another type than the CRD says\n",
        ),
    ] {
        assert_eq!(fed(&["show", "shop/cart", "-f", "-"], input), (2, String::new(), err.to_owned()), "{input}");
    }
    assert_fails(
        &mut orchestr(&["show", "shop/cart", "-f", "/no/such"]),
        "cannot read /no/such: No such file or directory (os error 2)",
    );
}
