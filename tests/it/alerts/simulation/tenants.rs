//! Two teams share a webhook, and one of them tries to keep the alerts of the other from being sent.

use proptest::prelude::*;

use super::{
    Behaviour, KEYS, Simulation, key,
    properties::{event, format},
    rendered_text, webhook,
};
use orchestr::{
    alerts::{Incident, Notification, NotificationPolicy},
    api::{AlertPhase, Mentions, MessageKind, Owner, ProblemKind, Severity, Webhook, WebhookFormat},
};

use Severity::{Critical, Warning};

/// An incident of a pod in this namespace, which begins now.
fn incident(sim: &Simulation, namespace: &str, name: &str, severity: Severity) -> Incident {
    Incident {
        key: format!("{namespace}-{name}").into(),
        namespace: namespace.into(),
        owner: Owner { kind: "Pod".to_owned(), name: format!("{namespace}-{name}") }.into(),
        kind: ProblemKind::Crash,
        reason: "Error".into(),
        since: sim.now,
        pods: 1,
        of: 1,
        severity,
        ..Incident::default()
    }
}

impl Simulation {
    /// A webhook for all namespaces, which mentions people because of critical and other incidents if it is for Slack.
    fn shared(format: WebhookFormat) -> Self {
        let mention = |name: &str| Some(vec![name.to_owned()]);
        let mentions = Mentions { critical: mention("@channel"), warning: mention("@here"), info: None };
        let mentions = (format == WebhookFormat::Slack).then_some(mentions);
        let mut sim = Self::new(format);
        sim.policy = NotificationPolicy::new(0, &Webhook { mentions, ..webhook(format) }).unwrap();
        sim
    }

    fn fail(&mut self, namespace: &str, name: &str, severity: Severity) -> String {
        let incident = incident(self, namespace, name, severity);
        let key = incident.key.to_string();
        self.set_incident(incident);
        key
    }

    /// Like [`Self::fail`], with a common cause.
    fn fail_with_cause(&mut self, namespace: &str, name: &str, severity: Severity) -> String {
        let key = self.fail(namespace, name, severity);
        self.causes.insert(key.clone(), 7);
        key
    }

    /// Whether an accepted message announced the alert with this key.
    fn has_started(&self, key: &str) -> bool {
        self.sent.iter().any(|sent| sent.kind == MessageKind::Firing && sent.started.iter().any(|own| own.key == key))
    }
}

#[test]
fn a_storm_in_one_namespace_leaves_space_for_alerts_of_others() {
    for (format, tracked) in
        [(WebhookFormat::Slack, 75), (WebhookFormat::PagerDuty, 15), (WebhookFormat::Alertmanager, 160)]
    {
        let mut sim = Simulation::shared(format);
        for number in 0..200 {
            sim.fail("evil", &format!("{number:03}"), Critical);
        }
        sim.advance(200);
        assert_eq!((sim.stored.alerts.len(), sim.storm), (tracked, 200 - tracked as u64), "{format:?}");
        for number in 200..210 {
            sim.fail("evil", &number.to_string(), Critical);
        }
        sim.advance(100);
        let victims = [sim.fail("payments", "api", Critical), sim.fail("shop", "cart", Warning)];
        sim.advance(100);
        let started = victims.map(|key| sim.has_started(&key));
        assert_eq!(started, [true; 2], "{format:?}");
    }
}

#[test]
fn simultaneous_incidents_are_tracked_by_turns() {
    let mut sim = Simulation::shared(WebhookFormat::PagerDuty);
    for number in 0..100 {
        sim.fail("evil", &format!("{number:03}"), Critical);
    }
    sim.advance(1);
    let warning = sim.fail("payments", "0", Warning);
    let critical = sim.fail("payments", "1", Critical);
    for number in 2..20 {
        sim.fail("payments", &number.to_string(), Warning);
    }
    sim.usable = false;
    sim.advance(60);
    sim.usable = true;
    sim.advance(600);
    let of = |namespace: &str| sim.stored.alerts.iter().filter(|alert| alert.namespace == namespace).count();
    assert_eq!(of("evil"), 15);
    assert_eq!((of("payments"), sim.has_started(&critical), sim.has_started(&warning)), (3, true, true));
}

#[test]
fn a_storm_continues_while_incidents_of_others_are_tracked() {
    let mut sim = Simulation::shared(WebhookFormat::Slack);
    for number in 0..200 {
        sim.fail("evil", &format!("{number:03}"), Warning);
    }
    sim.advance(300);
    assert_eq!((sim.stored.alerts.len(), sim.storm), (75, 125));
    let victim = sim.fail("payments", "api", Warning);
    sim.advance(60);
    assert!(sim.has_started(&victim));
    sim.active.remove(&victim);
    // One of the tracked incidents ends: none of the storm takes its place.
    sim.active.remove("evil-003");
    sim.advance(600);
    let firing = sim.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count();
    assert_eq!((firing, sim.storm), (74, 125));
}

/// A storm in two namespaces that use all of the space.
fn full_storm(format: WebhookFormat) -> Simulation {
    let mut sim = Simulation::shared(format);
    sim.policy.pacing.max_incidents = 2;
    for number in 0..20 {
        sim.fail("evil", &number.to_string(), Critical);
        sim.fail("evil2", &number.to_string(), Critical);
    }
    sim.advance(400);
    assert_eq!(sim.storm, 38);
    sim
}

#[test]
fn a_critical_incident_in_a_storm_names_its_namespace() {
    for format in WebhookFormat::ALL {
        let mut sim = full_storm(format);
        // A message about the storm was sent a moment ago, so the next one would be due in five minutes.
        sim.fail("evil", "late", Warning);
        sim.advance(60);
        let before = sim.sent.len();
        sim.fail("payments", "api", Critical);
        sim.fail("shop", "cart", Warning);
        sim.advance(30 + 60);
        let message = sim.sent[before..].iter().find(|sent| sent.kind == MessageKind::Firing).expect("a message");
        assert_eq!(message.storm.as_ref().unwrap().critical, ["payments"], "{format:?}");
        assert_eq!(message.mentions.len(), usize::from(format == WebhookFormat::Slack), "{format:?}");
        let text = rendered_text(message, format);
        assert!(text.contains("payments"), "{format:?}: {text}");
    }
}

#[test]
fn a_critical_incident_of_a_silenced_storm_is_named_later() {
    for (format, receiver) in WebhookFormat::ALL
        .into_iter()
        .flat_map(|format| [(format, Behaviour::Accepts), (format, Behaviour::Unreachable)])
    {
        let mut sim = full_storm(format);
        let before = sim.sent.len();
        sim.receiver = receiver;
        let announces = receiver != Behaviour::Accepts;
        if announces {
            // The message about it is pending when the silence begins.
            sim.fail("payments", "api", Critical);
            sim.advance(30 + 60);
            assert_eq!(sim.stored.storm.as_ref().unwrap().phase, AlertPhase::Announcing, "{format:?}");
        }
        sim.silence("*", 1_800);
        if !announces {
            sim.fail("payments", "api", Critical);
        }
        sim.advance(60);
        sim.receiver = Behaviour::Accepts;
        sim.advance(1_500);
        let storms = |sim: &Simulation| -> Vec<_> {
            let news = sim.sent[before..].iter().filter(|sent| sent.kind == MessageKind::Firing);
            let storms = news.filter_map(|sent| sent.storm.clone());
            storms.map(|storm| (storm.count, storm.severity, storm.critical)).collect()
        };
        assert_eq!(storms(&sim), [], "{format:?} {receiver:?}");
        sim.advance(600);
        assert_eq!(storms(&sim), [(39, Critical, vec!["payments".to_owned()])], "{format:?} {receiver:?}");
    }
}

#[test]
fn critical_incidents_cause_a_storm_message_every_5_minutes() {
    let mut sim = full_storm(WebhookFormat::Slack);
    let before = sim.sent.len();
    for number in 20..50 {
        sim.fail("evil", &number.to_string(), Critical);
        sim.advance(30);
    }
    let sent = sim.sent.len() - before;
    assert!((3..=4).contains(&sent), "{sent} messages in 15 minutes");
    let before = sim.sent.len();
    sim.fail("payments", "api", Critical);
    sim.advance(30 + 60);
    let mut storms = sim.sent[before..].iter().filter_map(|sent| sent.storm.as_ref());
    assert!(storms.any(|storm| storm.critical.contains(&"payments".to_owned())), "others do not wait for it");
}

#[test]
fn a_provoked_common_cause_hides_no_incident_of_others() {
    for format in WebhookFormat::ALL {
        for restarts in [false, true] {
            let mut sim = Simulation::shared(format);
            for number in 0..40 {
                sim.fail_with_cause("evil", &number.to_string(), Critical);
            }
            sim.advance(3 * 60 * 60);
            if restarts {
                sim.play("restart .");
            }
            let first = sim.fail_with_cause("payments", "api", Warning);
            sim.advance(60);
            assert!(sim.has_started(&first), "{format:?}");
            // The receiver knows that the cause concerns this namespace.
            let second = sim.fail_with_cause("payments", "web", Warning);
            sim.advance(60);
            assert!(!sim.has_started(&second), "{format:?}");
            let critical = sim.fail_with_cause("payments", "db", Critical);
            sim.advance(60);
            assert!(sim.has_started(&critical), "{format:?}");
            let further =
                [sim.fail_with_cause("payments", "mq", Critical), sim.fail_with_cause("evil", "41", Critical)];
            sim.advance(60);
            assert_eq!(further.map(|key| sim.has_started(&key)), [false; 2], "{format:?}");
            for (key, starts) in [(&first, 1), (&critical, 1)] {
                assert_eq!(sim.history(key).len(), starts, "{format:?}");
            }
            sim.active.clear();
            sim.causes.clear();
            sim.advance(600);
            for key in [&first, &critical] {
                assert_eq!(sim.history(key).len(), 2, "{format:?}: resolved once");
            }
        }
    }
}

#[test]
fn a_common_cause_names_an_incident_of_each_namespace() {
    let mut sim = Simulation::shared(WebhookFormat::Slack);
    for number in 0..60 {
        sim.fail_with_cause("evil", &number.to_string(), Critical);
    }
    sim.advance(1);
    sim.fail_with_cause("payments", "api", Warning);
    sim.fail_with_cause("payments", "web", Warning);
    sim.advance(40);
    let [alert] = sim.sent[0].started.as_slice() else { panic!("{:?}", sim.sent) };
    let named: Vec<_> = alert.members.iter().take(4).map(|member| member.key.as_str()).collect();
    assert_eq!(named, ["evil-0", "payments-api", "evil-1", "payments-web"]);
    let text = rendered_text(&sim.sent[0], WebhookFormat::Slack);
    assert!(text.contains("payments-api"), "{text}");
    // Nothing is sent about those that are not named, because their namespaces are.
    sim.advance(1_000);
    assert_eq!(sim.sent.len(), 1);
}

#[test]
fn namespaces_of_unstored_members_get_no_own_alerts() {
    let mut sim = Simulation::shared(WebhookFormat::Slack);
    for number in 0..60 {
        sim.fail_with_cause(&format!("team{number}"), "api", Warning);
    }
    sim.advance(1_000);
    assert_eq!((sim.sent.len(), sim.sent[0].started.len()), (1, 1), "a node with pods of sixty namespaces");
}

fn mentions(sent: &[Notification]) -> usize {
    sent.iter().filter(|sent| !sent.mentions.is_empty()).count()
}

#[test]
fn one_namespace_causes_a_mention_every_5_minutes() {
    let mut sim = Simulation::shared(WebhookFormat::Slack);
    for number in 0..40 {
        sim.fail("evil", &number.to_string(), Critical);
        sim.advance(30);
    }
    let all = mentions(&sim.sent);
    assert!(sim.sent.len() >= 35 && (4..=5).contains(&all), "{all} mentions in {} messages", sim.sent.len());
    // Those of others, and more severe ones, do not wait.
    let before = sim.sent.len();
    sim.fail("payments", "web", Warning);
    sim.advance(40);
    assert_eq!(mentions(&sim.sent[before..]), 1);
    let before = sim.sent.len();
    sim.fail("payments", "api", Critical);
    sim.advance(40);
    assert_eq!(mentions(&sim.sent[before..]), 1);
    let before = sim.sent.len();
    sim.fail("payments", "db", Warning);
    sim.advance(40);
    assert_eq!((sim.sent.len() - before, mentions(&sim.sent[before..])), (1, 0));
    sim.advance(5 * 60);
    let before = sim.sent.len();
    sim.fail("payments", "mq", Critical);
    sim.advance(40);
    assert_eq!(mentions(&sim.sent[before..]), 1);
}

#[test]
fn stores_a_bounded_number_of_namespaces_with_mentions() {
    let mut sim = Simulation::shared(WebhookFormat::Slack);
    for number in 0..40 {
        sim.fail(&format!("{:x<60}{number}", ""), "api", Critical);
    }
    sim.advance(100);
    assert_eq!(sim.stored.mentioned.len(), 8);
    sim.advance(600);
    sim.fail("payments", "api", Critical);
    sim.advance(40);
    let stored: Vec<_> = sim.stored.mentioned.iter().map(|own| own.namespace.as_str()).collect();
    assert_eq!(stored, ["payments"], "those of earlier messages are dropped");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sends_the_alert_of_a_namespace_whatever_happens_in_another(
        format in format(),
        max in 4_usize..8,
        events in prop::collection::vec(event(), 1..40),
        causes in prop::collection::vec(prop::option::of(0_u8..2), usize::from(KEYS)),
        cause in prop::option::of(0_u8..2),
    ) {
        let mut sim = Simulation::shared(format);
        sim.policy.pacing.max_incidents = max;
        for (number, cause) in (0..KEYS).zip(causes) {
            let evil = Incident { key: key(number).into(), ..incident(&sim, "evil", &number.to_string(), Critical) };
            sim.custom.insert(key(number), evil);
            sim.causes.extend(cause.map(|cause| (key(number), cause)));
        }
        sim.live(&events);
        let victim = sim.fail("payments", "api", Warning);
        sim.causes.extend(cause.map(|cause| (victim.clone(), cause)));
        sim.advance(40 * 60);
        let is_firing = |alert: &orchestr::api::AlertStatus| {
            alert.phase == AlertPhase::Firing && (alert.key == victim || alert.members.contains(&victim))
        };
        let named = sim.sent.iter().flat_map(|sent| &sent.started).any(|alert| {
            alert.key == victim || alert.members.iter().any(|member| member.key == victim)
        });
        prop_assert!(sim.stored.alerts.iter().any(is_firing) && named, "{:#?}", sim.stored);
    }
}
