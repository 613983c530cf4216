//! The exam without a cluster: the verdict on each pod and its explanation, from the same fixtures.

use jiff::Timestamp;
use orchestr::{
    diagnosis::{Facts, Health, explain, judge},
    events::{Event, InvolvedObject},
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
    let mut events: Vec<_> = scenario.events.iter().filter(|event| is_about(event, &pod.name)).map(decode).collect();
    events.sort_by_key(|event| event.last);
    let facts = Facts { events: events.into(), ..Facts::default() };
    let settings = Settings::new(&serde_json::from_value(scenario.spec()).unwrap()).unwrap();
    let answer = match judge(&pod, &facts, &settings.thresholds, now).health {
        Health::Healthy | Health::Settling => None,
        Health::Problem(mut finding) => {
            explain(&pod, &mut finding, &facts, now);
            Some(Answer {
                kind: finding.kind,
                cause: finding.explanation.cause,
                container: finding.container.clone(),
                owner: finding.owner.clone(),
                sentence: finding.explanation.message.clone(),
                detail: finding.message.clone(),
            })
        }
    };
    Some(grade(scenario, answer))
}

fn is_about(event: &Value, pod: &str) -> bool {
    let involved = &event["involvedObject"];
    event["type"] == "Warning" && involved["kind"] == "Pod" && involved["name"] == pod
}

/// Decodes an event as the operator's watch does.
fn decode(event: &Value) -> Event {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let time = |value: &Value| value.as_str().and_then(|time| time.parse().ok());
    let (involved, series) = (&event["involvedObject"], &event["series"]);
    let count = event["count"].as_u64().or_else(|| series["count"].as_u64()).unwrap_or(1);
    let path = text(&involved["fieldPath"]);
    Event {
        involved: InvolvedObject {
            kind: text(&involved["kind"]),
            namespace: text(&involved["namespace"]),
            name: text(&involved["name"]),
            uid: text(&involved["uid"]),
            container: path.split_once('{').map_or("", |(_, name)| name.trim_end_matches('}')).to_owned(),
        },
        reason: text(&event["reason"]),
        message: text(&event["message"]),
        count: count.try_into().unwrap(),
        first: time(&event["firstTimestamp"]).or_else(|| time(&event["eventTime"])),
        last: time(&event["lastTimestamp"])
            .or_else(|| time(&series["lastObservedTime"]))
            .or_else(|| time(&event["eventTime"])),
    }
}
