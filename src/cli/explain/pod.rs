//! Explains one pod.

use std::collections::HashMap;

use arcstr::ArcStr;
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event as ApiEvent, Node, Pod as ApiPod, PodSpec};
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::{
    api::LogSource,
    cli::live::ClusterView,
    diagnosis::{ContainerFinding, Finding, Health, Thresholds, assess, kubectl_status, owner},
    facts::{self, Answer, Question},
    logs::{LogReader, LogRequest, ReadLimits, Tail},
    pods::Pod,
    render::safe::{clean, printable},
    report::{PodFinding, in_full},
};

use super::{
    describe::{self, containers},
    events::{self, SHOWN, seconds},
    explanation::{NodePart, PodPart, State},
    objects::{self, references},
    reader::{Read, Reader, TIMEOUT},
};

/// A pod as it was read.
pub(super) struct Subject {
    pub(super) pod: Pod,
    /// The fields that the diagnosis does not use; absent if they cannot be decoded.
    spec: Option<PodSpec>,
    pub(super) uid: String,
}

impl Subject {
    /// Decodes a pod.
    ///
    /// # Errors
    /// If the fields that the diagnosis uses cannot be decoded. The error does not quote them.
    pub(super) fn decode(json: &str) -> Result<Self, String> {
        let pod = crate::pods::from_json(json).map_err(|error| error.to_string())?;
        let object: Option<ApiPod> = serde_json::from_str(json).ok();
        let uid = object.as_ref().and_then(|object| object.metadata.uid.clone());
        Ok(Self { uid: uid.unwrap_or_else(|| pod.uid.to_string()), spec: object.and_then(|object| object.spec), pod })
    }

    /// Reads a pod of a workload again, with all of its fields.
    pub(super) async fn read(reader: &Reader<'_>, name: &str) -> Option<Self> {
        let json: Box<RawValue> = reader.get::<ApiPod, _>(name).await.found()?;
        Self::decode(json.get()).inspect_err(|error| reader.not_read(&format!("Pod {name}"), error)).ok()
    }
}

/// A pod with its explanation.
pub(super) struct ExplainedPod {
    pub(super) pod: Pod,
    pub(super) part: PodPart,
    pub(super) finding: Option<Finding>,
}

/// How many logs of a pod are read.
const LOGS: usize = 4;

/// Reads the events about a pod, and about its claims while it is not scheduled.
pub(super) async fn read_events(reader: &Reader<'_>, subject: &Subject) -> (Vec<ApiEvent>, bool) {
    let what = format!("Pod {}", subject.pod.name);
    let (mut events, more) = events::read(reader, &what, &subject.uid).await.unwrap_or_default();
    for (claim, _) in Question::claims(&subject.pod) {
        events.extend(events::of_claim(reader, &claim).await);
    }
    (events, more)
}

/// Reads what verdicts have needed to see why no node takes a pod. Returns whether there was anything to read. That nodes or
/// claims may not be read is not noted: the scheduler's words remain.
pub(super) async fn read_placement(reader: &Reader<'_>, view: &mut ClusterView) -> bool {
    let mut is_any = false;
    // Jobs, revisions and events are read before.
    let is_placement = |own: &Question| {
        use Question::{Claim, LimitChanges, Nodes, PortHolders, Preemptions};
        matches!(own, LimitChanges { .. } | Nodes | Claim { .. } | Preemptions(_) | PortHolders(_))
    };
    while let Some(question) = view.next_question(is_placement) {
        is_any = true;
        let Ok((_permit, _)) = reader.begin().await else { break };
        let (answer, _) = facts::read(reader.client(), &question, TIMEOUT).await;
        let why = match &answer {
            Answer::Denied(_) => Some(format!("not allowed: list pods in {}", reader.namespace)),
            Answer::Unavailable => Some("the API server did not answer".to_owned()),
            Answer::Read(_) | Answer::Gone => None,
        };
        if let (Question::PortHolders(namespace), Some(why)) = (&question, why) {
            reader.not_read(&format!("the other pods of {namespace}"), &why);
        }
        view.answered(&question, answer);
    }
    is_any
}

/// Judges a pod by what the view knows, and reads what explains its problem.
pub(super) async fn explain(
    reader: &Reader<'_>,
    subject: Subject,
    (all_events, more_events): (Vec<ApiEvent>, bool),
    view: &mut ClusterView,
) -> ExplainedPod {
    let (Subject { mut pod, spec, .. }, now) = (subject, reader.now);
    pod.update_history(None, now);
    let watched = |event: &ApiEvent| serde_json::from_value(serde_json::to_value(event).ok()?).ok();
    all_events.iter().filter_map(watched).for_each(|event| view.add_event(event));
    let mut verdict = assess(&pod, &view.as_known(), &Thresholds::default(), now);
    if read_placement(reader, view).await {
        verdict = assess(&pod, &view.as_known(), &Thresholds::default(), now);
    }
    let (state, finding) = match verdict.health {
        Health::Healthy => (State::Healthy, None),
        Health::Settling => (State::Settling, None),
        Health::Problem(finding) => (State::Problem, Some(*finding)),
    };
    let kind = finding.as_ref().map(|finding| finding.kind);
    let spec = spec.as_ref().filter(|_| state != State::Healthy);
    let wanted = spec.map(|spec| references(&pod.name, spec, kind)).unwrap_or_default();
    let logs = async {
        match &finding {
            Some(finding) => logs(reader, &pod, finding).await,
            None => HashMap::new(),
        }
    };
    let node = async { if state == State::Healthy { None } else { node(reader, &pod.node).await } };
    let (tails, node_state, objects) = futures::join!(logs, node, objects::read(reader, wanted));
    let (explanation, log_line, problem) = match &finding {
        Some(finding) => {
            let finding = PodFinding { pod: &pod, finding };
            let (incidents, rows) = in_full(&[finding], &|_| None, &|_, container| tails.get(&container.name).cloned());
            let incident = incidents.into_iter().next();
            let texts = incident.map(|incident| (printable(&incident.message), printable(&incident.log_line)));
            let (explanation, log_line) = texts.unwrap_or_default();
            (explanation, log_line, rows.into_iter().next())
        }
        None => (String::new(), String::new(), None),
    };
    let hint = match &finding {
        Some(finding) => reader.hint(finding.explanation.cause, &finding.explanation.message).await,
        None => String::new(),
    };
    let since = finding.as_ref().map(|finding| finding.since).or_else(|| healthy_since(&pod, state));
    let part = PodPart {
        name: printable(&pod.name),
        status: clean(&kubectl_status(&pod)),
        state,
        since: since.map(seconds),
        since_at_latest: finding.as_ref().is_some_and(|finding| finding.since_at_latest),
        until: verdict.recheck.filter(|_| state == State::Settling).map(seconds),
        ignored: pod.ignored,
        created: pod.created.map(seconds),
        node: clean(&pod.node),
        owner: owner(&pod).map(Into::into),
        explanation,
        log_line,
        hint,
        also: finding
            .iter()
            .flat_map(|finding| &finding.others)
            .map(|other| clean(&other.explanation.message))
            .collect(),
        problem,
        containers: containers(&pod),
        conditions: describe::conditions(&pod),
        objects,
        node_state,
        events: events::newest(&all_events, more_events, SHOWN),
    };
    ExplainedPod { pod, part, finding }
}

async fn node(reader: &Reader<'_>, name: &str) -> Option<NodePart> {
    if name.is_empty() {
        return None;
    }
    match reader.get_cluster_wide::<Node>(name).await {
        Read::Found(object) => Some(describe::node(name, Some(&object))),
        Read::Missing => Some(describe::node(name, None)),
        Read::Unread => None,
    }
}

/// Since when a healthy pod is ready, or when it completed.
fn healthy_since(pod: &Pod, state: State) -> Option<Timestamp> {
    if state != State::Healthy {
        return None;
    }
    let ends = || pod.statuses.iter().filter_map(|status| status.state.terminated.as_ref()?.finished);
    let ready = pod.condition("Ready").filter(|ready| ready.status == "True");
    match &*pod.phase {
        "Succeeded" => ends().max(),
        _ => ready.and_then(|ready| ready.since).or(pod.started),
    }
}

/// The logs of the containers in trouble, by container.
async fn logs(reader: &Reader<'_>, pod: &Pod, finding: &Finding) -> HashMap<ArcStr, Tail> {
    let reads = LogReader::new(reader.client().clone(), ReadLimits::default());
    let tails = finding
        .containers
        .iter()
        .take(LOGS)
        .map(async |container| (container.name.clone(), log(reader, &reads, pod, container).await));
    join_all(tails).await.into_iter().collect()
}

async fn log(reader: &Reader<'_>, logs: &LogReader, pod: &Pod, container: &ContainerFinding) -> Tail {
    let request = match LogRequest::plan(pod, container, &reader.log_policy) {
        Err(tail) => return tail,
        Ok(request) => request,
    };
    let what = format!("the log of {}", clean(&container.name));
    let (_permit, within) = match reader.begin().await {
        Ok(begun) => begun,
        Err(why) => {
            reader.not_read(&what, &why);
            return Tail::unavailable(why);
        }
    };
    let Ok(tail) = timeout(within, logs.tail(&request)).await else {
        let why = format!("no response within {} s", within.as_secs().max(1));
        reader.not_read(&what, &why);
        return Tail::unavailable(why);
    };
    let is_shown = !matches!(tail.source, LogSource::Unavailable | LogSource::TerminationMessage);
    if !is_shown && tail.note.starts_with("not allowed: ") {
        reader.not_read(&what, &format!("not allowed: get pods/log in {}", reader.namespace));
    }
    tail
}
