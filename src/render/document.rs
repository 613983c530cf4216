//! What a command found, as all formats show it.

use std::{cmp::Reverse, collections::HashMap, time::Duration};

use clap::ValueEnum;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use crate::{
    api::{Cause, CommonCause, ContainerIssue, Incident, LogSource, Owner, PodProblem, Severity},
    diagnosis::human_duration,
    report::{with_hint, with_log_line},
};

use super::{
    explanation::{Explanation, is_zero},
    numbers::{counted, counted_in_groups},
    safe::{log_line, printable},
    timeline::Timeline,
};

/// What a command found: of `scan` and `show` in one or several clusters, of `wait` about each target, of `explain` about a pod or
/// a workload.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// Whether each cluster is named, because several contexts or all of them were given.
    pub(crate) is_named: bool,
    /// The answer about all clusters in a sentence, such as `9 of 328 pods in shop namespace have problems.`
    pub(crate) summary: String,
    pub(crate) verdict: Verdict,
    /// The answer in a few words, such as `9 of 328 pods have problems`.
    pub(crate) headline: String,
    /// What was checked, such as `shop/cart` or `pods in shop namespace of 2 clusters`; of `wait` and `explain`, the namespace.
    pub(crate) subject: String,
    /// Into which groups the pods are counted.
    pub(crate) by: Option<By>,
    pub(crate) clusters: Vec<Result<Section, Unchecked>>,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) explanation: Option<Explanation>,
}

/// What the pods of a group have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "camelCase")]
pub(crate) enum By {
    /// The Deployment, StatefulSet or other controller that the pods belong to
    Owner,
    /// The reason, such as OOMKilled
    Reason,
    /// The proven cause, such as OutOfMemory
    Cause,
    /// The node that the pods are scheduled to
    Node,
    Namespace,
}

/// A cluster that could not be checked.
#[derive(Clone, Debug)]
pub(crate) struct Unchecked {
    pub(crate) context: String,
    pub(crate) why: String,
}

/// What was found in one cluster or file, or what the status of an object says. As JSON, it has the fields of a status.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Section {
    /// The context of the cluster, if each is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<String>,
    pub(crate) watched_pods: u64,
    /// How many pods have problems, including those that a status omits.
    pub(crate) problematic_pod_count: usize,
    pub(crate) unreadable_pods: u64,
    /// How many pods have problems that began before `--since`. Absent without the flag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) older_problematic_pods: Option<usize>,
    /// How many logs were not read because there are too many.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) omitted_logs: usize,
    pub(crate) incidents: Vec<Incident>,
    #[serde(rename = "problematicPods")]
    pub(crate) pods: Vec<PodProblem>,
    #[serde(skip)]
    pub(crate) verdict: Verdict,
    /// The answer in a few words, such as `9 of 328 pods have problems`.
    #[serde(skip)]
    pub(crate) headline: String,
    /// The sentence that explains the headline; may be empty.
    #[serde(skip)]
    pub(crate) summary: String,
    /// What was checked, such as `shop/cart` or `pods in shop namespace`.
    #[serde(skip)]
    pub(crate) subject: String,
    /// When the pods were checked, if they were.
    #[serde(skip)]
    pub(crate) as_of: Option<Timestamp>,
    /// The present time. If a status is shown, the pods were checked earlier.
    #[serde(skip)]
    pub(crate) now: Timestamp,
    /// What was not seen, or what limits the answer in another way; a sentence each.
    #[serde(skip)]
    pub(crate) not_seen: Vec<String>,
    #[serde(skip)]
    pub(crate) common_causes: Vec<CommonCause>,
    #[serde(skip)]
    pub(crate) status: StatusPart,
}

/// What only the status of an object has.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatusPart {
    /// What the status says about the health of the pods, in full.
    pub(crate) statement: String,
    pub(crate) extent: Extent,
    pub(crate) omitted_incidents: i64,
    pub(crate) omitted_pods: i64,
    /// Absent if nothing is known to have happened.
    pub(crate) history: Option<Timeline>,
}

/// What of a status is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Extent {
    #[default]
    All,
    /// Only some of its incidents and pods.
    Selected,
    History,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verdict {
    Healthy,
    Unhealthy,
    /// For instance because the pods could not be read.
    #[default]
    Unknown,
}

impl Document {
    /// About one cluster, file or object, which is not named.
    pub(crate) fn of(section: Section, summary: String) -> Self {
        let Section { verdict, headline, subject, .. } = &section;
        let (verdict, headline, subject) = (*verdict, headline.clone(), subject.clone());
        Self { summary, verdict, headline, subject, clusters: vec![Ok(section)], ..Self::default() }
    }

    pub(crate) fn sections(&self) -> impl Iterator<Item = &Section> {
        self.clusters.iter().filter_map(|cluster| cluster.as_ref().ok())
    }

    pub(crate) fn unchecked(&self) -> impl Iterator<Item = &Unchecked> {
        self.clusters.iter().filter_map(|cluster| cluster.as_ref().err())
    }

    /// The incidents of all clusters, those with most pods first, so that an output of a few incidents names the largest.
    pub(super) fn largest_first(&self) -> Vec<Entry<'_>> {
        let mut entries: Vec<_> = self.sections().flat_map(Section::entries).collect();
        entries.sort_by_key(|entry| Reverse(entry.incident.pods));
        entries
    }
}

/// An incident, and one of its pods: one with a log, or else the one whose problem began last.
pub(super) struct Entry<'a> {
    pub(super) section: &'a Section,
    pub(super) incident: &'a Incident,
    pub(super) example: Option<&'a PodProblem>,
}

impl Section {
    /// The incidents, the most recent first.
    pub(super) fn entries(&self) -> Vec<Entry<'_>> {
        let mut pods = HashMap::<_, Vec<&PodProblem>>::new();
        for pod in &self.pods {
            pods.entry((pod.namespace.as_str(), owner(pod), pod.kind)).or_default().push(pod);
        }
        let example = |Incident { namespace, owner, container, kind, .. }: &Incident| {
            let members = pods.get(&(namespace.as_str(), owner.clone(), *kind));
            let is_of = |pod: &&&PodProblem| {
                container.is_empty() || pod.container_issues.first().is_none_or(|issue| issue.name == *container)
            };
            let members = || members.into_iter().flatten().filter(is_of).copied();
            members().find(|pod| logs(pod).next().is_some()).or(members().next())
        };
        self.incidents.iter().map(|incident| Entry { section: self, incident, example: example(incident) }).collect()
    }
}

impl Entry<'_> {
    /// Such as `shop/cart (Deployment)`.
    pub(super) fn name(&self) -> String {
        let Incident { namespace, owner: Owner { kind, name }, .. } = self.incident;
        printable(&format!("{namespace}/{name} ({kind})"))
    }

    pub(super) fn message(&self) -> String {
        message(self.incident)
    }

    /// How long it has lasted.
    pub(super) fn age(&self) -> String {
        lasted(&self.incident.since, self.incident.since_at_latest, self.section.now)
    }

    /// Such as `3 pods for 15m, such as cart-a`.
    pub(super) fn extent(&self) -> String {
        let Incident { pods, example_pods, .. } = self.incident;
        let example = example_pods.first().map(|name| format!(", such as {}", printable(name))).unwrap_or_default();
        format!("{} for {}{example}", counted(*pods, "pod"), self.age())
    }
}

/// The owner of a pod. One without a controller is its own owner.
pub(super) fn owner(pod: &PodProblem) -> Owner {
    pod.owner.clone().unwrap_or_else(|| Owner { kind: "Pod".to_owned(), name: pod.name.clone() })
}

/// The name of a log by its source. Absent if there is no log.
pub(super) fn log_name(source: Option<LogSource>) -> Option<&'static str> {
    match source? {
        LogSource::Unavailable => None,
        LogSource::Current => Some("log"),
        LogSource::Previous => Some("log of the previous run"),
        LogSource::TerminationMessage => Some("termination message"),
    }
}

/// The logs of a pod, with a heading such as `log of the previous run of app`.
pub(super) fn logs(pod: &PodProblem) -> impl Iterator<Item = (String, &str)> {
    pod.container_issues.iter().filter_map(|issue| {
        let ContainerIssue { name, logs, log_source, log_note, .. } = issue;
        let note = in_parentheses(log_note);
        Some((printable(&format!("{} of {name}{note}", log_name(*log_source)?)), logs.as_str()))
    })
}

/// The same with `no log of app: why` if a log could not be read.
pub(super) fn logs_or_why_not(pod: &PodProblem) -> impl Iterator<Item = (String, &str)> {
    let unread = pod.container_issues.iter().filter(|issue| issue.log_source == Some(LogSource::Unavailable));
    logs(pod).chain(unread.map(|issue| (printable(&format!("no log of {}: {}", issue.name, issue.log_note)), "")))
}

/// ` (note)`, or nothing.
pub(super) fn in_parentheses(note: &str) -> String {
    if note.is_empty() { String::new() } else { format!(" ({note})") }
}

/// The lines of a log that can be printed.
pub(super) fn log_lines(log: &str) -> impl Iterator<Item = String> {
    log.lines().map(log_line)
}

/// The proven cause, if any.
pub(super) fn cause(cause: Cause) -> &'static str {
    if cause == Cause::Unknown { "" } else { cause.as_str() }
}

/// What explains an incident: the sentence, what may have been meant, and the line of the log that it quotes.
pub(super) fn sentence(incident: &Incident) -> String {
    with_log_line(&with_hint(&incident.message, &incident.hint), &incident.log_line)
}

/// The same on one line, safe for a terminal.
pub(crate) fn message(incident: &Incident) -> String {
    printable(&sentence(incident))
}

/// How many of the owner's pods are affected, such as `3 of 10 pods`.
pub(super) fn affected(incident: &Incident) -> String {
    match incident.of {
        ..=0 => counted(incident.pods, "pod"),
        of => format!("{} of {}", incident.pods, counted(of, "pod")),
    }
}

/// How severe an incident is and who is responsible for it, such as `critical, team checkout, runbook
/// https://runbooks.example/cart`. Empty if nothing is known but the usual severity. The texts may come from anyone.
pub(super) fn ownership(incident: &Incident) -> String {
    let severity = incident.severity.filter(|severity| *severity != Severity::Warning).map(Severity::as_str);
    let named = [("team", &incident.team), ("runbook", &incident.runbook), ("dashboard", &incident.dashboard)];
    let named = named.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| format!("{name} {value}"));
    severity.map(str::to_owned).into_iter().chain(named).collect::<Vec<_>>().join(", ")
}

/// How long ago a time is. The clock may be behind by seconds.
pub(super) fn age(time: Timestamp, now: Timestamp) -> String {
    human_duration(now.duration_since(time).max(SignedDuration::ZERO))
}

/// How long a problem has lasted: `4m`, or `at least 4m` if it may have begun before the pods show it.
pub(super) fn lasted(since: &Time, at_latest: bool, now: Timestamp) -> String {
    let age = age(since.0, now);
    if at_latest { format!("at least {age}") } else { age }
}

/// The same for a column of a table: `4m`, or `4m+`.
pub(super) fn lasted_in_table(since: &Time, at_latest: bool, now: Timestamp) -> String {
    let age = age(since.0, now);
    if at_latest { age + "+" } else { age }
}

/// Such as `12s` or `3m`.
pub(crate) fn length(duration: Duration) -> String {
    SignedDuration::try_from(duration).map(human_duration).unwrap_or_default()
}

/// The sentence about pods that `--since` leaves out.
pub(crate) fn older(pods: usize) -> String {
    let verb = if pods == 1 { "has an older problem" } else { "have older problems" };
    format!("{} {verb}, which --since leaves out", counted_in_groups(pods as u64, "pod"))
}

/// The headline about pods with problems, such as `9 of 328 pods have problems`.
pub(crate) fn headline(problematic: i64, watched: i64) -> String {
    let verb = if problematic == 1 { "has a problem" } else { "have problems" };
    format!("{problematic} of {} {verb}", counted(watched, "pod"))
}

/// The headline if no pod has a problem.
pub(crate) fn no_problems(watched: i64) -> String {
    format!("No problems: {}", counted(watched, "pod"))
}

/// The part of PodsHealthy's message that explains the numbers: `4 CrashLoopBackOff (shop/cart)` of `4 of 9 pods: 4
/// CrashLoopBackOff (shop/cart)`.
pub(crate) fn reasons(message: &str) -> &str {
    match message.split_once(": ") {
        Some((numbers, reasons)) if numbers.ends_with(" pods") || numbers.ends_with(" pod") => reasons,
        _ => message,
    }
}

/// How the wait for one target ended. The texts about the target are redacted, on one line, and safe for a terminal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// For example `deployment/cart`.
    pub(crate) target: String,
    pub(crate) end: End,
    /// How far it was.
    pub(crate) what: String,
    pub(crate) took: Duration,
    /// What is wrong with its pods, the cause of a failure first: of pods that have the same trouble, the first with its log.
    pub(crate) troubles: Vec<(Incident, PodProblem)>,
    /// How many pods have other troubles.
    pub(crate) more: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Failed(Fault),
    TimedOut,
    /// Another target failed before.
    Unfinished,
}

/// Why a target has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// A cause if it is known, otherwise the reason of a status. Never empty.
    pub(crate) code: String,
    /// One sentence.
    pub(crate) message: String,
}

impl Outcome {
    pub(super) fn fault(&self) -> Option<Fault> {
        match &self.end {
            End::Failed(fault) => Some(fault.clone()),
            End::TimedOut => Some(Fault { code: "TimedOut".to_owned(), message: self.what.clone() }),
            End::Done | End::Unfinished => None,
        }
    }
}

#[cfg(test)]
pub mod tests {
    use serde_json::json;

    use super::*;

    /// A section with these incidents and pods.
    pub(crate) fn section(context: Option<&str>, incidents: Vec<Incident>, pods: Vec<PodProblem>) -> Section {
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        Section {
            context: context.map(str::to_owned),
            watched_pods: 40,
            problematic_pod_count: pods.len(),
            incidents,
            pods,
            verdict: Verdict::Unhealthy,
            headline: "2 of 9 pods have problems".to_owned(),
            subject: "shop/cart".to_owned(),
            as_of: Some(now),
            now,
            ..Section::default()
        }
    }

    /// A document about these clusters, which are named if the first is.
    pub(crate) fn document(summary: &str, clusters: Vec<Result<Section, Unchecked>>) -> Document {
        Document {
            is_named: clusters.iter().any(|own| own.as_ref().map_or(true, |own| own.context.is_some())),
            summary: summary.to_owned(),
            verdict: Verdict::Unhealthy,
            headline: "2 of 9 pods have problems".to_owned(),
            subject: "shop/cart".to_owned(),
            clusters,
            ..Document::default()
        }
    }

    /// A document of `wait` in the namespace shop.
    pub(crate) fn waited(outcomes: Vec<Outcome>) -> Document {
        Document { subject: "shop".to_owned(), outcomes, ..Document::default() }
    }

    /// A cluster with an incident of three pods, one of which is listed with its log.
    pub(crate) fn out_of_memory(context: Option<&str>, name: &str, message: &str, log: &str) -> Section {
        let owner = json!({"kind": "Deployment", "name": name});
        let incident = json!({
            "key": "5f0c2a915f0c2a91", "kind": "Crash", "namespace": "shop", "owner": owner, "container": "app",
            "reason": "OOMKilled", "cause": "OutOfMemory", "message": message, "pods": 3, "since": "2026-03-01T11:00:00Z",
            "examplePods": ["cart-a"],
        });
        let pod = json!({
            "name": name, "namespace": "shop", "status": "CrashLoopBackOff", "kind": "Crash", "reason": "OOMKilled",
            "owner": owner, "since": "2026-03-01T11:00:00Z", "evidence": ["BackOff ×7"],
            "containerIssues": [{
                "name": "app", "type": "App", "state": "Waiting", "ready": false, "restarts": 7, "logs": log,
                "logSource": "Previous",
            }],
        });
        section(context, vec![serde_json::from_value(incident).unwrap()], vec![serde_json::from_value(pod).unwrap()])
    }

    /// A trouble of one pod, with a log. Each text is this one.
    pub(crate) fn trouble(text: &str, container: &str, source: LogSource) -> (Incident, PodProblem) {
        let section = out_of_memory(None, text, text, text);
        let (mut incident, mut pod) = (section.incidents[0].clone(), section.pods[0].clone());
        (incident.cause, incident.pods) = (Cause::ExitCode, 1);
        (pod.status, pod.cause, pod.evidence) = ("Error".to_owned(), Cause::ExitCode, vec![text.to_owned()]);
        let issue = &mut pod.container_issues[0];
        (issue.name, issue.log_source) = (container.to_owned(), Some(source));
        (incident, pod)
    }

    /// A wait whose target has one pod with a trouble. Each text is this one.
    pub(crate) fn outcome(text: &str, end: End) -> Outcome {
        Outcome {
            target: format!("deployment/{text}"),
            end,
            what: text.to_owned(),
            took: Duration::from_millis(4200),
            troubles: vec![trouble(text, "app", LogSource::Current)],
            more: 0,
        }
    }

    pub(crate) fn failed(code: &str, message: &str) -> End {
        End::Failed(Fault { code: code.to_owned(), message: message.to_owned() })
    }

    #[test]
    fn names_who_is_responsible() {
        let mut incident = out_of_memory(None, "cart", "", "").incidents.remove(0);
        incident.severity = Some(Severity::Warning);
        assert_eq!(ownership(&incident), "");
        incident.team = "checkout".to_owned();
        assert_eq!(ownership(&incident), "team checkout");
        incident.severity = Some(Severity::Critical);
        incident.runbook = "https://runbooks.example/cart".to_owned();
        incident.dashboard = "https://grafana.example/d/cart".to_owned();
        assert_eq!(
            ownership(&incident),
            "critical, team checkout, runbook https://runbooks.example/cart, dashboard https://grafana.example/d/cart"
        );
    }

    #[test]
    fn the_numbers_of_a_summary_are_not_repeated() {
        for (message, expected) in [
            ("9 of 328 pods: 4 Error (shop/cart)", "4 Error (shop/cart)"),
            ("1 of 1 pod: 1 Error: x", "1 Error: x"),
            (
                "0 of 9 pods have a problem; 3 are missing: FailedCreate",
                "0 of 9 pods have a problem; 3 are missing: FailedCreate",
            ),
            ("the operator may not list pods", "the operator may not list pods"),
        ] {
            assert_eq!(reasons(message), expected);
        }
    }
}
