//! Builds the status of an object whose pods are not watched.

use jiff::Timestamp;

use crate::{
    api::{OrchestrStatus, condition, reason},
    spec_error::SpecError,
};

use super::{
    conditions::Conditions,
    fit,
    history::History,
    json_size,
    wire::{count, wire_time},
};

/// Why an object's pods are not watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotWatching {
    /// The spec pauses it.
    Paused,
    /// The spec lacks `alerts.checkRunningPods`. Permanent until the spec changes.
    AlertsNotSet,
    /// A value in the spec is invalid. Permanent until the spec changes.
    InvalidSpec {
        /// Names the field.
        message: String,
    },
    /// The first list of pods is not complete.
    Syncing,
    /// The watch of the pods keeps failing.
    Interrupted { message: String },
    /// RBAC denies access to pods.
    PodAccessDenied {
        /// Names the verb and the resource.
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

    /// Whether only a change of the spec can end this state.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::AlertsNotSet | Self::InvalidSpec { .. })
    }

    /// Whether the cluster, not the spec, prevents the watch: then the last known lists may still be true.
    #[must_use]
    pub fn keeps_lists(&self) -> bool {
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
/// PodsHealthy is Unknown with Ready's reason. Lists and counts are emptied if the spec is the cause. If the cluster
/// is, they stay as they were, because an unhealthy pod does not become healthy when it cannot be read. Stalled is
/// present only while it is True, as kstatus expects.
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

    let is_unknown = matches!(state, NotWatching::Syncing | NotWatching::Interrupted { .. });
    let ready = if is_unknown { "Unknown" } else { "False" };
    let ready = conditions.condition(condition::READY, ready, state.reason(), &message);
    let unknown = match kept {
        Some(kept) if kept.problematic_pod_count > 0 || kept.missing_pods > 0 => {
            "not known at present; the lists show what was found before"
        }
        _ if state.keeps_lists() => "not known yet",
        _ => "pods are not checked",
    };
    let healthy = conditions.condition(condition::PODS_HEALTHY, "Unknown", state.reason(), unknown);
    let stalled = || conditions.condition(condition::STALLED, "True", state.reason(), &message);
    let stalled = state.is_permanent().then(stalled);

    let mut status = OrchestrStatus {
        observed_generation: Some(generation),
        last_check_time: Some(wire_time(now)),
        conditions: [ready, healthy].into_iter().chain(stalled).collect(),
        ..OrchestrStatus::default()
    };
    if let Some(kept) = kept {
        keep_lists(&mut status, kept);
    }
    status
}

/// Keeps the previous lists, within the limits: another writer may have exceeded them.
pub(crate) fn keep_lists(status: &mut OrchestrStatus, kept: &OrchestrStatus) {
    status.watched_pods = kept.watched_pods;
    status.problematic_pod_count = kept.problematic_pod_count;
    status.missing_pods = kept.missing_pods;
    status.common_causes = fit::prefix(kept.common_causes.iter().cloned(), fit::COMMON_CAUSE_BYTES);
    status.incidents = fit::prefix(kept.incidents.iter().take(fit::MAX_INCIDENTS).cloned(), fit::STORED_INCIDENT_BYTES);
    let cut = count(kept.incidents.len() - status.incidents.len());
    status.omitted_incidents = kept.omitted_incidents.saturating_add(cut);

    // The size is measured with the most digits that the count may have. The budget keeps room for the history and for
    // the most pods of each incident, so they do not count.
    status.omitted_pods = i64::MAX;
    let history = History::take(status);
    let most_pods: Vec<_> = status.incidents.iter_mut().map(|own| std::mem::take(&mut own.most_pods)).collect();
    let budget = fit::budget(!kept.webhooks.is_empty()).saturating_sub(json_size::size(status));
    history.put_into(status);
    status.incidents.iter_mut().zip(most_pods).for_each(|(own, most_pods)| own.most_pods = most_pods);
    status.problematic_pods = fit::prefix(kept.problematic_pods.iter().cloned(), budget);
    let cut = count(kept.problematic_pods.len() - status.problematic_pods.len());
    status.omitted_pods = kept.omitted_pods.saturating_add(cut);
}
