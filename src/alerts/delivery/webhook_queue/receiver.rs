//! Which receiver a webhook has, and which one it has left.

use std::sync::Arc;

use tokio::time::Instant;

use super::{ReadSecrets, Stage, UsableEndpoint, WebhookQueue};
use crate::{
    alerts::{
        Farewell, Incident, ObjectInput, StepInput,
        delivery::{
            farewells::{LastMessages, LeftReceiver, SENT_WITHIN, UNKNOWN, UNKNOWN_PRESENT},
            secrets::{Endpoint, WebhookSecrets},
        },
        last_messages,
    },
    api::{AlertPhase, AlertStatus},
};

impl WebhookQueue {
    /// Replaces the identity of the receiver that an earlier version has stored, so that nothing is sent again.
    pub(super) fn convert_receiver(&mut self) {
        if let Some(ReadSecrets { secrets, .. }) = &self.secrets.latest
            && secrets.endpoint.is_ok()
            && self.base.receiver == secrets.versioned_receiver
        {
            Arc::make_mut(&mut self.base).receiver.clone_from(&secrets.receiver);
        }
    }

    /// Notes the receiver that was read, and the one before it if it is another.
    pub(super) fn note_receiver(&mut self, secrets: &WebhookSecrets, endpoint: Arc<Endpoint>, now: Instant) {
        let new = UsableEndpoint { receiver: secrets.receiver.clone(), endpoint, read_at: now };
        match self.last_usable.replace(new) {
            Some(old) if old.receiver != secrets.receiver => self.leave(old.receiver, Ok(old.endpoint), old.read_at),
            Some(_) => {}
            // The receiver of an earlier run.
            None if !self.base.receiver.is_empty()
                && ![&secrets.receiver, &secrets.versioned_receiver].contains(&&self.base.receiver) =>
            {
                self.leave(self.base.receiver.clone(), Err(UNKNOWN), now);
            }
            None => {}
        }
        self.given_up = None;
    }

    /// Remembers a receiver that the webhook may have left. If it leaves several in a row, only the first one was sent
    /// anything.
    pub(super) fn leave(
        &mut self,
        receiver: String,
        endpoint: Result<Arc<Endpoint>, &'static str>,
        left_after: Instant,
    ) {
        if self.given_up.as_ref() == Some(&receiver) {
            return;
        }
        let webhook = self.webhook.clone();
        self.left.get_or_insert(LeftReceiver { receiver, endpoint, webhook, left_after });
    }

    /// Notes that the webhook was removed from the spec after `removed_after`.
    pub(in crate::alerts::delivery) fn on_removed(&mut self, removed_after: Instant) {
        let (receiver, endpoint) = match self.last_usable.take() {
            Some(usable) => (usable.receiver, Ok(usable.endpoint)),
            None => (self.base.receiver.clone(), Err(UNKNOWN)),
        };
        self.secrets.latest = None;
        if !self.is_sending() {
            // A message that is being stored is not sent any more.
            self.stage = Stage::Idle;
        }
        self.leave(receiver, endpoint, removed_after);
    }

    /// The receiver that the webhook has left, once it is known that the present one is another, and no request to it is
    /// under way. If the present one stays unknown, it is given up when nothing may be sent to it any more.
    pub(in crate::alerts::delivery) fn take_left(&mut self, is_removed: bool, now: Instant) -> Option<LeftReceiver> {
        let present = self.secrets.latest.as_ref().map(|latest| &latest.secrets);
        let is_known = is_removed || present.is_some_and(|present| present.endpoint.is_ok());
        let is_late = |left: &LeftReceiver| left.left_after + SENT_WITHIN <= now;
        if self.is_busy() || !is_known && !self.left.as_ref().is_some_and(is_late) {
            return None;
        }
        let mut left = self.left.take()?;
        if !is_known {
            self.given_up = Some(left.receiver.clone());
            left.endpoint = Err(UNKNOWN_PRESENT);
            return Some(left);
        }
        let present = self.secrets.latest.as_ref().map(|latest| &latest.secrets);
        (present.is_none_or(|present| present.receiver != left.receiver)).then_some(left)
    }

    /// The messages that end what the receiver was sent that the webhook has left, if there is anything to end. What one of
    /// the webhooks that remain sends to this receiver goes on: PagerDuty and Alertmanager take equal alerts of several
    /// webhooks for one.
    pub(in crate::alerts::delivery) fn last_messages(
        &self,
        to: LeftReceiver,
        input: &ObjectInput<'_>,
        remaining: &[WebhookQueue],
    ) -> Option<LastMessages> {
        let input_of_left = StepInput { policy: &to.webhook.policy, ..self.step_input(input) };
        let is_kept = |key: &str| remaining.iter().any(|queue| queue.sends_to(&to) && queue.sends(key, input));
        let messages = last_messages(&self.base, &input_of_left, Farewell::ReceiverLeft, &is_kept);
        (!messages.is_empty()).then_some(LastMessages { to, messages })
    }

    /// Whether it sends to this receiver, as far as is known.
    fn sends_to(&self, left: &LeftReceiver) -> bool {
        let (own, other) = (&self.webhook.endpoint, &left.webhook.endpoint);
        match &self.last_usable {
            Some(usable) => usable.receiver == left.receiver,
            None => (own.format, &own.url_from) == (other.format, &other.url_from),
        }
    }

    /// Whether its receiver was sent the alert with this key, or will be now.
    fn sends(&self, key: &str, input: &ObjectInput<'_>) -> bool {
        let is_tracked = |alert: &AlertStatus| alert.key == key && alert.phase != AlertPhase::Resolved;
        self.base.alerts.iter().any(is_tracked)
            || input.incidents.iter().any(|incident| *incident.key == *key && self.will_announce(incident, input))
    }

    /// Whether its receiver will be sent an incident now, and its end later.
    fn will_announce(&self, incident: &Incident, input: &ObjectInput<'_>) -> bool {
        let (policy, key) = (&self.webhook.policy, &incident.key);
        let is_usable = self.webhook.endpoint.wrong.is_none() && !self.base.stopped && policy.send_resolved;
        is_usable
            && input.mutes.get(key).is_none()
            && policy.due_at(incident, input.now).is_some_and(|due| due <= input.now)
            && policy.matches(incident, input.memory.earlier(key))
    }
}
