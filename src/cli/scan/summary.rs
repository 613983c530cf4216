//! The sentence that says how many pods have problems.

use std::time::Duration;

use jiff::SignedDuration;

use crate::diagnosis::human_duration;

use super::{
    counted,
    progress::thousands,
    scanned::{Results, Scanned, older},
};

fn age(duration: Duration) -> String {
    SignedDuration::try_from(duration).map(human_duration).unwrap_or_default()
}

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
    let (since, older) = match (results.since().map(age), results.older_pods() as u64) {
        (None, _) => (String::new(), String::new()),
        (Some(age), 0) => (format!(" that began in the last {age}"), String::new()),
        (Some(age), count) => (format!(" that began in the last {age}"), format!("; {}", older(count))),
    };
    match (results.pods(), results.problems()) {
        (0, _) => format!("No pods found{place}."),
        (_, 0) => format!("No problems{since}{place}: {}{older}.", counted(results.pods(), "pod")),
        (_, 1) => format!("1 of {pods} pods{place} has a problem{since}{older}."),
        (_, problems) => format!("{} of {pods} pods{place} have problems{since}{older}.", thousands(problems as u64)),
    }
}
