//! Records every state of an object that its watch shows.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use futures::StreamExt;
use kube::runtime::watcher;
use orchestr::api::Orchestr;
use orchestr_testbed::eventually;
use tokio::task::AbortHandle;

use crate::{
    support::TIMEOUT,
    test_env::{TestEnv, condition},
};

/// The recorded states, each with the time at which it was received. Recording stops when the value is dropped.
pub struct StatusRecorder {
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
        let recorder = StatusRecorder { states, task: task.abort_handle() };
        eventually("the recorder has the current state", TIMEOUT, async || {
            if recorder.states().is_empty() { Err("it has no state".to_owned()) } else { Ok(()) }
        })
        .await
        .unwrap();
        recorder
    }
}

impl StatusRecorder {
    pub fn states(&self) -> Vec<(Instant, Orchestr)> {
        self.states.lock().unwrap().clone()
    }

    /// When the status changed, without the changes of spec and metadata.
    pub fn status_writes(&self) -> Vec<Instant> {
        let mut writes = Vec::new();
        let mut last = None;
        for (at, object) in self.states() {
            if object.status != last {
                last = object.status;
                writes.push(at);
            }
        }
        writes
    }

    /// The values of PodsHealthy in order, without repetitions, in states that observed this generation of the spec.
    fn pods_healthy(&self, generation: i64) -> Vec<String> {
        let mut values = Vec::new();
        for (_, object) in self.states() {
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
    pub fn assert_never_healthy(&self, generation: i64) {
        let values = self.pods_healthy(generation);
        assert!(!values.iter().any(|value| value.starts_with("True")), "{values:?}");
    }
}

impl Drop for StatusRecorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}
