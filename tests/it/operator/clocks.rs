//! The clocks of the cluster and of the operator differ.

use jiff::{SignedDuration, Timestamp};

use crate::{
    command::{ends, orchestr},
    pod_statuses::not_ready,
    proxy::Proxy,
    test_env::{TestEnv, condition, listed, watch_all},
};

#[tokio::test(flavor = "multi_thread")]
async fn uses_the_clock_of_the_api_server() {
    for (name, ahead) in [("clock-ahead", 8 * 60), ("clock-behind", -8 * 60)] {
        let env = TestEnv::new(name).await;
        let proxy = Proxy::start(env.client.clone()).await;
        proxy.shift_dates(ahead);
        // Times as the kubelets of that cluster write them: `not_ready` counts from the local clock, so the difference
        // is added.
        env.pod("starting", not_ready(10 - ahead)).await;
        env.pod("lasting", not_ready(180 - ahead)).await;
        env.object("cluster", watch_all()).await;
        let record = env.record("cluster").await;
        let operator = env.operator().through(&proxy).start();
        env.wait_for_ready("cluster", "Watching").await;
        env.wait_until_caught_up().await;
        let status = env.status("cluster").await;
        assert_eq!(listed(&status), ["lasting"], "{name}");
        let theirs = Timestamp::now() + SignedDuration::from_secs(ahead);
        let lasted = theirs.duration_since(status.problematic_pods[0].since.0).as_secs();
        assert!((178..240).contains(&lasted), "{name}: it has lasted {lasted} s");
        for (_, object) in record.states().await {
            let status = object.status.unwrap_or_default();
            assert!(!listed(&status).contains(&"starting"), "{name}: {status:?}");
            assert_ne!(condition(&status, "PodsHealthy").0, "True", "{name}: {status:?}");
        }
        operator.stop().await;

        let kubeconfig = env.plane.kubeconfig_for(name, &proxy.config()).unwrap();
        let path = kubeconfig.to_str().unwrap();
        let scan = ["scan", "--namespace", &env.namespace, "--kubeconfig", path];
        let (code, out, err) = tokio::task::block_in_place(|| ends(&mut orchestr(&scan)));
        assert_eq!((code, err.as_str()), (1, &*format!("1 of 2 pods in {} namespace has a problem.\n", env.namespace)));
        assert!(out.contains("lasting") && !out.contains("starting"), "{name}: {out}");
    }
}
