//! A tenant attacks the operator in every way at once: the short form of `cargo bench --bench scale -- attacks`, which
//! measures how long other statuses take and how much memory. Here they only have to follow, because the build is not
//! optimised and other tests run at the same time.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use kube::{
    Api,
    api::{DynamicObject, ListParams},
};
use orchestr_testbed::{
    Kubelet, Options,
    attacks::{Attack, PreparedAttack, Size, Victim},
};
use tokio::process::Command;

use crate::{
    command::orchestr,
    install::apply,
    support::{TIMEOUT, install_crd},
    test_env::Plane,
};

/// How long the tenant attacks.
const WINDOW: Duration = Duration::from_secs(15);
/// The most that the median of all changes may take: thirty times as long as an optimised build takes on a quiet machine.
const MEDIAN: Duration = Duration::from_secs(30);

/// Whether a text contains a character that a terminal or a chat could interpret: a control or a bidi character.
fn is_dangerous(text: &str) -> bool {
    let is_bidi =
        |own: char| matches!(own, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().any(|own| is_bidi(own) || (own.is_control() && own != '\n' && own != '\t'))
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_status_follows_its_pods_during_all_attacks() {
    let plane = Plane::start(Options::default()).await;
    install_crd(&plane).await;
    apply(&plane, "deploy").await;
    apply(&plane, "deploy/tenancy").await;
    let access = plane.service_account("orchestr-system", "orchestr").await.unwrap();
    let kubelet = Kubelet::start(&plane, "node-0").await.unwrap();
    let mut victim = Victim::new(&plane, &kubelet).await.unwrap();
    let prepare = Attack::ALL.map(|attack| PreparedAttack::new(attack, Size::SHORT, &plane, &kubelet));
    let attacks = try_join_all(prepare).await.unwrap();
    attacks[0].until_confined(TIMEOUT).await.unwrap();

    let mut operator = Command::from(orchestr(&["run"]))
        .env("ORCHESTR_KUBECONFIG", access.kubeconfig())
        .kill_on_drop(true)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    victim.until_watched(TIMEOUT).await.unwrap();
    let end = Instant::now() + WINDOW;
    let attacking = try_join_all(attacks.iter().map(|attack| attack.go_on(end)));
    let (latencies, _) = tokio::try_join!(victim.measure(end, TIMEOUT), attacking).unwrap();

    println!("{latencies:?}");
    for attack in &attacks {
        let requests = attack.requests();
        println!("{}: {requests:?}", attack.name());
        // Those without an accepted request would prove nothing.
        assert!(requests.accepted > 0, "{}", attack.name());
    }
    assert_eq!(operator.try_wait().unwrap(), None, "the operator has not ended");
    assert!(!latencies.statuses.is_empty(), "{latencies:?}");
    assert_eq!(latencies.missed, 0, "{latencies:?}");
    assert!(latencies.percentile(0.5) <= MEDIAN, "{latencies:?}");

    let objects: Api<DynamicObject> = Api::all_with(plane.admin().unwrap(), &orchestr::api::api_resource());
    let objects = objects.list(&ListParams::default()).await.unwrap().items;
    for object in &objects {
        let namespace = object.metadata.namespace.as_deref().unwrap();
        let pods = object.data["status"]["problematicPods"].as_array();
        let mut foreign = pods.into_iter().flatten().filter(|pod| pod["namespace"] != namespace);
        assert_eq!(foreign.next(), None, "{namespace} sees only its own pods");
        assert!(!is_dangerous(&text_of(&object.data["status"])), "{namespace}");
    }
    let pid = operator.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let ended = tokio::time::timeout(TIMEOUT, operator.wait()).await.expect("the operator stops on SIGTERM").unwrap();
    assert_eq!(ended.code(), Some(0));
}

/// All texts of a value.
fn text_of(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(values) => values.iter().map(text_of).collect(),
        serde_json::Value::Object(fields) => fields.values().map(text_of).collect(),
        _ => String::new(),
    }
}
