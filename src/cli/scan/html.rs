//! The result of a scan as a page.

use crate::{
    api::CommonCause,
    cli::html::{self, Clusters, FailedCluster, Verdict, headline, no_problems, reasons, render, render_clusters},
    report::{PodFinding, overview},
    version::version_and_revision,
};

use super::{
    counted,
    scanned::{Report, Results, Scanned, Unscanned, older},
};

/// What a cluster's part of the page is made of.
struct Content<'a> {
    scanned: &'a Scanned,
    /// The pods, as in the other formats.
    report: Report,
    verdict: Verdict,
    headline: String,
    summary: String,
    subject: String,
    common_causes: Vec<CommonCause>,
}

/// Renders the page.
pub(super) fn page(results: &Results) -> String {
    let contents: Vec<_> = results.scanned().map(Content::of).collect();
    if let ([content], false) = (contents.as_slice(), results.are_named) {
        return render(&content.report());
    }
    let failed = results.unscanned().map(|Unscanned { context, why }| FailedCluster { context, why: why.to_string() });
    let (verdict, answer) = answer_for_all(results);
    let place = results.scanned().next().map(place).unwrap_or_default();
    render_clusters(&Clusters {
        verdict,
        headline: &answer,
        subject: &format!("pods{place} of {}", counted(results.clusters.len() as u64, "cluster")),
        as_of: contents.iter().map(|content| content.report.now).max(),
        reports: contents.iter().map(Content::report).collect(),
        failed: failed.collect(),
        version: version_and_revision(),
    })
}

/// Such as ` in shop namespace`.
fn place(scanned: &Scanned) -> String {
    match scanned.collector.namespaces().place() {
        all if all.is_empty() => " in all namespaces".to_owned(),
        place => place,
    }
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The verdict and the headline about one cluster, or about all of which every pod was to be checked.
fn answer(problems: u64, pods: u64, undecodable: u64, older_pods: usize) -> (Verdict, String) {
    match (problems, undecodable, pods) {
        (0, 0, 1..) if older_pods > 0 => (Verdict::Unknown, "No recent problems found, but older ones".to_owned()),
        (1.., _, _) => (Verdict::Unhealthy, headline(number(problems), number(pods))),
        (0, 1.., _) => (Verdict::Unknown, "No problems found, but not every pod could be checked".to_owned()),
        (0, 0, 0) => (Verdict::Unknown, "No pods found".to_owned()),
        (0, 0, checked) => (Verdict::Healthy, no_problems(number(checked))),
    }
}

/// The same about all clusters, of which some may not have been checked.
fn answer_for_all(results: &Results) -> (Verdict, String) {
    let (checked, failed) = (results.scanned().count() as u64, results.unscanned().count());
    let all = counted(results.clusters.len() as u64, "cluster");
    if checked == 0 {
        return (Verdict::Unknown, "No cluster could be checked".to_owned());
    }
    let (problems, older_pods) = (results.problems() as u64, results.older_pods());
    let (verdict, answer) = answer(problems, results.pods(), results.undecodable(), older_pods);
    let unchecked = format!("{failed} of {all} could not be checked");
    match (failed, verdict) {
        (0, _) => (verdict, format!("{answer}, in {all}")),
        _ if problems > 0 || older_pods > 0 => (verdict, format!("{answer}; {unchecked}")),
        (_, _) => (Verdict::Unknown, format!("No problems found, but {unchecked}")),
    }
}

impl<'a> Content<'a> {
    fn of(scanned: &'a Scanned) -> Self {
        let collector = &scanned.collector;
        let problems: Vec<_> = collector.problems.iter().map(|(pod, finding)| PodFinding { pod, finding }).collect();
        let (message, common_causes) = overview(&problems, collector.pods, &|node| collector.pods_on_node(node));
        let count = problems.len() as u64;
        let (verdict, headline) = answer(count, collector.pods, collector.undecodable, collector.older_pods());
        Self {
            scanned,
            report: scanned.report(),
            verdict,
            headline,
            summary: if problems.is_empty() { String::new() } else { reasons(&message).to_owned() },
            subject: format!("pods{} of {}", place(scanned), collector.source),
            common_causes,
        }
    }

    fn report(&self) -> html::Report<'_> {
        let Self { scanned, report, .. } = self;
        let mut not_seen = scanned.unseen();
        let older_pods = scanned.collector.older_pods();
        if older_pods > 0 {
            not_seen.push(older(older_pods as u64));
        }
        html::Report {
            context: scanned.context.as_deref(),
            verdict: self.verdict,
            headline: &self.headline,
            summary: &self.summary,
            subject: &self.subject,
            as_of: Some(report.now),
            not_seen,
            common_causes: &self.common_causes,
            incidents: report.incidents.iter().collect(),
            pods: report.problematic_pods.iter().collect(),
            problematic_pods: report.problematic_pods.len(),
            history: None,
            version: version_and_revision(),
        }
    }
}
