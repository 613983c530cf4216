//! How severe an incident is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How severe an incident is, from the least to the most. Written in lower case, as the label `severity` of Prometheus' alerts
/// usually is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Someone should look at it, but not at night.
    #[default]
    Warning,
    /// Someone should be called.
    Critical,
}

impl Severity {
    /// The severity of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Info, Self::Warning, Self::Critical].into_iter().find(|severity| severity.as_str() == name)
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}
