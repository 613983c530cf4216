//! `orchestr show`: prints the status of an object as a person reads it.

mod selection;
mod text;

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use kube::{Api, api::DynamicObject};
use tokio::time::timeout;

use crate::{
    api::{NamespacedName, OrchestrStatus, api_resource},
    clock::ClusterClock,
};

use super::{
    Failure,
    api_error::{Grant, Permission},
    connect::{ConnectionFlags, Retries, connect},
    ignore_broken_pipe,
    object_name::object_name,
};
use selection::Selection;
use text::Layout;

/// The exit code when pods have problems, as of `scan`.
const PROBLEMS: u8 = 1;
/// The exit code when the status does not say whether the pods are healthy, as of `scan`.
const UNKNOWN: u8 = 2;
/// How long the request may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The lines of a log that are printed if nothing is selected.
const LOG_LINES: usize = 10;
/// The width of the text if the output is no terminal, in columns.
const WIDTH: usize = 80;
/// The smallest and the largest width of the text on a terminal, in columns: longer lines are hard to read.
const WIDTHS: (usize, usize) = (40, 120);

/// The flags of `orchestr show`.
#[derive(Debug, Args)]
pub(super) struct ShowFlags {
    /// The Orchestr object
    #[arg(value_name = "NAMESPACE/NAME", value_parser = object_name)]
    object: NamespacedName,

    /// Print only this pod, owner, or incident by its key
    #[arg(value_name = "POD|OWNER|INCIDENT")]
    selected: Option<String>,

    /// How many lines of each log to print, the last ones; 10 by default, or all if a pod, owner or incident is given
    #[arg(long, value_name = "COUNT")]
    log_lines: Option<usize>,

    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) async fn show(flags: ShowFlags) -> Result<ExitCode, Failure> {
    let cluster = connect(&flags.connection, Retries::InTheClient).await?;
    let clock = ClusterClock::default();
    let NamespacedName { namespace, name } = &flags.object;
    let client = clock.wrap_client(cluster.client, |_, _, _| {});
    let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &api_resource());
    let permission =
        Permission { verb: "get", resource: "orchestrs.kopf.dev", namespace: Some(namespace), grant: Grant::View };
    let object = timeout(TIMEOUT, api.get(name))
        .await
        .map_err(|_| cluster.target.timed_out(TIMEOUT.as_secs()))?
        .map_err(|error| cluster.target.describe_denied(&error, &permission))?;
    let Some(status) = object.data.get("status").filter(|status| !status.is_null()) else {
        return Err(Failure::new(format!("{namespace}/{name} has no status yet: is the operator running?")));
    };
    let status: OrchestrStatus = serde_path_to_error::deserialize(status)
        .map_err(|error| Failure::new(format!("{namespace}/{name}: status.{}: {}", error.path(), error.inner())))?;
    let selection = match &flags.selected {
        None => Selection::all(&status),
        Some(selected) => Selection::find(&status, selected)
            .ok_or_else(|| Failure::new(selection::not_found(&flags.object, &status, selected)))?,
    };
    let width = terminal_size::terminal_size_of(io::stdout());
    let layout = Layout {
        width: width.map_or(WIDTH, |(width, _)| usize::from(width.0).clamp(WIDTHS.0, WIDTHS.1)),
        log_lines: flags.log_lines.unwrap_or(if flags.selected.is_some() { usize::MAX } else { LOG_LINES }),
    };
    let mut out = anstream::AutoStream::auto(io::stdout().lock());
    let generation = object.metadata.generation;
    let text = text::write(&mut out, &flags.object, &status, generation, &selection, layout, clock.now());
    ignore_broken_pipe(text.and_then(|()| out.flush()))?;
    Ok(match text::health(&status) {
        text::Health::Healthy => ExitCode::SUCCESS,
        text::Health::Unhealthy => ExitCode::from(PROBLEMS),
        text::Health::Unknown => ExitCode::from(UNKNOWN),
    })
}
