//! Attacks by Orchestr objects, and by events.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use serde_json::{Value, json};

use super::{Attack, PreparedAttack, pods};
use crate::error::Result;

/// Concurrent requests of the tenant.
const CONCURRENT: usize = 8;
/// Objects that are created and deleted in a second.
const CHURN_RATE: f64 = 38.0;
/// Specs that are changed in a second.
const EDIT_RATE: f64 = 10.0;
/// Events that are created in a second.
const EVENT_RATE: f64 = 20.0;
/// The bytes of an event's message.
const EVENT_MESSAGE: usize = 100_000;

impl PreparedAttack<'_> {
    pub(super) async fn create_objects(&self) -> Result<()> {
        let objects = match self.attack {
            Attack::Pods | Attack::Churn => 0,
            // The attacks that one object is enough for.
            Attack::Thresholds | Attack::Events | Attack::Owners => 1,
            Attack::Patterns | Attack::Globs | Attack::Silences | Attack::Objects | Attack::Logs | Attack::Webhooks => {
                self.size.objects
            }
        };
        let created = stream::iter(0..objects).map(|index| async move {
            self.tenant.create_orchestr(&format!("object-{index}"), &self.spec(index)).await;
        });
        created.buffer_unordered(CONCURRENT).collect::<()>().await;
        Ok(())
    }

    fn spec(&self, index: usize) -> Value {
        let mut spec = json!({
            "alerts": {"checkRunningPods": true}, "pods": {"namespaces": [self.tenant.namespace]},
            "report": {"maxPods": 500}, "logs": {"tailLines": 1000, "maxBytes": 65536},
        });
        match self.attack {
            Attack::Patterns => spec["logs"]["redactPatterns"] = json!(redact_patterns(index)),
            Attack::Globs => {
                spec["pods"]["excludeNamespaces"] = json!(globs());
                spec["webhooks"] = (0..10).map(|number| webhook(number, &json!({"namespaces": globs()}))).collect();
            }
            Attack::Logs => spec["logs"]["maxBytes"] = json!(65536 - index),
            Attack::Webhooks => {
                spec["webhooks"] = (0..10).map(|number| webhook(number, &json!({}))).collect();
            }
            Attack::Silences => {
                // Each object judges the pods a bit differently, so that their incidents are not equal.
                spec["thresholds"] = json!({"pending": format!("{index}ms")});
                spec["report"]["maxPods"] = json!(1);
                spec["webhooks"] = (0..10).map(|number| webhook(number, &json!({}))).collect();
                spec["silences"] = (0..20).map(silence).collect();
                spec["quietHours"] = (0..7).map(quiet_hours).collect();
            }
            _ => {}
        }
        spec
    }

    /// Creates and deletes objects. Each has incidents, so the operator publishes events about it.
    pub(super) async fn churn_objects(&self, end: Instant) -> Result<()> {
        let lanes = (0..CONCURRENT).map(|lane| async move {
            let mut ticks = ticks(CHURN_RATE / CONCURRENT as f64);
            let spec = self.spec(0);
            for round in 0.. {
                if Instant::now() >= end {
                    break;
                }
                ticks.tick().await;
                let name = format!("object-{lane}-{round}");
                if self.tenant.create_orchestr(&name, &spec).await {
                    // The operator needs a moment to write its first status.
                    tokio::time::sleep(Duration::from_millis(150)).await;
                    self.tenant.delete_orchestr(&name).await;
                }
            }
        });
        futures::future::join_all(lanes).await;
        Ok(())
    }

    /// Asks for older failures again and again, each time by a millisecond.
    pub(super) async fn raise_threshold(&self, end: Instant) -> Result<()> {
        let mut ticks = ticks(EDIT_RATE);
        for milliseconds in 600_001.. {
            if Instant::now() >= end {
                break;
            }
            ticks.tick().await;
            let patch = json!({"spec": {"thresholds": {"restarted": format!("{milliseconds}ms")}}});
            self.tenant.patch_orchestr("object-0", &patch).await;
        }
        Ok(())
    }

    /// Changes a spec in turn, so that its patterns are compiled again.
    pub(super) async fn edit_objects(&self, end: Instant) -> Result<()> {
        let mut ticks = ticks(EDIT_RATE);
        for round in 0_usize.. {
            if Instant::now() >= end {
                break;
            }
            ticks.tick().await;
            let name = format!("object-{}", round % self.size.objects);
            let patch = json!({"spec": {"report": {"maxPods": 1 + round % 500}}});
            self.tenant.patch_orchestr(&name, &patch).await;
        }
        Ok(())
    }

    pub(super) async fn create_events(&self, end: Instant) -> Result<()> {
        let mut ticks = ticks(EVENT_RATE);
        for number in 0_usize.. {
            if Instant::now() >= end {
                break;
            }
            ticks.tick().await;
            let (kind, name, uid, reason) = match number % 2 {
                0 => {
                    let pod = number / 2 % self.size.pods;
                    ("Pod", pods::name(pod), pods::uid(&self.tenant.namespace, pod), "Unhealthy")
                }
                _ => ("ReplicaSet", format!("forged-{number}"), format!("forged-{number}"), "FailedCreate"),
            };
            let message = format!("{number} {}", "evil\u{202e} \u{1b}[31m".repeat(EVENT_MESSAGE / 13));
            let event = json!({
                "metadata": {"name": format!("{name}.{number:016x}")}, "type": "Warning", "reason": reason,
                "message": message, "count": 1, "source": {"component": "kubelet"},
                "involvedObject": {"kind": kind, "namespace": self.tenant.namespace, "name": name, "uid": uid},
                "firstTimestamp": pods::CRASHED, "lastTimestamp": pods::CRASHED,
            });
            self.tenant.create("", "v1", "Event", event).await;
        }
        Ok(())
    }
}

/// A stream of ticks at this rate per second.
pub(super) fn ticks(rate: f64) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks
}

/// Patterns with large automata that match almost nothing, and try the whole rest of a line at each position.
fn redact_patterns(index: usize) -> Vec<String> {
    let pattern = |number: usize| match number % 2 {
        0 => format!("[A-Z].*[^A-Z]{{{}}}x{index}|[A-Z]y", 2 + number),
        _ => format!("A(A|B|C){{1,{}}}z{index}", 150 + number),
    };
    (0..16).map(pattern).collect()
}

/// 64 different patterns of 64 alternatives each.
fn globs() -> Vec<String> {
    let glob = |number: usize| {
        let tail = "x".repeat(100);
        format!("{{aa,bb}}{{aa,bb}}{{aa,bb}}{{aa,bb}}{{aa,bb}}{{aa,bb}}-{number}-{tail}")
    };
    (0..64).map(glob).collect()
}

/// A silence that matches all pods that cannot be scheduled, except for what is compared last.
fn silence(number: usize) -> Value {
    let matches = if number.is_multiple_of(2) {
        json!({"reasons": reasons()})
    } else {
        let owner = |index: usize| format!("{}*-never-{index}", pods::LONG.repeat(3));
        json!({"reasons": ["Unschedulable"], "owners": (0..16).map(owner).collect::<Vec<_>>()})
    };
    json!({"name": format!("silence-{number}"), "until": "2099-01-01T00:00:00Z", "match": matches})
}

/// Quiet hours that last all day.
fn quiet_hours(number: usize) -> Value {
    json!({
        "name": format!("quiet-{number}"), "start": "00:00", "end": "24:00", "timeZone": "Europe/Berlin",
        "match": {"reasons": reasons()},
    })
}

/// Reasons that no pod has, each as long as the one that pods have.
fn reasons() -> Vec<String> {
    (10..26).map(|number| format!("Unschedulab{number}")).collect()
}

/// A webhook whose four Secrets do not exist.
fn webhook(number: usize, matches: &Value) -> Value {
    let key = |kind: &str| json!({"secretKeyRef": {"name": format!("{kind}-{number}"), "key": "value"}});
    json!({
        "name": format!("webhook-{number}"), "format": "Generic", "match": matches, "urlFrom": key("url"),
        "signingKeyFrom": key("signing"), "caFrom": key("ca"),
        "headersFrom": {"secretRef": {"name": format!("headers-{number}")}},
    })
}
