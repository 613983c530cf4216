//! Visits all texts of a pod.

use arcstr::ArcStr;

use super::{ContainerSpec, ContainerStatus, Pod, Requirements, Terminated, Toleration};

/// How a text is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextKind {
    /// A name that identifies something.
    Name,
    /// A reason or another short text.
    Word,
    /// The name of an image.
    Image,
    /// A message that many pods may share.
    Message,
    /// A message that names the pod.
    OwnMessage,
    /// A name or an identifier that no other pod has.
    Id,
    /// The key or the value of a label.
    Label,
    /// The value of an annotation, which is kept whole.
    Annotation,
}

impl Pod {
    /// Visits all texts. Labels are visited as well, but nothing may change them.
    pub(crate) fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut ArcStr, TextKind)) {
        use TextKind::{Annotation, Id, Label, Message, Name, Word};
        visit(&mut self.name, Id);
        visit(&mut self.namespace, Name);
        visit(&mut self.node, Name);
        visit(&mut self.phase, Word);
        visit(&mut self.reason, Word);
        visit(&mut self.message, Message);
        for (key, value) in &mut self.labels {
            visit(key, Label);
            visit(value, Label);
        }
        if let Some(ownership) = &mut self.ownership {
            for value in [&mut ownership.team, &mut ownership.runbook, &mut ownership.dashboard] {
                visit(value, Annotation);
            }
        }
        if let Some(owner) = &mut self.controller {
            for name in [&mut owner.api_version, &mut owner.kind, &mut owner.name, &mut owner.uid] {
                visit(name, Name);
            }
        }
        for names in [&mut self.finalizers.first, &mut self.scheduling_gates.first, &mut self.readiness_gates] {
            names.iter_mut().for_each(|name| visit(name, Name));
        }
        if let Some(requirements) = &mut self.requirements {
            requirements.for_each_name(&mut |name| visit(name, Name));
        }
        self.init_containers.iter_mut().chain(&mut self.containers).for_each(|spec| spec.for_each_text(visit));
        for condition in &mut self.conditions {
            visit(&mut condition.kind, Name);
            visit(&mut condition.status, Word);
            visit(&mut condition.reason, Word);
            visit(&mut condition.message, Message);
        }
        self.init_statuses.iter_mut().chain(&mut self.statuses).for_each(|status| status.for_each_text(visit));
        self.history.for_each_name(&mut |name| visit(name, Name));
    }
}

impl Requirements {
    fn for_each_name(&mut self, visit: &mut dyn FnMut(&mut ArcStr)) {
        for term in self.affinity.iter_mut().chain([&mut self.selector]).flat_map(|list| &mut list.first) {
            visit(&mut term.key);
            visit(&mut term.operator);
            term.values.first.iter_mut().for_each(&mut *visit);
        }
        self.requests.iter_mut().for_each(|(resource, _)| visit(resource));
        self.claims.first.iter_mut().for_each(&mut *visit);
        for Toleration { key, operator, value, effect } in &mut self.tolerations.first {
            [key, operator, value, effect].into_iter().for_each(&mut *visit);
        }
    }
}

impl ContainerSpec {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut ArcStr, TextKind)) {
        visit(&mut self.image, TextKind::Image);
        visit(&mut self.name, TextKind::Name);
        visit(&mut self.command, TextKind::Word);
        visit(&mut self.memory_limit, TextKind::Word);
        for probe in [&mut self.liveness_probe, &mut self.readiness_probe, &mut self.startup_probe] {
            for probe in probe.iter_mut() {
                visit(&mut probe.action, TextKind::Word);
                for undeclared in probe.undeclared_port.iter_mut() {
                    visit(&mut undeclared.port, TextKind::Name);
                    undeclared.declared.first.iter_mut().for_each(|port| visit(port, TextKind::Name));
                }
            }
        }
    }
}

impl ContainerStatus {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut ArcStr, TextKind)) {
        visit(&mut self.name, TextKind::Name);
        if let Some(waiting) = &mut self.state.waiting {
            visit(&mut waiting.reason, TextKind::Word);
            visit(&mut waiting.message, TextKind::OwnMessage);
        }
        self.state.terminated.iter_mut().chain(&mut self.last).for_each(|ended| ended.for_each_text(visit));
    }
}

impl Terminated {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut ArcStr, TextKind)) {
        visit(&mut self.reason, TextKind::Word);
        visit(&mut self.message, TextKind::Message);
        visit(&mut self.container_id, TextKind::Id);
    }
}
