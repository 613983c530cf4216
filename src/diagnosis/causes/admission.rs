//! Classifies why a controller could not create a pod: the messages of FailedCreate events and of the condition
//! ReplicaFailure.
//!
//! The texts are those of the API server's admission plugins. A webhook or a policy may quote anything in its own message,
//! so a text proves a cause only at the place where the API server writes it.

use crate::{api::Cause, quantity::Quantity};

use super::{
    super::one_line::{MESSAGE_LIMIT, one_line},
    parse::{after_all, quoted},
};

/// More of a message is not read.
const READ_LIMIT: usize = 4 * MESSAGE_LIMIT;

/// The cause of a failed creation, and a sentence about it that names no single pod. The sentence is empty if the message
/// is.
#[must_use]
pub(crate) fn classify_failed_create(message: &str) -> (Cause, String) {
    let message = one_line(message, READ_LIMIT);
    let Refusal { object, error } = Refusal::of(&message);
    let what = if object == "persistentvolumeclaims" { "a PersistentVolumeClaim of the pod" } else { "the pod" };
    let found = quota(error, what)
        .or_else(|| pod_security(error))
        .or_else(|| policy(error, what))
        .or_else(|| limit_range(error, what))
        .or_else(|| webhook(error, what))
        .or_else(|| service_account(error));
    let (cause, sentence) = found.unwrap_or_else(|| (Cause::Unknown, error.to_owned()));
    (cause, one_line(&sentence, MESSAGE_LIMIT))
}

/// The name of the ResourceQuota that a message names as the cause.
#[must_use]
pub(crate) fn refusing_quota(message: &str) -> Option<String> {
    let message = one_line(message, READ_LIMIT);
    let error = Refusal::of(&message).error;
    let (name, _) = exceeded(error).or_else(|| unmet(error))?;
    Some(name.to_owned())
}

/// Whether a message says that others use up a quota, so that there may be room later. A pod that requests more than the
/// limit exceeds it alone.
#[must_use]
pub(crate) fn is_full_quota(message: &str) -> bool {
    let message = one_line(message, READ_LIMIT);
    let usages = exceeded(Refusal::of(&message).error).and_then(|(_, usage)| usages(usage));
    let milli = |text: &str| Quantity::parse(text).map(Quantity::milli);
    let fits = |own: &Usage<'_>| Some(milli(own.requested)? <= milli(own.limit)?);
    usages.is_some_and(|usages| usages.iter().all(|own| fits(own).unwrap_or(true)))
}

/// A message without the names of pods.
struct Refusal<'a> {
    /// The resource that was refused, such as `pods`; empty if the message does not name it.
    object: &'a str,
    error: &'a str,
}

impl<'a> Refusal<'a> {
    fn of(message: &'a str) -> Self {
        let error = message.strip_prefix("Error creating: ").unwrap_or_else(|| without_stateful_set(message));
        // Several claims of a StatefulSet's pod are joined in brackets; the first one decides.
        let error = match after_all(error.trim_start_matches('['), &["failed to create PVC ", ": "]) {
            Some(claim) => claim,
            None => error,
        };
        match forbidden(error) {
            Some((object, error)) => Self { object, error },
            None => Self { object: "", error },
        }
    }
}

/// The error in `Create Pod web-0 in StatefulSet web failed error: …` and `create Claim data-web-0 for Pod …`.
fn without_stateful_set(message: &str) -> &str {
    let verbs = ["Create Pod ", "create Pod ", "Create Claim ", "create Claim "];
    let is_stateful_set = verbs.iter().any(|verb| message.starts_with(verb));
    if !is_stateful_set {
        return message;
    }
    after_all(message, &[" in StatefulSet ", " failed error: "]).unwrap_or(message)
}

/// The resource and the error in `pods "web-1" is forbidden: …`.
fn forbidden(error: &str) -> Option<(&str, &str)> {
    let (resource, rest) = error.split_once(' ')?;
    let (_, rest) = quoted(rest)?;
    let rest = rest.strip_prefix(" is forbidden: ")?;
    let is_resource = resource.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'.');
    is_resource.then_some((resource, rest))
}

type Classified = Option<(Cause, String)>;

fn quota(error: &str, what: &str) -> Classified {
    let sentence = if let Some((name, usage)) = exceeded(error) {
        format!("the ResourceQuota {name} is exceeded: {}", usage_of(usage).unwrap_or_else(|| usage.to_owned()))
    } else if let Some((name, missing)) = unmet(error) {
        return Some((Cause::QuotaRequires, format!("the ResourceQuota {name} requires {what} to specify {missing}")));
    } else if let Some(resources) = error.strip_prefix("insufficient quota to consume: ") {
        format!("no ResourceQuota of the namespace allows {what} to consume {resources}")
    } else {
        let scopes = error.strip_prefix("insufficient quota to match these scopes: ")?;
        format!("no ResourceQuota of the namespace matches the scopes of {what}: {scopes}")
    };
    Some((Cause::QuotaExceeded, sentence))
}

/// The name and the rest of `exceeded quota: NAME, requested: …, used: …, limited: …`.
fn exceeded(error: &str) -> Option<(&str, &str)> {
    error.strip_prefix("exceeded quota: ")?.split_once(", ")
}

/// The name and the rest of `failed quota: NAME: must specify …`.
fn unmet(error: &str) -> Option<(&str, &str)> {
    error.strip_prefix("failed quota: ")?.split_once(": must specify ")
}

/// How much of a resource a quota allows.
struct Usage<'a> {
    resource: &'a str,
    requested: &'a str,
    used: &'a str,
    limit: &'a str,
}

/// `requested: cpu=1,memory=1Gi, used: …, limited: …` as a sentence.
fn usage_of(usage: &str) -> Option<String> {
    let sentence = |own: &Usage<'_>| {
        format!("{} of {} requested, {} of {} used", own.requested, own.resource, own.used, own.limit)
    };
    let sentences: Vec<_> = usages(usage)?.iter().map(sentence).collect();
    Some(sentences.join("; "))
}

/// The same by resource.
fn usages(usage: &str) -> Option<Vec<Usage<'_>>> {
    let rest = usage.strip_prefix("requested: ")?;
    let (requested, rest) = rest.split_once(", used: ")?;
    let (used, limited) = rest.split_once(", limited: ")?;
    requested.split(',').map(|item| Usage::of(item, used, limited)).collect()
}

impl<'a> Usage<'a> {
    /// That of the resource in `cpu=1`, from lists of such items.
    fn of(requested: &'a str, used: &'a str, limited: &'a str) -> Option<Self> {
        let (resource, requested) = requested.split_once('=')?;
        Some(Self { resource, requested, used: amount(used, resource)?, limit: amount(limited, resource)? })
    }
}

fn amount<'a>(list: &'a str, resource: &str) -> Option<&'a str> {
    list.split(',').filter_map(|item| item.split_once('=')).find(|(name, _)| *name == resource).map(|(_, own)| own)
}

fn pod_security(error: &str) -> Classified {
    let (level, rest) = quoted(error.strip_prefix("violates PodSecurity ")?)?;
    let detail = rest.strip_prefix(": ").unwrap_or("no details");
    Some((Cause::PolicyRefused, format!("Pod Security refuses the pod at level {level}: {detail}")))
}

fn policy(error: &str, what: &str) -> Classified {
    if let Some(rest) = error.strip_prefix("ValidatingAdmissionPolicy '") {
        let (name, rest) = rest.split_once('\'')?;
        let detail = after_all(rest, &[" denied request: "])?;
        return Some((Cause::PolicyRefused, format!("the ValidatingAdmissionPolicy {name} refuses {what}: {detail}")));
    }
    let (kind, detail) = [
        ("PodSecurityPolicy", "unable to validate against any pod security policy: "),
        ("security context constraint", "unable to validate against any security context constraint: "),
    ]
    .into_iter()
    .find_map(|(kind, prefix)| Some((kind, error.strip_prefix(prefix)?)))?;
    Some((Cause::PolicyRefused, format!("no {kind} allows the pod: {detail}")))
}

fn limit_range(error: &str, what: &str) -> Classified {
    // Several violations are joined in brackets.
    let first = error.trim_start_matches('[');
    let bound = first.strip_prefix("minimum ").or_else(|| first.strip_prefix("maximum "));
    let is_bound = bound.and_then(|bound| bound.split_once(' ')).is_some_and(|(_, rest)| {
        let kind = rest.strip_prefix("usage per ").unwrap_or_default();
        ["Container is ", "Pod is ", "PersistentVolumeClaim is "].iter().any(|prefix| kind.starts_with(prefix))
    });
    let is_ratio = first.split_once(' ').is_some_and(|(_, rest)| rest.starts_with("max limit to request ratio per "));
    (is_bound || is_ratio).then(|| (Cause::PolicyRefused, format!("a LimitRange refuses {what}: {error}")))
}

fn webhook(error: &str, what: &str) -> Classified {
    let sentence = if let Some(rest) = error.strip_prefix("admission webhook ") {
        let (name, rest) = quoted(rest)?;
        let rest = rest.strip_prefix(" denied the request")?;
        let detail = rest.strip_prefix(": ").unwrap_or("without explanation");
        format!("the admission webhook {name} refuses {what}: {detail}")
    } else {
        let error = error.strip_prefix("Internal error occurred: ").unwrap_or(error);
        let (name, rest) = quoted(error.strip_prefix("failed calling webhook ")?)?;
        let detail = rest.trim_start_matches([':', ';', ' ']);
        let detail = detail.strip_prefix("failed to call webhook: ").unwrap_or(detail);
        format!("the admission webhook {name} cannot be called: {detail}")
    };
    Some((Cause::WebhookRefused, sentence))
}

fn service_account(error: &str) -> Classified {
    let rest = error.strip_prefix("error looking up service account ")?;
    let (account, reason) = rest.split_once(": ")?;
    let (_, name) = account.split_once('/')?;
    let missing = reason.strip_prefix("serviceaccounts ").or_else(|| reason.strip_prefix("serviceaccount "))?;
    let is_missing = quoted(missing) == Some((name, " not found"));
    is_missing.then(|| (Cause::ServiceAccountMissing, format!("the service account {name} does not exist")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn classifies(message: &str, cause: Cause, sentence: &str) {
        assert_eq!(classify_failed_create(message), (cause, sentence.to_owned()), "{message}");
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
    fn classifies_what_quotas_refuse() {
        classifies(
            "Error creating: pods \"cart-5d9f-x2x4z\" is forbidden: exceeded quota: mem-cap, requested: \
             requests.memory=256Mi, used: requests.memory=1Gi, limited: requests.memory=1Gi",
            Cause::QuotaExceeded,
            "the ResourceQuota mem-cap is exceeded: 256Mi of requests.memory requested, 1Gi of 1Gi used",
        );
        classifies(
            "Error creating: pods \"a-\" is forbidden: exceeded quota: all, requested: cpu=300m,memory=450Mi, used: \
             cpu=600m,memory=600Mi, limited: cpu=800m,memory=800Mi",
            Cause::QuotaExceeded,
            "the ResourceQuota all is exceeded: 300m of cpu requested, 600m of 800m used; 450Mi of memory requested, 600Mi \
             of 800Mi used",
        );
        classifies(
            "Error creating: pods \"a-1\" is forbidden: failed quota: compute: must specify limits.cpu for: app; \
             limits.memory for: app,proxy",
            Cause::QuotaRequires,
            "the ResourceQuota compute requires the pod to specify limits.cpu for: app; limits.memory for: app,proxy",
        );
        classifies(
            "Error creating: insufficient quota to match these scopes: [{PriorityClass In [system-node-critical \
             system-cluster-critical]}]",
            Cause::QuotaExceeded,
            "no ResourceQuota of the namespace matches the scopes of the pod: [{PriorityClass In [system-node-critical \
             system-cluster-critical]}]",
        );
        classifies(
            "Error creating: pods \"a-1\" is forbidden: insufficient quota to consume: cpu",
            Cause::QuotaExceeded,
            "no ResourceQuota of the namespace allows the pod to consume cpu",
        );
        // Each controller has its own form, and the form of StatefulSets has changed.
        for prefix in [
            "pods \"web-0\" is forbidden: ",
            "create Pod web-0 in StatefulSet web failed error: pods \"web-0\" is forbidden: ",
            "Create Pod web-0 in StatefulSet web failed error: pods \"web-0\" is forbidden: ",
        ] {
            let message = format!("{prefix}exceeded quota: pods, requested: pods=1, used: pods=2, limited: pods=2");
            let sentence = "the ResourceQuota pods is exceeded: 1 of pods requested, 2 of 2 used";
            classifies(&message, Cause::QuotaExceeded, sentence);
            assert_eq!(refusing_quota(&message).as_deref(), Some("pods"));
        }
        for prefix in [
            "Create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: ",
            "Create Pod web-0 in StatefulSet web failed error: failed to create PVC data-web-0: ",
        ] {
            classifies(
                &format!(
                    "{prefix}persistentvolumeclaims \"data-web-0\" is forbidden: exceeded quota: disk, requested: \
                     requests.storage=1Gi, used: requests.storage=9Gi, limited: requests.storage=9Gi"
                ),
                Cause::QuotaExceeded,
                "the ResourceQuota disk is exceeded: 1Gi of requests.storage requested, 9Gi of 9Gi used",
            );
        }
    }

    #[test]
    fn classifies_what_policies_refuse() {
        classifies(
            "Error creating: pods \"a-1\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true \
             (pod or container \"app\" must set securityContext.runAsNonRoot=true)",
            Cause::PolicyRefused,
            "Pod Security refuses the pod at level restricted:latest: runAsNonRoot != true (pod or container \"app\" must \
             set securityContext.runAsNonRoot=true)",
        );
        classifies(
            "Error creating: pods \"a-1\" is forbidden: ValidatingAdmissionPolicy 'no-latest' with binding 'all' denied \
             request: tags must be fixed",
            Cause::PolicyRefused,
            "the ValidatingAdmissionPolicy no-latest refuses the pod: tags must be fixed",
        );
        classifies(
            "Error creating: pods \"a-1\" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi",
            Cause::PolicyRefused,
            "a LimitRange refuses the pod: maximum memory usage per Container is 1Gi, but limit is 2Gi",
        );
        classifies(
            "Error creating: pods \"a-1\" is forbidden: [minimum cpu usage per Pod is 100m.  No request is specified, cpu \
             max limit to request ratio per Container is 2, but provided ratio is 4.000000]",
            Cause::PolicyRefused,
            "a LimitRange refuses the pod: [minimum cpu usage per Pod is 100m. No request is specified, cpu max limit to \
             request ratio per Container is 2, but provided ratio is 4.000000]",
        );
        classifies(
            "Error creating: pods \"a-\" is forbidden: unable to validate against any security context constraint: \
             [fsGroup: Invalid value: []int64{5555}: 5555 is not an allowed group]",
            Cause::PolicyRefused,
            "no security context constraint allows the pod: [fsGroup: Invalid value: []int64{5555}: 5555 is not an allowed \
             group]",
        );
    }

    #[test]
    fn classifies_what_webhooks_refuse() {
        classifies(
            "Error creating: admission webhook \"policy.example.com\" denied the request: image not signed",
            Cause::WebhookRefused,
            "the admission webhook policy.example.com refuses the pod: image not signed",
        );
        classifies(
            "Error creating: admission webhook \"policy.example.com\" denied the request without explanation",
            Cause::WebhookRefused,
            "the admission webhook policy.example.com refuses the pod: without explanation",
        );
        classifies(
            "Error creating: Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: \
             Post \"https://w.ns.svc:443/pods?timeout=10s\": dial tcp 10.0.0.1:443: connect: connection refused",
            Cause::WebhookRefused,
            "the admission webhook w.example.com cannot be called: Post \"https://w.ns.svc:443/pods?timeout=10s\": dial tcp \
             10.0.0.1:443: connect: connection refused",
        );
        // A webhook's own words prove nothing else.
        let (cause, _) = classify_failed_create(
            "Error creating: admission webhook \"w\" denied the request: pods \"a\" is forbidden: exceeded quota: q, \
             requested: cpu=1, used: cpu=1, limited: cpu=1",
        );
        assert_eq!(cause, Cause::WebhookRefused);
    }

    #[test]
    fn classifies_missing_service_accounts() {
        for word in ["serviceaccount", "serviceaccounts"] {
            classifies(
                &format!(
                    "Error creating: pods \"a-1\" is forbidden: error looking up service account shop/robot: {word} \
                     \"robot\" not found"
                ),
                Cause::ServiceAccountMissing,
                "the service account robot does not exist",
            );
        }
        classifies(
            "Error creating: pods \"a-1\" is forbidden: error looking up service account shop/robot: context deadline \
             exceeded",
            Cause::Unknown,
            "error looking up service account shop/robot: context deadline exceeded",
        );
    }

    #[test]
    fn other_refusals_have_no_known_cause() {
        for (message, sentence) in [
            ("", ""),
            ("Error creating: ", "Error creating:"),
            (
                "Error creating: pods \"a-1\" is forbidden: no PriorityClass with name gold was found",
                "no PriorityClass with name gold was found",
            ),
            (
                "Error creating: pods \"a-1\" is forbidden: unable to create new content in namespace shop because it is \
                 being terminated",
                "unable to create new content in namespace shop because it is being terminated",
            ),
            ("exceeded quota: ", "exceeded quota:"),
            ("Error creating: maximum effort", "maximum effort"),
        ] {
            classifies(message, Cause::Unknown, sentence);
        }
        let long = format!("Error creating: {}", "x".repeat(1 << 20));
        assert!(classify_failed_create(&long).1.len() <= MESSAGE_LIMIT);
    }
}
