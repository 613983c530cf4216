//! The last messages of an object that was deleted.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{HttpClient, secrets::Endpoint, send::send};
use crate::alerts::{Notification, retry::AttemptOutcome};

/// How long the receivers of a deleted object are tried.
pub(super) const FAREWELL: Duration = Duration::from_secs(30);
/// When a receiver that does not take a last message is tried again.
const FAREWELL_TRIES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Sends the last messages to a receiver, one after the other, each with a few tries. Returns whether it took all.
pub(super) async fn last_messages(
    http: &HttpClient,
    endpoint: Arc<Endpoint>,
    messages: Vec<Notification>,
    timeout: Duration,
) -> bool {
    for message in messages {
        let mut tries = FAREWELL_TRIES.into_iter();
        loop {
            let outcome = send(http, &endpoint, &message, timeout).await.outcome;
            match (outcome, tries.next()) {
                (AttemptOutcome::Answered { status: 200..=299, .. }, _) => break,
                (AttemptOutcome::Answered { status: 410, .. }, _) | (_, None) => return false,
                (_, Some(wait)) => sleep(wait).await,
            }
        }
    }
    true
}
