//! `--logs`: reads the logs that explain the problems, as the operator does for a status.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use arcstr::ArcStr;
use futures::{StreamExt, stream::FuturesUnordered};
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::{
    api::GetParams,
    core::{Request, Resource},
};
use tokio::time::{Instant, timeout, timeout_at};

use crate::{
    api::LogSource,
    cli::connect::Cluster,
    diagnosis::{ContainerFinding, Finding, Health},
    logs::{LogPolicy, LogReader, LogRequest, ReadLimits, Tail},
    pods::{Pod, Uid},
};

use super::collector::Collector;

/// The most logs that are read. Those of one pod of each incident come first.
pub(super) const MOST: usize = 200;
/// How long all reads together may take by default.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);
/// How long it may take to read a pod again after its log was read.
const POD_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a log is read again because its container was restarted in the meantime.
const REREADS: usize = 2;
/// A node that does not respond delays the logs of its own pods only, two at a time.
const LIMITS: ReadLimits =
    ReadLimits { concurrency: 16, per_node: 2, timeout: Duration::from_secs(5), stream_bytes: 4 * 1024 * 1024 };

/// The logs of containers, or why they are missing.
#[derive(Debug, Default)]
pub(super) struct Logs {
    tails: HashMap<(Uid, ArcStr), Tail>,
    /// Logs that were not read because there are more than [`MOST`].
    pub(super) omitted: usize,
    /// Logs that were not read within the time limit.
    pub(super) late: usize,
}

impl Logs {
    /// The log that explains a container's problem, or why it is missing. Absent if it was not to be read.
    pub(super) fn get(&self, pod: &Pod, container: &ContainerFinding) -> Option<Tail> {
        self.tails.get(&(pod.uid, container.name.clone())).cloned()
    }

    fn set(&mut self, pod: &Pod, container: &ContainerFinding, tail: Tail) {
        self.tails.insert((pod.uid, container.name.clone()), tail);
    }
}

/// Reads the logs that explain the collector's problems, in this time.
pub(super) async fn read(cluster: &Cluster, collector: &Collector, within: Duration) -> Logs {
    let policy = Arc::new(LogPolicy::default());
    let mut logs = Logs::default();
    let mut wanted = Vec::new();
    for (pod, finding) in by_turns(&collector.problems) {
        for container in &finding.containers {
            match LogRequest::plan(pod, container, &policy) {
                Err(tail) => logs.set(pod, container, tail),
                Ok(request) => wanted.push((pod, container, request)),
            }
        }
    }
    logs.omitted = wanted.len().saturating_sub(MOST);
    wanted.truncate(MOST);
    let deadline = Instant::now() + within;
    let reader = LogReader::new(cluster.client.clone(), LIMITS);
    let mut reads: FuturesUnordered<_> = wanted
        .iter()
        .map(async |(pod, container, request)| {
            let read = Read { cluster, reader: &reader, collector };
            (*pod, *container, read.tail(request.clone(), container.restarts).await)
        })
        .collect();
    while let Ok(Some((pod, container, tail))) = timeout_at(deadline, reads.next()).await {
        logs.set(pod, container, tail);
    }
    drop(reads);
    for (pod, container, _) in wanted {
        if logs.get(pod, container).is_none() {
            logs.late += 1;
            logs.set(pod, container, Tail::unavailable(format!("not read within {} s", within.as_secs_f32())));
        }
    }
    logs
}

/// The problems in the order in which their logs are read: one pod of each incident, then the second one of each, and so on;
/// among these the most recent problem first.
fn by_turns(problems: &[(Pod, Finding)]) -> impl Iterator<Item = (&Pod, &Finding)> {
    let mut recent: Vec<_> = problems.iter().map(|(pod, finding)| (pod, finding)).collect();
    recent.sort_by_key(|(pod, finding)| (Reverse(finding.since), &pod.namespace, &pod.name));
    let mut turns = HashMap::new();
    let mut ordered = BTreeMap::new();
    for (place, (pod, finding)) in recent.into_iter().enumerate() {
        let owner = finding.owner.as_ref().map(|owner| (&owner.kind, &owner.name));
        // A pod without an owner is an incident of its own.
        let alone = owner.is_none().then_some(pod.uid);
        let turn: &mut usize =
            turns.entry((&pod.namespace, owner, alone, &finding.container, finding.kind)).or_default();
        ordered.insert((*turn, place), (pod, finding));
        *turn += 1;
    }
    ordered.into_values()
}

/// Reads one log.
struct Read<'a> {
    cluster: &'a Cluster,
    reader: &'a LogReader,
    collector: &'a Collector,
}

/// What a pod shows after its log was read.
enum Restarted {
    No,
    /// The pod could not be read.
    Unknown,
    /// Another log explains the problem now.
    Yes(Result<LogRequest, Tail>, i32),
}

impl Read<'_> {
    /// Reads the log of a container that was restarted so many times. If it was restarted since, the kubelet's present and
    /// previous log are those of other instances, so the pod is read again after the log.
    async fn tail(&self, mut request: LogRequest, mut restarts: i32) -> Tail {
        for _ in 0..=REREADS {
            let mut tail = self.reader.tail(&request).await;
            if matches!(tail.source, LogSource::TerminationMessage | LogSource::Unavailable) {
                // A termination message is part of the pod that was read.
                return tail;
            }
            match self.restarted(&request, restarts).await {
                Restarted::No => return tail,
                Restarted::Unknown => {
                    let separator = if tail.note.is_empty() { "" } else { "; " };
                    tail.note += &format!("{separator}it may be that of another run: the pod could not be read again");
                    return tail;
                }
                Restarted::Yes(Err(tail), _) => return tail,
                Restarted::Yes(Ok(next), count) => (request, restarts) = (next, count),
            }
        }
        Tail::unavailable("the container was restarted each time while its log was read")
    }

    async fn restarted(&self, request: &LogRequest, restarts: i32) -> Restarted {
        let path = ApiPod::url_path(&(), Some(&request.read.namespace));
        let Ok(get) = Request::new(path).get(&request.read.pod, &GetParams::default()) else {
            return Restarted::Unknown;
        };
        let text = match timeout(POD_TIMEOUT, self.cluster.client.request_text(get)).await {
            Ok(Ok(text)) => text,
            // The log is that of the pod until it was deleted.
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => return Restarted::No,
            _ => return Restarted::Unknown,
        };
        let Ok(mut pod) = serde_json::from_str::<Pod>(&text) else { return Restarted::Unknown };
        let gone = |note| Restarted::Yes(Err(Tail::unavailable(note)), 0);
        if pod.uid != request.read.instance.uid {
            return gone("the pod was replaced while its log was read");
        }
        let name = &*request.read.instance.container;
        let mut statuses = pod.init_statuses.iter().chain(&pod.statuses);
        if statuses.any(|status| status.name == *name && status.restarts == restarts) {
            return Restarted::No;
        }
        pod.update_history(None, self.collector.now);
        if let Health::Problem(finding) = self.collector.assess(&pod)
            && let Some(container) = finding.containers.iter().find(|container| container.name == *name)
        {
            return Restarted::Yes(LogRequest::plan(&pod, container, &request.policy), container.restarts);
        }
        gone("the container was restarted while its log was read")
    }
}
