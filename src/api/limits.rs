//! What a spec may hold. The schema refuses more; [`Settings`](crate::settings::Settings) checks again, for
//! an object may be older than the schema.

use std::{ops::RangeInclusive, time::Duration};

/// How many patterns a list of namespaces may hold.
pub const NAMESPACE_PATTERNS: usize = 64;
/// The characters of one such pattern: four times a namespace's 63, for alternatives.
pub const NAMESPACE_PATTERN_LENGTH: usize = 253;
/// How many reasons a list may hold.
pub const REASONS: usize = 64;
/// The characters of one reason.
pub const REASON_LENGTH: usize = 128;
/// How many labels a selector's `matchLabels` may hold.
pub const SELECTOR_LABELS: usize = 32;
/// How many requirements a selector's `matchExpressions` may hold.
pub const SELECTOR_EXPRESSIONS: usize = 32;
/// How many values one requirement may hold.
pub const SELECTOR_VALUES: usize = 64;
/// The characters of a label's key: a DNS subdomain, a slash and a name.
pub const LABEL_KEY_LENGTH: usize = 253 + 1 + 63;
/// The characters of a label's value.
pub const LABEL_VALUE_LENGTH: usize = 63;
/// How many patterns `logs.redactPatterns` may hold.
pub const REDACT_PATTERNS: usize = 16;
/// The characters of one such pattern.
pub const REDACT_PATTERN_LENGTH: usize = 256;
/// How many webhooks an object may have.
pub const WEBHOOKS: usize = 10;

/// `logs.tailLines`.
pub const TAIL_LINES: RangeInclusive<i32> = 1..=1000;
/// `logs.maxBytes`.
pub const MAX_BYTES: RangeInclusive<i32> = 256..=65536;
/// `report.maxPods`.
pub const MAX_PODS: RangeInclusive<i32> = 1..=500;

const WEEK: Duration = Duration::from_hours(7 * 24);

/// Every one of `thresholds`.
pub const THRESHOLD: RangeInclusive<Duration> = Duration::ZERO..=WEEK;
/// A webhook's `after`.
pub const AFTER: RangeInclusive<Duration> = Duration::ZERO..=WEEK;
/// A webhook's `repeatEvery`.
pub const REPEAT_EVERY: RangeInclusive<Duration> = Duration::from_mins(1)..=WEEK;
/// A webhook's `timeout`.
pub const TIMEOUT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);
