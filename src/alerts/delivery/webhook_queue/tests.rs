use http::HeaderMap;

use super::*;
use crate::{
    alerts::{
        CurrentMutes, GoneAlerts, Incident, IncidentMemory, MuteRules, Source, alert_bytes,
        destination::{Destination, UrlPolicy},
        open_alerts,
    },
    api::{NamespacedName, Owner, WebhookFormat},
};

fn webhook(secret: &str) -> ValidatedWebhook {
    let url = serde_json::json!({"secretKeyRef": {"name": secret, "key": "url"}});
    let spec = serde_json::json!({"name": "ops", "format": "Slack", "urlFrom": url});
    ValidatedWebhook::validate_all(&[serde_json::from_value(spec).unwrap()], &mut Vec::new()).remove(0)
}

fn unusable(config: &str) -> Result<WebhookSecrets, Unavailable> {
    let endpoint = Err("Secret shop/ops does not exist".to_owned());
    Ok(WebhookSecrets {
        config: config.to_owned(),
        receiver: String::new(),
        versioned_receiver: String::new(),
        endpoint,
    })
}

fn usable(url: &str) -> Result<WebhookSecrets, Unavailable> {
    let destination = Destination::new(WebhookFormat::Slack, url.as_bytes(), UrlPolicy::default()).unwrap();
    let receiver = destination.identity("shop");
    let endpoint =
        Ok(Arc::new(Endpoint { destination, custom: None, headers: HeaderMap::new(), keys: None, tls: None }));
    Ok(WebhookSecrets { config: url.to_owned(), receiver, versioned_receiver: format!("versioned {url}"), endpoint })
}

/// Steps of a worker's, at chosen times.
struct Steps {
    queue: WebhookQueue,
    source: Source,
    start: Instant,
    incidents: Vec<Incident>,
    is_unstored: bool,
    stored: Option<Arc<WebhookStatus>>,
    reads: usize,
}

const URL: &str = "https://hooks.example.com/1";

impl Steps {
    fn new(stored: Option<WebhookStatus>) -> Self {
        let stored = stored.map(Arc::new);
        let queue = WebhookQueue::new(webhook("ops"), stored.clone(), DeliveryTimings::default());
        let source = Source::from(NamespacedName::new("shop", "cluster"));
        let (start, incidents) = (Instant::now(), vec![incident(0)]);
        Self { queue, source, start, incidents, is_unstored: false, stored, reads: 0 }
    }

    /// After the first message was delivered.
    fn delivered() -> Self {
        let mut steps = Self::new(None);
        steps.step(0, || usable(URL));
        let first = steps.store().unwrap();
        steps.deliver(0, &first);
        steps
    }

    fn at(&self, seconds: u64) -> (Instant, Timestamp) {
        let wall = Timestamp::from_second(10_000 + i64::try_from(seconds).unwrap()).unwrap();
        (self.start + Duration::from_secs(seconds), wall)
    }

    /// Decides once, reads the Secrets with this result if they are asked for, and then decides again. Returns a
    /// message that is to be sent without being stored first.
    fn step(
        &mut self,
        seconds: u64,
        secrets: impl Fn() -> Result<WebhookSecrets, Unavailable>,
    ) -> Option<Notification> {
        let (now, wall) = self.at(seconds);
        for _ in 0..3 {
            let (memory, gone, rules, mutes) =
                (IncidentMemory::default(), GoneAlerts::default(), MuteRules::default(), CurrentMutes::default());
            let input = ObjectInput {
                source: &self.source,
                incidents: &self.incidents,
                incidents_known: true,
                memory: &memory,
                gone: &gone,
                mute_rules: &rules,
                mutes: &mutes,
                bytes: alert_bytes(1),
                is_unstored: self.is_unstored,
                now: wall,
            };
            match self.queue.next_action(&input, self.stored.as_ref(), now) {
                Action::Wait => return None,
                Action::Send(message) => return Some(*message),
                Action::ReadSecrets => {
                    self.reads += 1;
                    let spec = Arc::clone(&self.queue.webhook.endpoint);
                    self.queue.on_secrets(&spec, secrets(), now);
                }
            }
        }
        None
    }

    /// Stores the decision, and returns the message to send.
    fn store(&mut self) -> Option<Notification> {
        self.stored = Some(Arc::clone(self.queue.state()));
        self.queue.on_storing();
        self.queue.on_stored(true)
    }

    /// How often the Secrets are read within these seconds if every read has this result.
    fn reads(
        &mut self,
        seconds: std::ops::Range<u64>,
        secrets: impl Fn() -> Result<WebhookSecrets, Unavailable>,
    ) -> usize {
        let before = self.reads;
        for second in seconds {
            self.stored = Some(Arc::clone(self.queue.state()));
            self.step(second, &secrets);
        }
        self.reads - before
    }

    fn deliver(&mut self, seconds: u64, message: &Notification) {
        let outcome = AttemptOutcome::Answered { status: 200, retry_after: None };
        self.queue.on_sent(message, &attempt(outcome), self.at(seconds).1);
    }
}

fn attempt(outcome: AttemptOutcome) -> Attempt {
    Attempt { outcome, latency: Duration::ZERO, thread: None }
}

fn incident(number: usize) -> Incident {
    Incident {
        key: number.to_string().into(),
        namespace: "shop".into(),
        owner: Owner { kind: "Pod".to_owned(), name: format!("pod-{number}") }.into(),
        reason: "Error".into(),
        ..Incident::default()
    }
}

#[test]
fn reads_unusable_secrets_less_and_less_often() {
    let mut steps = Steps::new(None);
    let first = steps.reads(0..60, || unusable("a"));
    assert!((3..=6).contains(&first), "{first} in the first minute");
    let rest = steps.reads(60..3_660, || unusable("a"));
    assert!((10..=30).contains(&rest), "{rest} in the next hour");
    // Someone works on the Secret, so the next change is noticed soon.
    let after = steps.reads(3_660..4_020, || unusable("b"));
    assert!((4..=12).contains(&after), "{after} in six minutes with a change");
}

#[test]
fn asks_a_server_that_does_not_answer_less_and_less_often() {
    let asked = Steps::new(None).reads(0..3_600, || Err(Unavailable::NotAnswered));
    assert!((60..=125).contains(&asked), "{asked} in an hour");
}

#[test]
fn unreadable_secrets_are_used_as_they_were_read() {
    let mut steps = Steps::delivered();
    steps.incidents.push(incident(1));
    let read = steps.reads;
    steps.step(100, || Err(Unavailable::Answered(500)));
    assert_eq!(steps.reads, read + 1, "one attempt to read them");
    let second = steps.store().expect("a message although the Secret cannot be read");
    assert_eq!(second.started.len(), 1);
    assert!(steps.queue.endpoint(second.kind).is_ok());
    assert_eq!(steps.queue.unreadable(), None, "one failure is not reported");
    assert!(!steps.queue.summary().has_problem());
    steps.deliver(100, &second);
    steps.step(110, || Err(Unavailable::Answered(500)));
    assert!(steps.queue.unreadable().unwrap().starts_with("the API server answers 500"));
    assert!(steps.queue.summary().has_problem() && !steps.queue.summary().only_refuses());
    steps.step(200, || usable(URL));
    assert!(steps.queue.unreadable().is_none() && !steps.queue.summary().has_problem());
}

#[test]
fn secrets_that_may_not_be_read_are_not_used() {
    let mut steps = Steps::delivered();
    steps.incidents.push(incident(1));
    steps.step(100, || unusable("forbidden"));
    assert!(steps.store().is_none());
    // Nor while they cannot be read afterwards.
    steps.step(500, || Err(Unavailable::NotAnswered));
    assert!(steps.store().is_none());
}

#[test]
fn an_unstored_message_keeps_its_id_over_retries() {
    let mut steps = Steps::new(None);
    assert!(steps.step(0, || usable(URL)).is_none(), "it is to be stored first");
    steps.is_unstored = true;
    let sent = steps.step(300, || usable(URL)).unwrap();
    steps.queue.on_sent(&sent, &attempt(AttemptOutcome::Unreachable), steps.at(300).1);
    let again = steps.step(400, || usable(URL)).unwrap();
    assert_eq!(again.id, sent.id);
    let mut restarted = Steps::new(None);
    restarted.is_unstored = true;
    assert_eq!(restarted.step(900, || usable(URL)).unwrap().id, sent.id);
    steps.deliver(400, &again);
    assert!(steps.step(500, || usable(URL)).is_none(), "it is sent once");
}

#[test]
fn the_identity_that_an_earlier_version_stored_is_converted() {
    let steps = Steps::delivered();
    let known = WebhookStatus { receiver: format!("versioned {URL}"), ..WebhookStatus::clone(steps.queue.state()) };
    let mut upgraded = Steps::new(Some(known.clone()));
    assert!(upgraded.step(60, || usable(URL)).is_none());
    assert!(upgraded.store().is_none(), "nothing is sent again");
    assert_eq!(upgraded.queue.state().receiver, usable(URL).unwrap().receiver);
    assert!(upgraded.queue.take_left(false, upgraded.at(60).0).is_none());
    let mut moved = Steps::new(Some(known));
    moved.step(60, || usable("https://hooks.example.com/2"));
    assert!(moved.queue.take_left(false, moved.at(60).0).is_some_and(|left| left.endpoint.is_err()));
    assert!(moved.store().is_some(), "another receiver is told what lasts");
}

#[test]
fn a_receiver_is_left_when_its_url_changes() {
    let mut steps = Steps::delivered();
    assert!(steps.queue.take_left(false, steps.at(0).0).is_none());
    let reads = steps.reads;
    // Secrets of open alerts are read every half a minute, so that the change is noticed within a minute.
    steps.step(31, || usable("https://hooks.example.com/2"));
    assert_eq!(steps.reads, reads + 1);
    let left = steps.queue.take_left(false, steps.at(31).0).expect("the earlier receiver");
    assert!(left.endpoint.is_ok());
    assert_eq!(left.left_after, steps.at(0).0, "the time of the last read with this URL");
}

#[test]
fn a_receiver_is_given_up_if_the_next_one_stays_unknown() {
    let mut steps = Steps::delivered();
    steps.queue.update_spec(webhook("missing"), steps.at(10).0);
    steps.step(10, || unusable("missing"));
    assert!(steps.queue.take_left(false, steps.at(69).0).is_none(), "it may be the same receiver");
    let left = steps.queue.take_left(false, steps.at(70).0).expect("the earlier receiver");
    assert_eq!(left.endpoint.unwrap_err(), "it was not known within a minute whether the webhook has another receiver");
    // This is reported once.
    steps.step(400, || usable("https://hooks.example.com/2"));
    assert!(steps.queue.take_left(false, steps.at(400).0).is_none());
}

#[test]
fn takes_the_outcome_of_its_own_message_only() {
    let mut steps = Steps::new(None);
    steps.step(0, || usable(URL));
    let message = steps.store().unwrap();
    assert!(steps.queue.sends_message(&message.id));
    assert!(!steps.queue.sends_message("that of a removed webhook with the same name"));
    steps.deliver(0, &message);
    assert!(!steps.queue.sends_message(&message.id));
}

#[test]
fn counts_the_alerts_whose_ends_a_receiver_expects() {
    let time = "2026-07-01T10:00:00Z";
    let alert = |phase: &str, is_sent: bool| {
        let sent_at = is_sent.then_some(time);
        serde_json::json!({
            "key": "k", "namespace": "shop", "owner": {"kind": "Pod", "name": "a"}, "reason": "Error", "since": time,
            "phase": phase, "sentAt": sent_at,
        })
    };
    let open = |phase: &str, is_sent: bool, sends_no_ends: bool| {
        let storm = serde_json::json!({"since": time, "count": 3, "members": "", "phase": phase, "sentAt": is_sent.then_some(time)});
        let status = serde_json::json!({
            "name": "ops", "alerts": [alert(phase, is_sent)], "storm": storm, "sendsNoEnds": sends_no_ends,
        });
        open_alerts(&serde_json::from_value::<WebhookStatus>(status).unwrap())
    };
    assert_eq!((open("Firing", true, false), open("Announcing", true, false)), (2, 2));
    assert_eq!((open("Queued", false, false), open("Announcing", false, false)), (0, 0));
    assert_eq!(open("Firing", true, true), 0, "a webhook with sendResolved: false");
}
