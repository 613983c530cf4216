//! How a common cause reads in the status and in alerts.

use crate::{
    api::{self, Cause},
    diagnosis::SubjectKind,
    logs::{Masking, clean_text},
};

use super::{
    super::{
        identity::id,
        incident, truncate,
        wire::{count, wire_time},
    },
    CommonCause,
};

/// The longest sentence, in bytes.
const MESSAGE_LIMIT: usize = 512;
impl CommonCause<'_> {
    /// The kind, such as Node.
    fn kind(&self) -> &'static str {
        self.subject.kind.as_str()
    }

    fn full_name(&self) -> String {
        let name = truncate::shown_name(self.subject.name);
        match self.subject.namespace {
            "" => name,
            namespace => format!("{namespace}/{name}"),
        }
    }

    /// The common cause as alerts contain it.
    pub(super) fn in_alerts(&self, masking: Option<&Masking<'_>>, with_sentence: bool) -> incident::CommonCause {
        let parts = ["CommonCause", self.kind(), self.subject.namespace, self.subject.name];
        incident::CommonCause {
            key: id(&parts).key(),
            kind: self.kind().to_owned(),
            namespace: self.subject.namespace.to_owned(),
            name: truncate::shown_name(self.subject.name),
            cause: self.cause,
            message: if with_sentence { self.message(masking) } else { String::new() },
        }
    }

    /// The common cause as the status lists it.
    pub(in crate::report) fn in_status(&self, masking: Option<&Masking<'_>>) -> api::CommonCause {
        api::CommonCause {
            kind: self.kind().to_owned(),
            name: self.full_name(),
            owners: count(self.owners),
            pods: count(self.pods),
            since: wire_time(self.since),
            since_at_latest: false,
            message: self.message(masking),
        }
    }

    /// For example "node-7 does not report: 9 of its 10 pods, of 4 owners, are not ready".
    fn message(&self, masking: Option<&Masking<'_>>) -> String {
        let (name, full_name) = (truncate::shown_name(self.subject.name), self.full_name());
        let affected = format!("{} of {} owners", pods(self.pods), self.owners);
        let text = match self.subject.kind {
            SubjectKind::Node => {
                let (fault, effect) = match self.cause {
                    Cause::NodePressure => ("ran low on a resource", "are affected"),
                    Cause::SandboxFailed => ("cannot set up sandboxes of pods", "cannot start"),
                    Cause::MountFailed => ("cannot mount volumes", "cannot start"),
                    _ => ("does not report", "are not ready"),
                };
                let of = format!("{} of its {}", self.pods, pods(self.pods_on_node));
                format!("{name} {fault}: {of}, of {} owners, {effect}", self.owners)
            }
            SubjectKind::Image => {
                let fault = match self.cause {
                    Cause::ImageNotFound => "does not exist",
                    Cause::ImagePlatform => "does not exist for the platform of the nodes",
                    Cause::ImageNameInvalid => "has an invalid name",
                    Cause::ImageAuth => &format!("is refused to the namespace {}", self.subject.namespace),
                    Cause::ImageRateLimited => "is refused by its registry, which limits the rate of pulls",
                    _ => "cannot be pulled, because its registry cannot be reached",
                };
                format!("image {name} {fault}: {affected} cannot start")
            }
            SubjectKind::Registry => {
                let fault = match self.cause {
                    Cause::ImageRateLimited => "limits the rate of pulls",
                    Cause::ImageAuth => &format!("refuses access to the namespace {}", self.subject.namespace),
                    _ => "cannot be reached",
                };
                format!("registry {name} {fault}: {affected} cannot pull {} images", self.images)
            }
            SubjectKind::ConfigMap | SubjectKind::Secret => {
                let fault = if self.cause == Cause::KeyMissing { "lacks a key" } else { "does not exist" };
                format!("{} {full_name} {fault}: {affected} cannot start", self.kind())
            }
            SubjectKind::ResourceQuota => {
                format!("ResourceQuota {full_name} is exceeded: {affected} cannot be created")
            }
            SubjectKind::StorageClass => {
                let fault = if self.cause == Cause::VolumeNotFound { "does not exist" } else { "provides no volumes" };
                format!("StorageClass {name} {fault}: {affected} wait for a volume")
            }
        };
        clean_text(&text, masking, MESSAGE_LIMIT)
    }
}

fn pods(number: u64) -> String {
    if number == 1 { "1 pod".to_owned() } else { format!("{number} pods") }
}
