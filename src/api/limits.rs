//! The limits of a spec. The schema enforces them, and [`Settings`](crate::settings::Settings) checks them again because
//! an object may be older than the schema.

use std::{ops::RangeInclusive, time::Duration};

/// Patterns in a list of namespaces.
pub const NAMESPACE_PATTERNS: usize = 64;
/// Characters of one such pattern: about four names of 63 characters each, for `{…}`.
pub const NAMESPACE_PATTERN_LENGTH: usize = 253;
/// Names in a list of reasons.
pub const REASONS: usize = 64;
/// Characters of one such name.
pub const REASON_LENGTH: usize = 128;
/// Names or patterns in a list of teams.
pub const TEAMS: usize = 64;
/// Labels in a selector's `matchLabels`.
pub const SELECTOR_LABELS: usize = 32;
/// Requirements in a selector's `matchExpressions`.
pub const SELECTOR_EXPRESSIONS: usize = 32;
/// Values of one such requirement.
pub const SELECTOR_VALUES: usize = 64;
/// Characters of a label's key: a DNS subdomain, a slash and a name.
pub const LABEL_KEY_LENGTH: usize = 253 + 1 + 63;
/// Characters of a label's value.
pub const LABEL_VALUE_LENGTH: usize = 63;
/// Patterns in `logs.redactPatterns`.
pub const REDACT_PATTERNS: usize = 16;
/// Characters of one such pattern.
pub const REDACT_PATTERN_LENGTH: usize = 256;
/// Links in messages.
pub const LINKS: usize = 5;
/// Characters of a link's name.
pub const LINK_NAME_LENGTH: usize = 32;
/// Characters of a link's URL, with its placeholders.
pub const LINK_URL_LENGTH: usize = 256;
/// Mentions for one severity.
pub const MENTIONS: usize = 5;
/// Characters of a mention. Slack's IDs have 9 to 11.
pub const MENTION_LENGTH: usize = 32;
/// Webhooks of an object.
pub const WEBHOOKS: usize = 10;
/// Characters of the path and of the query of a custom request, and of the value of a header.
pub const CUSTOM_PATH_LENGTH: usize = 512;
/// Characters of the body of a custom request.
pub const CUSTOM_BODY_LENGTH: usize = 8192;
/// Headers of a custom request.
pub const CUSTOM_HEADERS: usize = 10;
/// Characters of the name of such a header.
pub const CUSTOM_HEADER_NAME_LENGTH: usize = 64;
/// `custom.maxBytes`: the names of one problem need almost 1,000 bytes at worst.
pub const CUSTOM_MAX_BYTES: RangeInclusive<i32> = 1000..=65536;

/// Silences of an object.
pub const SILENCES: usize = 20;
/// Quiet hours of an object.
pub const QUIET_HOURS: usize = 7;
/// Items of each list in the `match` of a silence or of quiet hours. All of them are matched with every incident.
pub const MUTE_MATCHES: usize = 16;
/// Characters of a pattern of owners: those of a name.
pub const OWNER_PATTERN_LENGTH: usize = 253;
/// Characters of a silence's comment.
pub const COMMENT_LENGTH: usize = 256;
/// Characters of a time, which may have fractions of a second.
pub const TIME_LENGTH: usize = 64;
/// Characters of a time zone's name.
pub const TIME_ZONE_LENGTH: usize = 64;

/// `logs.tailLines`.
pub const TAIL_LINES: RangeInclusive<i32> = 1..=1000;
/// `logs.maxBytes`.
pub const MAX_BYTES: RangeInclusive<i32> = 256..=65536;
/// `report.maxPods`.
pub const MAX_PODS: RangeInclusive<i32> = 1..=500;

const WEEK: Duration = Duration::from_hours(7 * 24);

/// Each of `thresholds`.
pub const THRESHOLD: RangeInclusive<Duration> = Duration::ZERO..=WEEK;
/// A webhook's `after`.
pub const AFTER: RangeInclusive<Duration> = Duration::ZERO..=WEEK;
/// A webhook's `repeatEvery`.
pub const REPEAT_EVERY: RangeInclusive<Duration> = Duration::from_mins(1)..=WEEK;
/// A webhook's `timeout`.
pub const TIMEOUT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);
