//! `orchestr scan` of several contexts.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    command::{assert_fails, assert_usage_error, ends, orchestr},
    pod_statuses::{crash_looping, healthy},
    test_env::TestEnv,
};

/// A kubeconfig with these contexts, of which each has the administrator's credentials and, if given, another server.
fn kubeconfig(env: &TestEnv, folder: &Path, contexts: &[(&str, Option<String>)]) -> PathBuf {
    let text = std::fs::read_to_string(env.plane.admin_kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    let (cluster, user) = (config["clusters"][0].clone(), config["users"][0]["name"].clone());
    let clusters = contexts.iter().map(|(name, server)| {
        let mut cluster = cluster.clone();
        cluster["name"] = json!(name);
        if let Some(server) = server {
            cluster["cluster"]["server"] = json!(server);
        }
        cluster
    });
    config["clusters"] = clusters.collect();
    let contexts = contexts.iter().map(|(name, _)| json!({"name": name, "context": {"cluster": name, "user": user}}));
    config["contexts"] = contexts.collect();
    config["current-context"] = json!("");
    let path = folder.join("kubeconfig");
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

/// A server that accepts connections and never answers.
fn hanging() -> (TcpListener, Option<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    (listener, Some(url))
}

#[tokio::test(flavor = "multi_thread")]
async fn names_the_cluster_of_each_problem() {
    let env = TestEnv::new("scan-fleet").await;
    let namespace = env.namespace.as_str();
    env.pod("cart", crash_looping(7)).await;
    env.pod("well", healthy()).await;
    let folder = tempfile::tempdir().unwrap();
    let path = kubeconfig(&env, folder.path(), &[("eu", None), ("us", None)]);
    let base = ["scan", "--kubeconfig", path.to_str().unwrap(), "-n", namespace];
    let several = ["--context", "eu", "--context", "us", "--request-timeout", "60s"];
    let scan = |more: &[&str]| ends(&mut orchestr(&[&base, &several[..], more].concat()));

    let (code, out, err) = scan(&[]);
    assert_eq!((code, err), (1, format!("2 of 4 pods in {namespace} namespace in 2 clusters have problems.\n")));
    let rows: Vec<_> = out.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>()).collect();
    assert_eq!(rows, [["CONTEXT", "NAME"], ["eu", "cart"], ["us", "cart"]]);

    let (code, out, err) = scan(&["-o", "json"]);
    assert_eq!((code, err.as_str()), (1, ""));
    let output: Value = serde_json::from_str(&out).unwrap();
    let clusters = output["clusters"].as_array().unwrap();
    let named: Vec<_> = clusters.iter().map(|cluster| (&cluster["context"], &cluster["watchedPods"])).collect();
    assert_eq!(named, [(&json!("eu"), &json!(2)), (&json!("us"), &json!(2))]);
    // The same as of a single cluster, beside its name.
    let (_, one, _) = ends(&mut orchestr(&[&base, &["--context", "us", "-o", "json"][..]].concat()));
    let mut one: Value = serde_json::from_str(&one).unwrap();
    one["context"] = json!("us");
    assert_eq!(clusters[1], one);

    let all = ends(&mut orchestr(&[&base, &["--all-contexts", "--request-timeout", "60s", "-o", "json"][..]].concat()));
    assert_eq!(all, (1, out, String::new()));
    let (_, out, _) = scan(&["--by", "reason", "-o", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["groups"][0]["pods"], 2);
    assert!(scan(&["--by", "owner"]).1.starts_with("CONTEXT   OWNER "));
    assert_eq!(scan(&["-o", "junit"]).1.matches("<testsuite name=\"").count(), 2);
    assert_eq!(scan(&["-o", "github"]).1.lines().filter(|line| line.starts_with("::error title=us%3A ")).count(), 1);
    let (_, out, _) = scan(&["-o", "markdown"]);
    assert!(out.contains("\n### <code>eu</code>\n") && out.contains("\n### <code>us</code>\n"), "{out}");
    let (code, page, err) = scan(&["-o", "html"]);
    assert_eq!((code, err.as_str()), (1, ""));
    for part in [
        "<h1>2 of 4 pods have problems, in 2 clusters</h1>",
        &format!("<bdi>pods in {namespace} namespace of 2 clusters</bdi>"),
        "<bdi>eu</bdi>: 1 of 2 pods has a problem</h2>",
        "<bdi>us</bdi>: 1 of 2 pods has a problem</h2>",
        &format!("kubectl --context us describe pod -n {namespace} cart"),
    ] {
        assert!(page.contains(part), "{part} is missing from:\n{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_that_hang_do_not_delay_the_others() {
    let env = TestEnv::new("scan-hangs").await;
    env.pod("cart", crash_looping(7)).await;
    let listeners: Vec<_> = (0..5).map(|_| hanging()).collect();
    let names: Vec<_> = (0..50).map(|index| format!("cluster-{index}")).collect();
    let contexts: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(index, name)| (name.as_str(), (index % 10 == 9).then(|| listeners[index / 10].1.clone()).flatten()))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = kubeconfig(&env, folder.path(), &contexts);
    let scan = ["scan", "--kubeconfig", path.to_str().unwrap(), "-n", &env.namespace, "--all-contexts"];
    let begun = Instant::now();
    let (code, out, err) = ends(&mut orchestr(&scan));
    // Four seconds on an idle machine. Here other tests use the processors as well.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(code, 2, "{err}");
    for (name, server) in &contexts {
        let has_row = out.lines().any(|line| line.starts_with(&format!("{name} ")));
        let failure =
            server.as_ref().map(|url| format!("orchestr: {name}: the cluster at {url} did not respond within 4 s\n"));
        assert_eq!(has_row, failure.is_none(), "{name}: {out}{err}");
        assert!(failure.is_none_or(|failure| err.contains(&failure)), "{name}: {err}");
    }
    assert!(err.contains("orchestr: 5 of 50 clusters could not be checked\n"), "{err}");
    let summary = format!("\n45 of 45 pods in {} namespace in 45 clusters have problems.\n", env.namespace);
    assert!(err.ends_with(&summary), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_plugin_that_hangs_does_not_delay_the_others() {
    let env = TestEnv::new("scan-plugin").await;
    env.pod("cart", crash_looping(7)).await;
    let folder = tempfile::tempdir().unwrap();
    let path = kubeconfig(&env, folder.path(), &[("eu", None), ("slow", None)]);
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let pid = folder.path().join("pid");
    let script = format!("echo $$ >{}; exec sleep 40", pid.display());
    config["users"].as_array_mut().unwrap().push(json!({"name": "plugin", "user": {"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "interactiveMode": "Never", "args": ["-c", script],
    }}}));
    config["contexts"][1]["context"]["user"] = json!("plugin");
    std::fs::write(&path, config.to_string()).unwrap();
    let scan = ["scan", "--kubeconfig", path.to_str().unwrap(), "-n", &env.namespace, "--all-contexts"];
    let begun = Instant::now();
    let (code, out, err) = ends(orchestr(&scan).args(["-o", "json", "--request-timeout", "3s"]));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let pid = std::fs::read_to_string(pid).unwrap();
    assert!(Command::new("sh").args(["-c", &format!("kill {pid}")]).status().unwrap().success());
    let why = "no credentials within 10 s: does its credential plugin hang?";
    assert_eq!((code, err), (2, format!("orchestr: slow: {why}\norchestr: 1 of 2 clusters could not be checked\n")));
    let output: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(output["clusters"][0]["problematicPodCount"], 1);
    assert_eq!(output["clusters"][1], json!({"context": "slow", "error": why}));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_contexts_that_do_not_exist() {
    let env = TestEnv::new("scan-typo").await;
    env.pod("cart", crash_looping(7)).await;
    let folder = tempfile::tempdir().unwrap();
    let path = kubeconfig(&env, folder.path(), &[("eu", None)]);
    let scan = ["scan", "--kubeconfig", path.to_str().unwrap(), "-n", &env.namespace];
    let missing = "the kubeconfig has no context \"uu\": it has eu";
    assert_fails(orchestr(&scan).args(["--context", "uu"]), missing);
    let (code, out, err) =
        ends(orchestr(&scan).args(["--context", "eu", "--context", "uu", "--request-timeout", "60s"]));
    assert_eq!(code, 2);
    assert!(out.contains("cart") && err.starts_with(&format!("orchestr: uu: {missing}\n")), "{out}{err}");
    let (code, out, err) = ends(orchestr(&scan).args(["--context", "uu", "--context", "vv"]));
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.ends_with("orchestr: 2 of 2 clusters could not be checked\nNo cluster could be checked.\n"), "{err}");
    let (code, out, _) = ends(orchestr(&scan).args(["--context", "uu", "--context", "vv", "-o", "junit"]));
    assert_eq!((code, out.matches("<error type=\"Unscanned\"").count()), (2, 2), "{out}");
    let (code, page, _) = ends(orchestr(&scan).args(["--context", "uu", "--context", "vv", "-o", "html"]));
    assert!(code == 2 && page.contains("<h1>No cluster could be checked</h1>"), "{page}");
    let some = ["--context", "eu", "--context", "uu", "--request-timeout", "60s", "-o", "html"];
    let (code, page, _) = ends(orchestr(&scan).args(some));
    assert!(
        code == 2 && page.contains("<h1>1 of 1 pod has a problem; 1 of 2 clusters could not be checked</h1>"),
        "{page}"
    );
    assert!(
        page.contains("<bdi>uu</bdi> could not be checked: <bdi>the kubeconfig has no context &quot;uu&quot;"),
        "{page}"
    );
    assert_fails(&mut orchestr(&["scan", "--all-contexts"]), "there is no kubeconfig at /nonexistent/.kube/config");
    assert_usage_error(&mut orchestr(&["scan", "-f", "-", "--all-contexts"]), &["cannot be used with"]);
}
