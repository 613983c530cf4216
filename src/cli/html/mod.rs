//! The HTML report: one file that loads nothing and contains no script, for people who have no access to the cluster.
//!
//! Pure: the same report always gives the same page. Texts that come from a cluster are escaped by `maud` and cleaned by
//! [`text`]. The Content-Security-Policy of the page allows nothing but its own style sheet, so that no mistake here could
//! make a browser load or run anything.

mod commands;
mod fit;
mod history;
mod section;
mod text;
mod workloads;

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use ring::digest::{SHA256, digest};

use crate::{
    api::{CommonCause, Incident, NamespacedName, OrchestrStatus, PodProblem},
    version::version_and_revision,
};

use super::{
    show::text::{Health, health},
    timeline::Timeline,
};

use fit::Shown;
use text::{ago, counted, instant, untrusted};

const STYLE: &str = include_str!("style.css");
/// How many common causes, and how many limits, are shown.
const COMMON_CAUSES: usize = 20;
const LIMITS: usize = 20;
/// If there are no more workloads than this, the first pod of each is open.
const OPEN_WORKLOADS: usize = 10;

/// The content of a page.
#[derive(Clone, Debug)]
pub(super) struct Report<'a> {
    pub(super) verdict: Verdict,
    /// The answer in a few words, such as `9 of 328 pods have problems`.
    pub(super) headline: &'a str,
    /// The sentence that explains it; may be empty.
    pub(super) summary: &'a str,
    /// What was checked, such as `shop/cart` or `pods in shop namespace`.
    pub(super) subject: &'a str,
    /// When the pods were checked, if they were.
    pub(super) as_of: Option<Timestamp>,
    /// What was not seen, or what limits the answer in another way; a sentence each.
    pub(super) not_seen: Vec<String>,
    pub(super) common_causes: &'a [CommonCause],
    pub(super) incidents: Vec<&'a Incident>,
    pub(super) pods: Vec<&'a PodProblem>,
    /// How many pods should be in `pods`, which may be cut already.
    pub(super) problematic_pods: usize,
    pub(super) history: Option<&'a Timeline<'a>>,
    /// The version of this program.
    pub(super) version: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Healthy,
    Unhealthy,
    Unknown,
}

/// The part of PodsHealthy's message that explains the numbers: `4 CrashLoopBackOff (shop/cart)` of `4 of 9 pods: 4
/// CrashLoopBackOff (shop/cart)`.
pub(super) fn reasons(message: &str) -> &str {
    match message.split_once(": ") {
        Some((numbers, reasons)) if numbers.ends_with(" pods") || numbers.ends_with(" pod") => reasons,
        _ => message,
    }
}

/// The headline about pods with problems, such as `9 of 328 pods have problems`.
pub(super) fn headline(problematic: i64, watched: i64) -> String {
    match problematic {
        1 => format!("1 of {} has a problem", counted(watched, "pod")),
        _ => format!("{problematic} of {} have problems", counted(watched, "pod")),
    }
}

/// The headline if no pod has a problem.
pub(super) fn no_problems(watched: i64) -> String {
    format!("No problems: {}", counted(watched, "pod"))
}

/// Renders the page, which is less than 1 MB. Pods and the beginnings of logs that have no room are left out, and the page
/// says how many.
pub(super) fn render(report: &Report<'_>) -> String {
    let all = workloads::of(&report.incidents, &report.pods);
    let nothing =
        Shown { workloads: Vec::new(), omitted_workloads: usize::MAX, log_bytes: 0, shortened_logs: usize::MAX };
    let used = page(report, &nothing).into_string().len();
    page(report, &fit::fit(all, report.as_of, used)).into_string()
}

/// Renders a page with only the history of an object.
pub(super) fn render_history(object: &NamespacedName, status: &OrchestrStatus, timeline: &Timeline<'_>) -> String {
    let mut headline = timeline.headline();
    if let Some(first) = headline.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    render(&Report {
        verdict: match health(status) {
            Health::Unhealthy => Verdict::Unhealthy,
            Health::Healthy if timeline.is_known_until_now() => Verdict::Healthy,
            Health::Healthy | Health::Unknown => Verdict::Unknown,
        },
        headline: &headline,
        summary: "",
        subject: &format!("{}/{}", object.namespace, object.name),
        as_of: Some(timeline.until),
        not_seen: Vec::new(),
        common_causes: &[],
        incidents: Vec::new(),
        pods: Vec::new(),
        problematic_pods: 0,
        history: Some(timeline),
        version: version_and_revision(),
    })
}

fn page(report: &Report<'_>, shown: &Shown<'_>) -> Markup {
    let limits = limits(report, shown);
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        BASE64_STANDARD.encode(digest(&SHA256, STYLE.as_bytes()))
    );
    let tone = match report.verdict {
        Verdict::Healthy => "good",
        Verdict::Unhealthy => "bad",
        Verdict::Unknown => "unknown",
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="referrer" content="no-referrer";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (report.headline) " – Orchestr" }
                // The only text that is not escaped. It is a constant.
                style { (PreEscaped(STYLE)) }
            }
            body {
                header class=(tone) {
                    h1 { (report.headline) }
                    @if !report.summary.is_empty() { p { (untrusted(report.summary)) } }
                    p class="meta" {
                        (untrusted(report.subject)) ", "
                        @if let Some(time) = report.as_of { "as of " (instant(time)) } @else { "never checked" }
                    }
                }
                main {
                    @if !limits.is_empty() {
                        section class="notice" {
                            h2 { "What this page does not show" }
                            ul { @for limit in &limits { li { (untrusted(limit)) } } }
                        }
                    }
                    (common_causes(report))
                    (workloads(report, shown))
                    @if let Some(history) = report.history { (history::section(history)) }
                }
                footer { "Written by Orchestr " (report.version) ". kubectl commands use your current context." }
            }
        }
    }
}

/// What limits the page, a sentence each.
fn limits(report: &Report<'_>, shown: &Shown<'_>) -> Vec<String> {
    let mut limits: Vec<_> = report.not_seen.iter().take(LIMITS).cloned().collect();
    let mut containers = report.pods.iter().flat_map(|pod| &pod.container_issues).peekable();
    if containers.peek().is_some() && containers.all(|issue| issue.log_source.is_none()) {
        limits.push("Logs were not read.".to_owned());
    }
    let mut add = |count: usize, sentence: String| {
        if count > 0 {
            limits.push(sentence)
        }
    };
    let more = report.not_seen.len().saturating_sub(LIMITS);
    add(more, format!("and {more} more limits"));
    let (pods, all) = (shown.pods(), report.problematic_pods);
    add(all.saturating_sub(pods), format!("Only {pods} of the {all} pods with problems are shown in detail."));
    let omitted = shown.omitted_workloads;
    add(omitted, format!("{omitted} workloads with problems are left out."));
    let (logs, limit) = (shown.shortened_logs, shown.log_bytes);
    add(logs, format!("Only the last {limit} bytes of {logs} logs are shown."));
    let causes = report.common_causes.len().saturating_sub(COMMON_CAUSES);
    add(causes, format!("{causes} common causes are left out."));
    limits
}

fn common_causes(report: &Report<'_>) -> Markup {
    html! {
        @if !report.common_causes.is_empty() {
            section {
                h2 { "Common causes" }
                table {
                    thead {
                        tr {
                            th scope="col" { "Cause" } th scope="col" { "What is known" } th scope="col" { "Pods" }
                            th scope="col" { "Owners" } th scope="col" { "Began" }
                        }
                    }
                    tbody {
                        @for cause in report.common_causes.iter().take(COMMON_CAUSES) {
                            tr {
                                th scope="row" { (untrusted(&cause.kind)) " " (untrusted(&cause.name)) }
                                td { (untrusted(&cause.message)) }
                                td { (counted(cause.pods, "pod")) }
                                td { (counted(cause.owners, "owner")) }
                                td { (ago(cause.since.0, report.as_of)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// An overview, and the workloads with their pods.
fn workloads(report: &Report<'_>, shown: &Shown<'_>) -> Markup {
    let open = shown.workloads.len() <= OPEN_WORKLOADS;
    html! {
        @if !shown.workloads.is_empty() {
            section {
                h2 { "Overview" }
                table {
                    thead {
                        tr {
                            th scope="col" { "Workload" } th scope="col" { "Reason" } th scope="col" { "Cause" }
                            th scope="col" { "Pods" } th scope="col" { "Began" } th scope="col" { "What is known" }
                        }
                    }
                    tbody {
                        @for (index, workload) in shown.workloads.iter().enumerate() {
                            (section::rows(index + 1, workload, report.as_of))
                        }
                    }
                }
            }
            section {
                h2 { "Workloads" }
                @for (index, workload) in shown.workloads.iter().enumerate() {
                    (section::section(index + 1, workload, report.as_of, open, shown.log_bytes))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
