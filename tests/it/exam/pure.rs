//! The exam without a cluster: the verdict on each pod and its explanation, from the same fixtures.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use arcstr::ArcStr;
use jiff::Timestamp;
use orchestr::{
    diagnosis::{
        ClaimFacts, ClaimObject, ClassObject, ClassReading, ClusterNodes, Facts, FreeVolumes, Health, LimitChanges,
        ManagedWorkload, Preemptions, RevisionObject, TemplateChanges, assess, limit_changes, template_changes,
    },
    events::{Event, WatchedEvent},
    index::Index,
    pods::{Pod, from_json},
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
    let mut preemptions = Preemptions::default();
    events.iter().for_each(|event| preemptions.add(event));
    let claims = pod.requirements.as_deref().map(|own| own.claims.first().to_vec()).unwrap_or_default();
    let uid = pod.uid.to_string();
    let is_about = |event: &Event| match event.involved.kind.as_str() {
        "Pod" => event.involved.uid == uid,
        kind => kind == "PersistentVolumeClaim" && claims.iter().any(|claim| *claim == event.involved.name),
    };
    events.retain(is_about);
    events.sort_by_key(|event| event.last);
    let settings = Settings::new(&serde_json::from_value(scenario.spec()).unwrap()).unwrap();
    let mut index = Index::new(settings.thresholds.restarted);
    let view = index.add_view(settings.scope.clone());
    for object in scenario.objects.iter().filter(|object| object["kind"] == "Pod") {
        index.apply(Box::new(from_json(&object.to_string()).unwrap()), now);
    }
    let port_holder = index.port_holder(view, &pod);
    let preempted = preemptions.before(&pod, |namespace, uid| index.selects_pod_in(view, namespace, uid));
    let (revision, limit_changes) = (template(scenario, &pod), limits(scenario, &pod));
    let (nodes, claims) = (Some(cluster_nodes()), claim_facts(scenario));
    let facts = Facts {
        events: events.into(),
        port_holder,
        preempted,
        revision,
        limit_changes,
        nodes,
        claims,
        ..Facts::default()
    };
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

/// The nodes of all scenarios: on an API server, they are in one cluster.
fn cluster_nodes() -> Arc<ClusterNodes> {
    static NODES: LazyLock<Arc<ClusterNodes>> = LazyLock::new(|| {
        let mut nodes = ClusterNodes::default();
        let scenarios = scenarios(WRITTEN_AT.parse().unwrap());
        let objects = scenarios.into_iter().flat_map(|scenario| scenario.objects);
        for node in objects.filter(|object| object["kind"] == "Node") {
            nodes.add(&serde_json::from_value(node).unwrap());
        }
        Arc::new(nodes)
    });
    Arc::clone(&NODES)
}

/// The claims of a scenario. The StorageClasses and volumes are those of all scenarios.
fn claim_facts(scenario: &Scenario) -> Vec<(ArcStr, Arc<ClaimFacts>)> {
    static OTHERS: LazyLock<(BTreeMap<String, ClassObject>, FreeVolumes)> = LazyLock::new(|| {
        let (mut classes, mut volumes) = (BTreeMap::new(), FreeVolumes::default());
        let scenarios = scenarios(WRITTEN_AT.parse().unwrap());
        for object in scenarios.into_iter().flat_map(|scenario| scenario.objects) {
            match object["kind"].as_str() {
                Some("PersistentVolume") => volumes.add(&serde_json::from_value(object).unwrap()),
                Some("StorageClass") => {
                    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                    classes.insert(name, serde_json::from_value(object).unwrap());
                }
                _ => {}
            }
        }
        (classes, volumes)
    });
    let (classes, volumes) = &*OTHERS;
    let claims = scenario.objects.iter().filter(|object| object["kind"] == "PersistentVolumeClaim");
    let facts = claims.map(|object| {
        let claim: ClaimObject = serde_json::from_value(object.clone()).unwrap();
        let class = claim.class().map(|class| classes.get(class).map_or(ClassReading::Missing, ClassReading::Read));
        let facts = ClaimFacts::of(&claim, class.unwrap_or(ClassReading::Unknown), Some(volumes));
        (object["metadata"]["name"].as_str().unwrap().into(), Arc::new(facts))
    });
    facts.collect()
}

/// The pod template of the pod's ReplicaSet, compared with that of an earlier one if it has a pod.
fn template(scenario: &Scenario, pod: &Pod) -> Option<Arc<TemplateChanges>> {
    let revisions = revisions(scenario);
    let own = own(&revisions, pod)?;
    let has_pod = |revision: &&RevisionObject| {
        let pods = scenario.objects.iter().filter(|object| object["kind"] == "Pod");
        pods.into_iter().any(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == revision.uid)
    };
    let before = revisions.iter().filter(has_pod).find(|other| other.number < own.number);
    let changes = match before {
        Some(before) => template_changes(&before.template, &own.template),
        None => TemplateChanges::of_one(&own.template),
    };
    Some(Arc::new(changes))
}

/// How the memory limits of the pod's ReplicaSet came about, if the scenario has its Deployment.
fn limits(scenario: &Scenario, pod: &Pod) -> Option<Arc<LimitChanges>> {
    let deployment = scenario.objects.iter().find(|object| object["kind"] == "Deployment")?;
    let deployment: ManagedWorkload = serde_json::from_value(deployment.clone()).unwrap();
    let revisions = revisions(scenario);
    Some(Arc::new(limit_changes(own(&revisions, pod)?, revisions.iter(), &deployment)))
}

fn revisions(scenario: &Scenario) -> Vec<RevisionObject> {
    let replica_sets = scenario.objects.iter().filter(|own| own["kind"] == "ReplicaSet");
    replica_sets.map(|own| RevisionObject::from_json(own.to_string().as_bytes()).unwrap()).collect()
}

fn own<'r>(revisions: &'r [RevisionObject], pod: &Pod) -> Option<&'r RevisionObject> {
    revisions.iter().find(|own| pod.controller.as_ref().is_some_and(|controller| controller.uid == own.uid))
}

/// Decodes an event as the operator's watch does.
fn decode(event: &Value) -> Option<Event> {
    serde_json::from_value::<WatchedEvent>(event.clone()).unwrap().event.map(|event| *event)
}
