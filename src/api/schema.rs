//! The parts of the schema that cannot be derived: bounds, and validation rules with messages. The rules are CEL rules
//! rather than `pattern`s, because for a `pattern` the API server shows only the regular expression.
//!
//! Every list and text has a bound. Without it the API server would reject the rules as too expensive.

use std::{borrow::Cow, ops::RangeInclusive, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::{TEAM_LENGTH, duration, limits};

/// The syntax of a glob pattern of namespaces. It can neither count the alternatives of `{…}` nor compare the ends of a
/// range; [`Glob`](crate::glob::Glob) does both.
pub(crate) const NAMESPACE_PATTERN: &str =
    r"^([a-z0-9*?-]|\[!?[a-z0-9-]+\]|\{([a-z0-9*?-]|\[!?[a-z0-9-]+\])+(,([a-z0-9*?-]|\[!?[a-z0-9-]+\])+)*\})+$";
/// [`NAMESPACE_PATTERN`] in words.
pub(crate) const NAMESPACE_PATTERN_SYNTAX: &str =
    "a glob pattern of namespaces: lower-case letters, digits, -, *, ?, [a-z], [!a-z] and {one,other}";
/// A reason, with the same syntax as the reason of a condition.
const REASON: &str = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
const LABEL_KEY: &str = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
const LABEL_KEY_MESSAGE: &str = "must be a label's key such as app.kubernetes.io/name";
const LABEL_VALUE: &str = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";
const TEAM_PATTERN: &str = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?|[-A-Za-z0-9_.]*[*][-A-Za-z0-9_.]*)$";
const MENTION: &str = r"^(@here|@channel|[UWS][A-Z0-9]+)$";
const LINK_NAME: &str = r"^[A-Za-z0-9 .-]*[A-Za-z0-9.-][A-Za-z0-9 .-]*$";
/// [`LinkTemplate`](crate::alerts::LinkTemplate) checks the rest.
const LINK_URL: &str = r"^https?://[^/?#{}@]+([/?#].*)?$";
const DNS_LABEL: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const DNS_SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// A name with at most one `*`. Then a match takes no more steps than the name has characters.
const OWNER_PATTERN: &str = r"^([a-z0-9.-]+|[a-z0-9.-]*[*][a-z0-9.-]*)$";
const TIME_OF_DAY: &str = r"^([01][0-9]|2[0-3]):[0-5][0-9]$";
const END_OF_DAY: &str = r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$";
const TIME_ZONE: &str = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$";
const SECRET_KEY: &str = r"^[-._a-zA-Z0-9]+$";
/// Go's syntax without a sign.
const DURATION: &str = r"^(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";
const DURATION_LENGTH: usize = 32;

/// A type of Kubernetes in the schema, for `#[schemars(with = "schema::Name")]`. That k8s-openapi implements schemas for all of its
/// types would double the time that it takes to compile.
macro_rules! kubernetes_types {
    ($($name:ident: $schema:expr,)*) => {
        $(pub(super) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema.as_object().cloned().unwrap_or_default().into()
            }
        })*
    };
}

kubernetes_types! {
    Time: json!({"type": "string", "format": "date-time"}),
    Condition: json!({
        "description": "One aspect of the state, as in other objects of Kubernetes.",
        "type": "object",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "type": {"type": "string", "description": "The name of the condition."},
            "status": {"type": "string", "description": "True, False or Unknown."},
            "reason": {"type": "string", "description": "Why, in one word."},
            "message": {"type": "string", "description": "Why, in a sentence."},
            "lastTransitionTime": {"type": "string", "format": "date-time", "description": "When `status` last changed."},
            "observedGeneration": {
                "type": "integer", "format": "int64", "description": "The generation of the spec that the condition is based on.",
            },
        },
    }),
}

/// Defines a function for each schema, for `#[schemars(schema_with = "schema::name")]`.
macro_rules! schemas {
    ($($name:ident: $schema:expr,)*) => {
        $(pub(super) fn $name(_: &mut SchemaGenerator) -> Schema {
            $schema.as_object().cloned().unwrap_or_default().into()
        })*
    };
}

schemas! {
    namespace_patterns: set(limits::NAMESPACE_PATTERNS, namespace_pattern()),
    reasons: set(limits::REASONS, reason()),
    label_selector: bounded_selector(),
    threshold: duration_within(&limits::THRESHOLD),
    tail_lines: integer(&limits::TAIL_LINES),
    max_bytes: integer(&limits::MAX_BYTES),
    redact_patterns: set(limits::REDACT_PATTERNS, redact_pattern()),
    max_pods: integer(&limits::MAX_PODS),
    link_name: text(limits::LINK_NAME_LENGTH, LINK_NAME, "must be letters, digits, spaces, - and ."),
    link_url: text(
        limits::LINK_URL_LENGTH,
        LINK_URL,
        "must be an http or https URL, with placeholders such as {namespace} only after the host",
    ),
    name: text(63, DNS_LABEL, "must be a name of lower-case letters, digits and -"),
    secret_name: text(253, DNS_SUBDOMAIN, "must be a Secret's name: lower-case letters, digits, - and ."),
    secret_key: text(253, SECRET_KEY, "must be a key of a Secret: letters, digits, -, _ and ."),
    after: duration_within(&limits::AFTER),
    repeat_every: duration_within(&limits::REPEAT_EVERY),
    timeout: duration_within(&limits::TIMEOUT),
    severities: set(3, json!({"type": "string", "enum": ["info", "warning", "critical"]})),
    teams: set(
        limits::TEAMS,
        text(
            TEAM_LENGTH,
            TEAM_PATTERN,
            "must be a team's name: letters, digits, -, _ and ., beginning and ending with a letter or digit, or with \
             one * in place of any text",
        ),
    ),
    mentions: set(
        limits::MENTIONS,
        text(
            limits::MENTION_LENGTH,
            MENTION,
            "must be @here, @channel, or the ID of a user (U… or W…) or of a user group (S…) in Slack",
        ),
    ),
    // The syntax of a custom request's parts is checked by `CustomFormat` of alerts.
    custom_path: optional_text(limits::CUSTOM_PATH_LENGTH),
    custom_headers: headers(),
    custom_body: json!({"type": "string", "maxLength": limits::CUSTOM_BODY_LENGTH}),
    optional_custom_body: optional_text(limits::CUSTOM_BODY_LENGTH),
    custom_max_bytes: integer(&limits::CUSTOM_MAX_BYTES),
    muted_namespaces: set(limits::MUTE_MATCHES, namespace_pattern()),
    muted_reasons: set(limits::MUTE_MATCHES, reason()),
    muted_owners: set(
        limits::MUTE_MATCHES,
        text(
            limits::OWNER_PATTERN_LENGTH,
            OWNER_PATTERN,
            "must be the name of an owner: lower-case letters, digits, - and ., and at most one *",
        ),
    ),
    // CEL compares a time as such because of its format.
    time: json!({"type": "string", "format": "date-time", "maxLength": limits::TIME_LENGTH}),
    optional_time: json!({"type": "string", "format": "date-time", "maxLength": limits::TIME_LENGTH, "nullable": true}),
    comment: optional_text(limits::COMMENT_LENGTH),
    weekdays: set(7, json!({"type": "string", "enum": ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]})),
    start_of_day: text(5, TIME_OF_DAY, "must be a time of day such as 22:00, from 00:00 to 23:59"),
    end_of_day: text(5, END_OF_DAY, "must be a time of day such as 07:00, from 00:00 to 24:00"),
    time_zone: text(
        limits::TIME_ZONE_LENGTH,
        TIME_ZONE,
        "must be a time zone of the IANA database, such as Europe/Berlin",
    ),
}

pub(super) fn webhook_rules() -> Value {
    json!([{
        "rule": "!has(self.mentions) || self.format == 'Slack'",
        "message": "mentions are only for the format Slack",
        "fieldPath": ".mentions",
    }, {
        "rule": "has(self.custom) == (self.format == 'Custom')",
        "message": "custom is required by the format Custom, and only for it",
        "fieldPath": ".custom",
    }])
}

/// A `LabelSelector` with bounds, and with the rules that Kubernetes implements in code for its own kinds.
fn bounded_selector() -> Value {
    let mut key = text(limits::LABEL_KEY_LENGTH, LABEL_KEY, LABEL_KEY_MESSAGE);
    key["description"] = json!("The label's key.");
    let mut value = text(
        limits::LABEL_VALUE_LENGTH,
        LABEL_VALUE,
        "must be a label's value: letters, digits, -, _ and ., beginning and ending with a letter or digit",
    );
    let requirement = json!({
        "type": "object",
        "required": ["key", "operator"],
        "properties": {
            "key": key,
            "operator": {
                "description": "In and NotIn compare with values; Exists and DoesNotExist take none.",
                "type": "string",
                "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
            },
            "values": {
                "description": "The values to compare with.",
                "type": "array",
                "nullable": true,
                "maxItems": limits::SELECTOR_VALUES,
                "items": value.clone(),
                "x-kubernetes-list-type": "atomic",
            },
        },
        "x-kubernetes-validations": [{
            "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            "message": "In and NotIn need values; Exists and DoesNotExist take none",
            "fieldPath": ".values",
        }],
    });
    value["description"] = json!("The label's value.");
    json!({
        "type": "object",
        "nullable": true,
        "properties": {
            "matchLabels": {
                "description": "Labels that a pod must have, with these values.",
                "type": "object",
                "nullable": true,
                "maxProperties": limits::SELECTOR_LABELS,
                "additionalProperties": value,
                "x-kubernetes-validations": [{
                    "rule": format!("self.all(key, size(key) <= {} && key.matches(r'{LABEL_KEY}'))", limits::LABEL_KEY_LENGTH),
                    "message": LABEL_KEY_MESSAGE,
                }],
            },
            "matchExpressions": {
                "description": "Requirements that a pod's labels must meet, all of them.",
                "type": "array",
                "nullable": true,
                "maxItems": limits::SELECTOR_EXPRESSIONS,
                "items": requirement,
                "x-kubernetes-list-type": "atomic",
            },
        },
        "x-kubernetes-map-type": "atomic",
    })
}

fn text(max_length: usize, pattern: &str, message: &str) -> Value {
    json!({
        "type": "string",
        "maxLength": max_length,
        "x-kubernetes-validations": [{"rule": format!("self.matches(r'{pattern}')"), "message": message}],
    })
}

fn optional_text(max_length: usize) -> Value {
    json!({"type": "string", "nullable": true, "maxLength": max_length})
}

fn set(max_items: usize, item: Value) -> Value {
    json!({
        "type": "array",
        "nullable": true,
        "maxItems": max_items,
        "items": item,
        "x-kubernetes-list-type": "set",
    })
}

fn integer(range: &RangeInclusive<i32>) -> Value {
    json!({
        "type": "integer",
        "format": "int32",
        "nullable": true,
        "minimum": range.start(),
        "maximum": range.end(),
    })
}

fn duration_within(range: &RangeInclusive<Duration>) -> Value {
    let (shortest, longest) = (duration::whole(*range.start()), duration::whole(*range.end()));
    json!({
        "type": "string",
        "nullable": true,
        "maxLength": DURATION_LENGTH,
        "x-kubernetes-validations": [{
            "rule": format!(
                "self.matches(r'{DURATION}') && duration(self) >= duration('{shortest}') && duration(self) <= duration('{longest}')"
            ),
            "message": format!("must be a duration such as 90s, 5m or 1h30m, from {shortest} to {longest}"),
        }],
    })
}

fn namespace_pattern() -> Value {
    text(limits::NAMESPACE_PATTERN_LENGTH, NAMESPACE_PATTERN, &format!("must be {NAMESPACE_PATTERN_SYNTAX}"))
}

fn reason() -> Value {
    text(limits::REASON_LENGTH, REASON, "must be a reason such as ImagePullBackOff: letters, digits and _")
}

fn headers() -> Value {
    let length = limits::CUSTOM_HEADER_NAME_LENGTH;
    json!({
        "type": "object",
        "nullable": true,
        "maxProperties": limits::CUSTOM_HEADERS,
        "additionalProperties": {"type": "string", "maxLength": limits::CUSTOM_PATH_LENGTH},
        "x-kubernetes-validations": [{
            "rule": format!("self.all(name, size(name) <= {length} && name.matches(r'^[A-Za-z0-9-]+$'))"),
            "message": "must be headers with names of letters, digits and -",
        }],
    })
}

fn redact_pattern() -> Value {
    json!({
        "type": "string",
        "maxLength": limits::REDACT_PATTERN_LENGTH,
        // If the expression does not compile, the API server adds its error before the message.
        "x-kubernetes-validations": [{
            "rule": "!''.matches(self)",
            "message": "must be a regular expression in RE2 syntax that does not match the empty text",
        }],
    })
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn accepts_every_time_zone_of_the_database() {
        let pattern = Regex::new(TIME_ZONE).unwrap();
        let zones = jiff::tz::TimeZoneDatabase::bundled();
        let names: Vec<String> = zones.available().map(|name| name.as_str().to_owned()).collect();
        assert!(names.len() > 400, "{}", names.len());
        let refused: Vec<_> =
            names.iter().filter(|name| !pattern.is_match(name) || name.len() > limits::TIME_ZONE_LENGTH).collect();
        assert!(refused.is_empty(), "{refused:?}");
    }
}
