//! Reads the status of an object from the cluster or from a file.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use jiff::Timestamp;
use kube::{Api, api::DynamicObject};
use tokio::time::timeout;

use crate::{
    api::{NamespacedName, OrchestrStatus, api_resource},
    cli::{
        Failure,
        api_error::{Grant, Permission},
        connect::{ConnectionFlags, Retries, connect},
        kind::object_name,
    },
    clock::ClusterClock,
};

use super::file;

/// How long the request may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The flags of commands that print the status of one object.
#[derive(Debug, Args)]
pub(in crate::cli) struct StatusFlags {
    /// The Orchestr object
    #[arg(value_name = "NAMESPACE/NAME", value_parser = object_name)]
    pub(in crate::cli) object: NamespacedName,

    /// Read the object from a file written by `kubectl get orchestr -A -o json` or -o yaml; - is standard input
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,

    #[command(flatten)]
    connection: ConnectionFlags,
}

/// The status of an object, from the cluster or a file.
pub(in crate::cli) struct ReadStatus {
    pub(in crate::cli) status: OrchestrStatus,
    /// `metadata.generation`.
    pub(in crate::cli) generation: Option<i64>,
    /// The time of the API server; of a file, the time of the last check.
    pub(in crate::cli) now: Timestamp,
}

impl StatusFlags {
    /// Reads the status of the object.
    pub(in crate::cli) async fn read(&self) -> Result<ReadStatus, Failure> {
        let key = &self.object;
        let NamespacedName { namespace, name } = key;
        let (object, now) = match &self.filename {
            Some(path) => (file::read(path, key)?, None),
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
