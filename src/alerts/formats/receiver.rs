//! What a message format is.

use jiff::Timestamp;
use serde_json::Value;
use url::Url;

use super::pacing::Pacing;
use crate::alerts::{Alert, Notification};

/// The status of an answer that says in other words that the message was refused for its content.
pub(super) const REFUSED: u16 = 400;

/// A message format, and the receivers that read it: everything in which they differ from others. Each is a file of its own,
/// and a row of [`receiver`](super::receiver).
///
/// What a method returns by default is right for most receivers.
pub(in crate::alerts) trait Receiver: Sync {
    /// How often the receiver is sent messages, and how many alerts are tracked for it.
    fn pacing(&self) -> Pacing {
        Pacing::GROUPED
    }

    /// Completes the URL that a Secret contains. Returns the key that the URL has for the message itself, which is empty for
    /// most, or what the URL lacks.
    fn complete_url(&self, _url: &mut Url) -> Result<String, &'static str> {
        Ok(String::new())
    }

    /// Makes markup of an entry of `spec.webhooks[].mentions`, which is absent if the entry is invalid. Absent itself if the
    /// format has no mentions.
    fn mention_markup(&self) -> Option<fn(&str) -> Option<String>> {
        None
    }

    /// The part of the receiver's size limit for the names of incidents, in the unit of [`Self::min_size`].
    fn names_budget(&self) -> usize;

    /// An upper bound of an incident's size in a message that shows as little of it as possible.
    fn min_size(&self, alert: &Alert, now: Timestamp) -> usize;

    fn content_type(&self) -> &'static str {
        "application/json"
    }

    /// Renders a message within the receiver's size limit, in which nothing untrusted becomes markup. `key` is that of
    /// [`Self::complete_url`].
    fn render(&self, notification: &Notification, key: &str) -> Value;

    /// The status that an answer reports in its body, although its own status is that of a success.
    fn reported_status(&self, _body: &[u8]) -> Option<u16> {
        None
    }

    /// What usually fixes a failure with this status, if that depends on the format.
    fn hint(&self, _status: u16) -> Option<&'static str> {
        None
    }
}
