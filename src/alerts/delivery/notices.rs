//! Problems that workers report as events, because the status may not be writable.

use tokio::sync::mpsc;

use crate::api::NamespacedName;

/// How many notices may wait for the controller. Further ones are only in the log.
const QUEUE: usize = 64;

/// Something that a person should know about an object's webhooks. It contains no values of Secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeliveryNotice {
    pub object: NamespacedName,
    pub uid: String,
    /// The webhook's name; empty if it concerns all webhooks of the object.
    pub webhook: String,
    /// The reason of the event, a constant of [`crate::api::reason`].
    pub reason: &'static str,
    pub note: String,
}

#[derive(Clone, Debug)]
pub(super) struct Notices(mpsc::Sender<DeliveryNotice>);

impl Notices {
    pub fn channel() -> (Self, mpsc::Receiver<DeliveryNotice>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        (Self(sender), receiver)
    }

    pub fn send(&self, notice: DeliveryNotice) {
        // If it does not fit, the log contains it.
        let _ = self.0.try_send(notice);
    }
}
