//! What Alertmanager is sent again: everything that it was sent or may have been sent, and nothing else.

use super::{Behaviour, Simulation, key, played};
use orchestr::{
    alerts::{Alert, Notification},
    api::{AlertPhase, WebhookFormat},
};

/// What would be sent again ten minutes later, after a restart of the operator.
fn resent(sim: &mut Simulation) -> Option<Notification> {
    sim.now += std::time::Duration::from_secs(600);
    sim.last_sent = None;
    sim.resend().message
}

/// Passes the time until changes are due, when the receiver behaves like this. Nothing is sent again meanwhile.
fn attempt(sim: &mut Simulation, receiver: Behaviour) {
    sim.receiver = receiver;
    sim.last_sent = Some(sim.now);
    sim.advance(31);
}

fn keys(alerts: &[Alert]) -> Vec<&str> {
    alerts.iter().map(|alert| alert.key.as_str()).collect()
}

#[test]
fn resends_a_start_that_may_have_been_delivered() {
    let (first, second) = (key(1), key(2));
    for (receiver, started) in [(Behaviour::Fails, vec![second.as_str()]), (Behaviour::Unreachable, vec![])] {
        let mut sim = played(WebhookFormat::Alertmanager, "+1 60s +2");
        attempt(&mut sim, receiver);
        let message = resent(&mut sim).unwrap();
        assert_eq!((keys(&message.started), keys(&message.ongoing)), (started.clone(), vec![first.as_str()]));
        sim.stored.alerts.retain(|alert| alert.phase == AlertPhase::Announcing);
        let message = resent(&mut sim);
        assert_eq!(message.map_or(0, |message| message.started.len()), started.len(), "{receiver:?}: the only alert");
    }
}

#[test]
fn resends_a_storm_except_while_a_message_about_it_is_pending() {
    let storm = |sim: &mut Simulation| resent(sim).unwrap().storm.map(|storm| storm.count);
    let mut sim = Simulation::new(WebhookFormat::Alertmanager);
    sim.policy.pacing.max_incidents = 2;
    sim.play("+s0..10 60s");
    assert_eq!(storm(&mut sim), Some(8));
    sim.play("+s10..30");
    attempt(&mut sim, Behaviour::Fails);
    assert_eq!(sim.stored.storm.as_ref().unwrap().phase, AlertPhase::Announcing);
    assert_eq!(storm(&mut sim), None);
    sim.play("Accepts 10m");
    assert_eq!(storm(&mut sim), Some(28));
    sim.play("-s2..30");
    attempt(&mut sim, Behaviour::Fails);
    assert_eq!(sim.stored.storm.as_ref().unwrap().phase, AlertPhase::Resolving);
    assert_eq!(storm(&mut sim), None);
}
