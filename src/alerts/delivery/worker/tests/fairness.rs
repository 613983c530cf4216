//! Tests that an object with the most webhooks, silences and incidents does not hold up others.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::super::*;
use crate::{
    alerts::delivery::{DeliveryOptions, secrets::Unusable, system_lookup},
    api::{Owner, Silence, Webhook},
    status_apply::ObjectVersion,
};

pub(super) fn context() -> Arc<Context> {
    context_with(DeliveryTimings::default())
}

pub(super) fn context_with(timings: DeliveryTimings) -> Arc<Context> {
    let client = Client::try_from(kube::Config::new("http://127.0.0.1:9".parse().unwrap())).unwrap();
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
        notices: Notices::channel().0,
        shutdown: CancellationToken::new(),
    })
}

/// The input of an object with ten webhooks, 20 silences and 1,500 incidents.
pub(super) fn largest() -> Input {
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
pub(super) fn worker(context: &Arc<Context>, input: Input) -> (Worker, watch::Sender<Input>) {
    let key = NamespacedName::new("evil", "cluster");
    let object = ObjectRef { key, uid: "u".to_owned(), version: ObjectVersion::new("1") };
    let (sender, receiver) = watch::channel(input);
    let mut worker = Worker::new(Arc::clone(context), object, receiver, Vec::new());
    worker.apply_input(Instant::now());
    for queue in &mut worker.queues {
        let endpoint = Err(Unusable("Secret evil/s does not exist".to_owned()));
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
async fn a_deletion_is_noticed_although_the_worker_waits_for_its_turn() {
    let context = context();
    let (worker, inputs) = worker(&context, Input { incidents_known: true, ..Input::default() });
    let other = context.planning.acquire().await.unwrap();
    let mut run = Box::pin(worker.run());
    assert!(futures::poll!(&mut run).is_pending());
    inputs.send_modify(|input| input.deleted = true);
    drop(other);
    tokio::time::timeout(Duration::from_secs(20), run).await.expect("it does not wait for its next step");
}
