//! Messages with which a template is tried before it is used: about as little and as much as there can be, and with names and
//! texts that would break a body that does not escape them.

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    alerts::{Alert, Incident, Notification, Source, Storm, Texts},
    api::{Cause, MessageKind, NamespacedName, Owner, ProblemKind, Revision, Severity},
};

/// Ends a text, a body, a line, a header and a path, and looks like a template.
const HOSTILE: &str = "\"'`\\</script>&=#?/%2e%2e/{{ 1 }}{% x %}\r\nX: y\u{0}\u{202e}😀@here";

/// A message about a problem as it often occurs.
pub(in crate::alerts) fn example(source: Source, webhook: &str, now: Timestamp) -> Notification {
    let texts = Texts {
        example_pods: vec!["cart-5d9f7c-a1b2c".to_owned()],
        message: "app was OOM-killed 31–34 s after its start, 7 restarts; limit 512Mi".to_owned(),
        logs: "loading 40000 rows\nKilled".into(),
        revision: Some(Revision {
            name: "cart-5d9f7c".to_owned(),
            healthy_before: 7,
            changes: vec!["app: memory limit 1Gi → 512Mi".to_owned()],
        }),
        ..Texts::default()
    };
    let incident = Incident {
        key: "5f0c2a915f0c2a91".into(),
        namespace: "shop".into(),
        owner: Owner { kind: "Deployment".to_owned(), name: "cart".to_owned() }.into(),
        container: "app".into(),
        reason: "OOMKilled".into(),
        cause: Cause::OutOfMemory,
        since: now.checked_sub(Duration::from_secs(90)).unwrap_or(now),
        pods: 3,
        of: 10,
        severity: Severity::Warning,
        texts: texts.into(),
        ..Incident::default()
    };
    message("example", source, webhook, now, vec![alert(incident)])
}

fn alert(incident: Incident) -> Alert {
    Alert { first_severity: incident.severity, incident, ..Alert::default() }
}

fn message(id: &str, source: Source, webhook: &str, now: Timestamp, started: Vec<Alert>) -> Notification {
    let reasons = started.iter().map(|alert| (alert.reason.to_string(), 1)).collect();
    let (id, webhook) = (id.to_owned(), webhook.to_owned());
    Notification { id, source, webhook, created: now, now, started, reasons, ..Notification::default() }
}

/// The message that everything in this one is over.
pub(in crate::alerts) fn end(message: &Notification) -> Notification {
    let kind = if message.kind == MessageKind::Test { MessageKind::Test } else { MessageKind::Resolved };
    Notification { kind, ..message.clone().resolved(format!("{}-end", message.id), message.now) }
}

fn least(now: Timestamp) -> Incident {
    Incident {
        key: "k".into(),
        owner: Owner { kind: "Pod".to_owned(), name: "x".to_owned() }.into(),
        reason: "x".into(),
        severity: Severity::Info,
        since: now,
        pods: 1,
        ..Incident::default()
    }
}

fn most(now: Timestamp) -> Incident {
    let texts = Texts {
        example_pods: vec![HOSTILE.to_owned(); 3],
        message: HOSTILE.repeat(10),
        logs: HOSTILE.repeat(80).into(),
        log_note: HOSTILE.into(),
        evidence: vec![HOSTILE.repeat(5); 3],
        revision: Some(Revision { name: HOSTILE.to_owned(), healthy_before: 7, changes: vec![HOSTILE.repeat(5); 5] }),
    };
    Incident {
        namespace: HOSTILE.into(),
        owner: Owner { kind: HOSTILE.to_owned(), name: HOSTILE.repeat(3) }.into(),
        container: HOSTILE.into(),
        kind: ProblemKind::Image,
        reason: HOSTILE.into(),
        cause: Cause::ImageNotFound,
        pods: 500,
        of: 1_000,
        severity: Severity::Critical,
        team: "Check-out_1.x".into(),
        runbook: "https://runbooks.example/a?b=c&d=e".into(),
        texts: texts.into(),
        ..least(now)
    }
}

/// The first one is as small as a message can be.
pub(super) fn examples(is_single: bool) -> Vec<Notification> {
    let now = Timestamp::UNIX_EPOCH;
    let source = || Source {
        object: NamespacedName { namespace: "orchestr-system".to_owned(), name: "cluster".to_owned() },
        uid: "uid".to_owned(),
        cluster: HOSTILE.to_owned(),
    };
    let small = || Source { cluster: String::new(), ..source() };
    let of = |source, incidents: Vec<Incident>| {
        message("id", source, "ops", now, incidents.into_iter().map(alert).collect())
    };
    let storm = Notification {
        storm: Some(Storm { count: 900, since: now, severity: Severity::Critical, ..Storm::default() }),
        reasons: vec![(HOSTILE.to_owned(), 900)],
        ..of(source(), Vec::new())
    };
    let mut starts = vec![
        of(small(), vec![least(now)]),
        of(source(), vec![most(now)]),
        example(small(), "ops", now),
        storm,
        Notification::test("id".to_owned(), small(), "ops".to_owned(), now),
    ];
    if !is_single {
        let mut many = of(source(), vec![most(now), least(now)]);
        let mut over = end(&of(source(), vec![most(now)])).resolved;
        many.resolved.append(&mut over);
        many.ongoing.push(alert(most(now)));
        many.omitted = 7;
        starts.push(many);
    }
    let ends: Vec<_> = starts.iter().map(end).collect();
    starts.into_iter().chain(ends).collect()
}
