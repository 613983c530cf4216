//! The outputs for pipelines, and what the README shows.

use std::{fs, path::Path, process::Stdio};

use orchestr_testbed::finish;
use regex::Regex;

use super::support::{Rollout, Wait, bad_image, creating};
use crate::{
    command::{ends, orchestr},
    pod_statuses::healthy,
    support::TIMEOUT,
    terminal::Terminal,
    test_env::TestEnv,
};

/// Each command in the documentation is accepted. Without a cluster, it then finds none.
#[test]
fn the_commands_of_the_documentation_are_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut commands = 0;
    for document in ["README.md", "docs/pipelines.md"] {
        let text = fs::read_to_string(root.join(document)).unwrap();
        let lines = text
            .lines()
            .map(|line| line.trim().trim_start_matches("$ ").trim_start_matches("- ").trim_start_matches("run: "));
        for line in lines.filter_map(|line| line.strip_prefix("orchestr wait ")) {
            let args: Vec<&str> = line.split_whitespace().take_while(|word| *word != ">" && *word != "#").collect();
            let (code, _, err) = ends(&mut orchestr(&[&["wait"], args.as_slice()].concat()));
            assert_eq!(code, 2, "{document}: {line}: {err}");
            assert!(err.starts_with("orchestr: no cluster to ask: "), "{document}: {line}: {err}");
            commands += 1;
        }
    }
    assert!(commands > 5, "{commands}");
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_junit_reports_and_annotations() {
    let env = TestEnv::new("wait-output").await;
    let (cart, shop) = (Rollout::new(&env, "cart", 1).await, Rollout::new(&env, "shop", 1).await);
    shop.pod(&env, "a", healthy()).await;
    shop.is_done(&env).await;
    cart.pod(&env, "a", bad_image()).await;
    let run = async |format: &str| Wait::start(&env, &["deploy/cart", "deploy/shop", "-o", format]).ends().await;

    let ended = run("junit").await;
    assert_eq!(ended.code, 1, "{ended:#?}");
    for part in [
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"orchestr wait\" tests=\"2\" failures=\"1\" errors=\"0\">",
        &format!("<testcase classname=\"{}\" name=\"deployment/cart\" time=\"", env.namespace),
        "<failure type=\"ImageNotFound\" message=\"the registry registry.example does not have the image",
        "name=\"deployment/shop\"",
        "</testsuites>\n",
    ] {
        assert!(ended.out.contains(part), "{part:?} is missing: {}", ended.out);
    }

    let ended = run("github").await;
    assert_eq!(ended.code, 1, "{ended:#?}");
    let lines: Vec<&str> = ended.out.lines().collect();
    let title = "::error title=deployment/cart%3A ImageNotFound::the registry registry.example does not have the image";
    assert!(lines.len() == 2 && lines[0].starts_with(title) && lines[0].contains("%0A"), "{}", ended.out);
    assert_eq!(lines[1], "deployment/shop: 1 replica, without a readiness probe");
}

/// The README shows what `kubectl rollout status` and `orchestr wait` print about the same Deployment.
#[tokio::test(flavor = "multi_thread")]
async fn the_readme_shows_what_kubectl_and_wait_print() {
    let env = TestEnv::new("wait-readme").await;
    let rollout = Rollout::with_hashes(&env, "cart", 3, ["7f9b4d6c58", "5d9f7c6b84"]).await;
    rollout.counts(&env, 4, 1, 3).await;
    for suffix in ["4kq8n", "d2rtx", "zw6hm"] {
        rollout.pod_of(&env, "7f9b4d6c58", suffix, healthy()).await;
    }
    rollout.pod(&env, "x2x7k", bad_image()).await;
    let namespace = env.namespace.as_str();
    let args = ["rollout", "status", "-n", namespace, "deployment/cart", "--timeout=2s"];
    let kubectl = env.plane.kubectl(&args, None).await.unwrap();
    assert!(!kubectl.status.success());
    let ended = Wait::start(&env, &["deployment/cart"]).ends().await;
    assert_eq!(ended.code, 1, "{ended:#?}");
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    // The times differ.
    let same = |text: &str| Regex::new(r"after \d+s").unwrap().replace_all(text, "after 1s").into_owned();
    for printed in [kubectl.stdout, kubectl.stderr, ended.err, ended.out] {
        println!("{printed}");
        assert!(same(&readme).contains(same(&printed).trim_end()), "the README does not contain:\n{printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn draws_one_line_of_progress_on_a_terminal() {
    let env = TestEnv::new("wait-drawn").await;
    let rollout = Rollout::new(&env, "cart", 1).await;
    rollout.pod(&env, "a", creating()).await;
    let (terminal, process_end) = Terminal::new(50, 24);
    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    let args = ["wait", "--kubeconfig", kubeconfig, "-n", &env.namespace, "deploy/cart", "--stable", "100ms"];
    let mut command = orchestr(&args);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(process_end).spawn().unwrap();
    // It keeps a copy of the end of the terminal.
    drop(command);
    let lines = |text: &str| text.split("\r\u{1b}[K").map(str::to_owned).collect::<Vec<_>>();
    // The elapsed time is drawn again, and the line is cut.
    let is_drawn = |line: &String| {
        line.starts_with('[') && line.contains("s] deployment/cart: 0 of 1 replica") && line.ends_with('…')
    };
    terminal.shows("the line several times", |text| lines(text).iter().filter(|line| is_drawn(line)).count() > 2).await;
    env.set_status("cart-new-a", healthy()).await;
    rollout.is_done(&env).await;
    let output = tokio::task::spawn_blocking(move || finish(child, TIMEOUT).unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", terminal.text());
    terminal.shows("that it is healthy", |text| text.contains("deployment/cart: healthy, 1 replica, without")).await;
    // What is drawn stays on one line, and nothing of it remains.
    let drawn = lines(&terminal.text());
    assert!(
        drawn.iter().filter(|line| line.starts_with('[')).all(|line| line.chars().count() < 50 && !line.contains('\n')),
        "{drawn:?}"
    );
    assert!(drawn.last().is_some_and(|last| !last.starts_with('[')), "{drawn:?}");
}
