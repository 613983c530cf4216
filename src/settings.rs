//! Validates a spec and applies its defaults. All other code uses [`Settings`] instead of the spec.
//!
//! A part of a spec that is wrong is not in force, and the rest is: no pod may go unchecked, and no receiver without alerts,
//! because of a typo in a silence. A part that is wrong never shows or hides more than the user asked for: a wrong pattern
//! masks everything, a wrong webhook is sent nothing, a wrong silence holds nothing back. Only if it is not known which pods
//! the spec selects, nothing is checked.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::Expression;
use serde_json::Value;

use crate::{
    alerts::{LinkTemplate, MuteRules, ValidatedWebhook, is_one_namespace},
    api::{self, GoDuration, Logs, OrchestrSpec, PodScope, ProblemKind, StoredObject, limits, matches_reason, reason},
    diagnosis::{Thresholds, is_known_reason, near_reason},
    logs::{LogPolicy, MAX_PATTERN_BYTES, Pattern},
    pods::PodSelection,
    spec_error::{SpecError, at_most, bounded, duration, globs, in_force, invalid, short_enough},
};

/// A spec with its defaults applied, its durations parsed and its patterns compiled.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether the object watches pods; else it is paused.
    pub enabled: bool,
    pub scope: PodSelection,
    pub thresholds: Thresholds,
    /// Kinds and reasons of problems that are not reported.
    pub ignore_reasons: Vec<String>,
    /// The parts of the spec that are wrong, and not in force.
    pub wrong: Vec<SpecError>,
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
    /// The settings in the spec, or why the spec cannot be used. With `own_namespace_only`, a spec that also selects other
    /// namespaces cannot be used. The patterns are not checked.
    pub(crate) fn observed(object: &StoredObject, own_namespace_only: bool) -> Result<Self, SpecError> {
        // Not decoded from the text directly, because errors would name positions in it.
        let spec = object.spec.as_ref().and_then(|spec| serde_json::from_str(spec.get()).ok()).unwrap_or(Value::Null);
        if spec.is_null() {
            return Err(SpecError::AlertsNotSet);
        }
        let spec: OrchestrSpec = serde_path_to_error::deserialize(&spec).map_err(|error| SpecError::Invalid {
            field: format!("spec.{}", error.path()),
            problem: error.inner().to_string(),
        })?;
        let settings = Self::unchecked(&spec)?;
        if own_namespace_only && settings.enabled {
            only_namespace(&spec, &object.key.namespace)?;
        }
        Ok(settings)
    }

    /// # Errors
    /// When a required value is absent, or it is not known which pods the spec selects.
    pub fn new(spec: &OrchestrSpec) -> Result<Self, SpecError> {
        let mut settings = Self::unchecked(spec)?;
        if let Err(error) = check_patterns(&settings.redact_patterns) {
            settings.withhold_texts(error);
        }
        Ok(settings)
    }

    /// The settings before [`check_patterns`], which may take a tenth of a second.
    ///
    /// # Errors
    /// When a required value is absent, or it is not known which pods the spec selects.
    pub(crate) fn unchecked(spec: &OrchestrSpec) -> Result<Self, SpecError> {
        let enabled =
            spec.alerts.as_ref().and_then(|alerts| alerts.check_running_pods).ok_or(SpecError::AlertsNotSet)?;
        let mut wrong = Vec::new();
        let scope = spec.pods.clone().unwrap_or_default();
        let logs = spec.logs.clone().unwrap_or_default();
        let patterns = redact_patterns(logs.redact_patterns.as_deref().unwrap_or_default());
        let mut settings = Self {
            enabled,
            scope: selection(&scope)?,
            thresholds: thresholds(&spec.thresholds.clone().unwrap_or_default(), &mut wrong),
            warnings: warnings(spec),
            ignore_reasons: reasons(scope.ignore_reasons.as_deref().unwrap_or_default(), &mut wrong),
            logs: log_policy(&logs, patterns.as_deref().unwrap_or_default(), &mut wrong).map(Arc::new),
            redact_patterns: patterns.as_deref().unwrap_or_default().to_vec(),
            max_pods: max_pods(spec, &mut wrong),
            webhooks: webhooks(spec, &mut wrong),
            mute_rules: Arc::new(MuteRules::new(
                spec.silences.as_deref().unwrap_or_default(),
                spec.quiet_hours.as_deref().unwrap_or_default(),
                &mut wrong,
            )),
            wrong,
        };
        if let Err(error) = patterns {
            settings.withhold_texts(error);
        }
        Ok(settings)
    }

    /// A pattern is wrong, so nothing that a container wrote is known to be harmless. Logs and messages are masked whole.
    pub(crate) fn withhold_texts(&mut self, error: SpecError) {
        self.redact_patterns = Vec::new();
        if let Some(policy) = &mut self.logs {
            Arc::make_mut(policy).redact_patterns = vec![Pattern::masks_everything()];
        }
        self.wrong.push(error);
    }

    /// Names the first wrong parts, counts the others, and says that the rest is in force. Absent if nothing is wrong.
    pub(crate) fn wrong_parts(&self) -> Option<String> {
        const NAMED: usize = 3;
        let named: Vec<String> = self.wrong.iter().take(NAMED).map(ToString::to_string).collect();
        let others = self.wrong.len().saturating_sub(NAMED);
        let others = if others == 0 { String::new() } else { format!("; {others} more") };
        (!named.is_empty()).then(|| format!("{}{others}; the rest of the spec is in force", named.join("; ")))
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

fn thresholds(given: &api::Thresholds, wrong: &mut Vec<SpecError>) -> Thresholds {
    let defaults = Thresholds::default();
    let mut threshold = |name: &str, value: &Option<GoDuration>, default| {
        let field = format!("spec.thresholds.{name}");
        in_force(duration(&field, value.as_ref(), &limits::THRESHOLD, default), wrong).unwrap_or(default)
    };
    Thresholds {
        pending: threshold("pending", &given.pending, defaults.pending),
        initializing: threshold("initializing", &given.initializing, defaults.initializing),
        not_ready: threshold("notReady", &given.not_ready, defaults.not_ready),
        terminating: threshold("terminating", &given.terminating, defaults.terminating),
        restarted: threshold("restarted", &given.restarted, defaults.restarted),
        failed: threshold("failed", &given.failed, defaults.failed),
    }
}

fn max_pods(spec: &OrchestrSpec, wrong: &mut Vec<SpecError>) -> usize {
    let given = spec.report.as_ref().and_then(|report| report.max_pods);
    let bounded = bounded("spec.report.maxPods", given, limits::MAX_PODS, 50);
    in_force(bounded, wrong).map_or(50, |max| max as usize)
}

fn webhooks(spec: &OrchestrSpec, wrong: &mut Vec<SpecError>) -> Arc<[ValidatedWebhook]> {
    let links: Arc<[LinkTemplate]> =
        LinkTemplate::validate_all(spec.links.as_deref().unwrap_or_default(), wrong).into();
    let mut webhooks = ValidatedWebhook::validate_all(spec.webhooks.as_deref().unwrap_or_default(), wrong);
    let namespaces = spec.pods.as_ref().and_then(|pods| pods.namespaces.as_deref()).unwrap_or_default();
    for webhook in &mut webhooks {
        webhook.policy.links = Arc::clone(&links);
        webhook.policy.is_of_one_namespace |= is_one_namespace(namespaces);
    }
    webhooks.into()
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

/// The entries of `spec.pods.ignoreReasons` that are valid. A list that is too long is not in force: what it hides is
/// reported.
fn reasons(given: &[String], wrong: &mut Vec<SpecError>) -> Vec<String> {
    const FIELD: &str = "spec.pods.ignoreReasons";
    if in_force(at_most(FIELD, given.len(), limits::REASONS), wrong).is_none() {
        return Vec::new();
    }
    let mut check = |(index, reason): (usize, &String)| {
        let is_short = short_enough(&format!("{FIELD}[{index}]"), reason, limits::REASON_LENGTH);
        in_force(is_short, wrong).map(|()| reason.clone())
    };
    given.iter().enumerate().filter_map(&mut check).collect()
}

fn warnings(spec: &OrchestrSpec) -> Vec<String> {
    let mut warnings = unknown_reasons(spec);
    let mutes = spec.silences.iter().flatten().count() + spec.quiet_hours.iter().flatten().count();
    if mutes > 0 && spec.webhooks.iter().flatten().next().is_none() {
        warnings.push("spec.silences and spec.quietHours have no effect without webhooks".to_owned());
    }
    warnings
}

/// Warnings about names that are neither a kind nor a known reason, and so match nothing. Only the first three are named.
fn unknown_reasons(spec: &OrchestrSpec) -> Vec<String> {
    const NAMED: usize = 3;
    let ignored = spec.pods.iter().map(|pods| ("spec.pods.ignoreReasons".to_owned(), &pods.ignore_reasons));
    let matched = spec.webhooks.iter().flatten().enumerate().filter_map(|(index, webhook)| {
        Some((format!("spec.webhooks[{index}].match.reasons"), &webhook.match_.as_ref()?.reasons))
    });
    let silenced = spec.silences.iter().flatten().enumerate();
    let silenced = silenced.map(|(index, own)| (format!("spec.silences[{index}].match.reasons"), &own.match_.reasons));
    let quiet = spec.quiet_hours.iter().flatten().enumerate().filter_map(|(index, hours)| {
        Some((format!("spec.quietHours[{index}].match.reasons"), &hours.match_.as_ref()?.reasons))
    });
    let lists = ignored.chain(matched).chain(silenced).chain(quiet);
    let names = lists.flat_map(|(field, reasons)| reasons.iter().flatten().map(move |name| (field.clone(), name)));
    // Alerts about the spec itself have a reason that no pod has.
    let is_of_spec = |field: &str, name: &str| name == reason::INVALID_SPEC && !field.starts_with("spec.pods");
    let is_known = |field: &str, name: &str| {
        ProblemKind::from_name(name) != ProblemKind::Unknown || is_known_reason(name) || is_of_spec(field, name)
    };
    let mut unknown = names.filter(|(field, name)| !is_known(field, name));
    let warn = |(field, name): (String, &String)| {
        let name = shortened(name);
        let near = near_reason(name).map(|near| format!("; is it {near}?")).unwrap_or_default();
        format!("{field}: {name:?} is not a known kind or reason{near}")
    };
    let mut warnings: Vec<String> = unknown.by_ref().take(NAMED).map(warn).collect();
    match (unknown.count(), warnings.last_mut()) {
        (0, _) | (_, None) => {}
        (others, Some(last)) => *last += &format!(" ({others} more are not)"),
    }
    warnings
}

/// The beginning of a name that may be too long for a message.
fn shortened(name: &str) -> &str {
    &name[..name.floor_char_boundary(limits::REASON_LENGTH)]
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

fn log_policy(logs: &Logs, redact_patterns: &[Pattern], wrong: &mut Vec<SpecError>) -> Option<LogPolicy> {
    let defaults = LogPolicy::default();
    let lines = bounded("spec.logs.tailLines", logs.tail_lines, limits::TAIL_LINES, 20);
    let bytes = bounded("spec.logs.maxBytes", logs.max_bytes, limits::MAX_BYTES, 4096);
    let policy = LogPolicy {
        tail_lines: in_force(lines, wrong).unwrap_or(defaults.tail_lines),
        max_bytes: in_force(bytes, wrong).unwrap_or(defaults.max_bytes),
        redact: logs.redact.unwrap_or(true),
        redact_patterns: redact_patterns.to_vec(),
    };
    logs.enabled.unwrap_or(true).then_some(policy)
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
