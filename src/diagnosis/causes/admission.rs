//! Classifies why a controller could not create a pod: the messages of FailedCreate events and of the condition
//! ReplicaFailure.
//!
//! The texts are those of the API server's admission plugins. A webhook or a policy may quote anything in its own message,
//! so a text proves a cause only at the place where the API server writes it.

use crate::{api::Cause, quantity::Quantity};

use super::{
    super::one_line::{MESSAGE_LIMIT, one_line},
    parse::{all_parts, filled, matches, parts},
};

/// More of a message is not read.
const READ_LIMIT: usize = 4 * MESSAGE_LIMIT;

/// How the admission plugins refuse something, the cause, and a sentence. In this, `{0}` is what they refuse, and the others are
/// the parts of their text.
const REFUSALS: [(&str, Cause, &str); 15] = [
    (UNMET, Cause::QuotaRequires, "the ResourceQuota {1} requires {0} to specify {2}"),
    (
        "insufficient quota to consume: {}",
        Cause::QuotaExceeded,
        "no ResourceQuota of the namespace allows {0} to consume {1}",
    ),
    (
        "insufficient quota to match these scopes: {}",
        Cause::QuotaExceeded,
        "no ResourceQuota of the namespace matches the scopes of {0}: {1}",
    ),
    ("violates PodSecurity {q}: {}", Cause::PolicyRefused, "Pod Security refuses the pod at level {1}: {2}"),
    ("violates PodSecurity {q}{}", Cause::PolicyRefused, "Pod Security refuses the pod at level {1}: no details"),
    (
        "ValidatingAdmissionPolicy '{}'{} denied request: {}",
        Cause::PolicyRefused,
        "the ValidatingAdmissionPolicy {1} refuses {0}: {3}",
    ),
    (
        "unable to validate against any pod security policy: {}",
        Cause::PolicyRefused,
        "no PodSecurityPolicy allows the pod: {1}",
    ),
    (
        "unable to validate against any security context constraint: {}",
        Cause::PolicyRefused,
        "no security context constraint allows the pod: {1}",
    ),
    (
        "admission webhook {q} denied the request: {}",
        Cause::WebhookRefused,
        "the admission webhook {1} refuses {0}: {2}",
    ),
    (
        "admission webhook {q} denied the request{}",
        Cause::WebhookRefused,
        "the admission webhook {1} refuses {0}: without explanation",
    ),
    (
        "failed calling webhook {q}: failed to call webhook: {}",
        Cause::WebhookRefused,
        "the admission webhook {1} cannot be called: {2}",
    ),
    ("failed calling webhook {q}: {}", Cause::WebhookRefused, "the admission webhook {1} cannot be called: {2}"),
    ("failed calling webhook {q}; {}", Cause::WebhookRefused, "the admission webhook {1} cannot be called: {2}"),
    (
        "error looking up service account {w}/{w}: serviceaccount {q} not found",
        Cause::ServiceAccountMissing,
        "the service account {3} does not exist",
    ),
    (
        "error looking up service account {w}/{w}: serviceaccounts {q} not found",
        Cause::ServiceAccountMissing,
        "the service account {3} does not exist",
    ),
];

/// The name of a quota, and how much of it is used.
const EXCEEDED: &str = "exceeded quota: {}, {}";
/// The name of a quota, and what a pod must specify.
const UNMET: &str = "failed quota: {}: must specify {}";

/// How a LimitRange refuses something.
const LIMITS: [&str; 3] =
    ["minimum {w} usage per {w} is {}", "maximum {w} usage per {w} is {}", "{w} max limit to request ratio per {}"];

/// The cause of a failed creation, and a sentence about it that names no single pod. The sentence is empty if the message
/// is.
#[must_use]
pub(crate) fn classify_failed_create(message: &str) -> (Cause, String) {
    let message = one_line(message, READ_LIMIT);
    let (object, error) = refusal(&message);
    let what = if object == "persistentvolumeclaims" { "a PersistentVolumeClaim of the pod" } else { "the pod" };
    let (cause, sentence) = classify(error, what).unwrap_or_else(|| (Cause::Unknown, error.to_owned()));
    (cause, one_line(&sentence, MESSAGE_LIMIT))
}

/// The name of the ResourceQuota that a message names as the cause.
#[must_use]
pub(crate) fn refusing_quota(message: &str) -> Option<String> {
    let message = one_line(message, READ_LIMIT);
    let (_, error) = refusal(&message);
    let [name, _] = parts(EXCEEDED, error).or_else(|| parts(UNMET, error))?;
    Some(name.to_owned())
}

/// Whether a message says that others use up a quota, so that there may be room later. A pod that requests more than the
/// limit exceeds it alone.
#[must_use]
pub(crate) fn is_full_quota(message: &str) -> bool {
    let message = one_line(message, READ_LIMIT);
    let (_, error) = refusal(&message);
    let usages = parts(EXCEEDED, error).and_then(|[_, usage]| usages(usage));
    let milli = |text: &str| Quantity::parse(text).map(Quantity::milli);
    let fits = |usage: &Usage<'_>| Some(milli(usage.requested)? <= milli(usage.limit)?);
    usages.is_some_and(|usages| usages.iter().all(|usage| fits(usage).unwrap_or(true)))
}

/// What each controller writes before the error. That of StatefulSets has changed.
const FORMS: [&str; 5] = [
    "Error creating: {}",
    "Create Pod {} in StatefulSet {} failed error: {}",
    "create Pod {} in StatefulSet {} failed error: {}",
    "Create Claim {} in StatefulSet {} failed error: {}",
    "create Claim {} in StatefulSet {} failed error: {}",
];

/// The resource that was refused, such as `pods`, and the error, without the names of pods. The resource is empty if the
/// message does not name it.
fn refusal(message: &str) -> (&str, &str) {
    let error = FORMS.iter().find_map(|form| all_parts(form, message)?.pop()).unwrap_or(message);
    // Several claims of a StatefulSet's pod are joined in brackets; the first one decides.
    let claim = parts("failed to create PVC {}: {}", error.trim_start_matches('['));
    let error = claim.map_or(error, |[_, error]| error);
    parts("{w} {q} is forbidden: {}", error).map_or(("", error), |[resource, _, error]| (resource, error))
}

fn classify(error: &str, what: &str) -> Option<(Cause, String)> {
    if let Some([name, usage]) = parts(EXCEEDED, error) {
        let usage = usages(usage).map_or_else(|| usage.to_owned(), |usages| sentence(&usages));
        return Some((Cause::QuotaExceeded, format!("the ResourceQuota {name} is exceeded: {usage}")));
    }
    // Several violations are joined in brackets.
    if LIMITS.iter().any(|pattern| matches(pattern, error.trim_start_matches('['))) {
        return Some((Cause::PolicyRefused, format!("a LimitRange refuses {what}: {error}")));
    }
    let error = error.strip_prefix("Internal error occurred: ").unwrap_or(error);
    REFUSALS.iter().find_map(|(pattern, cause, sentence)| {
        let mut parts = all_parts(pattern, error)?;
        parts.insert(0, what);
        Some((*cause, filled(sentence, &parts)))
    })
}

/// How much of a resource a quota allows.
struct Usage<'a> {
    resource: &'a str,
    requested: &'a str,
    used: &'a str,
    limit: &'a str,
}

/// The parts of `requested: cpu=1,memory=1Gi, used: …, limited: …` by resource.
fn usages(usage: &str) -> Option<Vec<Usage<'_>>> {
    let [requested, used, limited] = parts("requested: {}, used: {}, limited: {}", usage)?;
    let amounts = |list| str::split(list, ',').filter_map(|item| item.split_once('='));
    let amount = |list, resource| amounts(list).find(|(name, _)| *name == resource).map(|(_, amount)| amount);
    let usage = |(resource, requested)| {
        Some(Usage { resource, requested, used: amount(used, resource)?, limit: amount(limited, resource)? })
    };
    amounts(requested).map(usage).collect()
}

/// For example `256Mi of memory requested, 1Gi of 1Gi used`.
fn sentence(usages: &[Usage<'_>]) -> String {
    let sentence = |usage: &Usage<'_>| {
        format!("{} of {} requested, {} of {} used", usage.requested, usage.resource, usage.used, usage.limit)
    };
    usages.iter().map(sentence).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::{super::tests::rows, *};

    #[test]
    fn classifies_messages_about_pods_that_could_not_be_created() {
        for [message, cause, sentence] in rows(include_str!("../../../tests/fixtures/messages/admission.tsv")) {
            let (found, text) = classify_failed_create(message);
            assert_eq!((found.as_str(), text.as_str()), (cause, sentence), "{message}");
        }
        let long = format!("Error creating: {}", "x".repeat(1 << 20));
        assert!(classify_failed_create(&long).1.len() <= MESSAGE_LIMIT);
    }

    #[test]
    fn tells_a_full_quota_from_one_that_is_too_small() {
        let exceeded = |requested: &str| {
            format!(
                "Error creating: pods \"a-1\" is forbidden: exceeded quota: q, requested: {requested},pods=1, used: \
                 cpu=100m,memory=0,pods=4, limited: cpu=1500m,memory=2Gi,pods=4"
            )
        };
        for (requested, expected) in
            [("cpu=1", true), ("cpu=1500m", true), ("cpu=2", false), ("memory=2048Mi", true), ("memory=3G", false)]
        {
            assert_eq!(is_full_quota(&exceeded(requested)), expected, "{requested}");
        }
        for other in ["", "failed quota: q: must specify cpu for: app", "insufficient quota to consume: cpu"] {
            assert!(!is_full_quota(&format!("Error creating: pods \"a-1\" is forbidden: {other}")), "{other}");
        }
    }

    #[test]
    fn names_the_quota_that_refuses() {
        for (message, quota) in [
            (
                "pods \"web-0\" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=2, limited: pods=2",
                "pods",
            ),
            ("Error creating: pods \"a-1\" is forbidden: failed quota: compute: must specify cpu for: app", "compute"),
        ] {
            assert_eq!(refusing_quota(message).as_deref(), Some(quota));
        }
        assert_eq!(refusing_quota("Error creating: insufficient quota to consume: cpu"), None);
    }
}
