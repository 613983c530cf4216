//! What the outputs show of the troubles of a target, and the log that explains each.

use std::sync::Arc;

use arcstr::ArcStr;
use kube::Client;
use tokio::time::{Instant, timeout_at};

use crate::{
    api::{Incident, PodProblem},
    diagnosis::ContainerFinding,
    logs::{LogPolicy, LogReader, LogRequest, ReadLimits, Tail},
    pods::Pod,
    render::safe::clean,
    report::{PodFinding, in_full},
};

use super::outlook::Trouble;

const LATE: &str = "reading logs took too long";

/// Reads logs with the rights of the caller, cleans them and masks credentials.
pub(super) struct Logs {
    reader: LogReader,
    /// When no more logs are read.
    deadline: Instant,
    policy: Arc<LogPolicy>,
}

impl Logs {
    pub(super) fn new(client: Client, policy: Arc<LogPolicy>, deadline: Instant) -> Self {
        Self { reader: LogReader::new(client, ReadLimits::default()), deadline, policy }
    }

    /// The container that causes the trouble, and its log; none if the container never started.
    pub(super) async fn read(&self, trouble: &Trouble) -> Option<(ArcStr, Tail)> {
        let Trouble { pod, finding, .. } = trouble;
        let own = finding.containers.iter().find(|container| container.name == finding.container.as_str());
        let container = own.or(finding.containers.first())?;
        let Ok(request) = LogRequest::plan(pod, container, &self.policy) else { return None };
        let tail = timeout_at(self.deadline, self.reader.tail(&request)).await;
        Some((container.name.clone(), tail.unwrap_or_else(|_| Tail::unavailable(LATE))))
    }
}

/// Groups troubles that have the same cause. The log is that of the first of each group.
pub(super) fn groups(troubles: &[Trouble]) -> Vec<(&Trouble, usize)> {
    let mut groups: Vec<(&Trouble, usize)> = Vec::new();
    for trouble in troubles {
        let is_alike = |other: &Trouble| {
            let (one, other) = (&trouble.finding, &other.finding);
            one.container == other.container && one.explanation.message == other.explanation.message
        };
        match groups.iter_mut().find(|(first, _)| is_alike(first)) {
            Some((_, alike)) => *alike += 1,
            None => groups.push((trouble, 1)),
        }
    }
    groups
}

/// What the outputs show of a group of troubles: an incident of all its pods, and the pod of the first with its log.
pub(super) fn shown(
    trouble: &Trouble,
    alike: usize,
    hint: String,
    log: Option<(ArcStr, Tail)>,
) -> Option<(Incident, PodProblem)> {
    let Trouble { pod, finding, .. } = trouble;
    let tail = |_: &Pod, container: &ContainerFinding| {
        log.as_ref().filter(|(name, _)| *name == container.name).map(|(_, tail)| tail.clone())
    };
    let (incidents, pods) = in_full(&[PodFinding { pod, finding }], &|_| None, &tail);
    let (incident, pod) = incidents.into_iter().next().zip(pods.into_iter().next())?;
    let (message, pods) = (clean(&finding.explanation.message), i64::try_from(alike).unwrap_or(i64::MAX));
    Some((Incident { message, hint, pods, ..incident }, pod))
}
