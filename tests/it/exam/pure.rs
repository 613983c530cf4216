//! The exam without a cluster: the verdict on each pod and its explanation, from the same fixtures.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event as ApiEvent;
use orchestr::{
    diagnosis::{Facts, Health, assess},
    events::{Event, WatchedEvent},
    pods::from_json,
    settings::Settings,
};
use serde_json::Value;

use super::{
    grade::{Answer, Result, assert_passed, grade},
    scenario::{Scenario, WRITTEN_AT, scenarios},
};

#[test]
fn explains_each_pod_without_a_cluster() {
    let now = WRITTEN_AT.parse().unwrap();
    let results: Vec<_> = scenarios(now).iter().filter_map(|scenario| examine(scenario, now)).collect();
    assert_passed(&results);
}

/// The result for the scenario's pod, if it has one.
pub fn examine(scenario: &Scenario, now: Timestamp) -> Option<Result> {
    let pod = scenario.objects.iter().find(|object| object["kind"] == "Pod")?;
    let pod = from_json(&pod.to_string()).unwrap();
    let mut events: Vec<_> = scenario.events.iter().filter_map(decode).collect();
    events.retain(|event| event.involved.kind == "Pod" && event.involved.name == pod.name);
    events.sort_by_key(|event| event.last);
    let facts = Facts { events: events.into(), ..Facts::default() };
    let settings = Settings::new(&serde_json::from_value(scenario.spec()).unwrap()).unwrap();
    let answer = match assess(&pod, &facts, &settings.thresholds, now).health {
        Health::Healthy | Health::Settling => None,
        Health::Problem(finding) => Some(Answer {
            kind: finding.kind,
            cause: finding.explanation.cause,
            container: finding.container.to_string(),
            owner: finding.owner.clone().map(Into::into),
            sentence: finding.explanation.message.to_string(),
            detail: finding.message.to_string(),
        }),
    };
    Some(grade(scenario, answer))
}

/// Decodes an event as the operator's watch does.
fn decode(event: &Value) -> Option<Event> {
    let event: ApiEvent = serde_json::from_value(event.clone()).unwrap();
    WatchedEvent::from(event).event.map(|event| *event)
}
