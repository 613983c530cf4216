//! Bounds the memory of a pod. The API server accepts pods of 1.5 MiB; those that clusters really have are far below these
//! bounds. What is left out is counted, and a finding about the pod says so.

use std::collections::HashSet;

use arcstr::ArcStr;

use crate::partial_text;

use super::{
    ContainerSpec, ContainerStatus, DecodeError, History, Omitted, Pod, Probe, Requirements, TEXT_LIMIT,
    pod::{LIST_LIMIT, within},
    texts::TextKind,
};

/// The most memory that a decoded pod takes, in bytes.
pub(crate) const POD_LIMIT: usize = 32 << 10;
/// The memory of a pod whose namespace has used up its share, in bytes. A pod whose names are as long as possible takes up
/// to five times as much.
const REDUCED_LIMIT: usize = 4 << 10;

/// The longest name, in bytes: that of a label's key. No name in a valid pod is longer.
const NAME_LIMIT: usize = 317;
/// The longest reference of an image, in bytes.
const IMAGE_LIMIT: usize = 512;
/// A reason that is cut to this length is still longer than findings show it, so they mark it as cut.
const WORD_LIMIT: usize = 132;
/// How many gates are kept that are not true. One of them explains why a pod is not ready.
const GATES: usize = 8;

/// The header of a shared text.
const TEXT_HEADER: usize = 16;

/// The conditions that a verdict or its explanation depends on, beside those of readiness gates.
const CONDITIONS: [&str; 8] = [
    "PodScheduled",
    "Initialized",
    "PodReadyToStartContainers",
    "ContainersReady",
    "Ready",
    "DisruptionTarget",
    "PodResizePending",
    "PodResizeInProgress",
];

/// The reasons of ends whose message the runtime or the kubelet wrote, because the container wrote none.
const BY_RUNTIME: [&str; 3] = ["StartError", "ContainerCannotRun", "ContainerStatusUnknown"];

/// How much of a pod is kept.
struct Level {
    /// Bytes of a message.
    message: usize,
    /// Bytes of an image, and of a reason or another short text.
    image: usize,
    word: usize,
    /// Containers in each of the two lists.
    containers: usize,
}

/// From much to little. The first one that fits applies.
const LEVELS: [Level; 6] = [
    Level { message: 1024, image: IMAGE_LIMIT, word: NAME_LIMIT, containers: 64 },
    Level { message: 256, image: IMAGE_LIMIT, word: NAME_LIMIT, containers: 32 },
    Level { message: 256, image: 256, word: WORD_LIMIT, containers: 16 },
    Level { message: 128, image: 256, word: WORD_LIMIT, containers: 8 },
    Level { message: 128, image: 128, word: WORD_LIMIT, containers: 4 },
    Level { message: 128, image: 128, word: WORD_LIMIT, containers: 1 },
];

impl Pod {
    /// Cuts the pod to [`POD_LIMIT`]. Both encodings are decoded into the same.
    ///
    /// # Errors
    /// When a list is so long, or what a verdict depends on so large, that something that matters could be missed.
    pub(super) fn bounded(mut self) -> Result<Self, DecodeError> {
        let Self { labels, init_containers, containers, conditions, init_statuses, statuses, .. } = &self;
        let lengths = [
            labels.len(),
            init_containers.len(),
            containers.len(),
            conditions.len(),
            init_statuses.len(),
            statuses.len(),
            self.readiness_gates.len(),
        ];
        if lengths.into_iter().any(|length| length > LIST_LIMIT) {
            return Err(DecodeError::LongList);
        }
        if self.readiness_gates.len() > GATES {
            let mut gates = std::mem::take(&mut self.readiness_gates);
            gates.retain(|gate| !self.is_true(gate));
            gates.truncate(GATES);
            gates.shrink_to_fit();
            self.readiness_gates = gates;
        }
        let gates = &self.readiness_gates;
        let matters = |kind: &ArcStr| CONDITIONS.contains(&kind.as_str()) || gates.contains(kind);
        if !self.conditions.iter().all(|condition| matters(&condition.kind)) {
            self.conditions.retain(|condition| matters(&condition.kind));
        }
        self.conditions.shrink_to_fit();
        for specs in [&mut self.init_containers, &mut self.containers] {
            specs.shrink_to_fit();
        }
        for statuses in [&mut self.init_statuses, &mut self.statuses] {
            statuses.shrink_to_fit();
        }
        self.mark_cut_messages();
        self.cut_texts(usize::MAX, IMAGE_LIMIT, NAME_LIMIT);
        if self.fit(POD_LIMIT) { Ok(self) } else { Err(DecodeError::TooLarge) }
    }

    /// Marks messages that the kubelet or the decoder has cut, while their length still shows it.
    fn mark_cut_messages(&mut self) {
        let containers = self.containers.len() + self.init_containers.len();
        let own = self.conditions.iter_mut().map(|condition| &mut condition.message);
        for message in own.chain([&mut self.message]) {
            mark_cut_end(message);
        }
        for status in self.init_statuses.iter_mut().chain(&mut self.statuses) {
            if let Some(waiting) = &mut status.state.waiting {
                mark_cut_end(&mut waiting.message);
            }
            for ended in status.state.terminated.iter_mut().chain(&mut status.last) {
                let is_by_runtime = BY_RUNTIME.contains(&ended.reason.as_str());
                if let Some(marked) = partial_text::marked(&ended.message, containers, is_by_runtime) {
                    ended.message = marked.into();
                }
            }
        }
    }

    /// Cuts the pod to what its verdict depends on.
    pub(crate) fn reduce(&mut self) {
        self.fit(REDUCED_LIMIT);
    }

    /// The bytes of the pod without its texts.
    pub(crate) fn structure_size(&self) -> usize {
        let specs = self.init_containers.iter().chain(&self.containers);
        size_of::<Self>()
            + allocated(&self.labels)
            + self.ownership.as_deref().map_or(0, size_of_val)
            + self.requirements.as_deref().map_or(0, Requirements::allocated)
            + size_of_val(&*self.host_ports)
            + allocated(&self.finalizers.first)
            + allocated(&self.scheduling_gates.first)
            + allocated(&self.readiness_gates)
            + allocated(&self.init_containers)
            + allocated(&self.containers)
            + specs.map(ContainerSpec::allocated).sum::<usize>()
            + allocated(&self.conditions)
            + allocated(&self.init_statuses)
            + allocated(&self.statuses)
            + self.history.allocated()
    }

    /// The bytes of the pod if it shares no text with another one.
    pub(crate) fn size(&mut self) -> usize {
        let mut size = self.structure_size();
        self.for_each_text(&mut |text, _| size += text_size(text));
        size
    }

    /// Returns whether the pod fits now.
    fn fit(&mut self, limit: usize) -> bool {
        // Labels are not cut: they are at most 256, and are not kept with the pod.
        let labels: usize = self.labels.iter().map(|(key, value)| text_size(key) + text_size(value)).sum();
        let labels = labels + allocated(&self.labels);
        for level in &LEVELS {
            if self.size() - labels <= limit {
                return true;
            }
            // No verdict depends on them.
            self.requirements = None;
            self.cut_texts(level.message, level.image, level.word);
            self.keep_containers(level.containers);
        }
        self.size() - labels <= limit
    }

    fn cut_texts(&mut self, message: usize, image: usize, word: usize) {
        self.for_each_text(&mut |text, kind| match kind {
            TextKind::Name | TextKind::Id => cut(text, NAME_LIMIT),
            TextKind::Word => cut(text, word),
            TextKind::Image => cut(text, image),
            TextKind::Message | TextKind::OwnMessage if text.len() > message => {
                *text = partial_text::cut(text, message).into();
            }
            TextKind::Message | TextKind::OwnMessage => {}
            // A URL that is cut would lead elsewhere, and the lengths of these texts are bounded already.
            TextKind::Label | TextKind::Annotation => {}
        });
    }

    fn keep_containers(&mut self, limit: usize) {
        let init = keep(&mut self.init_containers, &mut self.init_statuses, limit, |status, spec| match spec {
            Some(spec) if spec.is_sidecar() => status.runs_smoothly() && status.started == Some(true),
            _ => status.last.is_none() && status.state.terminated.as_ref().is_some_and(|ended| ended.exit_code == 0),
        });
        let app = keep(&mut self.containers, &mut self.statuses, limit, |status, _| status.runs_smoothly());
        self.omitted.init_containers += init.containers;
        self.omitted.containers += app.containers;
        self.omitted.ready += app.ready;
        self.omitted.restarts += app.restarts;
    }
}

impl Requirements {
    /// The bytes without the texts.
    fn allocated(&self) -> usize {
        let lists = self.affinity.iter().chain([&self.selector]);
        let terms = lists.map(|list| {
            allocated(&list.first) + list.first.iter().map(|term| allocated(&term.values.first)).sum::<usize>()
        });
        size_of_val(self)
            + terms.sum::<usize>()
            + allocated(&self.affinity)
            + allocated(&self.requests)
            + allocated(&self.claims.first)
            + allocated(&self.tolerations.first)
    }
}

impl ContainerSpec {
    fn allocated(&self) -> usize {
        let probes = [&self.liveness_probe, &self.readiness_probe, &self.startup_probe].into_iter().flatten();
        allocated(&self.restart_rules)
            + self.restart_rules.iter().map(|codes| allocated(&codes.values)).sum::<usize>()
            + probes.map(|probe| probe.allocated()).sum::<usize>()
    }
}

impl Probe {
    /// The bytes without the texts.
    fn allocated(&self) -> usize {
        let undeclared = self.undeclared_port.as_deref();
        size_of_val(self) + undeclared.map_or(0, |own| size_of_val(own) + allocated(&own.declared.first))
    }
}

impl History {
    /// The bytes of the lists.
    fn allocated(&self) -> usize {
        allocated(&self.starts)
            + allocated(&self.runs)
            + self.runs.iter().map(|runs| allocated(&runs.lives)).sum::<usize>()
    }
}

impl ContainerStatus {
    /// Whether it runs, is ready, and has never ended.
    fn runs_smoothly(&self) -> bool {
        let state = &self.state;
        let is_running = state.running.is_some() && state.waiting.is_none() && state.terminated.is_none();
        is_running && self.ready && self.restarts == 0 && self.last.is_none()
    }
}

/// Keeps at most `limit` containers: those in trouble first, then in the order of the pod. Returns what is left out.
fn keep(
    specs: &mut Vec<ContainerSpec>,
    statuses: &mut Vec<ContainerStatus>,
    limit: usize,
    is_fine: impl Fn(&ContainerStatus, Option<&ContainerSpec>) -> bool,
) -> Omitted {
    if specs.len().max(statuses.len()) <= limit {
        return Omitted::default();
    }
    let is_unlisted = |status: &&ContainerStatus| specs.iter().all(|spec| spec.name != status.name);
    let unlisted = statuses.iter().filter(is_unlisted).map(|status| (&status.name, None));
    let listed = specs.iter().map(|spec| (&spec.name, Some(spec)));
    let status_of = |name: &ArcStr| statuses.iter().find(|status| status.name == *name);
    let mut names: Vec<_> = listed
        .chain(unlisted)
        .map(|(name, spec)| (status_of(name).is_some_and(|status| is_fine(status, spec)), name.clone()))
        .collect();
    names.sort_by_key(|(is_fine, _)| *is_fine);
    let kept: HashSet<ArcStr> = names.into_iter().take(limit).map(|(_, name)| name).collect();
    let before = specs.len();
    specs.retain(|spec| kept.contains(&spec.name));
    specs.truncate(limit);
    specs.shrink_to_fit();
    let mut omitted = Omitted { containers: (before - specs.len()) as u32, ..Omitted::default() };
    let (mut rest, mut own) = (Vec::new(), Vec::with_capacity(limit.min(statuses.len())));
    for status in statuses.drain(..) {
        if kept.contains(&status.name) && own.len() < limit { own.push(status) } else { rest.push(status) }
    }
    own.shrink_to_fit();
    *statuses = own;
    for status in rest {
        omitted.ready += u32::from(status.ready && status.state.running.is_some());
        omitted.restarts = omitted.restarts.saturating_add(status.restarts.into());
    }
    omitted
}

fn cut(text: &mut ArcStr, limit: usize) {
    if text.len() > limit {
        *text = within(text.to_string(), limit).into();
    }
}

/// Marks a message that is so long that the decoder may have cut it.
fn mark_cut_end(message: &mut ArcStr) {
    if message.len() + 3 >= TEXT_LIMIT {
        *message = partial_text::cut_end(message, TEXT_LIMIT).into();
    }
}

fn allocated<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

/// The bytes of a text that is not shared.
pub(crate) fn text_size(text: &ArcStr) -> usize {
    if text.is_empty() { 0 } else { TEXT_HEADER + text.len() }
}

#[cfg(test)]
mod tests;
