//! Connects the parts of the operator and runs them.

use futures::{StreamExt, stream};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use crate::{
    alerts::delivery::{AlertLog, Dispatcher, HttpClient, system_lookup},
    api::{StoredObject, api_resource},
    clock::ClusterClock,
    config::{RunConfig, StreamingLists},
    controller::{Controller, Scope, Shared, Sources},
    events::watch_events,
    leader::{Election, Leadership},
    logs::{LogReader, ReadLimits, prepare_redaction},
    metrics::Metrics,
    namespaces::watch_namespaces,
    pods::watch_pods,
    telemetry::api_requests,
    watch::watch,
    watchdog::Heartbeat,
};

/// The most updates of pods or events that are handled as one batch. A batch contains only updates that are already there.
const BATCH: usize = 128;

/// Runs the operator until `shutdown`, and then for at most five more seconds until writes and alerts have ended and the
/// Lease is released. Its event loop beats at least every five seconds.
pub async fn run(
    client: Client,
    config: &RunConfig,
    metrics: Metrics,
    alert_log: AlertLog,
    heartbeat: Heartbeat,
    shutdown: CancellationToken,
) {
    prepare_redaction();
    let timings = config.timings;
    let clock = ClusterClock::default();
    let client = {
        let metrics = metrics.clone();
        clock.wrap_client(client, move |method, uri, status| api_requests::count(&metrics, method, uri, status))
    };
    let election = config.leader_election.as_ref().map(|options| Election::new(client.clone(), options));
    let leadership = election.as_ref().map_or_else(Leadership::always, Election::leadership);
    // From here on, no write reaches the API server unless this replica leads.
    let client = leadership.fence(client);
    let scopes: Vec<Scope> =
        config.namespaces.as_ref().map_or(vec![None], |namespaces| namespaces.iter().cloned().map(Some).collect());
    let open_objects = {
        let (client, scopes) = (client.clone(), scopes.clone());
        Box::new(move || {
            let client = client.clone();
            let watches = scopes.iter().map(move |scope| {
                let api: Api<StoredObject> = match scope {
                    Some(namespace) => Api::namespaced_with(client.clone(), namespace, &api_resource()),
                    None => Api::all_with(client.clone(), &api_resource()),
                };
                let scope = scope.clone();
                // There are few objects, and every API server supports paged lists.
                watch(api, StreamingLists::Never, timings.forbidden_confirmation)
                    .map(move |update| (scope.clone(), update))
            });
            stream::select_all(watches).boxed()
        })
    };
    let open_pods = {
        let (client, scopes, streaming_lists) = (client.clone(), scopes.clone(), config.streaming_lists);
        Box::new(move || {
            let watches = scopes.iter().map(|scope| {
                let scope = scope.clone();
                watch_pods(client.clone(), scope.as_deref(), streaming_lists, timings.forbidden_confirmation)
                    .map(move |update| (scope.clone(), update))
                    .boxed()
            });
            stream::select_all(watches).ready_chunks(BATCH).boxed()
        })
    };
    let events = {
        let client = client.clone();
        let watches = scopes.iter().map(move |scope| {
            let watch = watch_events(client.clone(), scope.as_deref(), timings.forbidden_confirmation);
            let scope = scope.clone();
            watch.map(move |update| (scope.clone(), update)).boxed()
        });
        stream::select_all(watches).ready_chunks(BATCH).boxed()
    };
    let namespaces = if config.namespaces.is_none() {
        watch_namespaces(client.clone(), timings.forbidden_confirmation).ready_chunks(BATCH).boxed()
    } else {
        stream::pending().boxed()
    };
    let reader =
        LogReader::new(client.clone(), ReadLimits { concurrency: config.pod_log_reads, ..ReadLimits::default() });
    let sources = Sources { open_objects, open_pods, events, namespaces };
    let cluster = config.cluster_name.clone();
    let http = HttpClient::new(config.webhooks, system_lookup()).led_by(leadership.clone());
    let dispatcher =
        Dispatcher::new(client.clone(), clock.clone(), http, cluster, timings.alerts, metrics.clone(), alert_log);
    let shared = Shared { client, clock, metrics, leadership };
    let controller = Controller::new(shared, reader, dispatcher, scopes, config);
    let writers_ended = CancellationToken::new();
    let elected = election.map(|election| tokio::spawn(election.run(writers_ended.clone())));
    let is_complete = controller.run(sources, heartbeat, shutdown).await;
    if let Some(elected) = elected {
        if is_complete {
            writers_ended.cancel();
            // It ends within a second, also if it fails.
            let _ = elected.await;
        } else {
            // A write may still be under way, so the others wait until the Lease has expired.
            elected.abort();
        }
    }
}
