//! The HTML report of `orchestr scan` and `orchestr show`. `tests/browser` opens it in a browser.

use std::{env, fs, path::Path};

use orchestr::version::version_and_revision;
use orchestr_testbed::fixtures::real_pods;
use serde_json::{Value, json};

use crate::{
    command::{ends, fed, list, orchestr},
    pod_statuses::{ago, crash_looping, healthy},
    test_env::{TestEnv, condition, watch_with},
};

/// The page with an element on each line, so that differences can be read.
fn in_lines(page: &str) -> String {
    page.replace(version_and_revision(), "VERSION").replace("><", ">\n<") + "\n"
}

#[test]
fn shows_real_pods_as_in_the_snapshot() {
    let (code, page, err) =
        fed(&["scan", "-f", "-", "-o", "html", "--at", "2026-11-21T00:45:00Z"], &list(&real_pods()));
    assert_eq!((code, err.as_str()), (1, ""));
    let page = in_lines(&page);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/html/real-pods.html");
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &page).unwrap();
    }
    let snapshot = fs::read_to_string(&path).unwrap_or_default();
    assert!(page == snapshot, "{} differs; if this is intended, write it with UPDATE_SNAPSHOTS=1", path.display());
}

#[test]
fn scan_ends_with_the_exit_code_of_the_table() {
    let pod = |phase: Value| json!({"kind": "Pod", "metadata": {"name": "cart", "namespace": "shop"}, "status": {"phase": phase}});
    let (well, failed, bad) = (pod(json!("Succeeded")), pod(json!("Failed")), pod(json!(["hunter2"])));
    for (pods, more, code, headline) in [
        (vec![&well], &[][..], 0, "No problems: 1 pod"),
        (vec![&well, &failed], &[], 1, "1 of 2 pods has a problem"),
        (vec![&well, &bad], &[], 2, "No problems found, but not every pod could be checked"),
        (vec![], &[], 0, "No pods found"),
        (vec![], &["--fail-on-empty"], 2, "No pods found"),
    ] {
        let input = list(&pods.into_iter().cloned().collect::<Vec<_>>());
        let scan = |format: &str| fed(&[&["scan", "-f", "-", "-o", format], more].concat(), &input);
        let (found, page, _) = scan("html");
        assert_eq!((found, scan("table").0), (code, code), "{headline}");
        assert!(page.contains(&format!("<h1>{headline}</h1>")), "{headline} is missing from:\n{page}");
        assert_eq!(page.contains("cannot decode 1 pod: shop/cart"), headline.contains("not every"), "{page}");
    }
}

#[tokio::test]
async fn names_the_cluster_and_the_node_that_problems_have_in_common() {
    let env = TestEnv::new("html").await;
    let namespace = env.namespace.as_str();
    for name in ["cart", "search", "stock"] {
        // The node lifecycle controller changes only Ready, and sets no reason.
        let lost = json!({"phase": "Running", "startTime": ago(700), "conditions": [
            {"type": "ContainersReady", "status": "True"},
            {"type": "Ready", "status": "False", "lastTransitionTime": ago(600)},
        ]});
        env.pod_with(name, json!({"spec": {"nodeName": "node-4"}}), lost).await;
    }
    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    let (code, page, err) = ends(&mut orchestr(&["scan", "--kubeconfig", kubeconfig, "-n", namespace, "-o", "html"]));
    assert_eq!((code, err.as_str()), (1, ""));
    let context = serde_yaml::from_str::<Value>(&fs::read_to_string(kubeconfig).unwrap()).unwrap();
    let context = context["current-context"].as_str().unwrap();
    for part in [
        "<h1>3 of 3 pods have problems</h1>",
        &format!("<bdi>pods in {namespace} namespace of {context}</bdi>"),
        "<h2>Common causes</h2>",
        "<bdi>node-4 does not report: 3 of its 3 pods, of 3 owners, are not ready</bdi>",
    ] {
        assert!(page.contains(part), "{part} is missing from:\n{page}");
    }
}

#[tokio::test]
async fn show_writes_a_page_of_the_status_and_reads_one_from_a_file() {
    let env = TestEnv::new("html-show").await;
    let namespace = env.namespace.as_str();
    env.pod("well", healthy()).await;
    env.pod("cart", crash_looping(7)).await;
    env.object("mine", watch_with(json!({"pods": {"namespaces": [namespace]}}))).await;
    let operator = env.operator().start();
    env.wait_for_status("mine", "the pod and its log are listed", |status| {
        condition(status, "PodsHealthy").0 == "False"
            && status.problematic_pods.iter().any(|pod| pod.container_issues.iter().all(|own| own.log_source.is_some()))
    })
    .await;
    operator.stop().await;

    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    let name = format!("{namespace}/mine");
    let show = |more: &[&str]| ends(&mut orchestr(&[&["show", &name, "--kubeconfig", kubeconfig], more].concat()));
    let (code, page, err) = show(&["-o", "html"]);
    assert_eq!((code, err.as_str()), (1, ""));
    for part in
        ["<h1>1 of 2 pods has a problem</h1>", &format!("<bdi>{namespace}/cart</bdi>"), "kubectl describe pod -n "]
    {
        assert!(page.contains(part), "{part} is missing from:\n{page}");
    }
    assert!(show(&["cart", "-o", "html"]).1.contains("Other pods and incidents were not selected."));

    // The output of kubectl, of all objects and of one, gives the same page without a cluster.
    for (get, format) in [(vec!["-A"], "json"), (vec!["-A"], "yaml"), (vec!["-n", namespace, "mine"], "json")] {
        let args = [&["get", "orchestr", "-o", format], get.as_slice()].concat();
        let objects = env.plane.kubectl(&args, None).await.unwrap();
        assert!(objects.status.success(), "{}", objects.stderr);
        let from_file = fed(&["show", &name, "-f", "-", "-o", "html"], &objects.stdout);
        assert_eq!(from_file, (1, page.clone(), String::new()), "{args:?}");
        let (code, text, _) = fed(&["show", &name, "-f", "-"], &objects.stdout);
        assert!(code == 1 && text.starts_with(&format!("{name}, checked 0s ago\n")), "{text}");
    }
}
