//! A list of which another version of the operator may have written the entries.

use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::Value;

/// A list whose entries are decoded one by one. Those that this version cannot decode are left out and counted, so that
/// they do not make the rest of the status unreadable.
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
        Ok(match Value::deserialize(deserializer)? {
            Value::Null => Self::default(),
            Value::Array(entries) => {
                let all = entries.len();
                let items: Vec<T> =
                    entries.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect();
                Self { unreadable: all - items.len(), items }
            }
            _ => Self { items: Vec::new(), unreadable: 1 },
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::api::{Cause, OrchestrStatus};

    fn entry() -> serde_json::Value {
        json!({
            "key": "5f0c2a915f0c2a91", "kind": "Crash", "namespace": "shop", "owner": {"kind": "Deployment", "name": "cart"},
            "reason": "OOMKilled", "cause": "OutOfMemory", "pods": 3,
            "began": "2026-11-01T10:00:00Z", "ended": "2026-11-01T11:00:00Z",
        })
    }

    #[test]
    fn a_history_of_another_version_does_not_hide_the_rest_of_the_status() {
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
    fn an_unknown_cause_is_read_as_unknown_and_entries_are_written_as_a_list() {
        let mut entry = entry();
        entry["cause"] = json!("NewerCause");
        let status: OrchestrStatus = serde_json::from_value(json!({"history": [entry, 7]})).unwrap();
        assert_eq!(status.history[0].cause, Cause::Unknown);
        let written = serde_json::to_value(&status).unwrap();
        assert_eq!(written["history"].as_array().map(Vec::len), Some(1));
        assert_eq!(serde_json::to_value(OrchestrStatus::default()).unwrap().get("history"), None);
    }
}
