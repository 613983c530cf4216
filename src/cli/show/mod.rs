//! `orchestr show`: prints the status of an object as a person reads it.

mod file;
mod html;
mod notes;
mod selection;
pub(super) mod text;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, ValueEnum};
use jiff::Timestamp;
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

/// What the exit codes mean, for the help.
const EXIT_CODES: &str = "\
Exit codes:
  0  all pods are healthy
  1  pods have problems
  2  the status does not say, or contains nothing of the given name";

/// The flags of `orchestr show`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
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

    /// Read the object from a file written by `kubectl get orchestr -A -o json` or -o yaml; - is standard input
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,

    /// The output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,

    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Text
    #[default]
    Text,
    /// A page for a browser, in one file, with all of each log that the status has
    Html,
}

/// The status of an object, from the cluster or a file.
pub(super) struct ReadStatus {
    pub(super) status: OrchestrStatus,
    /// `metadata.generation`.
    pub(super) generation: Option<i64>,
    /// The time of the API server; of a file, the time of the last check.
    pub(super) now: Timestamp,
}

pub(super) async fn show(flags: ShowFlags) -> Result<ExitCode, Failure> {
    let ReadStatus { status, generation, now } =
        read_status(&flags.object, flags.filename.as_deref(), &flags.connection).await?;
    let selection = match &flags.selected {
        None => Selection::all(&status),
        Some(selected) => Selection::find(&status, selected)
            .ok_or_else(|| Failure::new(selection::not_found(&flags.object, &status, selected)))?,
    };
    match flags.output {
        Output::Text => print_text(&flags, &status, generation, &selection, now)?,
        Output::Html => {
            let page = html::page(&flags.object, &status, generation, &selection, now);
            let mut out = io::stdout().lock();
            ignore_broken_pipe(out.write_all(page.as_bytes()).and_then(|()| out.flush()))?;
        }
    }
    Ok(match text::health(&status) {
        text::Health::Healthy => ExitCode::SUCCESS,
        text::Health::Unhealthy => ExitCode::from(PROBLEMS),
        text::Health::Unknown => ExitCode::from(UNKNOWN),
    })
}

/// Reads the status of an object.
pub(super) async fn read_status(
    key: &NamespacedName,
    filename: Option<&Path>,
    connection: &ConnectionFlags,
) -> Result<ReadStatus, Failure> {
    let NamespacedName { namespace, name } = key;
    let (object, now) = match filename {
        Some(path) => (file::read(path, key)?, None),
        None => from_cluster(key, connection).await.map(|(object, now)| (object, Some(now)))?,
    };
    let Some(status) = object.data.get("status").filter(|status| !status.is_null()) else {
        return Err(Failure::new(format!("{namespace}/{name} has no status yet: is the operator running?")));
    };
    // The message of the parser would quote the value, which may be a part of a log.
    let status: OrchestrStatus = serde_path_to_error::deserialize(status).map_err(|error| {
        Failure::new(format!("{namespace}/{name}: status.{} has another type than the CRD says", error.path()))
    })?;
    // A file shows what was so when it was written.
    let now = now.or(status.last_check_time.as_ref().map(|time| time.0)).unwrap_or_else(Timestamp::now);
    Ok(ReadStatus { status, generation: object.metadata.generation, now })
}

/// Reads the object, and the time of the API server.
async fn from_cluster(
    key: &NamespacedName,
    connection: &ConnectionFlags,
) -> Result<(DynamicObject, Timestamp), Failure> {
    let cluster = connect(connection, Retries::InTheClient).await?;
    let clock = ClusterClock::default();
    let NamespacedName { namespace, name } = key;
    let client = clock.wrap_client(cluster.client, |_, _, _| {});
    let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &api_resource());
    let permission =
        Permission { verb: "get", resource: "orchestrs.kopf.dev", namespace: Some(namespace), grant: Grant::View };
    let object = timeout(TIMEOUT, api.get(name))
        .await
        .map_err(|_| cluster.target.timed_out(TIMEOUT.as_secs()))?
        .map_err(|error| cluster.target.describe_denied(&error, &permission))?;
    Ok((object, clock.now()))
}

fn print_text(
    flags: &ShowFlags,
    status: &OrchestrStatus,
    generation: Option<i64>,
    selection: &Selection<'_>,
    now: Timestamp,
) -> Result<(), Failure> {
    let layout = Layout::of_terminal(flags.log_lines.unwrap_or(match flags.selected {
        Some(_) => usize::MAX,
        None => LOG_LINES,
    }));
    let mut out = anstream::AutoStream::auto(io::stdout().lock());
    let text = text::write(&mut out, &flags.object, status, generation, selection, layout, now);
    ignore_broken_pipe(text.and_then(|()| out.flush()))
}
