//! The clocks of the cluster and of the operator differ.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use tokio::process::{Child, Command};

use crate::{
    command::{ends, orchestr, run},
    pod_statuses::{crash_looping, not_ready},
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

/// The clock of a process, which the test can set. Monotonic clocks stay as they are.
struct SettableClock(tempfile::TempDir);

/// Replaces the C library's function: a file contains how many seconds the clock is set forward.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    long result = syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_REALTIME) {
        FILE *file = fopen(getenv("CLOCK_AHEAD"), "r");
        long seconds = 0;
        if (file != NULL) {
            if (fscanf(file, "%ld", &seconds) != 1) seconds = 0;
            fclose(file);
        }
        time->tv_sec += seconds;
    }
    return (int)result;
}
"#;

impl SettableClock {
    async fn build() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("clock.c");
        std::fs::write(&source, CLOCK).unwrap();
        let library = dir.path().join("clock.so");
        let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(library).arg(source).status().await;
        assert!(built.expect("a C compiler is installed").success());
        let clock = Self(dir);
        clock.set(0);
        clock
    }

    fn set(&self, seconds: i64) {
        let new = self.0.path().join("new");
        std::fs::write(&new, seconds.to_string()).unwrap();
        std::fs::rename(new, self.0.path().join("ahead")).unwrap();
    }

    /// Starts the operator with this clock.
    fn operator(&self, kubeconfig: &Path, namespace: &str) -> Child {
        let mut command = run(kubeconfig, &["--namespaces", namespace]);
        command.env("LD_PRELOAD", self.0.path().join("clock.so")).env("CLOCK_AHEAD", self.0.path().join("ahead"));
        command.spawn().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_ends_and_begins_no_problem() {
    for (name, step) in [("set-back", -5 * 60), ("set-forward", 5 * 60)] {
        let env = TestEnv::new(name).await;
        let clock = SettableClock::build().await;
        env.pod("lasting", not_ready(180)).await;
        env.object("cluster", watch_all()).await;
        let _operator = clock.operator(env.plane.admin_kubeconfig(), &env.namespace);
        env.until("it is reported", |status| listed(status) == ["lasting"]).await;
        let record = env.record("cluster").await;
        clock.set(step);
        // Each of them causes a new judgement of all pods.
        for number in 0..5_i32 {
            env.pod(&format!("cart-{number}"), crash_looping(1)).await;
            env.pod(&format!("starting-{number}"), not_ready(1)).await;
            env.until("it is reported", |status| status.watched_pods == i64::from(3 + 2 * number)).await;
        }
        for (_, object) in record.states().await {
            let status = object.status.unwrap_or_default();
            let names = listed(&status);
            assert!(names.contains(&"lasting"), "{name}: {names:?}");
            assert!(!names.iter().any(|name| name.starts_with("starting")), "{name}: {names:?}");
        }
    }
}
