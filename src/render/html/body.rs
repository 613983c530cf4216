//! What a page shows of a section below its headline: limits, common causes, workloads and the history.

use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    super::{document::Section, numbers::counted},
    fit::Shown,
    history,
    text::{began, head, instant, untrusted},
    workload::{self, Origin},
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

/// All parts, with at most `items` limits and `items` common causes.
pub(super) fn body(own: &Section, shown: &Shown<'_>, items: usize) -> Markup {
    let limits = limits(own, shown, items);
    html! {
        @if !limits.is_empty() {
            section class="notice" {
                (heading(own, "What this page does not show"))
                ul { @for limit in &limits { li { (untrusted(limit)) } } }
            }
        }
        (common_causes(own, items))
        (workloads(own, shown))
        @if let Some(history) = &own.status.history { (history::section(history)) }
    }
}

/// The heading of a part, which is below that of the page or of a cluster.
fn heading(own: &Section, text: &str) -> Markup {
    html! { @if own.context.is_some() { h3 { (text) } } @else { h2 { (text) } } }
}

/// What limits the page, a sentence each.
fn limits(own: &Section, shown: &Shown<'_>, items: usize) -> Vec<String> {
    let selection = own.status.is_selection.then(|| "Other pods and incidents were not selected.".to_owned());
    let omitted = Some(own.status.omitted_incidents).filter(|omitted| *omitted > 0);
    let omitted = omitted.map(|omitted| format!("The status omits {}.", counted(omitted, "incident")));
    let not_seen: Vec<_> = selection.into_iter().chain(own.not_seen.iter().cloned()).chain(omitted).collect();
    let mut limits: Vec<_> = not_seen.iter().take(items).cloned().collect();
    let mut containers = own.pods.iter().flat_map(|pod| &pod.container_issues).peekable();
    if containers.peek().is_some() && containers.all(|issue| issue.log_source.is_none()) {
        limits.push("Logs were not read.".to_owned());
    }
    let mut add = |count: usize, sentence: String| {
        if count > 0 {
            limits.push(sentence)
        }
    };
    let more = not_seen.len().saturating_sub(items);
    add(more, format!("and {}", counted(more, "more limit")));
    let (pods, all) = (shown.pods(), own.problematic_pod_count);
    add(all.saturating_sub(pods), format!("Only {pods} of {} with problems are shown in detail.", counted(all, "pod")));
    let omitted = shown.omitted_workloads;
    add(omitted, format!("This page leaves out {} with problems.", counted(omitted, "workload")));
    let (logs, limit) = (shown.shortened_logs, shown.log_bytes);
    add(logs, format!("Only the last {limit} bytes of {} are shown.", counted(logs, "log")));
    let causes = own.common_causes.len().saturating_sub(items);
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
fn workloads(own: &Section, shown: &Shown<'_>) -> Markup {
    let (open, origin) = (shown.workloads.len() <= OPEN_WORKLOADS, Origin::of(own));
    let numbered = || (shown.first_position..).zip(&shown.workloads);
    html! {
        @if !shown.workloads.is_empty() {
            section {
                (heading(own, "Overview"))
                table {
                    (head(&["Workload", "Reason", "Cause", "Pods", "Began", "What is known"]))
                    tbody {
                        @for (position, workload) in numbered() { (workload::rows(position, workload, origin)) }
                    }
                }
            }
            section {
                (heading(own, "Workloads"))
                @for (position, workload) in numbered() {
                    (workload::section(position, workload, origin, open, shown.log_bytes))
                }
            }
        }
    }
}
