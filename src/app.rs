//! Where every task of the operator starts.

use futures::{StreamExt, stream};
use kube::{Api, Client, api::DynamicObject};
use tokio_util::sync::CancellationToken;

use crate::{
    controller::{Controller, Scope, Sources, resource},
    logs::LogReader,
    pods::SeenPod,
    watch::{ListMode, watch},
};

/// Changes that are taken from a watch in one go, where they are there already.
const BATCH: usize = 128;

/// What the operator works on.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The namespaces that it is confined to; none means the whole cluster.
    pub namespaces: Vec<String>,
    /// How first lists are read.
    pub list_mode: ListMode,
}

/// Runs the operator until `shutdown`.
pub async fn run(client: Client, config: Config, shutdown: CancellationToken) {
    let scopes: Vec<Scope> =
        if config.namespaces.is_empty() { vec![None] } else { config.namespaces.into_iter().map(Some).collect() };
    let objects = {
        let client = client.clone();
        let watches = scopes.iter().map(move |scope| {
            let api: Api<DynamicObject> = match scope {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource()),
                None => Api::all_with(client.clone(), &resource()),
            };
            let scope = scope.clone();
            // Objects are few, and pages of them are understood everywhere.
            watch(api, ListMode::Paged).map(move |change| (scope.clone(), change))
        });
        stream::select_all(watches).boxed()
    };
    let open_pods = {
        let (client, scopes) = (client.clone(), scopes.clone());
        Box::new(move || {
            let watches = scopes.iter().map(|scope| {
                let api: Api<SeenPod> = match scope {
                    Some(namespace) => Api::namespaced(client.clone(), namespace),
                    None => Api::all(client.clone()),
                };
                let scope = scope.clone();
                watch(api, config.list_mode).map(move |change| (scope.clone(), change)).boxed()
            });
            stream::select_all(watches).ready_chunks(BATCH).boxed()
        })
    };
    let reader = LogReader::new(client.clone());
    let sources = Sources { objects, open_pods, scopes: scopes.clone() };
    Controller::new(client, reader, scopes).run(sources, shutdown).await;
}
