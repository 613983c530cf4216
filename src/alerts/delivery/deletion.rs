//! Notifies receivers that the object that sent them alerts was deleted.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{http_client::HttpClient, secrets::Endpoint, send::send};
use crate::alerts::{Notification, retry::AttemptOutcome};

/// How long to try, for all receivers of an object together.
pub(super) const DELETION_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait before the second and the third attempt.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Sends `messages` in order. Stops and returns false when one cannot be delivered.
pub(super) async fn send_deletion_notices(
    http: &HttpClient,
    endpoint: Arc<Endpoint>,
    messages: Vec<Notification>,
    timeout: Duration,
) -> bool {
    for message in messages {
        let mut delays = RETRY_DELAYS.into_iter();
        loop {
            let outcome = send(http, &endpoint, &message, timeout).await.outcome;
            match (outcome, delays.next()) {
                (AttemptOutcome::Answered { status: 200..=299, .. }, _) => break,
                (AttemptOutcome::Answered { status: 410, .. }, _) | (_, None) => return false,
                (_, Some(delay)) => sleep(delay).await,
            }
        }
    }
    true
}
