//! The sentence that says how many pods have problems.

use super::{
    counted,
    progress::thousands,
    scanned::{Results, Scanned},
};

/// Such as `9 of 328 pods in shop namespace have problems.`
pub(super) fn summary(results: &Results) -> String {
    if results.scanned().next().is_none() {
        return "No cluster could be checked.".to_owned();
    }
    let clusters = match results.are_named {
        true => format!(" in {}", counted(results.scanned().count() as u64, "cluster")),
        false => String::new(),
    };
    let places = results.scanned().next().map(|Scanned { collector, .. }| collector.namespaces().place());
    let place = format!("{}{clusters}", places.unwrap_or_default());
    let pods = thousands(results.pods());
    match (results.pods(), results.problems()) {
        (0, _) => format!("No pods found{place}."),
        (_, 0) => format!("No problems{place}: {}.", counted(results.pods(), "pod")),
        (_, 1) => format!("1 of {pods} pods{place} has a problem."),
        (_, problems) => format!("{} of {pods} pods{place} have problems.", thousands(problems as u64)),
    }
}
