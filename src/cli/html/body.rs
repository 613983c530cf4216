//! What a page shows of a report below its headline: limits, common causes, workloads and the history.

use maud::{Markup, html};

use super::{
    Report,
    fit::Shown,
    history, section,
    text::{ago, counted, instant, untrusted},
};

/// How many common causes, and how many limits, are shown if there is room for them.
pub(super) const ITEMS: usize = 20;
/// If there are no more workloads than this, the first pod of each is open.
const OPEN_WORKLOADS: usize = 10;

/// The sentences below a headline.
pub(super) fn subject(report: &Report<'_>) -> Markup {
    html! {
        @if !report.summary.is_empty() { p { (untrusted(report.summary)) } }
        p class="meta" {
            (untrusted(report.subject)) ", "
            @if let Some(time) = report.as_of { "as of " (instant(time)) } @else { "never checked" }
        }
    }
}

/// All parts, with at most `items` limits and `items` common causes.
pub(super) fn body(report: &Report<'_>, shown: &Shown<'_>, items: usize) -> Markup {
    let limits = limits(report, shown, items);
    html! {
        @if !limits.is_empty() {
            section class="notice" {
                (heading(report, "What this page does not show"))
                ul { @for limit in &limits { li { (untrusted(limit)) } } }
            }
        }
        (common_causes(report, items))
        (workloads(report, shown))
        @if let Some(history) = report.history { (history::section(history)) }
    }
}

/// The heading of a part, which is below that of the page or of a cluster.
fn heading(report: &Report<'_>, text: &str) -> Markup {
    html! { @if report.context.is_some() { h3 { (text) } } @else { h2 { (text) } } }
}

/// What limits the page, a sentence each.
fn limits(report: &Report<'_>, shown: &Shown<'_>, items: usize) -> Vec<String> {
    let mut limits: Vec<_> = report.not_seen.iter().take(items).cloned().collect();
    let mut containers = report.pods.iter().flat_map(|pod| &pod.container_issues).peekable();
    if containers.peek().is_some() && containers.all(|issue| issue.log_source.is_none()) {
        limits.push("Logs were not read.".to_owned());
    }
    let mut add = |count: usize, sentence: String| {
        if count > 0 {
            limits.push(sentence)
        }
    };
    let more = report.not_seen.len().saturating_sub(items);
    add(more, format!("and {more} more limits"));
    let (pods, all) = (shown.pods(), report.problematic_pods);
    add(all.saturating_sub(pods), format!("Only {pods} of the {all} pods with problems are shown in detail."));
    let omitted = shown.omitted_workloads;
    add(omitted, format!("{omitted} workloads with problems are left out."));
    let (logs, limit) = (shown.shortened_logs, shown.log_bytes);
    add(logs, format!("Only the last {limit} bytes of {logs} logs are shown."));
    let causes = report.common_causes.len().saturating_sub(items);
    add(causes, format!("{causes} common causes are left out."));
    limits
}

fn common_causes(report: &Report<'_>, items: usize) -> Markup {
    html! {
        @if !report.common_causes.is_empty() && items > 0 {
            section {
                (heading(report, "Common causes"))
                table {
                    thead {
                        tr {
                            th scope="col" { "Cause" } th scope="col" { "What is known" } th scope="col" { "Pods" }
                            th scope="col" { "Owners" } th scope="col" { "Began" }
                        }
                    }
                    tbody {
                        @for cause in report.common_causes.iter().take(items) {
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
    let (open, origin) = (shown.workloads.len() <= OPEN_WORKLOADS, report.origin());
    let numbered = || (shown.first_position..).zip(&shown.workloads);
    html! {
        @if !shown.workloads.is_empty() {
            section {
                (heading(report, "Overview"))
                table {
                    thead {
                        tr {
                            th scope="col" { "Workload" } th scope="col" { "Reason" } th scope="col" { "Cause" }
                            th scope="col" { "Pods" } th scope="col" { "Began" } th scope="col" { "What is known" }
                        }
                    }
                    tbody {
                        @for (position, workload) in numbered() { (section::rows(position, workload, origin)) }
                    }
                }
            }
            section {
                (heading(report, "Workloads"))
                @for (position, workload) in numbered() {
                    (section::section(position, workload, origin, open, shown.log_bytes))
                }
            }
        }
    }
}
