//! Validates a spec and applies its defaults. All other code uses [`Settings`] instead of the spec.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::Expression;

use crate::{
    alerts::{LinkTemplate, MuteRules, ValidatedWebhook, is_one_namespace},
    api::{GoDuration, Logs, OrchestrSpec, PodScope, ProblemKind, limits, matches_reason},
    diagnosis::{Thresholds, is_known_reason},
    logs::{LogPolicy, MAX_PATTERN_BYTES, Pattern},
    pods::PodSelection,
    spec_error::{SpecError, at_most, bounded, duration, globs, invalid, short_enough},
};

/// A valid spec with its defaults applied, its durations parsed and its patterns compiled.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether the object watches pods; else it is paused.
    pub enabled: bool,
    pub scope: PodSelection,
    pub thresholds: Thresholds,
    /// Kinds and reasons of problems that are not reported.
    pub ignore_reasons: Vec<String>,
    /// Probable mistakes in the spec, one sentence each.
    pub warnings: Vec<String>,
    /// Absent if logs are not read.
    pub logs: Option<Arc<LogPolicy>>,
    /// Those of the spec, even if logs are not read.
    pub(crate) redact_patterns: Vec<Pattern>,
    /// How many pods the status lists.
    pub max_pods: usize,
    pub webhooks: Arc<[ValidatedWebhook]>,
    /// The silences and quiet hours, which hold for all webhooks.
    pub mute_rules: Arc<MuteRules>,
}

impl Settings {
    /// # Errors
    /// When a required value is absent or a value is invalid.
    pub fn new(spec: &OrchestrSpec) -> Result<Self, SpecError> {
        let settings = Self::unchecked(spec)?;
        check_patterns(&settings.redact_patterns)?;
        Ok(settings)
    }

    /// The settings before [`check_patterns`], which may take a tenth of a second.
    ///
    /// # Errors
    /// When a required value is absent or another value is invalid.
    pub(crate) fn unchecked(spec: &OrchestrSpec) -> Result<Self, SpecError> {
        let enabled =
            spec.alerts.as_ref().and_then(|alerts| alerts.check_running_pods).ok_or(SpecError::AlertsNotSet)?;
        let defaults = Thresholds::default();
        let given = spec.thresholds.clone().unwrap_or_default();
        let threshold = |name: &str, value: &Option<GoDuration>, default| {
            duration(&format!("spec.thresholds.{name}"), value.as_ref(), &limits::THRESHOLD, default)
        };
        let scope = spec.pods.clone().unwrap_or_default();
        let logs = spec.logs.clone().unwrap_or_default();
        let redact_patterns = redact_patterns(logs.redact_patterns.as_deref().unwrap_or_default())?;
        Ok(Self {
            enabled,
            thresholds: Thresholds {
                pending: threshold("pending", &given.pending, defaults.pending)?,
                initializing: threshold("initializing", &given.initializing, defaults.initializing)?,
                not_ready: threshold("notReady", &given.not_ready, defaults.not_ready)?,
                terminating: threshold("terminating", &given.terminating, defaults.terminating)?,
                restarted: threshold("restarted", &given.restarted, defaults.restarted)?,
                failed: threshold("failed", &given.failed, defaults.failed)?,
            },
            warnings: warnings(spec),
            ignore_reasons: reasons("spec.pods.ignoreReasons", scope.ignore_reasons.as_deref().unwrap_or_default())?,
            scope: selection(&scope)?,
            logs: log_policy(&logs, &redact_patterns)?.map(Arc::new),
            redact_patterns,
            max_pods: bounded(
                "spec.report.maxPods",
                spec.report.as_ref().and_then(|report| report.max_pods),
                limits::MAX_PODS,
                50,
            )? as usize,
            webhooks: webhooks(spec)?,
            mute_rules: Arc::new(MuteRules::new(
                spec.silences.as_deref().unwrap_or_default(),
                spec.quiet_hours.as_deref().unwrap_or_default(),
            )?),
        })
    }

    /// Whether problems with this kind or reason are not reported.
    #[must_use]
    pub fn ignores(&self, kind: ProblemKind, reason: &str) -> bool {
        self.ignore_reasons.iter().any(|name| matches_reason(name, kind, reason))
    }
}

/// Checks that a spec selects only pods of this namespace. As with the admission policy, it must name the namespace: a
/// pattern, or nothing, is refused.
///
/// The operator could instead ignore other namespaces. But then PodsHealthy and the alerts of an object that was created
/// before would be about fewer pods than its spec asks for, and troubles elsewhere would seem to be resolved.
pub(crate) fn only_namespace(spec: &OrchestrSpec, namespace: &str) -> Result<(), SpecError> {
    let given = spec.pods.as_ref().and_then(|pods| pods.namespaces.as_deref()).unwrap_or_default();
    if !given.is_empty() && given.iter().all(|name| name == namespace) {
        return Ok(());
    }
    Err(invalid("spec.pods.namespaces", format!("must be [{namespace:?}], because of --own-namespace-only")))
}

fn webhooks(spec: &OrchestrSpec) -> Result<Arc<[ValidatedWebhook]>, SpecError> {
    let links: Arc<[LinkTemplate]> = LinkTemplate::validate_all(spec.links.as_deref().unwrap_or_default())?.into();
    let mut webhooks = ValidatedWebhook::validate_all(spec.webhooks.as_deref().unwrap_or_default())?;
    let namespaces = spec.pods.as_ref().and_then(|pods| pods.namespaces.as_deref()).unwrap_or_default();
    for webhook in &mut webhooks {
        webhook.policy.links = Arc::clone(&links);
        webhook.policy.is_of_one_namespace |= is_one_namespace(namespaces);
    }
    Ok(webhooks.into())
}

fn selection(scope: &PodScope) -> Result<PodSelection, SpecError> {
    Ok(PodSelection {
        namespaces: globs("spec.pods.namespaces", scope.namespaces.as_deref().unwrap_or_default())?,
        exclude_namespaces: globs(
            "spec.pods.excludeNamespaces",
            scope.exclude_namespaces.as_deref().unwrap_or_default(),
        )?,
        labels: scope
            .selector
            .as_ref()
            .map(|selector| expressions("spec.pods.selector", selector))
            .transpose()?
            .unwrap_or_default(),
    })
}

fn reasons(field: &str, reasons: &[String]) -> Result<Vec<String>, SpecError> {
    at_most(field, reasons.len(), limits::REASONS)?;
    for (index, reason) in reasons.iter().enumerate() {
        short_enough(&format!("{field}[{index}]"), reason, limits::REASON_LENGTH)?;
    }
    Ok(reasons.to_vec())
}

fn warnings(spec: &OrchestrSpec) -> Vec<String> {
    let ignored = spec.pods.as_ref().and_then(|pods| pods.ignore_reasons.as_deref()).unwrap_or_default();
    let mut warnings = unknown_reasons("spec.pods.ignoreReasons", ignored);
    let mutes = spec.silences.iter().flatten().count() + spec.quiet_hours.iter().flatten().count();
    if mutes > 0 && spec.webhooks.iter().flatten().next().is_none() {
        warnings.push("spec.silences and spec.quietHours have no effect without webhooks".to_owned());
    }
    warnings
}

/// Warnings about names that are neither a kind nor a known reason. Only the first three are named.
fn unknown_reasons(field: &str, reasons: &[String]) -> Vec<String> {
    const MAX_WARNINGS: usize = 3;
    let is_unknown =
        |reason: &&String| ProblemKind::from_name(reason) == ProblemKind::Unknown && !is_known_reason(reason);
    let warn = |reason: &String| format!("{field}: {reason:?} is not a known kind or reason");
    reasons.iter().filter(is_unknown).take(MAX_WARNINGS).map(warn).collect()
}

fn expressions(field: &str, selector: &LabelSelector) -> Result<Vec<Expression>, SpecError> {
    let labels = selector.match_labels.iter().flatten();
    at_most(&format!("{field}.matchLabels"), labels.clone().count(), limits::SELECTOR_LABELS)?;
    let requirements = selector.match_expressions.as_deref().unwrap_or_default();
    at_most(&format!("{field}.matchExpressions"), requirements.len(), limits::SELECTOR_EXPRESSIONS)?;
    let equal = labels.map(|(key, value)| Ok(Expression::Equal(key.clone(), value.clone())));
    let required = requirements
        .iter()
        .enumerate()
        .map(|(index, requirement)| expression(&format!("{field}.matchExpressions[{index}]"), requirement));
    equal.chain(required).collect()
}

fn expression(field: &str, requirement: &LabelSelectorRequirement) -> Result<Expression, SpecError> {
    let (key, operator) = (requirement.key.clone(), requirement.operator.as_str());
    let values: BTreeSet<String> = requirement.values.iter().flatten().cloned().collect();
    let field_of_values = || format!("{field}.values");
    at_most(&field_of_values(), values.len(), limits::SELECTOR_VALUES)?;
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            Err(invalid(field_of_values(), format!("must not be empty with the operator {operator}")))
        }
        "In" => Ok(Expression::In(key, values)),
        "NotIn" => Ok(Expression::NotIn(key, values)),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            Err(invalid(field_of_values(), format!("must be empty with the operator {operator}")))
        }
        "Exists" => Ok(Expression::Exists(key)),
        "DoesNotExist" => Ok(Expression::DoesNotExist(key)),
        _ => Err(invalid(
            format!("{field}.operator"),
            format!("must be In, NotIn, Exists or DoesNotExist, not {operator:?}"),
        )),
    }
}

fn log_policy(logs: &Logs, redact_patterns: &[Pattern]) -> Result<Option<LogPolicy>, SpecError> {
    let policy = LogPolicy {
        tail_lines: bounded("spec.logs.tailLines", logs.tail_lines, limits::TAIL_LINES, 20)?,
        max_bytes: bounded("spec.logs.maxBytes", logs.max_bytes, limits::MAX_BYTES, 4096)?,
        redact: logs.redact.unwrap_or(true),
        redact_patterns: redact_patterns.to_vec(),
    };
    Ok(logs.enabled.unwrap_or(true).then_some(policy))
}

const REDACT_PATTERNS: &str = "spec.logs.redactPatterns";

fn redact_patterns(texts: &[String]) -> Result<Vec<Pattern>, SpecError> {
    at_most(REDACT_PATTERNS, texts.len(), limits::REDACT_PATTERNS)?;
    let patterns = texts.iter().enumerate().map(|(index, text)| {
        short_enough(&format!("{REDACT_PATTERNS}[{index}]"), text, limits::REDACT_PATTERN_LENGTH)?;
        Ok(Pattern::unchecked(text))
    });
    patterns.collect()
}

/// Compiles the patterns of a spec. This may take a tenth of a second.
///
/// # Errors
/// When one of them is invalid, or together they are too large.
pub(crate) fn check_patterns(patterns: &[Pattern]) -> Result<(), SpecError> {
    let mut bytes_of_all: usize = 0;
    for (index, pattern) in patterns.iter().enumerate() {
        let field = format!("{REDACT_PATTERNS}[{index}]");
        bytes_of_all += pattern.compile().map_err(|error| invalid(&*field, error.to_string()))?;
        if bytes_of_all > MAX_PATTERN_BYTES {
            let most = MAX_PATTERN_BYTES / 1024;
            return Err(invalid(field, format!("takes, with those before it, more than {most} KiB once compiled")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
