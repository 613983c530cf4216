//! Records every state of an object that its watch shows.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use futures::StreamExt;
use kube::{Api, ResourceExt, runtime::watcher};
use orchestr::api::Orchestr;
use orchestr_testbed::eventually;
use tokio::task::AbortHandle;

use crate::{
    support::TIMEOUT,
    test_env::{TestEnv, condition},
};

/// The recorded states, each with the time at which it was received. Recording stops when the value is dropped.
pub struct StatusRecorder {
    objects: Api<Orchestr>,
    name: String,
    states: Arc<Mutex<Vec<(Instant, Orchestr)>>>,
    task: AbortHandle,
}

impl TestEnv {
    /// Records each state of an object from now on.
    pub async fn record(&self, name: &str) -> StatusRecorder {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = watcher::watcher(self.objects(), config).boxed();
        let states: Arc<Mutex<Vec<(Instant, Orchestr)>>> = Arc::default();
        let recorded = Arc::clone(&states);
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if let Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) = event {
                    recorded.lock().unwrap().push((Instant::now(), object));
                }
            }
        });
        let (objects, name) = (self.objects(), name.to_owned());
        let recorder = StatusRecorder { objects, name, states, task: task.abort_handle() };
        recorder.states().await;
        recorder
    }
}

impl StatusRecorder {
    /// All states up to the present one. Watches do not receive an event at the same moment, so this waits for its own.
    pub async fn states(&self) -> Vec<(Instant, Orchestr)> {
        let version = |object: &Orchestr| object.resource_version().unwrap().parse::<u64>().unwrap();
        let present = version(&self.objects.get(&self.name).await.unwrap());
        eventually("the recorder has the present state", TIMEOUT, async || {
            let states = self.states.lock().unwrap().clone();
            match states.last().is_some_and(|(_, object)| version(object) >= present) {
                true => Ok(states),
                false => Err(format!("version {present} is not among {} states", states.len())),
            }
        })
        .await
        .unwrap()
    }

    /// When the status changed, without the changes of spec and metadata.
    pub async fn status_writes(&self) -> Vec<Instant> {
        let mut writes = Vec::new();
        let mut last = None;
        for (at, object) in self.states().await {
            if object.status != last {
                last = object.status;
                writes.push(at);
            }
        }
        writes
    }

    /// The values of PodsHealthy in order, without repetitions, in states that observed this generation of the spec.
    async fn pods_healthy(&self, generation: i64) -> Vec<String> {
        let mut values = Vec::new();
        for (_, object) in self.states().await {
            let Some(status) = object.status.filter(|status| status.observed_generation >= Some(generation)) else {
                continue;
            };
            let (value, reason, _) = condition(&status, "PodsHealthy");
            values.push(format!("{value} {reason}"));
        }
        values.dedup();
        values
    }

    /// Fails if PodsHealthy was True in any recorded state that observed this generation.
    pub async fn assert_never_healthy(&self, generation: i64) {
        let values = self.pods_healthy(generation).await;
        assert!(!values.iter().any(|value| value.starts_with("True")), "{values:?}");
    }
}

impl Drop for StatusRecorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}
