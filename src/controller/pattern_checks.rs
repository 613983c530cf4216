//! Compiles the patterns of specs on another thread. Until then, an object keeps its status.

use std::sync::{Arc, Weak};

use crate::{
    api::NamespacedName,
    logs::Pattern,
    settings::check_patterns,
    spec_error::{SpecError, invalid},
};

use super::object::Object;

/// The patterns of one version of an object.
#[derive(Clone, Debug)]
pub(super) struct PatternCheck {
    pub(super) key: NamespacedName,
    patterns: Vec<Pattern>,
    /// Gone if the object has other settings by now, or is gone.
    awaited: Weak<()>,
}

impl PatternCheck {
    /// Begins to check the patterns of an object's new settings, unless they are known. Returns a check that the caller
    /// starts. One that was started before and still waits then does nothing.
    pub(super) fn begin(key: &NamespacedName, object: &mut Object) -> Option<Self> {
        object.patterns_awaited = None;
        let patterns = &object.settings.as_ref().ok()?.redact_patterns;
        if patterns.iter().all(Pattern::is_compiled) {
            if let Err(error) = check_patterns(patterns) {
                object.withhold_texts(error);
            }
            return None;
        }
        let awaited = Arc::new(());
        let check = Self { key: key.clone(), patterns: patterns.clone(), awaited: Arc::downgrade(&awaited) };
        object.patterns_awaited = Some(awaited);
        Some(check)
    }

    /// Whether the object still waits for it.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited.strong_count() > 0
    }

    /// Checks that the patterns are valid. This may take a tenth of a second.
    pub(super) fn run(&self) -> Result<(), SpecError> {
        if self.is_awaited() { check_patterns(&self.patterns) } else { Ok(()) }
    }

    /// The result if they could not be compiled.
    pub(super) fn failed() -> SpecError {
        invalid("spec.logs.redactPatterns", "could not be compiled within a minute")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::settings::Settings;

    #[test]
    fn checks_only_the_last_version_of_an_object() {
        let observed = json!({
            "apiVersion": "kopf.dev/v1", "kind": "Orchestr",
            "metadata": {"name": "cluster", "namespace": "team", "uid": "1", "resourceVersion": "7"},
        });
        let observed = serde_json::from_str(&observed.to_string()).unwrap();
        let mut object = Object::new(&observed, Some(0), Instant::now());
        let mut begin = |pattern: &str| {
            let spec = json!({"alerts": {"checkRunningPods": true}, "logs": {"redactPatterns": [pattern]}});
            let settings = Settings::unchecked(&serde_json::from_value(spec).unwrap()).unwrap();
            object.settings = Ok(settings.into());
            PatternCheck::begin(&NamespacedName::new("team", "cluster"), &mut object).unwrap()
        };
        let (first, second) = (begin("[0-9"), begin("[a-z"));
        assert!(!first.is_awaited() && second.is_awaited());
        assert!(first.run().is_ok(), "nothing is compiled that nobody waits for");
        assert!(second.run().is_err_and(|error| error.to_string().starts_with("spec.logs.redactPatterns[0]: ")));
        drop(object);
        assert!(!second.is_awaited() && second.run().is_ok());
    }
}
