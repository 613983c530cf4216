//! How severe an incident is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How severe an incident is, from the least to the most. Written in lower case, as the label `severity` of Prometheus' alerts
/// usually is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Info,
    #[default]
    Warning,
    Critical,
}

impl Severity {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}
