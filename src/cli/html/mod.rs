//! The HTML report: one file that loads nothing and contains no script, for people who have no access to the cluster.
//!
//! Pure: the same report always gives the same page. Texts that come from a cluster are escaped by `maud` and cleaned by
//! [`text`]. The Content-Security-Policy of the page allows nothing but its own style sheet, so that no mistake here could
//! make a browser load or run anything.

mod body;
mod clusters;
mod commands;
mod document;
mod fit;
mod history;
mod section;
mod text;
mod workloads;

use jiff::Timestamp;
use maud::Markup;

use crate::{
    api::{CommonCause, Incident, NamespacedName, OrchestrStatus, PodProblem},
    version::version_and_revision,
};

use super::{
    show::text::{Health, health},
    timeline::Timeline,
};

pub(super) use clusters::{Clusters, FailedCluster, render_clusters};
use document::Document;
use fit::{Content, Shown};
use text::counted;

/// The content of a page, or of the part about one of several clusters.
#[derive(Clone, Debug)]
pub(super) struct Report<'a> {
    /// The context of the cluster, if the page is about several.
    pub(super) context: Option<&'a str>,
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

/// When and in which cluster workloads were checked.
#[derive(Clone, Copy, Debug)]
struct Origin<'a> {
    as_of: Option<Timestamp>,
    /// The context of the cluster, if the page is about several.
    context: Option<&'a str>,
}

impl<'a> Report<'a> {
    fn origin(&self) -> Origin<'a> {
        Origin { as_of: self.as_of, context: self.context }
    }

    fn content(&self) -> Content<'a> {
        Content { workloads: workloads::of(&self.incidents, &self.pods), origin: self.origin() }
    }
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

/// Renders the page, which is less than 1 MB. Pods and the beginnings of logs that have no room are left out, and
/// counted on the page.
pub(super) fn render(report: &Report<'_>) -> String {
    let used = page(report, &Shown::NOTHING).into_string().len();
    let mut shown = fit::fit(vec![report.content()], used);
    page(report, &shown.pop().unwrap_or(Shown::NOTHING)).into_string()
}

fn page(report: &Report<'_>, shown: &Shown<'_>) -> Markup {
    let document = Document {
        verdict: report.verdict,
        headline: report.headline,
        header: body::subject(report),
        main: body::body(report, shown, body::ITEMS),
        commands: "kubectl commands use your current context.",
        version: report.version,
    };
    document.markup()
}

/// Renders a page with only the history of an object.
pub(super) fn render_history(object: &NamespacedName, status: &OrchestrStatus, timeline: &Timeline<'_>) -> String {
    let mut headline = timeline.headline();
    if let Some(first) = headline.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    render(&Report {
        context: None,
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

#[cfg(test)]
mod tests;
