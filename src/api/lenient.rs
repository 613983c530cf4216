//! Reads what another version of the operator may have written: what this version cannot decode is left out, so that it
//! does not make the rest of the status unreadable.
//!
//! Lists are read entry by entry, and objects and names of a set are optional or have a default. An enum whose values
//! another version may extend is an [`open_enum`](super::open_enum). Numbers, texts and times are read as they are: the
//! API server checks their types.

use std::{ops::Deref, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::value::RawValue;

/// A field of a status, or its default if this version cannot decode it.
pub(super) fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: DeserializeOwned + Default,
    D: Deserializer<'de>,
{
    Ok(serde_json::from_str(Box::<RawValue>::deserialize(deserializer)?.get()).unwrap_or_default())
}

/// The entries of a list that this version can decode.
pub(super) fn list<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    LenientList::deserialize(deserializer).map(|list| list.items)
}

/// As [`list`], for a list that [`serialize_shared`] writes.
pub(super) fn shared_list<'de, T, D>(deserializer: D) -> Result<Vec<Arc<T>>, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    Ok(list(deserializer)?.into_iter().map(Arc::new).collect())
}

/// Serializes a list of [`Arc`]s. The feature `rc` of serde would do it for every `Arc`.
pub(crate) fn serialize_shared<T: Serialize, S: Serializer>(
    items: &[Arc<T>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(items.iter().map(Arc::as_ref))
}

/// Whether a value need not be written, because it is what a reader assumes.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A list whose entries are decoded one by one. Those that this version cannot decode are left out and counted.
#[derive(Clone, Debug, PartialEq)]
pub struct LenientList<T> {
    pub items: Vec<T>,
    /// How many entries could not be decoded. It is not written.
    pub unreadable: usize,
}

impl<T> LenientList<T> {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl<T> Default for LenientList<T> {
    fn default() -> Self {
        Self { items: Vec::new(), unreadable: 0 }
    }
}

impl<T> From<Vec<T>> for LenientList<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, unreadable: 0 }
    }
}

impl<T> Deref for LenientList<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T: Serialize> Serialize for LenientList<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.items.serialize(serializer)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for LenientList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let Ok(entries) = serde_json::from_str::<Option<Vec<&RawValue>>>(raw.get()) else {
            return Ok(Self { items: Vec::new(), unreadable: 1 });
        };
        let entries = entries.unwrap_or_default();
        let items: Vec<T> = entries.iter().filter_map(|entry| serde_json::from_str(entry.get()).ok()).collect();
        Ok(Self { unreadable: entries.len() - items.len(), items })
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use crate::api::{Cause, OrchestrStatus};

    fn entry() -> serde_json::Value {
        json!({
            "key": "5f0c2a915f0c2a91", "kind": "Crash", "namespace": "shop", "owner": {"kind": "Deployment", "name": "cart"},
            "reason": "OOMKilled", "cause": "OutOfMemory", "pods": 3,
            "began": "2026-11-01T10:00:00Z", "ended": "2026-11-01T11:00:00Z",
        })
    }

    #[test]
    fn a_history_of_another_version_leaves_the_rest_readable() {
        let with = |field: &str, value: serde_json::Value| {
            let mut entry = entry();
            entry[field] = value;
            entry
        };
        for (history, read, unreadable) in [
            (json!(null), 0, 0),
            (json!([]), 0, 0),
            (json!([entry(), with("newField", json!({"a": 1}))]), 2, 0),
            (json!([with("cause", json!("NewerCause")), with("kind", json!("NewerKind"))]), 2, 0),
            (json!([with("pods", json!("many")), with("ended", json!("late")), entry(), 7, "x", null]), 1, 5),
            (json!({"incidents": []}), 0, 1),
            (json!("none"), 0, 1),
        ] {
            let status = json!({"watchedPods": 4, "history": history, "unwatched": [{"from": 7}]});
            let status: OrchestrStatus = serde_json::from_value(status).unwrap();
            assert_eq!((status.watched_pods, status.unwatched.unreadable), (4, 1));
            assert_eq!((status.history.len(), status.history.unreadable), (read, unreadable), "{history}");
        }
    }

    #[test]
    fn an_unknown_cause_is_read_as_unknown() {
        let mut entry = entry();
        entry["cause"] = json!("NewerCause");
        let status: OrchestrStatus = serde_json::from_value(json!({"history": [entry, 7]})).unwrap();
        assert_eq!(status.history[0].cause, Cause::Unknown);
        let written = serde_json::to_value(&status).unwrap();
        assert_eq!(written["history"].as_array().map(Vec::len), Some(1));
        assert_eq!(serde_json::to_value(OrchestrStatus::default()).unwrap().get("history"), None);
    }

    /// A status that has every list, object and name of a set.
    fn full_status() -> Value {
        let at = "2026-11-01T10:00:00Z";
        let owner = json!({"kind": "Deployment", "name": "cart"});
        let incident = |key: &str| {
            json!({
                "key": key, "kind": "Crash", "namespace": "shop", "owner": owner, "container": "app",
                "reason": "OOMKilled", "cause": "OutOfMemory", "severity": "critical", "pods": 3, "since": at,
                "revision": {"name": "cart-5d9f", "healthyBefore": 7, "changes": ["image"]},
                "invalidAnnotations": ["kopf.dev/team"], "examplePods": ["cart-a", "cart-b"], "controllers": [owner],
            })
        };
        let pod = |name: &str| {
            let issue = |container: &str| {
                json!({
                    "name": container, "type": "Sidecar", "state": "Running", "ready": false, "restarts": 7,
                    "lastTermination": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": at},
                    "logs": "line", "logSource": "Previous",
                })
            };
            json!({
                "name": name, "namespace": "shop", "status": "CrashLoopBackOff", "kind": "Crash", "reason": "OOMKilled",
                "cause": "OutOfMemory", "owner": owner, "since": at, "evidence": ["BackOff"],
                "containerIssues": [issue("app"), issue("proxy")],
            })
        };
        let alert = |key: &str| {
            json!({
                "key": key, "namespace": "shop", "owner": owner, "kind": "Crash", "reason": "Error",
                "severity": "critical", "since": at, "phase": "Firing", "sentAt": at, "members": ["a", "b"],
            })
        };
        let webhook = |name: &str| {
            json!({
                "name": name, "config": "c", "receiver": "r", "lastError": {"time": at, "message": "HTTP 500"},
                "pending": {
                    "id": "p", "kind": "Repeat", "created": at, "attempts": 2, "inFlight": true, "detail": "NoLogs",
                },
                "alerts": [alert("a"), alert("b")],
                "storm": {
                    "since": at, "count": 9, "members": "hash", "severity": "critical", "phase": "Firing", "sentAt": at,
                },
                "muted": {"count": 2, "by": "silence x", "incidents": [{"key": "c"}, {"key": "d", "goneSince": at}]},
                "mentioned": [
                    {"namespace": "shop", "severity": "critical", "at": at},
                    {"namespace": "ml", "severity": "info", "at": at},
                ],
            })
        };
        let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": at});
        let ended = |key: &str| {
            json!({
                "key": key, "kind": "Crash", "namespace": "shop", "owner": owner, "reason": "Error",
                "cause": "OutOfMemory", "pods": 3, "began": at, "ended": at,
            })
        };
        let common =
            |name: &str| json!({"kind": "Node", "name": name, "owners": 3, "pods": 9, "since": at, "message": "down"});
        json!({
            "observedGeneration": 3, "conditions": [condition("Ready"), condition("PodsHealthy")], "lastCheckTime": at,
            "watchedPods": 9, "problematicPodCount": 2, "ignoredPods": 0, "omittedPods": 0, "omittedIncidents": 0,
            "topReason": "OOMKilled", "topCause": "OutOfMemory", "commonCauses": [common("node-1"), common("node-2")],
            "incidents": [incident("1"), incident("2")], "problematicPods": [pod("cart-a"), pod("cart-b")],
            "history": [ended("3"), ended("4")], "historySince": at,
            "unwatched": [{"from": at, "reason": "NotRunning"}, {"from": at, "reason": "Paused"}],
            "webhooks": [webhook("ops"), webhook("chat")],
        })
    }

    /// The paths of all values that another version may have extended: lists, objects and texts other than times.
    fn extensible(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Array(entries) => {
                entries.iter().enumerate().for_each(|(at, entry)| extensible(entry, &format!("{path}/{at}"), found));
            }
            Value::Object(fields) => {
                fields.iter().for_each(|(name, field)| extensible(field, &format!("{path}/{name}"), found));
            }
            Value::String(text) if text.parse::<Timestamp>().is_err() => {}
            _ => return,
        }
        if !path.is_empty() {
            found.push(path.to_owned());
        }
    }

    /// Checks that `read` differs from `all` at most in the innermost entry of a list that contains the path, or in its
    /// field of the status if no list does.
    fn assert_lost_at_most(path: &[&str], all: &Value, read: &Value, what: &str) {
        match (all, read) {
            (Value::Object(all), Value::Object(read)) => {
                for (name, value) in all {
                    match read.get(name) {
                        Some(read) if name == path[0] && path.len() > 1 => {
                            assert_lost_at_most(&path[1..], value, read, what);
                        }
                        read => assert!(name == path[0] || read == Some(value), "{what} costs {name}"),
                    }
                }
            }
            (Value::Array(all), Value::Array(read)) => {
                let own: usize = path[0].parse().unwrap();
                let others = all.iter().enumerate().filter(|(at, _)| *at != own).map(|(_, entry)| entry);
                for other in others {
                    assert!(read.contains(other), "{what} costs another entry");
                }
                // If the entry itself was read, it may lack only what contains the value.
                if path.len() > 1 && read.len() == all.len() {
                    assert_lost_at_most(&path[1..], &all[own], &read[own], what);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn an_unknown_value_costs_its_own_entry_at_most() {
        let status = full_status();
        let read: OrchestrStatus = serde_json::from_value(status.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), status);
        let mut paths = Vec::new();
        extensible(&status, "", &mut paths);
        assert!(paths.len() > 150, "{}", paths.len());
        for path in paths {
            for unknown in [json!("Newer"), json!({"newer": 1}), json!(["newer"]), json!(null)] {
                // A text may be any text, and a text is read as it is.
                let text = status.pointer(&path).unwrap().is_string();
                if text && !unknown.is_string() && path.matches('/').count() == 1 {
                    continue;
                }
                let mut other = status.clone();
                *other.pointer_mut(&path).unwrap() = unknown.clone();
                let what = format!("{unknown} at {path}");
                let read = serde_json::from_value::<OrchestrStatus>(other.clone());
                let read = read.unwrap_or_else(|error| panic!("{what} costs the whole status: {error}"));
                let parts: Vec<&str> = path[1..].split('/').collect();
                assert_lost_at_most(&parts, &status, &serde_json::to_value(read).unwrap(), &what);
            }
        }
    }
}
