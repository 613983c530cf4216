//! `orchestr explain`: prints everything that is known about a pod or a workload, with the rights of the caller.
//!
//! `pod` and `workload` read and judge, and yield an [`Explanation`]. A request that fails ends nothing: the explanation
//! lists it.

mod describe;
mod events;
mod objects;
mod pod;
mod reader;
mod workload;

use std::{cmp::Reverse, process::ExitCode};

use clap::{Args, ValueEnum};

use crate::{
    api::Incident,
    diagnosis::Finding,
    pods::Pod,
    render::{
        Format,
        document::Document,
        explanation::{self, Explanation, PodPart, State, WorkloadPart},
    },
    report::{PodFinding, in_full},
};

use super::{
    Failure,
    connect::{Cluster, Retries},
    flags::{ConnectedNamespace, ObjectFlags},
    kind::{Argument, Kind, argument, name_of_object},
    live::ClusterView,
    process::print_document,
    workload::Workload,
};
use pod::{ExplainedPod, Subject, read_events, read_placement};
use reader::{Reader, TIMEOUT};
use workload::{FoundCronJob, Gathered, Verdicts, read_cron_job};

/// The exit code if there is a problem, as of `scan`.
const PROBLEM: u8 = 1;
/// The exit code if it is unknown whether there is one, as of `scan`.
const UNKNOWN: u8 = 2;
/// Of how many incidents of a workload a pod is explained.
const EXAMPLES: usize = 3;

/// The kinds that are explained. A CronJob is explained by its newest run.
const KINDS: [Kind; 6] = [Kind::Deployment, Kind::StatefulSet, Kind::DaemonSet, Kind::Job, Kind::CronJob, Kind::Pod];

/// The flags of `orchestr explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainFlags {
    /// A pod by its name, or a deployment, statefulset, daemonset, job, cronjob or pod as KIND/NAME, such as deploy/cart
    #[arg(value_name = "POD|KIND/NAME", value_parser = target)]
    target: (Kind, String),

    /// The output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,

    #[command(flatten)]
    objects: ObjectFlags,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Text
    #[default]
    Text,
    /// JSON
    Json,
}

/// Parses `POD` or `KIND/NAME`.
fn target(text: &str) -> Result<(Kind, String), String> {
    match argument(text, "explained", &KINDS)? {
        Argument::Named(kind, name) => Ok((kind, name)),
        Argument::Word(name) => Ok((Kind::Pod, name_of_object(&name)?)),
    }
}

pub(super) async fn explain(flags: ExplainFlags) -> Result<ExitCode, Failure> {
    let document = document(&flags).await?;
    let format = match flags.output {
        Output::Text => Format::Text { log_lines: usize::MAX },
        Output::Json => Format::Json,
    };
    print_document(&document, format)?;
    Ok(match document.explanation.map_or(State::Unknown, |explanation| explanation.state) {
        State::Problem => ExitCode::from(PROBLEM),
        State::Unknown => ExitCode::from(UNKNOWN),
        State::Healthy | State::Running | State::Settling => ExitCode::SUCCESS,
    })
}

pub(super) async fn document(flags: &ExplainFlags) -> Result<Document, Failure> {
    let connected = flags.objects.connect(Retries::InTheClient).await?;
    let explanation = gather(flags, &connected).await?;
    Ok(Document { subject: explanation.namespace.clone(), explanation: Some(explanation), ..Document::default() })
}

async fn gather(flags: &ExplainFlags, connected: &ConnectedNamespace) -> Result<Explanation, Failure> {
    let ConnectedNamespace { cluster, clock, namespace } = connected;
    let (kind, name) = &flags.target;
    let target = format!("{}/{name}", kind.singular());
    let reader = Reader::new(&cluster.client, namespace, clock.now(), flags.objects.log_policy());
    let (state, workload, pods) = match kind {
        Kind::CronJob => {
            let FoundCronJob { newest, what } = read_cron_job(cluster, namespace, name).await?;
            let name = target.clone();
            match newest {
                None => {
                    let progress = format!("it {what}, and none of its Jobs exists");
                    (State::Healthy, Some(WorkloadPart { name, progress, ..WorkloadPart::default() }), Vec::new())
                }
                Some(job) => {
                    let (state, mut run, pods) = object(cluster, &reader, Kind::Job, &job).await?;
                    if let Some(run) = &mut run {
                        run.progress = format!("the newest run of {target}, which {what}: {}", run.progress);
                    }
                    (state, run, pods)
                }
            }
        }
        kind => object(cluster, &reader, *kind, name).await?,
    };
    let (time, not_read) = (events::seconds(reader.now), reader.into_unread());
    Ok(Explanation { target, namespace: namespace.clone(), time, state, workload, pods, not_read })
}

/// The state of an object, its workload or itself, and pods.
type Explained = (State, Option<WorkloadPart>, Vec<PodPart>);

async fn object(cluster: &Cluster, reader: &Reader<'_>, kind: Kind, name: &str) -> Result<Explained, Failure> {
    let json = cluster.get(kind, reader.namespace, name, TIMEOUT).await?;
    let workload = Workload::decode(kind, &json);
    match workload.map_err(|error| cluster.target.describe(&kube::Error::SerdeError(error)))? {
        Some(own) => Ok(explain_workload(reader, own).await),
        None => {
            let subject = Subject::decode(&json);
            let undecodable = |error| Failure::new(format!("the pod {name} cannot be decoded: {error}"));
            Ok(explain_pod(reader, subject.map_err(undecodable)?).await)
        }
    }
}

/// Explains a pod, with the state of its workload.
async fn explain_pod(reader: &Reader<'_>, subject: Subject) -> Explained {
    let (events, mut workload) = futures::join!(read_events(reader, &subject), workload::of_pod(reader, &subject.pod));
    let mut siblings = ClusterView::default();
    if workload.is_none() {
        siblings = workload::siblings(reader, &subject.pod).await;
    }
    let view = workload.as_mut().map_or(&mut siblings, |workload| &mut workload.view);
    let ExplainedPod { part, pod, .. } = pod::explain(reader, subject, events, view).await;
    let workload = workload.map(|workload| WorkloadPart {
        name: workload.name(),
        progress: workload.progress().0,
        pods: workload.verdicts(reader.now).map(|verdicts| verdicts.counts),
        revision: workload.revision(Some(&pod)),
        ..WorkloadPart::default()
    });
    (part.state, workload, vec![part])
}

/// Explains a workload, with one pod of each of its largest incidents.
async fn explain_workload(reader: &Reader<'_>, workload: Workload) -> Explained {
    let mut workload = workload::gather(reader, workload).await;
    let (events, more) = workload.events(reader).await;
    let missing_pods = workload.missing(reader, &events).await;
    let mut verdicts = workload.verdicts(reader.now);
    if read_placement(reader, &mut workload.view).await {
        verdicts = workload.verdicts(reader.now);
    }
    let state = workload.state(verdicts.as_ref(), missing_pods.is_some());
    let (counts, mut problems) = verdicts.map(|Verdicts { counts, problems }| (counts, problems)).unzip();
    let problems = problems.get_or_insert_default();
    let pods = examples(reader, &mut workload, problems).await;
    let mut incidents = incidents(problems);
    if let Some(counts) = &counts {
        let total = i64::try_from(counts.total).unwrap_or(i64::MAX);
        incidents.iter_mut().for_each(|incident| incident.of = total);
    }
    let part = WorkloadPart {
        name: workload.name(),
        progress: workload.progress().0,
        pods: counts,
        revision: workload.revision(None),
        missing_pods,
        incidents,
        events: events::newest(&events, more, events::SHOWN),
    };
    (state, Some(part), pods)
}

/// Explains a pod of each of the largest incidents. What its events prove is also added to the findings.
async fn examples(reader: &Reader<'_>, workload: &mut Gathered, problems: &mut [(Pod, Finding)]) -> Vec<PodPart> {
    let names: Vec<String> =
        incidents(problems).into_iter().filter_map(|incident| incident.example_pods.into_iter().next()).collect();
    let mut parts = Vec::new();
    for name in names.into_iter().take(EXAMPLES) {
        let Some(subject) = Subject::read(reader, &name).await else { continue };
        let events = read_events(reader, &subject).await;
        let ExplainedPod { pod, part, finding } = pod::explain(reader, subject, events, &mut workload.view).await;
        let known = problems.iter_mut().find(|(own, _)| own.uid == pod.uid);
        if let (Some(known), Some(finding)) = (known, finding) {
            *known = (pod, finding);
        }
        parts.push(part);
    }
    parts
}

/// The incidents of these pods, the largest first.
fn incidents(problems: &[(Pod, Finding)]) -> Vec<Incident> {
    let findings: Vec<_> = problems.iter().map(|(pod, finding)| PodFinding { pod, finding }).collect();
    let (mut incidents, _) = in_full(&findings, &|_| None, &|_, _| None);
    incidents.sort_by_key(|incident| Reverse(incident.pods));
    incidents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_a_pod_or_a_workload() {
        for (text, kind) in [
            ("cart", Kind::Pod),
            ("pod/cart", Kind::Pod),
            ("po/cart", Kind::Pod),
            ("deploy/cart", Kind::Deployment),
            ("statefulsets.apps/cart", Kind::StatefulSet),
            ("ds/cart", Kind::DaemonSet),
            ("Job/cart", Kind::Job),
        ] {
            assert_eq!(target(text), Ok((kind, "cart".to_owned())), "{text}");
        }
        for text in ["cronjob/cart", "cj/cart", "CronJob/cart", "cronjobs.batch/cart"] {
            assert_eq!(target(text), Ok((Kind::CronJob, "cart".to_owned())), "{text}");
        }
        for (text, message) in [
            ("", "\"\" is not the name of an object"),
            ("Cart", "\"Cart\" is not the name of an object"),
            ("deploy/", "\"\" is not the name of an object"),
            ("deploy/../secrets", "\"../secrets\" is not the name of an object"),
            ("cart\u{1b}[2J", "\"cart\\u{1b}[2J\" is not the name of an object"),
        ] {
            assert_eq!(target(text), Err(message.to_owned()), "{text}");
        }
        assert!(target("service/cart").unwrap_err().starts_with("is of a kind that cannot be explained: deployment,"));
    }
}
