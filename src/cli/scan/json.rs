//! `-o json` and `-o yaml`.

use serde::Serialize;

use super::{
    groups::{By, Groups, groups},
    scanned::{Report, Results, Scanned, Unscanned},
};

/// The document. That of a single cluster has the fields of the status of an object.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Document {
    One {
        #[serde(flatten)]
        report: Box<Report>,
        #[serde(flatten)]
        groups: Option<Groups>,
    },
    Several {
        clusters: Vec<Cluster>,
        #[serde(flatten)]
        groups: Option<Groups>,
    },
}

/// A cluster that was scanned, or the reason why it was not.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Cluster {
    Report(Box<Report>),
    Error { context: String, error: String },
}

impl Document {
    pub(super) fn of(results: &Results, by: Option<By>) -> Self {
        let groups = by.map(|by| groups(by, &results.reports()));
        let cluster = |cluster: &Result<_, Unscanned>| match cluster {
            Ok(scanned) => Cluster::Report(Box::new(Scanned::report(scanned))),
            Err(Unscanned { context, why }) => Cluster::Error { context: context.clone(), error: why.to_string() },
        };
        match results.clusters.as_slice() {
            [Ok(scanned)] if !results.are_named => Self::One { report: Box::new(scanned.report()), groups },
            clusters => Self::Several { clusters: clusters.iter().map(cluster).collect(), groups },
        }
    }
}
