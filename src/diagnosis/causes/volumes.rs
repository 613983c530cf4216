//! Explains which volume prevents the containers of a pod from being created. Only events show it.

use jiff::{SignedDuration, Timestamp};

use crate::{api::Cause, events::Event};

use super::{
    Found, View,
    config::missing,
    evidence::text,
    parse::{after_all, quoted},
};

const REASONS: [&str; 3] = ["FailedMount", "FailedAttachVolume", "FailedMapVolume"];
/// Events this much older than the most recent one are over: the kubelet retries at least every two minutes.
const RECENT: SignedDuration = SignedDuration::from_mins(5);
/// The kubelet doubles the delay between two attempts up to this.
const MOST_DELAY: SignedDuration = SignedDuration::from_secs(122);
/// How late the event about the next attempt may be.
const LATE: SignedDuration = SignedDuration::from_secs(90);
/// The kubelet sends about 25 events about a pod, and then one in five minutes.
const UNLIMITED: u32 = 20;

/// The volume that cannot be mounted, with the most recent event about it.
pub(super) fn explain<'a>(view: &View<'a>) -> Option<(&'a Event, Found)> {
    let latest = view.events(&REASONS, "").find_map(|event| event.last)?;
    let recent =
        view.events(&REASONS, "").filter(|event| event.last.is_some_and(|last| latest.duration_since(last) <= RECENT));
    let sent = view.facts.events.iter().fold(0_u32, |sent, event| sent.saturating_add(event.count));
    let failures = recent.filter_map(|event| Some((event, Failure::of(text(event))?)));
    let failures = failures.filter(|(event, failure)| sent > UNLIMITED || !failure.is_over(event, view.now));
    // A summary of all volumes says less than the error of one. Of several volumes, the result must not alternate.
    let (event, failure) = failures.min_by(|(_, one), (_, other)| one.order().cmp(&other.order()))?;
    Some((event, failure.explain(&view.pod.namespace)))
}

/// A volume that cannot be attached or mounted.
struct Failure<'a> {
    /// `attached` or `mounted`.
    step: &'static str,
    /// The names of the volumes, as in the pod or of the PersistentVolume.
    volume: &'a str,
    error: &'a str,
    is_summary: bool,
}

impl<'a> Failure<'a> {
    fn of(message: &'a str) -> Option<Self> {
        let summaries = ["Unable to attach or mount volumes: ", "Unable to mount volumes for pod "];
        if let Some(rest) = summaries.iter().find_map(|prefix| message.strip_prefix(prefix)) {
            let (volumes, rest) = after_all(rest, &["unmounted volumes=["])?.split_once(']')?;
            let error = rest.rsplit_once("]: ").map_or("", |(_, error)| error);
            return Some(Self { step: "mounted", volume: volumes, error, is_summary: true });
        }
        let (operation, rest) = message.split_once(" for volume ")?;
        let (volume, error) = quoted(rest)?;
        let step = match operation.split_once('.').map_or(operation, |(operation, _)| operation) {
            "AttachVolume" | "Multi-Attach error" => "attached",
            _ => "mounted",
        };
        let error = error.trim_start().strip_prefix(": ").unwrap_or(error.trim_start());
        Some(Self { step, volume, error: error.trim_start_matches([':', ' ']), is_summary: false })
    }

    /// Whether the next attempt should have failed by now, if the object were still missing. Other errors may take long.
    fn is_over(&self, event: &Event, now: Timestamp) -> bool {
        let error = self.first_error();
        let is_quick =
            missing(error, "").is_some() || error.contains("not registered") || error.contains("cache: timed out");
        let (Some(first), Some(last)) = (event.first.or(event.last), event.last) else { return false };
        let next = last.duration_since(first).saturating_mul(2).min(MOST_DELAY).saturating_add(LATE);
        is_quick && now.duration_since(last) > next
    }

    fn order(&self) -> impl Ord + use<'a> {
        (self.is_summary, missing(self.first_error(), "").is_none(), self.volume)
    }

    /// The errors of a projected volume are joined in brackets.
    fn first_error(&self) -> &'a str {
        self.error.trim_start_matches('[')
    }

    fn explain(&self, namespace: &str) -> Found {
        let volumes = if self.volume.contains(' ') { "the volumes" } else { "the volume" };
        let title = format!("{volumes} {}", self.volume);
        if let Some(missing) = missing(self.first_error(), namespace) {
            let found = Found::new(missing.cause, format!("{title} needs {}", missing.what));
            return match missing.subject {
                Some(subject) => found.about(subject),
                None => found,
            };
        }
        if self.error.contains("not registered") {
            return Found::unknown(format!("{title} cannot be {} yet: {}", self.step, self.error));
        }
        let claims = ["error processing PVC ", "failed to fetch PVC from API server: persistentvolumeclaim"];
        if after_all(self.error, &claims).is_some_and(|rest| rest.ends_with(" not found")) {
            return Found::new(Cause::VolumeNotFound, format!("the PersistentVolumeClaim of {title} does not exist"));
        }
        let why = if self.error.is_empty() { String::new() } else { format!(": {}", short(self.error)) };
        Found::new(Cause::MountFailed, format!("{title} cannot be {}{why}", self.step))
    }
}

/// A runtime's or driver's error without the words of gRPC.
pub(super) fn short(error: &str) -> &str {
    match error.strip_prefix("rpc error: code = ").and_then(|rest| rest.split_once(" desc = ")) {
        Some((_, description)) => description,
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explains_each_kind_of_failure() {
        for (message, cause, sentence) in [
            (
                "MountVolume.SetUp failed for volume \"cfg\" : configmap \"app-config\" not found",
                Cause::ConfigMapMissing,
                "the volume cfg needs the ConfigMap app-config, which does not exist",
            ),
            (
                "MountVolume.SetUp failed for volume \"all\" : [configmap \"a\" not found, secret \"b\" not found]",
                Cause::ConfigMapMissing,
                "the volume all needs the ConfigMap a, which does not exist",
            ),
            (
                "MountVolume.SetUp failed for volume \"tls\" : references non-existent secret key: tls.key",
                Cause::KeyMissing,
                "the volume tls needs the key tls.key, which its Secret does not have",
            ),
            (
                "MountVolume.SetUp failed for volume \"h\" : hostPath type check failed: /data is not a directory",
                Cause::MountFailed,
                "the volume h cannot be mounted: hostPath type check failed: /data is not a directory",
            ),
            (
                "Multi-Attach error for volume \"pvc-1\" Volume is already used by pod(s) db-0",
                Cause::MountFailed,
                "the volume pvc-1 cannot be attached: Volume is already used by pod(s) db-0",
            ),
            (
                "AttachVolume.Attach failed for volume \"pvc-1\" : rpc error: code = NotFound desc = disk not found",
                Cause::MountFailed,
                "the volume pvc-1 cannot be attached: disk not found",
            ),
            (
                "Unable to attach or mount volumes: unmounted volumes=[data cfg], unattached volumes=[], failed to process \
                 volumes=[]: timed out waiting for the condition",
                Cause::MountFailed,
                "the volumes data cfg cannot be mounted: timed out waiting for the condition",
            ),
            (
                "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process \
                 volumes=[data]: error processing PVC shop/data: failed to fetch PVC from API server: persistentvolumeclaims \
                 \"data\" not found",
                Cause::VolumeNotFound,
                "the PersistentVolumeClaim of the volume data does not exist",
            ),
            (
                "MountVolume.SetUp failed for volume \"kube-api-access\" : object \"shop\"/\"kube-root-ca.crt\" not registered",
                Cause::Unknown,
                "the volume kube-api-access cannot be mounted yet: object \"shop\"/\"kube-root-ca.crt\" not registered",
            ),
        ] {
            let found = Failure::of(message).unwrap().explain("shop");
            assert_eq!((found.cause, found.sentence.as_str()), (cause, sentence));
        }
        for message in ["", "MountVolume.SetUp failed", "Unable to attach or mount volumes: ", "x for volume y"] {
            assert!(Failure::of(message).is_none(), "{message}");
        }
    }
}
