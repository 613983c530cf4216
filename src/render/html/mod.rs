//! The HTML report: one file that loads nothing and contains no script, for people who have no access to the cluster.
//!
//! Pure: the same document always gives the same page. Texts that come from a cluster are escaped by `maud` and cleaned by
//! [`text`]. The Content-Security-Policy of the page allows nothing but its own style sheet, so that no mistake here could
//! make a browser load or run anything.

mod commands;
mod fit;
mod history;
mod section;
mod text;
mod workload;

use base64::{Engine, prelude::BASE64_STANDARD};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use ring::digest::{SHA256, digest};

use crate::version::version_and_revision;

use super::{
    document::{Document, Section, Unchecked, Verdict},
    numbers::counted,
};
use fit::Part;
use text::{head, untrusted};

const STYLE: &str = include_str!("style.css");
/// The part of the page for everything but workloads, pods and logs, in bytes.
const FRAMES: usize = 400_000;
/// The part of the page for the names of clusters that could not be checked, in bytes.
const FAILED: usize = 100_000;
/// How many limits and common causes of a cluster are shown: the most of these that have room, or none.
const ITEMS: [usize; 4] = [20, 10, 5, 1];

/// Renders the page, which is less than 1 MB. Clusters, pods and the beginnings of logs that have no room are left out, and
/// counted on the page.
pub(super) fn page(document: &Document) -> String {
    let mut parts = parts(document);
    let used = frame(document, &parts).into_string().len();
    fit::fit(&mut parts, used);
    frame(document, &parts).into_string()
}

/// The clusters that have room, in the order of the page, without their workloads. Those that are not healthy are chosen first.
fn parts(document: &Document) -> Vec<Part<'_>> {
    let mut sections: Vec<_> = (1..).zip(document.sections()).collect();
    let size = |number, section, items| {
        let part = Part::without_workloads(section, items);
        html! { (row(number, section)) (article(number, &part)) }.into_string().len()
    };
    let mut items = ITEMS.first().copied().unwrap_or_default();
    if document.is_named {
        let all = |items| sections.iter().map(|(number, section)| size(*number, section, items)).sum::<usize>();
        items = ITEMS.into_iter().find(|items| all(*items) <= FRAMES).unwrap_or(0);
        sections.sort_by_key(|(_, section)| section.verdict == Verdict::Healthy);
        let mut room = FRAMES;
        sections.retain(|(number, section)| {
            let rest = room.checked_sub(size(*number, section, items));
            room = rest.unwrap_or(room);
            rest.is_some()
        });
        sections.sort_by_key(|(number, _)| *number);
    }
    sections.into_iter().map(|(_, section)| Part::without_workloads(section, items)).collect()
}

/// The page, with its head, the policy and the style sheet.
fn frame(document: &Document, parts: &[Part<'_>]) -> Markup {
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        BASE64_STANDARD.encode(digest(&SHA256, STYLE.as_bytes()))
    );
    let commands = match document.is_named {
        true => "kubectl commands contain the context of the cluster.",
        false => "kubectl commands use your current context.",
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="referrer" content="no-referrer";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (document.headline) " – Orchestr" }
                // The only text that is not escaped. It is a constant.
                style { (PreEscaped(STYLE)) }
            }
            body {
                header class=(tone(document.verdict)) {
                    h1 { (document.headline) }
                    @match parts.first().filter(|_| !document.is_named) {
                        Some(part) => (section::header(part.section)),
                        None => (section::meta(&document.subject, document.sections().filter_map(|own| own.as_of).max())),
                    }
                }
                main {
                    @if document.is_named { (clusters(document, parts)) }
                    @for (number, part) in (1..).zip(parts) {
                        @if document.is_named { (article(number, part)) } @else { (section::body(part)) }
                    }
                }
                footer { "Written by Orchestr " (version_and_revision()) ". " (commands) }
            }
        }
    }
}

/// The class of a header.
fn tone(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Healthy => "good",
        Verdict::Unhealthy => "bad",
        Verdict::Unknown => "unknown",
    }
}

/// Which clusters were checked, and which were not.
fn clusters(document: &Document, parts: &[Part<'_>]) -> Markup {
    let omitted = document.sections().count() - parts.len();
    let failures = failures(document);
    let unnamed = document.unchecked().count() - failures.len();
    html! {
        @if !failures.is_empty() || omitted > 0 {
            section class="notice" {
                h2 { "What this page does not show" }
                ul {
                    @for failure in &failures { (failure) }
                    @if unnamed > 0 { li { (clusters_of(unnamed, "more")) " that could not be checked" } }
                    @if omitted > 0 { li { (clusters_of(omitted, "checked")) " without room on this page" } }
                }
            }
        }
        @if !parts.is_empty() {
            section {
                h2 { "Clusters" }
                table {
                    (head(&["Cluster", "Result"]))
                    tbody { @for (number, part) in (1..).zip(parts) { (row(number, part.section)) } }
                }
            }
        }
    }
}

/// Such as `2 more clusters`.
fn clusters_of(count: usize, which: &str) -> String {
    counted(count, &format!("{which} cluster"))
}

/// The clusters that could not be checked. The last ones are left out if there is no room.
fn failures(document: &Document) -> Vec<Markup> {
    let mut room = FAILED;
    let items = document.unchecked().map(|Unchecked { context, why }| {
        html! { li { (untrusted(context)) " could not be checked: " (untrusted(why)) } }
    });
    items.take_while(|item| room.checked_sub(item.0.len()).inspect(|rest| room = *rest).is_some()).collect()
}

/// The row of a cluster in the table of all clusters.
fn row(number: usize, section: &Section) -> Markup {
    html! {
        tr {
            th scope="row" { a href={ "#c" (number) } { (name(section)) } }
            td class=[(section.verdict == Verdict::Unhealthy).then_some("reason")] { (section.headline) }
        }
    }
}

/// The report of a cluster.
fn article(number: usize, part: &Part<'_>) -> Markup {
    let section = part.section;
    html! {
        article class=(tone(section.verdict)) {
            h2 id={ "c" (number) } { (name(section)) ": " (section.headline) }
            (section::header(section))
            (section::body(part))
        }
    }
}

fn name(section: &Section) -> Markup {
    untrusted(section.context.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests;
