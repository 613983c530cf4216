//! Errors in a spec, and the checks that several parts of a spec share. Each error names its field.

use std::{collections::HashSet, ops::RangeInclusive, time::Duration};

use crate::{
    api::{GoDuration, limits, whole_duration},
    glob::Glob,
};

/// Why a spec is invalid. It stays so until the spec changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error("spec.alerts.checkRunningPods must be set")]
    AlertsNotSet,
    #[error("{field}: {problem}")]
    Invalid {
        /// The field's path, such as `spec.pods.namespaces[0]`.
        field: String,
        problem: String,
    },
}

pub(crate) fn invalid(field: impl Into<String>, problem: impl Into<String>) -> SpecError {
    SpecError::Invalid { field: field.into(), problem: problem.into() }
}

/// The part of a spec that a check returned. If it is wrong, it is not in force, which `wrong` says; the rest of the spec is.
pub(crate) fn in_force<T>(part: Result<T, SpecError>, wrong: &mut Vec<SpecError>) -> Option<T> {
    part.map_err(|error| wrong.push(error)).ok()
}

pub(crate) fn at_most(field: &str, items: usize, max: usize) -> Result<(), SpecError> {
    if items > max { Err(invalid(field, format!("may have at most {max} items, not {items}"))) } else { Ok(()) }
}

/// The valid entries of a list: of the first `max`, each with a name of its own. `wrong` names the others.
pub(crate) fn entries<S, T>(
    field: &str,
    specs: &[S],
    max: usize,
    name: impl Fn(&S) -> &str,
    validate: impl Fn(usize, &S, &mut Vec<SpecError>) -> Result<T, SpecError>,
    wrong: &mut Vec<SpecError>,
) -> Vec<T> {
    in_force(at_most(field, specs.len(), max), wrong);
    let mut names = HashSet::new();
    let entry = |(index, spec): (usize, &S)| {
        let name = name(spec);
        let entry = if names.insert(name.to_owned()) {
            validate(index, spec, wrong)
        } else {
            Err(invalid(format!("{field}[{index}].name"), format!("{name:?} is already used")))
        };
        in_force(entry, wrong)
    };
    specs.iter().take(max).enumerate().filter_map(entry).collect()
}

pub(crate) fn short_enough(field: &str, text: &str, max: usize) -> Result<(), SpecError> {
    let length = text.chars().count();
    if length > max { Err(invalid(field, format!("may have at most {max} characters, not {length}"))) } else { Ok(()) }
}

pub(crate) fn globs(field: &str, patterns: &[String]) -> Result<Vec<Glob>, SpecError> {
    at_most(field, patterns.len(), limits::NAMESPACE_PATTERNS)?;
    let glob = |(index, pattern): (usize, &String)| {
        let field = format!("{field}[{index}]");
        short_enough(&field, pattern, limits::NAMESPACE_PATTERN_LENGTH)?;
        Glob::new(pattern).map_err(|error| invalid(field, format!("{pattern:?} {error}")))
    };
    patterns.iter().enumerate().map(glob).collect()
}

pub(crate) fn duration(
    field: &str,
    value: Option<&GoDuration>,
    range: &RangeInclusive<Duration>,
    default: Duration,
) -> Result<Duration, SpecError> {
    let Some(value) = value else { return Ok(default) };
    let text = value.as_str();
    let duration = value.parse().map_err(|error| invalid(field, format!("{text:?} {error}")))?;
    if range.contains(&duration) {
        return Ok(duration);
    }
    let (shortest, longest) = (whole_duration(*range.start()), whole_duration(*range.end()));
    Err(invalid(field, format!("must be from {shortest} to {longest}, not {text}")))
}

pub(crate) fn bounded(
    field: &str,
    value: Option<i32>,
    range: RangeInclusive<i32>,
    default: i32,
) -> Result<u32, SpecError> {
    let value = value.unwrap_or(default);
    match u32::try_from(value) {
        Ok(unsigned) if range.contains(&value) => Ok(unsigned),
        _ => Err(invalid(field, format!("must be from {} to {}, not {value}", range.start(), range.end()))),
    }
}
