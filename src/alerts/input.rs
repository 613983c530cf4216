//! The input of [`step`](super::step()).

use std::ops::Deref;

use jiff::Timestamp;

use super::{
    Incident, Source,
    memory::{GoneAlerts, IncidentMemory},
    mute::{CurrentMutes, MuteRules},
    policy::NotificationPolicy,
};

/// What the steps of all webhooks of an object depend on.
#[derive(Clone, Copy, Debug)]
pub struct ObjectInput<'a> {
    pub source: &'a Source,
    /// All current incidents of the object, or those that were known last. Any incident missing here counts as gone, unless
    /// `gone` says otherwise.
    pub incidents: &'a [Incident],
    /// False before the list of pods is complete, and while the object is paused: only what was sent is sent again.
    pub incidents_known: bool,
    pub memory: &'a IncidentMemory,
    /// What is known about alerts whose incidents are missing in `incidents`.
    pub gone: &'a GoneAlerts,
    /// The silences and quiet hours of the object.
    pub mute_rules: &'a MuteRules,
    /// Which of the incidents they hold back now.
    pub mutes: &'a CurrentMutes,
    /// How many bytes of the status the alerts of each webhook may use: [`super::alert_bytes`].
    pub bytes: usize,
    /// Whether messages are sent although their state cannot be stored.
    pub is_unstored: bool,
    /// By the cluster's clock.
    pub now: Timestamp,
}

/// What the step of one webhook depends on, apart from the webhook's stored status.
#[derive(Clone, Copy, Debug)]
pub struct StepInput<'a> {
    pub object: ObjectInput<'a>,
    pub policy: &'a NotificationPolicy,
    /// A hash of the webhook's spec and its Secrets. When it changes, retries start over.
    pub config: &'a str,
    /// Identifies the receiver. `None` while the webhook is unusable: nothing is sent.
    pub receiver: Option<&'a str>,
    /// Whether alerts can be sent again, maybe to a receiver that was usable earlier.
    pub can_resend: bool,
    /// When this process last delivered a message to this receiver. Not stored.
    pub last_sent: Option<Timestamp>,
}

impl<'a> Deref for StepInput<'a> {
    type Target = ObjectInput<'a>;

    fn deref(&self) -> &ObjectInput<'a> {
        &self.object
    }
}

impl StepInput<'_> {
    /// Whether an incident is old enough to be sent.
    pub(super) fn is_due(&self, incident: &Incident) -> bool {
        self.policy.due_at(incident, self.now).is_some_and(|due| due <= self.now)
    }
}
