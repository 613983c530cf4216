//! What the explanations of causes read, and what they return.

use jiff::Timestamp;

use crate::{
    api::{Cause, ContainerKind},
    pods::Pod,
};

use super::super::{
    container::{Container, containers},
    facts::Facts,
    finding::{Basis, Subject},
};

/// What the explanations depend on.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) pod: &'a Pod,
    pub(super) facts: &'a Facts,
    pub(super) now: Timestamp,
}

/// The result of one of the explanations.
#[derive(Default)]
pub(super) struct Found {
    pub(super) cause: Cause,
    /// One sentence; empty if it is the pod's message.
    pub(super) sentence: String,
    /// What the pod's message should also say.
    pub(super) detail: String,
    pub(super) subject: Option<Subject>,
    pub(super) basis: Basis,
}

impl Found {
    pub(super) fn new(cause: Cause, sentence: impl Into<String>) -> Self {
        Self { cause, sentence: sentence.into(), ..Self::default() }
    }

    /// What is known although the cause is not.
    pub(super) fn unknown(sentence: impl Into<String>) -> Self {
        Self::new(Cause::Unknown, sentence)
    }

    /// The present state shows nothing about the cause.
    pub(super) fn silent(sentence: impl Into<String>) -> Self {
        Self { basis: Basis::Silent, ..Self::unknown(sentence) }
    }

    pub(super) fn about(self, subject: Subject) -> Self {
        Self { subject: Some(subject), ..self }
    }

    pub(super) fn based_on(self, basis: Basis) -> Self {
        Self { basis, ..self }
    }

    /// Repeats the sentence in the pod's message.
    pub(super) fn detailed(self) -> Self {
        Self { detail: self.sentence.clone(), ..self }
    }
}

impl<'a> View<'a> {
    /// The container of this name.
    pub(super) fn container(&self, name: &str) -> Option<Container<'a>> {
        containers(self.pod).find(|container| container.status.name == name)
    }
}

/// A container in a sentence, for example `app` or `init container migrate`.
pub(super) fn name_of(container: Container<'_>) -> String {
    let name = &container.status.name;
    match container.kind {
        ContainerKind::App => name.to_string(),
        ContainerKind::Init => format!("init container {name}"),
        ContainerKind::Sidecar => format!("sidecar {name}"),
    }
}
