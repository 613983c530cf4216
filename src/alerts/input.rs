//! The input of [`plan`](super::plan()).

use jiff::Timestamp;

use super::{
    Incident, Source,
    memory::{GoneAlerts, IncidentMemory},
    mute::{CurrentMutes, MuteRules},
    policy::NotificationPolicy,
};

/// What a decision about one webhook depends on, apart from the webhook's stored status.
#[derive(Clone, Copy, Debug)]
pub struct PlanInput<'a> {
    pub source: &'a Source,
    pub policy: &'a NotificationPolicy,
    /// All current incidents of the object. Any incident missing here counts as gone, unless `gone` says
    /// otherwise.
    pub incidents: &'a [Incident],
    pub memory: &'a IncidentMemory,
    /// What is known about alerts whose incidents are missing in `incidents`.
    pub gone: &'a GoneAlerts,
    /// The silences and quiet hours of the object.
    pub mute_rules: &'a MuteRules,
    /// Which of the incidents they hold back now.
    pub mutes: &'a CurrentMutes,
    /// A hash of the webhook's spec and its Secrets. When it changes, retries start over.
    pub config: &'a str,
    /// Identifies the receiver. `None` while the webhook is unusable: nothing is sent.
    pub receiver: Option<&'a str>,
    /// When this process last delivered a message to this receiver. Not stored.
    pub last_sent: Option<Timestamp>,
    /// How many bytes of the status the alerts may use: [`super::alert_bytes`].
    pub bytes: usize,
    pub now: Timestamp,
}
