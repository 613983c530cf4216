use serde_json::{Value, json};

use super::{
    super::super::explanation::{MissingPart, RevisionPart, TerminationPart},
    *,
};
use crate::api::{Cause, ContainerStateName, Incident, Owner};

fn at(time: &str) -> Time {
    Time(format!("2026-03-01T{time}Z").parse().unwrap())
}

fn plain(explanation: &Explanation, width: usize) -> String {
    super::super::plain(&super::write(explanation, Layout { width, log_lines: usize::MAX }))
}

fn explanation(target: &str, state: State, workload: Option<WorkloadPart>, pods: Vec<PodPart>) -> Explanation {
    Explanation {
        target: target.to_owned(),
        namespace: "shop".to_owned(),
        time: at("12:00:00"),
        state,
        workload,
        pods,
        not_read: Vec::new(),
    }
}

fn pod(status: &str, state: State) -> PodPart {
    PodPart {
        name: "cart-5d9f-a".to_owned(),
        status: status.to_owned(),
        state,
        since: Some(at("11:55:00")),
        created: Some(at("10:00:00")),
        node: "node-7".to_owned(),
        owner: Some(Owner { kind: "Deployment".to_owned(), name: "cart".to_owned() }),
        ..PodPart::default()
    }
}

fn problem(log: &str) -> PodProblem {
    serde_json::from_value(json!({
        "name": "cart-5d9f-a", "namespace": "shop", "status": "CrashLoopBackOff", "kind": "Crash", "reason": "OOMKilled",
        "cause": "OutOfMemory", "message": "container app was OOM-killed (exit 137), 7 restarts, limit 512Mi",
        "since": "2026-03-01T11:55:00Z", "evidence": ["Unhealthy ×41"],
        "containerIssues": [{
            "name": "app", "type": "App", "state": "Waiting", "ready": false, "restarts": 7,
            "logs": log, "logSource": "Previous",
        }],
    }))
    .unwrap()
}

fn container() -> ContainerPart {
    ContainerPart {
        name: "app".to_owned(),
        kind: ContainerKind::App,
        image: "cart:1".to_owned(),
        state: ContainerStateName::Waiting,
        reason: "CrashLoopBackOff".to_owned(),
        message: "back-off 5m0s".to_owned(),
        since: None,
        ready: false,
        restarts: 7,
        last_termination: Some(TerminationPart {
            exit_code: 137,
            reason: "OOMKilled".to_owned(),
            started_at: Some(at("11:58:00")),
            finished_at: Some(at("11:59:30")),
            message: String::new(),
        }),
        memory_limit: "512Mi".to_owned(),
        probes: vec!["liveness probe: GET :8080/healthz every 10 s".to_owned()],
    }
}

fn event(about: &str, message: &str) -> EventPart {
    EventPart {
        about: about.to_owned(),
        kind: "Warning".to_owned(),
        reason: "BackOff".to_owned(),
        message: message.to_owned(),
        count: 41,
        first: None,
        last: Some(at("11:59:50")),
        from: "kubelet".to_owned(),
    }
}

#[test]
fn explains_a_pod_with_a_problem() {
    let workload = WorkloadPart {
        name: "deployment/cart".to_owned(),
        progress: "its rollout is not complete: 1 of 3 replicas updated".to_owned(),
        pods: Some(Counts { total: 3, healthy: 2, problems: 1, ..Counts::default() }),
        revision: Some(RevisionPart {
            name: "cart-5d9f".to_owned(),
            before: "cart-4c8e".to_owned(),
            changes: vec!["image of app: cart:0 → cart:1".to_owned()],
        }),
        ..WorkloadPart::default()
    };
    let pod = PodPart {
        explanation: "app was OOM-killed 90 s after its start, 7 restarts; limit 512Mi".to_owned(),
        also: vec!["sidecar proxy exited with code 1".to_owned()],
        problem: Some(PodProblem { since_at_latest: true, ..problem("INFO  ready\n\tout of memory") }),
        containers: vec![container()],
        conditions: vec![ConditionPart {
            kind: "Ready".to_owned(),
            status: "False".to_owned(),
            reason: "ContainersNotReady".to_owned(),
            message: "containers with unready status: [app]".to_owned(),
            since: Some(at("11:59:30")),
        }],
        node_state: Some(NodePart {
            name: "node-7".to_owned(),
            exists: true,
            unschedulable: true,
            conditions: Vec::new(),
            taints: vec!["dedicated=gpu:NoSchedule".to_owned()],
        }),
        events: Events {
            shown: vec![event("container app", "Back-off restarting failed container")],
            omitted: 9,
            more: false,
        },
        ..pod("CrashLoopBackOff", State::Problem)
    };
    let mut explanation = explanation("pod/cart-5d9f-a", State::Problem, Some(workload), vec![pod]);
    explanation.not_read = vec!["Secret db (not allowed: get secrets in shop)".to_owned()];
    assert_eq!(
        plain(&explanation, 100),
        "pod/cart-5d9f-a in shop has a problem
  CrashLoopBackOff, OOMKilled, OutOfMemory for at least 5m
  app was OOM-killed 90 s after its start, 7 restarts; limit 512Mi
  container app was OOM-killed (exit 137), 7 restarts, limit 512Mi
  evidence: Unhealthy ×41
  also: sidecar proxy exited with code 1
  owned by Deployment cart, on node-7, created 120m ago
  Containers:
    app: Waiting (CrashLoopBackOff), not ready, 7 restarts, image cart:1
        back-off 5m0s
        last run ended 30s ago with exit code 137 (OOMKilled), after 90s
        memory limit 512Mi
        liveness probe: GET :8080/healthz every 10 s
        log of the previous run:
        | INFO  ready
        |     out of memory
  Conditions that are not as they should be:
    Ready is False for 30s: ContainersNotReady: containers with unready status: [app]
  The node node-7:
    it is cordoned
    taint dedicated=gpu:NoSchedule
  Events, the newest first:
    10s ago Warning BackOff ×41 (container app, kubelet): Back-off restarting failed container
    and 9 older ones

Its workload, deployment/cart
  its rollout is not complete: 1 of 3 replicas updated
  3 pods: 2 healthy, 1 with a problem
  the pod's revision is cart-5d9f; what changed since cart-4c8e:
    image of app: cart:0 → cart:1

Not read
  Secret db (not allowed: get secrets in shop)
"
    );
}

#[test]
fn says_how_healthy_a_pod_is() {
    let lines = |pod: PodPart| {
        let state = pod.state;
        let text = plain(&explanation("pod/cart-5d9f-a", state, None, vec![pod]), 80);
        text.lines().take(2).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(lines(pod("Running", State::Healthy)), "pod/cart-5d9f-a in shop is healthy\n  Running, ready for 5m");
    assert_eq!(lines(pod("Completed", State::Healthy)), "pod/cart-5d9f-a in shop is healthy\n  Completed 5m ago");
    let settling = PodPart { until: Some(at("12:00:48")), ..pod("ContainerCreating", State::Settling) };
    assert_eq!(
        lines(settling),
        "pod/cart-5d9f-a in shop is not healthy yet\n  ContainerCreating; it becomes a problem in 48s, at \
         2026-03-01T12:00:48Z,"
    );
}

fn object(changes: Value) -> String {
    let field = |name: &str| -> Vec<String> { serde_json::from_value(changes[name].clone()).unwrap_or_default() };
    let object = ObjectPart {
        kind: crate::render::explanation::ReferenceKind::ConfigMap,
        name: "settings".to_owned(),
        exists: changes["exists"].as_bool(),
        optional: false,
        missing_keys: field("missing"),
        unchecked_keys: field("unchecked"),
        used_by: vec!["env of app".to_owned()],
        detail: changes["detail"].as_str().unwrap_or_default().to_owned(),
        events: Events::default(),
    };
    let pod = PodPart { objects: vec![object], ..pod("Pending", State::Problem) };
    let text = plain(&explanation("pod/cart-5d9f-a", State::Problem, None, vec![pod]), 200);
    text.lines().find_map(|line| line.strip_prefix("    ConfigMap settings (env of app) ")).unwrap().to_owned()
}

#[test]
fn says_what_is_known_about_an_object() {
    for (changes, expected) in [
        (json!({"exists": true}), "exists"),
        (json!({"exists": false}), "does not exist"),
        (json!({}), "could not be read"),
        (json!({"exists": true, "missing": ["a", "b"]}), "does not have the key a, b"),
        (json!({"exists": true, "unchecked": ["a"]}), "exists; whether it has the key a is not read"),
        (json!({"exists": true, "detail": "Pending, 10Gi"}), "exists: Pending, 10Gi"),
    ] {
        assert_eq!(object(changes.clone()), expected, "{changes}");
    }
}

#[test]
fn explains_a_workload_with_its_incidents() {
    let incident: Incident = serde_json::from_value(json!({
        "key": "0", "kind": "Crash", "namespace": "shop", "owner": {"kind": "Deployment", "name": "cart"}, "reason": "OOMKilled",
        "cause": "OutOfMemory", "message": "app was OOM-killed", "pods": 2, "of": 3, "since": "2026-03-01T11:50:00Z",
    }))
    .unwrap();
    let workload = WorkloadPart {
        name: "deployment/cart".to_owned(),
        progress: "its rollout is not complete: 2 of 3 replicas updated".to_owned(),
        pods: Some(Counts { total: 3, healthy: 1, problems: 2, unreadable: 1, more: true, ..Counts::default() }),
        revision: None,
        missing_pods: Some(MissingPart {
            cause: Cause::QuotaExceeded,
            message: "the ResourceQuota pods is exceeded".to_owned(),
            hint: String::new(),
            quotas: vec!["ResourceQuota pods: pods 3 of 3".to_owned()],
        }),
        incidents: vec![incident],
        events: Events { shown: vec![event("ReplicaSet cart-5d9f", "x")], omitted: 0, more: true },
    };
    let pods = vec![pod("Running", State::Healthy)];
    assert_eq!(
        plain(&explanation("deployment/cart", State::Problem, Some(workload), pods), 100),
        "deployment/cart in shop has a problem
  its rollout is not complete: 2 of 3 replicas updated
  3 pods: 1 healthy, 2 with a problem, 1 more that cannot be decoded, and more that were not read
  pods cannot be created (QuotaExceeded): the ResourceQuota pods is exceeded
    ResourceQuota pods: pods 3 of 3
  Incidents:
    OOMKilled, OutOfMemory: 2 of 3 pods for 10m
        app was OOM-killed
  Events, the newest first:
    10s ago Warning BackOff ×41 (ReplicaSet cart-5d9f, kubelet): x
    there are more events, which were not read

pod/cart-5d9f-a
  Running, ready for 5m
  owned by Deployment cart, on node-7, created 120m ago
"
    );
}

#[test]
fn prints_nothing_that_could_control_a_terminal() {
    let hostile = "x\u{1b}[31m\u{202e}\r\n::error::y";
    let pod = PodPart {
        explanation: hostile.to_owned(),
        log_line: hostile.to_owned(),
        hint: hostile.to_owned(),
        problem: Some(PodProblem { message: hostile.to_owned(), ..problem(hostile) }),
        events: Events { shown: vec![event(hostile, hostile)], ..Events::default() },
        ..pod(hostile, State::Problem)
    };
    let mut explanation = explanation(hostile, State::Problem, None, vec![pod]);
    explanation.not_read = vec![hostile.to_owned()];
    let text = super::write(&explanation, Layout { width: 80, log_lines: 9 });
    assert!(!text.contains(['\u{202e}', '\r']) && !text.contains("\u{1b}[31mx"), "{text:?}");
    assert!(text.lines().all(|line| !line.starts_with("::error::")), "{text}");
}

#[test]
fn wraps_texts_to_the_width() {
    let pod = PodPart {
        events: Events { shown: vec![event("Pod cart", &"word ".repeat(60))], ..Events::default() },
        ..pod("Running", State::Healthy)
    };
    let text = plain(&explanation("pod/cart-5d9f-a", State::Healthy, None, vec![pod]), 60);
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
}
