//! What a page shows of a section below its headline: limits, common causes, workloads and the history.

use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    super::{
        document::{Extent, Section},
        numbers::counted,
    },
    fit::Part,
    history,
    text::{began, head, instant, untrusted},
    workload,
};

/// If there are no more workloads than this, the first pod of each is open.
const OPEN_WORKLOADS: usize = 10;

/// The sentences below a headline.
pub(super) fn header(own: &Section) -> Markup {
    html! {
        @if !own.summary.is_empty() { p { (untrusted(&own.summary)) } }
        (meta(&own.subject, own.as_of))
    }
}

/// What was checked, and when.
pub(super) fn meta(subject: &str, as_of: Option<Timestamp>) -> Markup {
    html! {
        p class="meta" {
            (untrusted(subject)) ", "
            @if let Some(time) = as_of { "as of " (instant(time)) } @else { "never checked" }
        }
    }
}

/// Everything below the header.
pub(super) fn body(part: &Part<'_>) -> Markup {
    let (own, limits) = (part.section, limits(part));
    html! {
        @if !limits.is_empty() {
            section class="notice" {
                (heading(own, "What this page does not show"))
                ul { @for limit in &limits { li { (untrusted(limit)) } } }
            }
        }
        (common_causes(own, part.items))
        (workloads(part))
        @if let Some(history) = &own.status.history { (history::section(history)) }
    }
}

/// The heading of a part. It is one level below the heading of the page or of the cluster.
fn heading(own: &Section, text: &str) -> Markup {
    html! { @if own.context.is_some() { h3 { (text) } } @else { h2 { (text) } } }
}

/// What limits the page, a sentence each.
fn limits(part: &Part<'_>) -> Vec<String> {
    let Part { section: own, items, omitted_workloads, log_bytes, shortened_logs, .. } = part;
    let selection =
        (own.status.extent == Extent::Selected).then(|| "Other pods and incidents were not selected.".to_owned());
    let omitted = Some(own.status.omitted_incidents).filter(|omitted| *omitted > 0);
    let omitted = omitted.map(|omitted| format!("The status omits {}.", counted(omitted, "incident")));
    let not_seen: Vec<_> = selection.into_iter().chain(own.not_seen.iter().cloned()).chain(omitted).collect();
    let mut limits: Vec<_> = not_seen.iter().take(*items).cloned().collect();
    let mut containers = own.pods.iter().flat_map(|pod| &pod.container_issues).peekable();
    if containers.peek().is_some() && containers.all(|issue| issue.log_source.is_none()) {
        limits.push("Logs were not read.".to_owned());
    }
    let mut add = |count: usize, sentence: String| {
        if count > 0 {
            limits.push(sentence)
        }
    };
    let more = not_seen.len().saturating_sub(*items);
    add(more, format!("and {}", counted(more, "more limit")));
    let (pods, all) = (part.pods(), own.problematic_pod_count);
    add(all.saturating_sub(pods), format!("Only {pods} of {} with problems are shown in detail.", counted(all, "pod")));
    let omitted = *omitted_workloads;
    add(omitted, format!("This page leaves out {} with problems.", counted(omitted, "workload")));
    let logs = *shortened_logs;
    add(logs, format!("Only the last {log_bytes} bytes of {} are shown.", counted(logs, "log")));
    let causes = own.common_causes.len().saturating_sub(*items);
    add(causes, format!("This page leaves out {}.", counted(causes, "common cause")));
    limits
}

fn common_causes(own: &Section, items: usize) -> Markup {
    html! {
        @if !own.common_causes.is_empty() && items > 0 {
            section {
                (heading(own, "Common causes"))
                table {
                    (head(&["Cause", "What is known", "Pods", "Owners", "Began"]))
                    tbody {
                        @for cause in own.common_causes.iter().take(items) {
                            tr {
                                th scope="row" { (untrusted(&cause.kind)) " " (untrusted(&cause.name)) }
                                td { (untrusted(&cause.message)) }
                                td { (counted(cause.pods, "pod")) }
                                td { (counted(cause.owners, "owner")) }
                                td { (began(&cause.since, cause.since_at_latest, own.as_of)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// An overview, and the workloads with their pods.
fn workloads(part: &Part<'_>) -> Markup {
    let (own, open) = (part.section, part.workloads.len() <= OPEN_WORKLOADS);
    html! {
        @if !part.workloads.is_empty() {
            section {
                (heading(own, "Overview"))
                table {
                    (head(&["Workload", "Reason", "Cause", "Pods", "Began", "What is known"]))
                    tbody { @for workload in &part.workloads { (workload::rows(own, workload)) } }
                }
            }
            section {
                (heading(own, "Workloads"))
                @for workload in &part.workloads { (workload::section(own, workload, open, part.log_bytes)) }
            }
        }
    }
}
