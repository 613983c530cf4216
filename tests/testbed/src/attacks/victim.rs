//! Another tenant's object, whose status is measured during an attack.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
    runtime::watcher::{self, Event, watcher},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    control_plane::ControlPlane,
    error::{Error, Result},
    kubelet::{Answer, Kubelet},
    objects::{container, pod, stored},
};

const NAMESPACE: &str = "victim";
const NAME: &str = "victim";
/// What the victim's container wrote before it failed.
const LOG: &str = "the victim's last words";
/// The pause between two changes. A status is written at most once a second, which is not to be measured.
const PAUSE: Duration = Duration::from_millis(1_300);

/// The pause between two applies.
const APPLY_PAUSE: Duration = Duration::from_millis(200);
/// The pause between two reads of the status.
const READ_PAUSE: Duration = Duration::from_millis(20);

/// A namespace with a pod and an object of its own.
pub struct Victim<'a> {
    plane: &'a ControlPlane,
    client: Client,
    node: String,
    restarts: u32,
    is_failing: bool,
}

/// How the victim's status followed its pod.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// From the write of the pod until a GET of the object returns a status that shows the change. A change that was not
    /// shown in time counts as the limit.
    pub statuses: Vec<Duration>,
    /// The same until a watch of the object receives that status: the API server decodes the events of all objects of a
    /// kind one after the other, so each watch of them is late if a tenant writes large objects all the time. Only
    /// failures count.
    pub watched: Vec<Duration>,
    /// The same until a bare watch of the pod receives it: the part of the latency that the API server and etcd cause.
    pub pods: Vec<Duration>,
    /// How long a small server-side apply took meanwhile, sent all the time by a client of its own. A status needs one such
    /// request and at least two watch events, so its latency cannot be less.
    pub applies: Vec<Duration>,
    /// Changes that the status did not show in time.
    pub missed: u64,
    /// Failures of the pod.
    pub failures: u64,
    /// How many of them were shown with their log before the pod recovered.
    pub logs: u64,
}

impl Latencies {
    /// The latency of the status that this share of all changes did not exceed.
    pub fn percentile(&self, share: f64) -> Duration {
        percentile(&self.statuses, share)
    }

    /// The latency of a watch of the object that this share of all failures did not exceed.
    pub fn percentile_of_watched(&self, share: f64) -> Duration {
        percentile(&self.watched, share)
    }

    /// The latency of a bare watch that this share of all changes did not exceed.
    pub fn percentile_of_pods(&self, share: f64) -> Duration {
        percentile(&self.pods, share)
    }

    /// The time of a small server-side apply that this share of all did not exceed.
    pub fn percentile_of_applies(&self, share: f64) -> Duration {
        percentile(&self.applies, share)
    }
}

fn percentile(latencies: &[Duration], share: f64) -> Duration {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or_default()
}

impl<'a> Victim<'a> {
    /// Creates the namespace, the healthy pod and the object.
    pub async fn new(plane: &'a ControlPlane, kubelet: &Kubelet) -> Result<Self> {
        plane.ensure_namespace(NAMESPACE).await?;
        kubelet.script(NAMESPACE, NAME, "app", true, Answer::text(LOG));
        let victim = Self {
            plane,
            client: plane.admin()?,
            node: kubelet.node_name().to_owned(),
            restarts: 0,
            is_failing: false,
        };
        let (key, pod) = victim.pod();
        plane.put(&key, pod).await?;
        let object = json!({
            "apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": NAME},
            "spec": {"alerts": {"checkRunningPods": true}, "pods": {"namespaces": [NAMESPACE]}},
        });
        victim.objects().create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(victim)
    }

    fn objects(&self) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("kopf.dev", "v1", "Orchestr"));
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
    }

    fn pod(&self) -> (String, String) {
        let (restarts, is_failing) = (self.restarts, self.is_failing);
        let at = "2025-11-03T08:40:44Z";
        let ended = json!({"terminated": {
            "exitCode": 1, "reason": "Error", "startedAt": at, "finishedAt": at,
            "containerID": format!("containerd://{restarts:064x}"),
        }});
        let (state, last) = match is_failing {
            true => (json!({"waiting": {"reason": "CrashLoopBackOff"}}), ended),
            false => (json!({"running": {"startedAt": at}}), json!({})),
        };
        let ready = if is_failing { "False" } else { "True" };
        let app = json!({
            "ready": !is_failing, "started": true, "restartCount": restarts, "state": state, "lastState": last,
        });
        let status = json!({
            "phase": "Running", "startTime": at, "containerStatuses": [container("app", app)],
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": ready}],
        });
        let metadata = json!({"uid": "victim", "creationTimestamp": at});
        let changes = json!({"metadata": metadata, "spec": {"nodeName": self.node}, "status": status});
        stored("pods", &pod(NAMESPACE, NAME, changes))
    }

    /// Waits until the object has a status.
    pub async fn until_watched(&self, limit: Duration) -> Result<Duration> {
        let begun = Instant::now();
        match self.next_status(begun + limit, |status| status["watchedPods"] == 1).await {
            Some(_) => Ok(begun.elapsed()),
            None => Err(Error::Timeout { what: "the victim's status".to_owned(), after: limit, last: String::new() }),
        }
    }

    /// Lets the pod fail and recover at least once until `end`, and measures how soon the status shows it. A change that is not shown
    /// within `limit` counts as missed.
    pub async fn measure(&mut self, end: Instant, limit: Duration) -> Result<Latencies> {
        let mut latencies = Latencies::default();
        let mut writer = self.plane.writer().await?;
        let mut failed = HashMap::new();
        let watched = self.watch_object();
        let seen = self.watch_pod();
        let applies = self.apply_all_the_time();
        // The last write may be a moment ago.
        tokio::time::sleep(PAUSE).await;
        loop {
            self.is_failing = !self.is_failing;
            let is_failing = self.is_failing;
            self.restarts += 1;
            let (key, pod) = self.pod();
            let begun = Instant::now();
            writer.put(&key, pod).await?;
            let restarts = self.restarts;
            let shows = move |status: &Value| match is_failing {
                true => issue(status)["restarts"] == restarts,
                false => status["problematicPodCount"] == 0,
            };
            let shown = self.next_status(begun + limit, shows).await;
            latencies.missed += u64::from(shown.is_none());
            latencies.statuses.push(if shown.is_some() { begun.elapsed() } else { limit });
            latencies.pods.extend(seen.times().get(&restarts).map(|at| at.saturating_duration_since(begun)));
            let pause = Instant::now() + PAUSE;
            let has_log = |status: &Value| issue(status)["logs"].as_str().is_some_and(|logs| logs.contains(LOG));
            if is_failing {
                latencies.failures += 1;
                failed.insert(restarts, begun);
                let has_log =
                    shown.is_some_and(|status| has_log(&status)) || self.next_status(pause, has_log).await.is_some();
                latencies.logs += u64::from(has_log);
            }
            // From the last status that was seen, which may be the one with the log.
            tokio::time::sleep(PAUSE).await;
            if Instant::now() >= end {
                latencies.applies = std::mem::take(&mut *applies.times());
                let at = watched.times();
                let until = |restarts| at.get(restarts).copied().unwrap_or_else(Instant::now);
                latencies.watched.extend(failed.iter().map(|(restarts, begun)| until(restarts).duration_since(*begun)));
                drop(at);
                return Ok(latencies);
            }
        }
    }

    /// Records when a bare watch receives each state of the pod.
    fn watch_pod(&self) -> SeenPods {
        let times: Arc<Mutex<HashMap<u32, Instant>>> = Arc::default();
        let recorded = Arc::clone(&times);
        let pods = Api::<Pod>::namespaced(self.client.clone(), NAMESPACE);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut events = watcher(pods, watcher::Config::default()).boxed();
            while let Some(event) = events.next().await {
                let Ok(Event::Apply(pod) | Event::InitApply(pod)) = event else { continue };
                let container = pod.status.and_then(|status| status.container_statuses?.into_iter().next());
                let restarts = container.and_then(|own| u32::try_from(own.restart_count).ok());
                let mut times = recorded.lock().unwrap_or_else(PoisonError::into_inner);
                times.entry(restarts.unwrap_or_default()).or_insert_with(Instant::now);
            }
        });
        SeenPods { times, _task: task }
    }

    /// Applies a ConfigMap again and again, and records how long each request takes.
    fn apply_all_the_time(&self) -> Applies {
        let times: Arc<Mutex<Vec<Duration>>> = Arc::default();
        let recorded = Arc::clone(&times);
        let maps = Api::<ConfigMap>::namespaced(self.client.clone(), NAMESPACE);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let params = PatchParams::apply("testbed").force();
            for round in 0_u64.. {
                let map = json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {"round": round.to_string()},
                });
                let begun = Instant::now();
                if maps.patch(NAME, &params, &Patch::Apply(&map)).await.is_ok() {
                    recorded.lock().unwrap_or_else(PoisonError::into_inner).push(begun.elapsed());
                }
                tokio::time::sleep(APPLY_PAUSE).await;
            }
        });
        Applies { times, _task: task }
    }

    /// Records when a watch of the object receives each failure.
    fn watch_object(&self) -> SeenPods {
        let times: Arc<Mutex<HashMap<u32, Instant>>> = Arc::default();
        let recorded = Arc::clone(&times);
        let objects = self.objects();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut events = watcher(objects, watcher::Config::default()).boxed();
            while let Some(event) = events.next().await {
                let Ok(Event::Apply(object) | Event::InitApply(object)) = event else { continue };
                let restarts = issue(&object.data["status"])["restarts"].as_u64().and_then(|own| own.try_into().ok());
                let mut times = recorded.lock().unwrap_or_else(PoisonError::into_inner);
                times.entry(restarts.unwrap_or_default()).or_insert_with(Instant::now);
            }
        });
        SeenPods { times, _task: task }
    }

    /// The first status until `deadline` for which `wanted` is true. It is read again and again, because a watch may be
    /// late.
    async fn next_status(&self, deadline: Instant, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        let objects = self.objects();
        while Instant::now() < deadline {
            let read = tokio::time::timeout_at(deadline.into(), objects.get(NAME)).await;
            // A busy API server may refuse a request; it is sent again.
            if let Ok(Ok(object)) = read
                && let Some(status) = object.data.get("status").filter(|status| wanted(status))
            {
                return Some(status.clone());
            }
            tokio::time::sleep(READ_PAUSE).await;
        }
        None
    }
}

/// When a bare watch received the pod with each number of restarts. Dropping it ends the watch.
struct SeenPods {
    times: Arc<Mutex<HashMap<u32, Instant>>>,
    _task: JoinSet<()>,
}

impl SeenPods {
    fn times(&self) -> MutexGuard<'_, HashMap<u32, Instant>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long each apply took. Dropping it ends them.
struct Applies {
    times: Arc<Mutex<Vec<Duration>>>,
    _task: JoinSet<()>,
}

impl Applies {
    fn times(&self) -> MutexGuard<'_, Vec<Duration>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn issue(status: &Value) -> &Value {
    &status["problematicPods"][0]["containerIssues"][0]
}
