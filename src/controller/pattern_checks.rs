//! Compiles the patterns of specs on another thread. Until then, an object keeps its status.

use std::collections::{BTreeMap, HashMap};

use crate::{
    api::NamespacedName,
    logs::Pattern,
    settings::{Settings, check_patterns},
    spec_error::{SpecError, invalid},
};

use super::object::Object;

/// Which patterns to check. One check at a time for each namespace, so that one tenant's patterns wait for one check of
/// each other tenant at most.
#[derive(Debug, Default)]
pub(super) struct PatternChecks {
    /// For each namespace with a check under way: the objects that wait for theirs.
    waiting: HashMap<String, BTreeMap<NamespacedName, PatternCheck>>,
}

/// The patterns of one version of an object.
#[derive(Clone, Debug)]
pub(super) struct PatternCheck {
    pub(super) key: NamespacedName,
    pub(super) uid: String,
    pub(super) generation: i64,
    patterns: Vec<Pattern>,
}

impl PatternCheck {
    /// Checks that the patterns are valid. This may take a tenth of a second.
    pub(super) fn run(&self) -> Result<(), SpecError> {
        check_patterns(&self.patterns)
    }

    /// The result if they could not be compiled.
    pub(super) fn failed() -> SpecError {
        invalid("spec.logs.redactPatterns", "could not be compiled within a minute")
    }
}

impl PatternChecks {
    /// Begins to check the patterns of an object's new settings, unless they are known. Returns a check that the caller
    /// starts now.
    pub(super) fn start(&mut self, key: &NamespacedName, object: &mut Object) -> Option<PatternCheck> {
        self.forget(key);
        object.is_being_checked = false;
        let settings = object.settings.as_ref().ok()?;
        object.is_being_checked = !settings.redact_patterns.iter().all(Pattern::is_compiled);
        if object.is_being_checked {
            return self.ask(key, &object.uid, object.generation, settings);
        }
        if let Err(error) = check_patterns(&settings.redact_patterns) {
            object.withhold_texts(error);
        }
        None
    }

    /// Asks for a check. Returns one that the caller starts now. It waits, in place of an older one of the object, if the
    /// namespace has one under way.
    fn ask(&mut self, key: &NamespacedName, uid: &str, generation: i64, settings: &Settings) -> Option<PatternCheck> {
        let patterns = settings.redact_patterns.clone();
        let check = PatternCheck { key: key.clone(), uid: uid.to_owned(), generation, patterns };
        if let Some(waiting) = self.waiting.get_mut(&key.namespace) {
            waiting.insert(key.clone(), check);
            return None;
        }
        self.waiting.insert(key.namespace.clone(), BTreeMap::new());
        Some(check)
    }

    /// The object is gone.
    pub(super) fn forget(&mut self, key: &NamespacedName) {
        if let Some(waiting) = self.waiting.get_mut(&key.namespace) {
            waiting.remove(key);
        }
    }

    /// A check of this namespace has ended. Returns the next one, which the caller starts.
    pub(super) fn ended(&mut self, namespace: &str) -> Option<PatternCheck> {
        let next = self.waiting.get_mut(namespace)?.pop_first();
        if next.is_none() {
            self.waiting.remove(namespace);
        }
        next.map(|(_, check)| check)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn checks_the_last_version_of_one_object_at_a_time() {
        let spec = json!({"alerts": {"checkRunningPods": true}, "logs": {"redactPatterns": ["[0-9"]}});
        let settings = Settings::unchecked(&serde_json::from_value(spec).unwrap()).unwrap();
        let mut checks = PatternChecks::default();
        let keys = [("team", "a"), ("team", "b"), ("team", "c"), ("other", "a")];
        let [a, b, c, other] = keys.map(|(namespace, name)| NamespacedName::new(namespace, name));
        let running = checks.ask(&a, "1", 1, &settings).unwrap();
        assert!(running.run().is_err_and(|error| error.to_string().starts_with("spec.logs.redactPatterns[0]: ")));
        for generation in 1..100 {
            assert!(checks.ask(&b, "2", generation, &settings).is_none());
            assert!(checks.ask(&c, "3", generation, &settings).is_none());
        }
        assert!(checks.ask(&other, "4", 1, &settings).is_some());
        checks.forget(&c);
        let next = checks.ended("team").unwrap();
        assert_eq!((next.key, next.generation), (b, 99));
        assert!(checks.ended("team").is_none() && checks.ended("other").is_none());
        assert!(checks.waiting.is_empty());
    }
}
