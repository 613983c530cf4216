//! `orchestr show`: prints the status of an object as a person reads it, its history, or what its receivers were sent.

mod section;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use kube::{Api, api::DynamicObject};
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    api::{NamespacedName, OrchestrStatus, api_resource},
    clock::ClusterClock,
    render::{
        Format, Timeline,
        document::{Document, Section, Verdict},
        sent::sent,
        table::terminal_width,
    },
};

use super::{
    Failure,
    api_error::{Grant, Permission},
    connect::{ConnectionFlags, Retries, connect},
    flags::duration,
    kind::object_name,
    process::{file_name, print_document, print_text, read_text},
    yaml::json_or_yaml,
};
use section::ReadStatus;

/// The exit code when pods have problems, as of `scan`.
const PROBLEMS: u8 = 1;
/// The exit code when the status does not say whether the pods are healthy, as of `scan`.
const UNKNOWN: u8 = 2;
/// The largest file that is read, in bytes: the list of some hundred objects.
const LIMIT: u64 = 64 * 1024 * 1024;
/// How long the request may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The lines of a log that are printed if nothing is selected.
const LOG_LINES: usize = 10;

/// What the exit codes mean, for the help.
const EXIT_CODES: &str = "\
Exit codes:
  0  all pods are healthy, or --history or --sent was printed
  1  pods have problems
  2  the status does not say, or contains nothing of the given name";

/// The flags of `orchestr show`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct ShowFlags {
    /// The Orchestr object
    #[arg(value_name = "NAMESPACE/NAME", value_parser = object_name)]
    object: NamespacedName,

    /// Read the object from a file written by `kubectl get orchestr -A -o json` or -o yaml; - is standard input
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,

    #[command(flatten)]
    connection: ConnectionFlags,

    /// Print only this pod, owner, or incident by its key
    #[arg(value_name = "POD|OWNER|INCIDENT")]
    selected: Option<String>,

    /// How many lines of each log to print, the last ones; 10 by default, or all if a pod, owner or incident is given
    #[arg(long, value_name = "COUNT")]
    log_lines: Option<usize>,

    /// Print when incidents began and ended, and when the pods were not watched; as text, a table with times in UTC
    #[arg(long, conflicts_with_all = ["selected", "log_lines"])]
    history: bool,

    /// Print what the receivers of the webhooks were sent, as far as the status stores it: each incident that they know, when a
    /// message last named it, and how the delivery goes; times in UTC
    #[arg(long, conflicts_with_all = ["selected", "log_lines", "history", "output"])]
    sent: bool,

    /// Of the history, print only what lasted or ended in the time before now, such as 24h; by default all that the status
    /// contains
    #[arg(long, value_name = "DURATION", requires = "history", value_parser = duration)]
    since: Option<Duration>,

    /// The output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Text
    #[default]
    Text,
    /// JSON, of the history only
    Json,
    /// A page for a browser, in one file, with all of each log that the status has
    Html,
}

pub(super) async fn show(flags: ShowFlags) -> Result<ExitCode, Failure> {
    if flags.output == Output::Json && !flags.history {
        return Err(Failure::new("-o json is for --history: `kubectl get orchestr -o json` prints the status"));
    }
    if flags.sent {
        let status = flags.read().await?.status;
        let webhooks = status.webhooks.iter().map(|webhook| &**webhook);
        print_text(&sent(&flags.object, webhooks, terminal_width()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let document = document(&flags).await?;
    let exit_code = match document.verdict {
        _ if flags.history => ExitCode::SUCCESS,
        Verdict::Healthy => ExitCode::SUCCESS,
        Verdict::Unhealthy => ExitCode::from(PROBLEMS),
        Verdict::Unknown => ExitCode::from(UNKNOWN),
    };
    let all_or_few = if flags.selected.is_some() { usize::MAX } else { LOG_LINES };
    let format = match flags.output {
        Output::Text => Format::Text { log_lines: flags.log_lines.unwrap_or(all_or_few) },
        Output::Json => Format::Json,
        Output::Html => Format::Html,
    };
    print_document(&document, format)?;
    Ok(exit_code)
}

pub(super) async fn document(flags: &ShowFlags) -> Result<Document, Failure> {
    let read = flags.read().await?;
    Ok(Document::of(flags.section(&read)?, String::new()))
}

impl ShowFlags {
    /// What is shown of the status.
    fn section(&self, read: &ReadStatus) -> Result<Section, Failure> {
        let object = &self.object;
        if self.history {
            // A duration of more than the 292 years that Go's can hold is not accepted.
            let within = self.since.map(|since| SignedDuration::try_from(since).unwrap_or(SignedDuration::MAX));
            let timeline = Timeline::of(object, &read.status, within, read.now);
            return Ok(section::of_history(object, &read.status, timeline));
        }
        let mut section = section::of(object, read);
        match &self.selected {
            Some(wanted) if !section::select(&mut section, wanted) => {
                Err(Failure::new(section::not_found(object, &read.status, wanted)))
            }
            _ => Ok(section),
        }
    }

    /// Reads the status of the object.
    async fn read(&self) -> Result<ReadStatus, Failure> {
        let key = &self.object;
        let NamespacedName { namespace, name } = key;
        let (object, now) = match &self.filename {
            Some(path) => (find(&read_text(path, LIMIT)?, &file_name(path), key)?, None),
            None => from_cluster(key, &self.connection).await.map(|(object, now)| (object, Some(now)))?,
        };
        let Some(status) = object.data.get("status").filter(|status| !status.is_null()) else {
            return Err(Failure::new(format!("{namespace}/{name} has no status yet: is the operator running?")));
        };
        // The message of the parser would quote the value, which may be a part of a log.
        let status: OrchestrStatus = serde_path_to_error::deserialize(status).map_err(|error| {
            Failure::new(format!("{namespace}/{name}: status.{} has another type than the CRD says", error.path()))
        })?;
        // A file shows the state when it was written.
        let now = now.or(status.last_check_time.as_ref().map(|time| time.0)).unwrap_or_else(Timestamp::now);
        Ok(ReadStatus { status, generation: object.metadata.generation, now })
    }
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

/// Finds the object of this name in the text of a file with one object or a list of objects.
fn find(text: &str, file: &str, wanted: &NamespacedName) -> Result<DynamicObject, Failure> {
    let document = json_or_yaml(text).ok_or_else(|| Failure::new(format!("{file} is neither JSON nor YAML")))?;
    let items = match document {
        Value::Object(mut list) if list.contains_key("items") => match list.remove("items") {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        },
        object => vec![object],
    };
    let mut objects = items.into_iter().filter_map(|item| serde_json::from_value::<DynamicObject>(item).ok());
    let NamespacedName { namespace, name } = wanted;
    let is_wanted = |object: &DynamicObject| {
        let kind = object.types.as_ref().map(|types| types.kind.as_str());
        let metadata = &object.metadata;
        kind == Some("Orchestr")
            && metadata.namespace.as_ref() == Some(namespace)
            && metadata.name.as_ref() == Some(name)
    };
    objects
        .find(is_wanted)
        .ok_or_else(|| Failure::new(format!("{file} does not contain the Orchestr object {namespace}/{name}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_an_object_in_the_list_of_a_large_cluster() {
        let object = |number: usize| {
            let pods: Vec<_> =
                (0..100).map(|_| json!({"name": "p", "namespace": "n", "containerIssues": []})).collect();
            json!({
                "apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": format!("o{number}"), "namespace": "ops"},
                "status": {"problematicPods": pods},
            })
        };
        let objects: Vec<_> = (0..500).map(object).collect();
        let list = serde_yaml::to_string(&json!({"apiVersion": "v1", "kind": "List", "items": objects})).unwrap();
        assert!(list.len() as u64 <= LIMIT);
        let found = find(&list, "objects.yaml", &NamespacedName::new("ops", "o499")).unwrap();
        assert_eq!(found.data["status"]["problematicPods"].as_array().unwrap().len(), 100);
    }
}
