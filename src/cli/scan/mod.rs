//! `orchestr scan`: checks the pods of clusters or of a file once.

mod cluster;
mod collector;
mod document;
mod file;
mod filter;
mod flags;
mod logs;
mod objects;
mod output;
mod scanned;
mod watch;

use std::{fmt::Display, process::ExitCode};

use crate::render::{document::Document, numbers::counted_in_groups as counted};

use super::Failure;
use cluster::{scan_cluster, scan_clusters};
use file::scan_file;
#[cfg(fuzzing)]
pub use file::{scan_bytes, scan_protobuf};
use filter::{Filter, LabelSelector, Namespaces};
pub(super) use flags::ScanFlags;
use flags::{INCOMPLETE, PROBLEMS};
use output::Progress;
use scanned::Results;

/// Checks the syntax of a label selector.
pub(super) fn check_selector(text: &str) -> Result<(), impl Display + use<>> {
    LabelSelector::new(text).map(drop)
}

pub(super) async fn scan(flags: ScanFlags) -> Result<ExitCode, Failure> {
    if flags.by.is_some() && !flags.output.has_groups() {
        return Err(Failure::new("--by is for tables, -o json and -o yaml"));
    }
    if flags.watch {
        return watch::watch(&flags, filter(&flags)?).await;
    }
    let results = results(&flags).await?;
    output::print_notes(&results);
    output::print(&results, &flags)?;
    let is_complete = results.unchecked().next().is_none();
    Ok(match (results.problems(), results.pods(), results.undecodable()) {
        _ if !is_complete => ExitCode::from(INCOMPLETE),
        (1.., _, _) => ExitCode::from(PROBLEMS),
        (_, 0, _) if flags.fail_on_empty => {
            output::note("there were no pods to check (--fail-on-empty)");
            ExitCode::from(INCOMPLETE)
        }
        (_, _, 0) => ExitCode::SUCCESS,
        _ => ExitCode::from(INCOMPLETE),
    })
}

/// What all formats but the table of pods show.
pub(super) async fn document(flags: &ScanFlags) -> Result<Document, Failure> {
    results(flags).await.map(|results| results.document())
}

async fn results(flags: &ScanFlags) -> Result<Results, Failure> {
    let filter = filter(flags)?;
    if let Some(path) = &flags.filename {
        return scan_file(path, flags, filter).map(Results::one);
    }
    let Filter { namespaces, .. } = filter;
    match flags.clusters.contexts()? {
        Some(contexts) => Ok(scan_clusters(contexts, flags, &namespaces).await),
        None => {
            let mut progress = Progress::new();
            scan_cluster(flags, None, namespaces, || {}, &mut |pods| progress.update(pods)).await.map(Results::one)
        }
    }
}

fn filter(flags: &ScanFlags) -> Result<Filter, Failure> {
    let selector = LabelSelector::new(flags.selector.as_deref().unwrap_or_default());
    let selector = selector.map_err(|error| Failure::new(format!("--selector: {error}")))?;
    let namespaces = Namespaces::new(&flags.namespace).map_err(Failure::new)?;
    Ok(Filter { namespaces, selector })
}
