//! A page about several clusters: which of them were checked, and a report of each.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::report::even_share;

use super::{
    Report, Verdict, body,
    document::{Document, tone},
    fit::{self, Shown},
    text::{counted, instant, untrusted},
};

/// The part of the page for everything but workloads, pods and logs, in bytes.
const FRAMES: usize = 400_000;
/// The part of the page for the names of clusters that could not be checked, in bytes.
const FAILED: usize = 100_000;
/// How many limits and common causes of a cluster are shown: the most of these that have room, or none.
const ITEMS: [usize; 4] = [body::ITEMS, 10, 5, 1];

/// The content of a page about several clusters.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Clusters<'a> {
    pub(in crate::cli) verdict: Verdict,
    /// The answer for all clusters in a few words.
    pub(in crate::cli) headline: &'a str,
    /// What was checked, such as `pods in shop namespace of 2 clusters`.
    pub(in crate::cli) subject: &'a str,
    /// The time of the last check, if there was one.
    pub(in crate::cli) as_of: Option<Timestamp>,
    /// Of each cluster that was checked, with its context.
    pub(in crate::cli) reports: Vec<Report<'a>>,
    pub(in crate::cli) failed: Vec<FailedCluster<'a>>,
    /// The version of this program.
    pub(in crate::cli) version: &'a str,
}

/// A cluster that could not be checked.
#[derive(Clone, Debug)]
pub(in crate::cli) struct FailedCluster<'a> {
    pub(in crate::cli) context: &'a str,
    pub(in crate::cli) why: String,
}

/// A cluster that is shown.
struct Part<'a> {
    report: &'a Report<'a>,
    /// How many limits, and how many common causes, are shown.
    items: usize,
}

/// Renders the page, which is less than 1 MB. Clusters, pods and the beginnings of logs that have no room are left out, and
/// counted on the page.
pub(in crate::cli) fn render_clusters(clusters: &Clusters<'_>) -> String {
    let parts = parts(&clusters.reports);
    let nothing: Vec<_> = parts.iter().map(|_| Shown::NOTHING).collect();
    let used = page(clusters, &parts, &nothing).into_string().len();
    let shown = fit::fit(parts.iter().map(|part| part.report.content()).collect(), used);
    page(clusters, &parts, &shown).into_string()
}

/// The clusters that have room, in the order of the page. Those that are not healthy are chosen first.
fn parts<'a>(reports: &'a [Report<'a>]) -> Vec<Part<'a>> {
    let size = |number: usize, report: &'a Report<'a>, items: usize| (items, size(number, &Part { report, items }));
    let mut order: Vec<_> = (1..).zip(reports).collect();
    let share = even_share(order.iter().map(|(number, report)| size(*number, report, body::ITEMS).1).collect(), FRAMES);
    order.sort_by_key(|(_, report)| report.verdict == Verdict::Healthy);
    let mut room = FRAMES;
    let mut chosen = Vec::new();
    for (number, report) in order {
        let mut sizes = ITEMS.into_iter().map(|items| size(number, report, items));
        let (items, size) = sizes.find(|(_, size)| *size <= share).unwrap_or_else(|| size(number, report, 0));
        if let Some(rest) = room.checked_sub(size) {
            room = rest;
            chosen.push((number, Part { report, items }));
        }
    }
    chosen.sort_by_key(|(number, _)| *number);
    chosen.into_iter().map(|(_, part)| part).collect()
}

/// The size of the part of the page about a cluster, without its workloads.
fn size(number: usize, part: &Part<'_>) -> usize {
    html! { (row(number, part.report)) (article(number, part, &Shown::NOTHING)) }.into_string().len()
}

fn page(clusters: &Clusters<'_>, parts: &[Part<'_>], shown: &[Shown<'_>]) -> Markup {
    let omitted = clusters.reports.len() - parts.len();
    let failures = failures(&clusters.failed);
    let document = Document {
        verdict: clusters.verdict,
        headline: clusters.headline,
        header: html! {
            p class="meta" {
                (untrusted(clusters.subject)) ", "
                @if let Some(time) = clusters.as_of { "as of " (instant(time)) } @else { "never checked" }
            }
        },
        main: html! {
            @if !failures.is_empty() || omitted > 0 {
                section class="notice" {
                    h2 { "What this page does not show" }
                    ul {
                        @for failure in &failures { (failure) }
                        @let unnamed = clusters.failed.len() - failures.len();
                        @if unnamed > 0 { li { (clusters_of(unnamed, "more")) " that could not be checked" } }
                        @if omitted > 0 { li { (clusters_of(omitted, "checked")) " without room on this page" } }
                    }
                }
            }
            @if !parts.is_empty() {
                section {
                    h2 { "Clusters" }
                    table {
                        thead { tr { th scope="col" { "Cluster" } th scope="col" { "Result" } } }
                        tbody { @for (number, part) in (1..).zip(parts) { (row(number, part.report)) } }
                    }
                }
            }
            @for ((number, part), shown) in (1..).zip(parts).zip(shown) { (article(number, part, shown)) }
        },
        commands: "kubectl commands contain the context of the cluster.",
        version: clusters.version,
    };
    document.markup()
}

/// Such as `2 more clusters`.
fn clusters_of(count: usize, which: &str) -> String {
    counted(i64::try_from(count).unwrap_or(i64::MAX), &format!("{which} cluster"))
}

/// The clusters that could not be checked, as far as they have room.
fn failures(failed: &[FailedCluster<'_>]) -> Vec<Markup> {
    let mut room = FAILED;
    let items = failed.iter().map(|FailedCluster { context, why }| {
        html! { li { (untrusted(context)) " could not be checked: " (untrusted(why)) } }
    });
    items.take_while(|item| room.checked_sub(item.0.len()).inspect(|rest| room = *rest).is_some()).collect()
}

/// The row of a cluster in the table of all clusters.
fn row(number: usize, report: &Report<'_>) -> Markup {
    html! {
        tr {
            th scope="row" { a href={ "#c" (number) } { (name(report)) } }
            td class=[(report.verdict == Verdict::Unhealthy).then_some("reason")] { (report.headline) }
        }
    }
}

/// The report of a cluster.
fn article(number: usize, part: &Part<'_>, shown: &Shown<'_>) -> Markup {
    let Part { report, items } = part;
    html! {
        article class=(tone(report.verdict)) {
            h2 id={ "c" (number) } { (name(report)) ": " (report.headline) }
            (body::subject(report))
            (body::body(report, shown, *items))
        }
    }
}

fn name(report: &Report<'_>) -> Markup {
    untrusted(report.context.unwrap_or_default())
}
