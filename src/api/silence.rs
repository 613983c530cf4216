//! Silences and quiet hours in the spec of an `Orchestr` object.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// Holds back alerts until a given time, critical ones as well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.from) || self.from < self.until", "message": "from must be before until"},
]))]
pub struct Silence {
    /// Unique within `silences`: up to 63 lower-case letters, digits and -.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// When it begins, such as 2026-12-01T06:00:00Z. Immediately by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::optional_time")]
    pub from: Option<String>,
    /// When it ends, such as 2026-12-01T08:00:00Z. Required, so that no silence is forgotten.
    #[schemars(schema_with = "schema::time")]
    pub until: String,
    /// Which problems are held back: those that match every field given here. At least one field must not be empty.
    #[serde(rename = "match")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "(has(self.namespaces) && size(self.namespaces) > 0) || (has(self.reasons) && size(self.reasons) > 0) \
                 || (has(self.owners) && size(self.owners) > 0)",
        "message": "must name namespaces, reasons or owners",
    }]))]
    pub match_: MuteMatch,
    /// Why, for people: up to 256 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::comment")]
    pub comment: Option<String>,
}

/// Hours in which alerts are held back every week, except critical ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.start != self.end", "message": "start and end must differ; a whole day is 00:00 to 24:00"},
]))]
pub struct QuietHours {
    /// Unique within `quietHours`: up to 63 lower-case letters, digits and -.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// The days on which they begin. Absent or empty: every day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::weekdays")]
    pub days: Option<Vec<Weekday>>,
    /// The local time at which they begin, such as 22:00. If the clocks are set forward past it, they begin at that moment;
    /// if the clocks show it twice, at the first.
    #[schemars(schema_with = "schema::start_of_day")]
    pub start: String,
    /// The local time at which they end, such as 07:00, on the next day if it is before `start`; up to 24:00. If the clocks
    /// are set forward past it, they end at that moment; if the clocks show it twice, at the second.
    #[schemars(schema_with = "schema::end_of_day")]
    pub end: String,
    /// A time zone of the IANA database, such as Europe/Berlin.
    #[schemars(schema_with = "schema::time_zone")]
    pub time_zone: String,
    /// Which problems are held back: those that match every field given here. All by default.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub match_: Option<MuteMatch>,
}

/// Which problems are held back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MuteMatch {
    /// Names or glob patterns of namespaces; at most 16. Absent or empty: all namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::muted_namespaces")]
    pub namespaces: Option<Vec<String>>,
    /// Kinds or reasons of problems, such as Crash or OOMKilled; at most 16. Absent or empty: all problems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::muted_reasons")]
    pub reasons: Option<Vec<String>>,
    /// Names of owners, such as cart, or with one * in place of any text, such as cart-*; at most 16. Absent or empty: all
    /// owners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::muted_owners")]
    pub owners: Option<Vec<String>>,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Weekday {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}
