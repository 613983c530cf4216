//! Tests of a worker without an API server: fairness to other objects, changes of webhooks, and what is in memory once.

use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::{
    alerts::delivery::{DeliveryOptions, persist::DeliveryStatus, system_lookup},
    api::{OrchestrStatus, Owner, Silence, Webhook},
    status_apply::ObjectVersion,
};

fn context() -> Arc<Context> {
    context_with(DeliveryTimings::default())
}

fn context_with(timings: DeliveryTimings) -> Arc<Context> {
    context_of(Client::try_from(kube::Config::new("http://127.0.0.1:9".parse().unwrap())).unwrap(), timings)
}

fn context_of(client: Client, timings: DeliveryTimings) -> Arc<Context> {
    let options = DeliveryOptions::default();
    let http = Arc::new(HttpClient::new(options, system_lookup()));
    Arc::new(Context {
        secrets: SecretReader::new(client.clone(), options.urls, Arc::clone(&http)),
        client,
        clock: ClusterClock::default(),
        http,
        api_permits: Arc::new(Semaphore::new(1)),
        write_pace: WritePace::default(),
        deletion_permits: Arc::new(Semaphore::new(1)),
        planning: Semaphore::new(1),
        cluster: String::new(),
        timings,
        metrics: Metrics::default(),
        alert_log: AlertLog::default(),
        notices: mpsc::channel(1).0,
        shutdown: CancellationToken::new(),
    })
}

/// The input of an object with ten webhooks, 20 silences and 1,500 incidents.
fn largest() -> Input {
    let webhook = |number: usize| {
        let url = json!({"secretKeyRef": {"name": "s", "key": "url"}});
        serde_json::from_value(json!({"name": number.to_string(), "format": "Slack", "urlFrom": url})).unwrap()
    };
    let webhooks: Vec<Webhook> = (0..10).map(webhook).collect();
    let reasons: Vec<String> = (0..16).map(|number| format!("Never{number}")).collect();
    let silence = |number: usize| -> Silence {
        let matches = json!({"reasons": reasons, "owners": ["a*"]});
        serde_json::from_value(json!({"name": number.to_string(), "until": "2099-01-01T00:00:00Z", "match": matches}))
            .unwrap()
    };
    let incident = |number: usize| Incident {
        key: number.to_string().into(),
        namespace: "evil".into(),
        owner: Owner { kind: "Pod".to_owned(), name: format!("a{number}") }.into(),
        reason: "Unschedulable".into(),
        ..Incident::default()
    };
    Input {
        webhooks: ValidatedWebhook::validate_all(&webhooks, &mut Vec::new()).into(),
        mute_rules: Arc::new(MuteRules::new(&(0..20).map(silence).collect::<Vec<_>>(), &[], &mut Vec::new())),
        incidents: (0..1_500).map(incident).collect(),
        incidents_known: true,
        ..Input::default()
    }
}

/// A worker with this input, whose webhooks are planned although their Secrets cannot be used.
fn worker(context: &Arc<Context>, input: Input) -> (Worker, watch::Sender<Input>) {
    let key = NamespacedName::new("evil", "cluster");
    let object = ObjectRef { key, uid: "u".to_owned(), version: ObjectVersion::new("1") };
    let (sender, receiver) = watch::channel(input);
    let mut worker = Worker::new(Arc::clone(context), object, receiver, &[]);
    worker.apply_input(Instant::now());
    for queue in &mut worker.queues {
        let endpoint = Err("Secret evil/s does not exist".to_owned());
        let (config, receiver, versioned_receiver) = ("c".to_owned(), String::new(), String::new());
        let secrets = WebhookSecrets { config, receiver, versioned_receiver, endpoint };
        let spec = Arc::clone(&queue.webhook.endpoint);
        queue.on_secrets(&spec, Ok(secrets), Instant::now());
    }
    (worker, sender)
}

#[tokio::test]
async fn silences_are_evaluated_once_for_all_webhooks_of_an_object() {
    let (context, input) = (context(), largest());
    let (mut worker, inputs) = worker(&context, input.clone());
    worker.plan().await;
    assert!(worker.queues.iter().all(|queue| queue.state().storm.is_some()), "each webhook was planned");
    assert_eq!(worker.mutes.evaluations, 20, "all incidents have the same namespace, kind and reason");

    worker.mutes.evaluations = 0;
    inputs.send_replace(Input { generation: 2, ..input.clone() });
    worker.plan().await;
    assert_eq!(worker.mutes.evaluations, 0, "neither the rules nor the incidents have changed");
    inputs.send_replace(Input { incidents_version: 1, ..input });
    worker.plan().await;
    assert_eq!(worker.mutes.evaluations, 20);
}

#[tokio::test]
async fn a_worker_that_waits_for_its_turn_keeps_no_old_incidents() {
    let context = context();
    let (mut worker, inputs) = worker(&context, largest());
    worker.plan().await;
    let old = Arc::downgrade(&inputs.borrow().incidents);
    let other = context.planning.acquire().await.unwrap();
    {
        let mut plan = Box::pin(worker.plan());
        assert!(futures::poll!(&mut plan).is_pending());
        inputs.send_replace(Input { incidents_version: 1, ..largest() });
        assert_eq!(old.strong_count(), 0);
        drop(other);
        plan.await;
    }
    assert_eq!(worker.incidents_version, Some(1));
}

#[tokio::test]
async fn other_tasks_go_on_while_many_incidents_are_planned() {
    let context = context();
    let (mut worker, _inputs) = worker(&context, largest());
    let turns = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&turns);
    let other = tokio::spawn(async move {
        loop {
            counter.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    worker.plan().await;
    other.abort();
    let turns = turns.load(Ordering::Relaxed);
    assert!(turns >= 10, "a turn after each webhook: {turns}");
}

#[tokio::test]
async fn one_worker_plans_at_a_time() {
    let context = context();
    let (mut worker, _inputs) = worker(&context, largest());
    let other = context.planning.acquire().await.unwrap();
    let mut plan = Box::pin(worker.plan());
    assert!(futures::poll!(&mut plan).is_pending());
    drop(other);
    plan.await;
}

#[tokio::test]
async fn a_deletion_is_noticed_while_the_worker_waits() {
    let context = context();
    let (worker, inputs) = worker(&context, Input { incidents_known: true, ..Input::default() });
    let other = context.planning.acquire().await.unwrap();
    let mut run = Box::pin(worker.run());
    assert!(futures::poll!(&mut run).is_pending());
    inputs.send_modify(|input| input.deleted = true);
    drop(other);
    tokio::time::timeout(Duration::from_secs(20), run).await.expect("it does not wait for its next step");
}

/// An input with the stored state of a webhook that was sent an alert.
fn stored() -> Input {
    let alert = json!({
        "key": "k", "namespace": "evil", "owner": {"kind": "Pod", "name": "a"}, "reason": "Error",
        "since": "2026-07-01T10:00:00Z", "sentAt": "2026-07-01T10:00:00Z", "phase": "Firing",
    });
    let state: WebhookStatus =
        serde_json::from_value(json!({"name": "0", "receiver": "r", "alerts": [alert]})).unwrap();
    let status = OrchestrStatus { webhooks: vec![Arc::new(state)], ..OrchestrStatus::default() };
    Input { observed: Arc::new(StoredStatus::new("1", Some(&status))), ..largest() }
}

#[tokio::test]
async fn a_webhook_that_is_added_again_is_a_new_one() {
    let (context, input) = (context(), stored());
    let (mut worker, inputs) = worker(&context, input.clone());
    assert_eq!(worker.queues[0].state().alerts.len(), 1);
    inputs.send_replace(Input { webhooks: Vec::new().into(), ..input.clone() });
    worker.apply_input(Instant::now());
    assert_eq!(worker.leaving.len(), 10);
    inputs.send_replace(input);
    worker.apply_input(Instant::now());
    assert!(worker.queues[0].state().alerts.is_empty(), "its alerts were ended");
}

#[tokio::test]
async fn a_webhook_was_removed_when_its_spec_was_last_known() {
    let (context, input) = (context(), stored());
    let (mut worker, inputs) = worker(&context, input.clone());
    let now = Instant::now();
    let changed_after = now.checked_sub(Duration::from_secs(20 * 60)).unwrap();
    inputs.send_replace(Input { webhooks: Vec::new().into(), changed_after: Some(changed_after), ..input });
    worker.apply_input(now);
    let left = worker.leaving[0].take_left(true, now).unwrap();
    assert_eq!(left.left_after, changed_after, "nothing is sent there any more");
}

#[tokio::test]
async fn queues_and_reads_of_secrets_share_the_specs_of_the_webhooks() {
    let context = context_with(DeliveryTimings { pacing_divisor: 2, ..DeliveryTimings::default() });
    let input = largest();
    let (mut worker, _inputs) = worker(&context, input.clone());
    worker.read_secrets(&(0..worker.queues.len()).collect::<Vec<_>>());
    for (queue, webhook) in worker.queues.iter().zip(input.webhooks.iter()) {
        assert!(queue.webhook.policy.shares_patterns_with(&webhook.policy));
        assert!(Arc::ptr_eq(&queue.webhook.endpoint, &webhook.endpoint));
        assert_eq!(Arc::strong_count(&webhook.endpoint), 3, "the input, the queue and the read");
    }
}

#[tokio::test]
async fn a_secret_that_is_not_answered_delays_no_other_webhook() {
    let service = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
        if request.uri().path().ends_with("/slow") {
            std::future::pending::<()>().await;
        }
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "quick"}}).to_string();
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::from(secret.into_bytes())))
    });
    let context = context_of(Client::new(service, "evil"), DeliveryTimings::default());
    let webhook = |name: &str| {
        let url = json!({"secretKeyRef": {"name": name, "key": "url"}});
        serde_json::from_value(json!({"name": name, "format": "Slack", "urlFrom": url})).unwrap()
    };
    let webhooks = ValidatedWebhook::validate_all(&["slow", "quick"].map(webhook), &mut Vec::new());
    let (mut worker, _inputs) = worker(&context, Input { webhooks: webhooks.into(), ..Input::default() });
    worker.read_secrets(&[0, 1]);
    let read = timeout(Duration::from_secs(5), worker.tasks.next()).await;
    assert!(read.is_ok(), "the other read ends after 10 s");
}

/// The status as it is decoded from a version of the object.
fn decoded(status: &DeliveryStatus) -> OrchestrStatus {
    let webhooks = status.webhooks.iter().map(|state| Arc::new(WebhookStatus::clone(state))).collect();
    let conditions = status.condition.iter().cloned().collect();
    OrchestrStatus { webhooks, conditions, ..OrchestrStatus::default() }
}

#[tokio::test]
async fn queues_share_their_states_with_the_status_in_the_api() {
    let unwritten = Arc::new(StoredStatus::new("1", None));
    let (context, input) = (context(), Input { observed: unwritten, ..largest() });
    let (mut worker, inputs) = worker(&context, input.clone());
    worker.plan().await;
    let written = worker.delivery_status(Timestamp::now());
    assert!(written.webhooks.iter().all(|state| state.storm.is_some()), "each webhook was planned");
    let answer = StoredStatus::new("2", Some(&decoded(&written)));
    let in_api = decoded(&written);
    let before: Vec<_> =
        [&written, &answer.status].into_iter().flat_map(|status| &status.webhooks).map(Arc::downgrade).collect();

    worker.writer.on_start(written, Instant::now());
    worker.queues.iter_mut().for_each(WebhookQueue::on_storing);
    worker.on_written(Ok(answer), Instant::now());
    assert!(
        before.iter().skip(10).all(|state| state.strong_count() == 0),
        "the answer is not kept beside what was written"
    );

    inputs.send_replace(Input { observed: Arc::new(StoredStatus::new("2", Some(&in_api))), ..input });
    worker.apply_input(Instant::now());
    assert!(before.iter().all(|state| state.strong_count() == 0), "only the observed states are kept");
    worker.plan().await;
    for (queue, in_api) in worker.queues.iter().zip(&in_api.webhooks) {
        assert!(Arc::ptr_eq(queue.state(), in_api), "{}", queue.name());
    }
}
