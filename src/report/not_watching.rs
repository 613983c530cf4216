//! The status of an object whose pods are not watched.

use jiff::Timestamp;

use crate::{
    api::{OrchestrStatus, condition, reason},
    spec_error::SpecError,
};

use super::{conditions::Conditions, count, fit, json, wire_time};

/// Why an object's pods are not watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotWatching {
    /// The spec asks for that.
    Paused,
    /// The spec doesn't say; permanent until it does.
    AlertsNotSet,
    /// The spec can't be used; permanent until it changes.
    InvalidSpec {
        /// Which field, and what is wrong with it.
        message: String,
    },
    /// The first list of pods is not complete.
    Syncing,
    /// The watch of the pods goes on failing.
    Interrupted {
        /// How.
        message: String,
    },
    /// RBAC refuses what is needed.
    PodAccessDenied {
        /// Which verb on which resource.
        message: String,
    },
}

impl From<SpecError> for NotWatching {
    fn from(error: SpecError) -> Self {
        match error {
            SpecError::AlertsNotSet => Self::AlertsNotSet,
            SpecError::Invalid { .. } => Self::InvalidSpec { message: error.to_string() },
        }
    }
}

impl NotWatching {
    /// The reason of the condition Ready.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Paused => reason::PAUSED,
            Self::AlertsNotSet => reason::ALERTS_NOT_SET,
            Self::InvalidSpec { .. } => reason::INVALID_SPEC,
            Self::Syncing | Self::Interrupted { .. } => reason::SYNCING,
            Self::PodAccessDenied { .. } => reason::POD_ACCESS_DENIED,
        }
    }

    /// Whether only a change of the spec ends it.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::AlertsNotSet | Self::InvalidSpec { .. })
    }

    /// Whether it is the cluster that keeps the operator from looking: what it saw last may still be so.
    fn keeps_lists(&self) -> bool {
        matches!(self, Self::Syncing | Self::Interrupted { .. } | Self::PodAccessDenied { .. })
    }

    fn message(&self) -> String {
        match self {
            Self::Paused => "spec.alerts.checkRunningPods is false".to_owned(),
            Self::AlertsNotSet => SpecError::AlertsNotSet.to_string(),
            Self::InvalidSpec { message } | Self::PodAccessDenied { message } => message.clone(),
            Self::Syncing => "the list of pods is not complete yet".to_owned(),
            Self::Interrupted { message } => format!("pods can't be read at present: {message}"),
        }
    }
}

/// The status of an object whose pods are not watched.
///
/// PodsHealthy is Unknown with Ready's reason. The lists and counts are emptied where the spec is why;
/// where the cluster is, they stay as they were: that pods can't be read doesn't make them healthy.
/// Stalled stands there only while it is True, as kstatus has it.
#[must_use]
pub fn not_watching(
    state: &NotWatching,
    generation: i64,
    previous: Option<&OrchestrStatus>,
    now: Timestamp,
) -> OrchestrStatus {
    let conditions = Conditions { generation, previous, now };
    let kept = previous.filter(|_| state.keeps_lists());
    let message = state.message();

    let ready = match state {
        NotWatching::Syncing | NotWatching::Interrupted { .. } => {
            conditions.is_unknown(condition::READY, state.reason(), &message)
        }
        _ => conditions.is_false(condition::READY, state.reason(), &message),
    };
    let unknown = match kept {
        Some(kept) if kept.problematic_pod_count > 0 => "not known at present; the lists show what was found before",
        _ if state.keeps_lists() => "not known yet",
        _ => "pods are not checked",
    };
    let healthy = conditions.is_unknown(condition::PODS_HEALTHY, state.reason(), unknown);
    let stalled = state.is_permanent().then(|| conditions.is_true(condition::STALLED, state.reason(), &message));

    let mut status = OrchestrStatus {
        observed_generation: Some(generation),
        last_check_time: Some(wire_time(now)),
        conditions: [ready, healthy].into_iter().chain(stalled).collect(),
        ..OrchestrStatus::default()
    };
    if let Some(kept) = kept {
        keep(&mut status, kept);
    }
    status
}

/// Takes over the lists, within bounds: someone else may have written them.
fn keep(status: &mut OrchestrStatus, kept: &OrchestrStatus) {
    status.watched_pods = kept.watched_pods;
    status.problematic_pod_count = kept.problematic_pod_count;
    status.incidents = fit::prefix(kept.incidents.iter().take(fit::MAX_INCIDENTS).cloned(), fit::INCIDENT_BYTES);
    let cut = count(kept.incidents.len() - status.incidents.len());
    status.omitted_incidents = kept.omitted_incidents.saturating_add(cut);

    // While it is measured, with as many digits as it may come to have.
    status.omitted_pods = i64::MAX;
    let budget = fit::budget(!kept.webhooks.is_empty()).saturating_sub(json::size(status));
    status.problematic_pods = fit::prefix(kept.problematic_pods.iter().cloned(), budget);
    let cut = count(kept.problematic_pods.len() - status.problematic_pods.len());
    status.omitted_pods = kept.omitted_pods.saturating_add(cut);
}
