//! The result of a scan as a page.

use crate::{
    cli::html::{Report, Verdict, headline, no_problems, reasons, render},
    report::{PodFinding, overview},
    version::version_and_revision,
};

use super::scanned::{Scanned, older};

/// Renders the page. The pods are shown as in the other formats.
pub(super) fn page(scanned: &Scanned) -> String {
    let collector = &scanned.collector;
    let report = scanned.report();
    let problems: Vec<_> = collector.problems.iter().map(|(pod, finding)| PodFinding { pod, finding }).collect();
    let (message, common_causes) = overview(&problems, collector.pods, &|node| collector.pods_on_node(node));
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let (verdict, headline) = match (problems.len(), collector.undecodable, collector.pods) {
        (0, 0, 1..) if collector.older_pods() > 0 => {
            (Verdict::Unknown, "No recent problems found, but older ones".to_owned())
        }
        (1.., _, _) => (Verdict::Unhealthy, headline(count(problems.len() as u64), count(collector.pods))),
        (0, 1.., _) => (Verdict::Unknown, "No problems found, but not every pod could be checked".to_owned()),
        (0, 0, 0) => (Verdict::Unknown, "No pods found".to_owned()),
        (0, 0, checked) => (Verdict::Healthy, no_problems(count(checked))),
    };
    let mut not_seen = scanned.unseen();
    if collector.older_pods() > 0 {
        not_seen.push(older(collector.older_pods() as u64));
    }
    let place = match collector.namespaces().place() {
        all if all.is_empty() => " in all namespaces".to_owned(),
        place => place,
    };
    render(&Report {
        verdict,
        headline: &headline,
        summary: if problems.is_empty() { "" } else { reasons(&message) },
        subject: &format!("pods{place} of {}", collector.source),
        as_of: Some(collector.now()),
        not_seen,
        common_causes: &common_causes,
        incidents: report.incidents.iter().collect(),
        pods: report.problematic_pods.iter().collect(),
        problematic_pods: report.problematic_pods.len(),
        history: None,
        version: version_and_revision(),
    })
}
