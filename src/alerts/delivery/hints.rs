//! The hints of `orchestr webhook test` about failures.

use crate::{
    alerts::{address::AddressRefusal, formats::receiver, retry::AttemptOutcome},
    api::WebhookFormat,
};

/// Returns what usually fixes the failure; absent after a success.
#[must_use]
pub fn hint(outcome: &AttemptOutcome, format: WebhookFormat) -> Option<&'static str> {
    let hint = match outcome {
        AttemptOutcome::Refused { status: 200..=299, .. } => "see what the receiver answered",
        AttemptOutcome::Answered { status, .. } | AttemptOutcome::Refused { status, .. } => match status {
            200..=299 => return None,
            300..=399 => "put the URL that it redirects to into the Secret",
            status => receiver(format).hint(*status).unwrap_or_else(|| general(*status)),
        },
        AttemptOutcome::Unresolved => {
            "check the host's name in the URL (DNS does not know it); a Service's name is SERVICE.NAMESPACE.svc, \
             which resolves only inside the cluster"
        }
        AttemptOutcome::ConnectionRefused => {
            "check the port in the URL, and that the receiver runs: nothing listens there"
        }
        AttemptOutcome::Unreachable => {
            "check the port in the URL, that a NetworkPolicy or firewall lets the operator out, that the receiver speaks \
             TLS if the URL says https, and the proxy if --webhook-proxy-from-env is set"
        }
        AttemptOutcome::Interrupted => {
            "something between here and the receiver ends connections, or it does not speak HTTP there"
        }
        AttemptOutcome::TimedOut => {
            "the receiver accepted the request but is slow: raise the webhook's timeout, at most 60s"
        }
        AttemptOutcome::Untrusted => {
            "put the receiver's CA into a Secret and name it in caFrom, and use the host name of its certificate"
        }
        AttemptOutcome::AddressRefused(AddressRefusal::Private) => {
            "leave out --webhook-refuse-private, of the operator too, if receivers may be inside the cluster"
        }
        AttemptOutcome::AddressRefused(AddressRefusal::Loopback) => {
            "a loopback address is the operator's own pod: use a Service's name"
        }
        AttemptOutcome::AddressRefused(_) => {
            "alerts are never sent to this address: check what the host's name resolves to"
        }
        // The error already names the missing Secret, key or permission, or the place in the template.
        AttemptOutcome::Unusable(_) | AttemptOutcome::Unrendered(_) => return None,
    };
    Some(hint)
}

/// What usually fixes a failure with this status, whatever the format.
fn general(status: u16) -> &'static str {
    match status {
        400 | 422 => "check that the webhook's format is the one that this receiver reads",
        401 | 403 => "check the URL's token, or the Authorization header in headersFrom",
        404 => "the webhook was deleted, or the URL is not copied completely",
        405 => "this URL does not accept POST: it belongs to a page, not to a webhook",
        410 => "make a new webhook, and put its URL into the Secret",
        413 => "a proxy before the receiver does not accept a body of this size: raise its limit",
        429 => "the receiver limits its rate: wait, or have fewer senders use this URL",
        500..=599 => "the receiver, or a proxy before it, fails: see its log",
        _ => "see the receiver's log",
    }
}
