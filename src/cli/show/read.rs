//! Reads the status of an object from the cluster or from a file.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use jiff::Timestamp;
use kube::{Api, api::DynamicObject};
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    api::{NamespacedName, OrchestrStatus, api_resource},
    cli::{
        Failure,
        api_error::{Grant, Permission},
        connect::{ConnectionFlags, Retries, connect},
        kind::object_name,
        process::{file_name, read_text},
        yaml::json_or_yaml,
    },
    clock::ClusterClock,
};

/// The largest file that is read, in bytes: the list of some hundred objects.
const LIMIT: u64 = 64 * 1024 * 1024;
/// How long the request may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The flags of commands that print the status of one object.
#[derive(Debug, Args)]
pub(super) struct StatusFlags {
    /// The Orchestr object
    #[arg(value_name = "NAMESPACE/NAME", value_parser = object_name)]
    pub(super) object: NamespacedName,

    /// Read the object from a file written by `kubectl get orchestr -A -o json` or -o yaml; - is standard input
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,

    #[command(flatten)]
    connection: ConnectionFlags,
}

/// The status of an object, from the cluster or a file.
pub(super) struct ReadStatus {
    pub(super) status: OrchestrStatus,
    /// `metadata.generation`.
    pub(super) generation: Option<i64>,
    /// The time of the API server; of a file, the time of the last check.
    pub(super) now: Timestamp,
}

impl StatusFlags {
    /// Reads the status of the object.
    pub(super) async fn read(&self) -> Result<ReadStatus, Failure> {
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
