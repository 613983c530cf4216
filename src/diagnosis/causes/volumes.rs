//! Explains which volume prevents the containers of a pod from being created. Only events show it.

use jiff::{SignedDuration, Timestamp};

use crate::{api::Cause, events::Event};

use super::{
    Case, Found,
    config::missing,
    parse::{matches, parts, without_grpc},
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
pub(super) fn explain<'a>(case: &Case<'a>) -> Option<(&'a Event, Found)> {
    let latest = case.events(&REASONS, "").find_map(|event| event.last)?;
    let recent =
        case.events(&REASONS, "").filter(|event| event.last.is_some_and(|last| latest.duration_since(last) <= RECENT));
    let sent = case.events.iter().fold(0_u32, |sent, event| sent.saturating_add(event.count));
    let failures = recent.filter_map(|event| Some((event, VolumeFailure::of(event.text())?)));
    let failures = failures.filter(|(event, failure)| sent > UNLIMITED || !failure.is_over(event, case.now));
    // A summary of all volumes says less than the error of one. Of several volumes, the result must not alternate.
    let (event, failure) = failures.min_by(|(_, one), (_, other)| one.order().cmp(&other.order()))?;
    Some((event, failure.explain(&case.pod.namespace)))
}

const SUMMARIES: [&str; 2] = [
    "Unable to attach or mount volumes: {}unmounted volumes=[{}]{}",
    "Unable to mount volumes for pod {}unmounted volumes=[{}]{}",
];

const MISSING_CLAIM: &str =
    "{}error processing PVC {}failed to fetch PVC from API server: persistentvolumeclaim{} not found";

/// A volume that cannot be attached or mounted.
struct VolumeFailure<'a> {
    /// `attached` or `mounted`.
    step: &'static str,
    /// The names of the volumes, as in the pod or of the PersistentVolume.
    volume: &'a str,
    error: &'a str,
    is_summary: bool,
}

impl<'a> VolumeFailure<'a> {
    fn of(message: &'a str) -> Option<Self> {
        let summary = SUMMARIES.iter().find_map(|summary| parts(summary, message));
        if let Some([_, volume, rest]) = summary {
            let error = rest.rsplit_once("]: ").map_or("", |(_, error)| error);
            return Some(Self { step: "mounted", volume, error, is_summary: true });
        }
        let [operation, volume, error] = parts("{} for volume {q}{}", message)?;
        let is_attachment = operation.starts_with("AttachVolume.") || operation == "Multi-Attach error";
        let step = if is_attachment { "attached" } else { "mounted" };
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
            return missing.needed_by(&title);
        }
        if self.error.contains("not registered") {
            return Found::unknown(format!("{title} cannot be {} yet: {}", self.step, self.error));
        }
        if matches(MISSING_CLAIM, self.error) {
            return Found::new(Cause::VolumeNotFound, format!("the PersistentVolumeClaim of {title} does not exist"));
        }
        let why = if self.error.is_empty() { String::new() } else { format!(": {}", without_grpc(self.error)) };
        Found::new(Cause::MountFailed, format!("{title} cannot be {}{why}", self.step))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::rows, *};

    #[test]
    fn explains_each_kind_of_failure() {
        for [message, cause, sentence] in rows(include_str!("../../../tests/fixtures/messages/volumes.tsv")) {
            let found = VolumeFailure::of(message).unwrap().explain("shop");
            assert_eq!((found.cause.as_str(), found.sentence.as_str()), (cause, sentence));
        }
        for message in ["", "MountVolume.SetUp failed", "Unable to attach or mount volumes: ", "x for volume y"] {
            assert!(VolumeFailure::of(message).is_none(), "{message}");
        }
    }
}
