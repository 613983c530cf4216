//! What a spec means: defaults applied, durations read, patterns compiled. Every use of a spec goes
//! through [`Settings`], so that a value that can't be used is found in one place.

use std::{sync::Arc, time::Duration};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};
use regex::{Regex, RegexBuilder};

use crate::{
    api::{GoDuration, Logs, OrchestrSpec, PodScope},
    diagnosis::Thresholds,
    logs::LogPolicy,
};

/// A spec that can be used.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether pods are watched; else the object is paused.
    pub enabled: bool,
    /// Which pods.
    pub scope: Scope,
    /// How long a state may last.
    pub thresholds: Thresholds,
    /// Reasons that are never reported.
    pub ignore_reasons: Vec<String>,
    /// What is shown of logs; absent where they aren't read.
    pub logs: Option<Arc<LogPolicy>>,
    /// How many pods the status details.
    pub max_pods: usize,
}

/// Which pods an object looks at.
#[derive(Clone, Debug)]
pub struct Scope {
    namespaces: GlobSet,
    exclude_namespaces: GlobSet,
    selector: Selector,
}

/// Why a spec can't be used. Permanent until the spec changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// `spec.alerts.checkRunningPods` is absent.
    #[error("spec.alerts.checkRunningPods must be set")]
    AlertsNotSet,
    /// A value can't be used.
    #[error("{field}: {problem}")]
    Invalid {
        /// The field's path, such as `spec.pods.namespaces[0]`.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// The memory that one compiled pattern may take, in bytes.
const REGEX_SIZE_LIMIT: usize = 256 * 1024;

impl Settings {
    /// Reads a spec.
    ///
    /// # Errors
    /// When a value that must be there is absent, or one can't be used.
    pub fn new(spec: &OrchestrSpec) -> Result<Self, SpecError> {
        let enabled =
            spec.alerts.as_ref().and_then(|alerts| alerts.check_running_pods).ok_or(SpecError::AlertsNotSet)?;
        let defaults = Thresholds::default();
        let given = spec.thresholds.clone().unwrap_or_default();
        let threshold = |name: &str, value: &Option<GoDuration>, default| {
            duration(&format!("spec.thresholds.{name}"), value.as_ref(), default)
        };
        let scope = spec.pods.clone().unwrap_or_default();
        Ok(Self {
            enabled,
            thresholds: Thresholds {
                pending: threshold("pending", &given.pending, defaults.pending)?,
                initializing: threshold("initializing", &given.initializing, defaults.initializing)?,
                not_ready: threshold("notReady", &given.not_ready, defaults.not_ready)?,
                terminating: threshold("terminating", &given.terminating, defaults.terminating)?,
                restarted: threshold("restarted", &given.restarted, defaults.restarted)?,
            },
            ignore_reasons: scope.ignore_reasons.clone().unwrap_or_default(),
            scope: Scope::new(scope)?,
            logs: log_policy(spec.logs.clone().unwrap_or_default())?.map(Arc::new),
            max_pods: bounded(
                "spec.report.maxPods",
                spec.report.as_ref().and_then(|report| report.max_pods),
                1..=500,
                50,
            )? as usize,
        })
    }
}

impl Scope {
    fn new(scope: PodScope) -> Result<Self, SpecError> {
        let everywhere = || vec!["*".to_owned()];
        let namespaces = scope.namespaces.filter(|globs| !globs.is_empty()).unwrap_or_else(everywhere);
        Ok(Self {
            namespaces: globs("spec.pods.namespaces", &namespaces)?,
            exclude_namespaces: globs("spec.pods.excludeNamespaces", &scope.exclude_namespaces.unwrap_or_default())?,
            selector: selector(scope.selector.unwrap_or_default())?,
        })
    }

    /// Whether pods of this namespace with these labels are looked at.
    #[must_use]
    pub fn selects(&self, namespace: &str, labels: &[(String, String)]) -> bool {
        self.namespaces.is_match(namespace)
            && !self.exclude_namespaces.is_match(namespace)
            && (self.selector.selects_all() || {
                let labels = labels.iter().cloned().collect();
                self.selector.matches(&labels)
            })
    }
}

pub(crate) fn globs(field: &str, patterns: &[String]) -> Result<GlobSet, SpecError> {
    let invalid = |index: usize, error: globset::Error| SpecError::Invalid {
        field: format!("{field}[{index}]"),
        problem: format!("not a glob pattern: {}", error.kind()),
    };
    let mut set = GlobSetBuilder::new();
    for (index, pattern) in patterns.iter().enumerate() {
        let glob: Glob = GlobBuilder::new(pattern).build().map_err(|error| invalid(index, error))?;
        set.add(glob);
    }
    set.build().map_err(|error| invalid(0, error))
}

fn selector(selector: LabelSelector) -> Result<Selector, SpecError> {
    selector.try_into().map_err(|error: kube::core::ParseExpressionError| SpecError::Invalid {
        field: "spec.pods.selector".to_owned(),
        problem: error.to_string(),
    })
}

pub(crate) fn duration(field: &str, value: Option<&GoDuration>, default: Duration) -> Result<Duration, SpecError> {
    let Some(value) = value else { return Ok(default) };
    value.parse().map_err(|error| SpecError::Invalid {
        field: field.to_owned(),
        problem: format!("{:?} {error}", value.as_str()),
    })
}

fn bounded(
    field: &str,
    value: Option<i32>,
    range: std::ops::RangeInclusive<i32>,
    default: i32,
) -> Result<u32, SpecError> {
    let value = value.unwrap_or(default);
    match u32::try_from(value) {
        Ok(unsigned) if range.contains(&value) => Ok(unsigned),
        _ => Err(SpecError::Invalid {
            field: field.to_owned(),
            problem: format!("must be from {} to {}, not {value}", range.start(), range.end()),
        }),
    }
}

fn log_policy(logs: Logs) -> Result<Option<LogPolicy>, SpecError> {
    let policy = LogPolicy {
        tail_lines: bounded("spec.logs.tailLines", logs.tail_lines, 1..=1000, 20)?,
        max_bytes: bounded("spec.logs.maxBytes", logs.max_bytes, 256..=65536, 4096)?,
        redact: logs.redact.unwrap_or(true),
        redact_patterns: logs
            .redact_patterns
            .unwrap_or_default()
            .iter()
            .enumerate()
            .map(|(index, pattern)| redact_pattern(index, pattern))
            .collect::<Result<_, _>>()?,
    };
    Ok(logs.enabled.unwrap_or(true).then_some(policy))
}

fn redact_pattern(index: usize, pattern: &str) -> Result<Regex, SpecError> {
    RegexBuilder::new(pattern).size_limit(REGEX_SIZE_LIMIT).dfa_size_limit(REGEX_SIZE_LIMIT).build().map_err(|error| {
        SpecError::Invalid {
            field: format!("spec.logs.redactPatterns[{index}]"),
            problem: match error {
                regex::Error::CompiledTooBig(_) => "is too large once compiled".to_owned(),
                _ => "is not a regular expression".to_owned(),
            },
        }
    })
}
