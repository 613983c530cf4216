//! What changed in the pod template from one revision of a workload to the next.

mod template;

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::pods::Probe;

use self::template::ContainerTemplate;
pub use self::template::{RevisionObject, Template};

/// The most changes that are kept.
const CHANGES: usize = 8;
/// The longest value that is kept, in bytes. Of a longer one, only the fact that it changed is kept: a part of it might
/// begin in the middle of a secret, which would not be recognized.
const VALUE_LIMIT: usize = 2048;
/// The longest name that is kept, in bytes, and the most names of a kind.
const NAME_LIMIT: usize = 253;
const NAMES: usize = 6;
/// Of how many containers the memory limits are kept, and the longest limit, in bytes.
const CONTAINERS: usize = 32;
const QUANTITY_LIMIT: usize = 32;

/// The differences between two pod templates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateChanges {
    pub changes: Vec<TemplateChange>,
    /// How many others there are.
    pub more: usize,
    /// When the revision was created. Absent if it is older than the one before, whose template it has replaced again.
    pub created: Option<Timestamp>,
    /// By container; also those that are equal.
    pub memory_limits: BTreeMap<String, MemoryLimits>,
}

/// The memory limit of a container in the pod templates of two revisions; empty if the container has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Absent if no revision before is known, or it has no such container.
    pub before: Option<String>,
    pub after: String,
}

/// A difference between two pod templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateChange {
    /// For example `image of app`.
    pub subject: String,
    pub detail: ChangeDetail,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeDetail {
    /// The values before and after; empty if unset. A command line may contain secrets.
    Values {
        before: String,
        after: String,
    },
    /// What was added, removed or changed, by name only.
    Names {
        added: NameList,
        removed: NameList,
        changed: NameList,
    },
    Added,
    Removed,
    /// In fields that are not compared one by one, or in a value that is too long.
    Changed,
}

/// The first of some names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameList {
    pub names: Vec<String>,
    /// How many others there are.
    pub more: usize,
}

impl NameList {
    fn of<'a>(names: impl Iterator<Item = &'a String>) -> Self {
        let mut list = Self::default();
        for name in names {
            if list.names.len() < NAMES {
                list.names.push(cut(name));
            } else {
                list.more += 1;
            }
        }
        list
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

fn cut(name: &str) -> String {
    name[..name.floor_char_boundary(NAME_LIMIT)].to_owned()
}

impl TemplateChanges {
    /// What is known if only one revision was read.
    #[must_use]
    pub fn of_one(template: &Template) -> Self {
        Self { memory_limits: memory_limits(None, template), ..Self::default() }
    }
}

/// By container. Values that are too long are no quantities.
fn memory_limits(before: Option<&Template>, after: &Template) -> BTreeMap<String, MemoryLimits> {
    let limit = |own: &ContainerTemplate| own.limits.get("memory").cloned().unwrap_or_default();
    let find = |name: &str| before?.all().find(|own| own.name == name).map(limit);
    let containers = after.all().take(CONTAINERS).filter(|own| own.name.len() <= NAME_LIMIT);
    containers
        .map(|own| (own.name.clone(), MemoryLimits { before: find(&own.name), after: limit(own) }))
        .filter(|(_, own)| own.after.len().max(own.before.as_ref().map_or(0, String::len)) <= QUANTITY_LIMIT)
        .collect()
}

/// Compares images, commands, arguments, limits and probes by value, and environment variables by name. In the order of
/// the containers, those of the app first.
#[must_use]
pub fn template_changes(before: &Template, after: &Template) -> TemplateChanges {
    let mut changes = Changes::default();
    changes.lists("container", &before.containers, &after.containers);
    changes.lists("init container", &before.init_containers, &after.init_containers);
    let created = after.created.filter(|created| before.created.is_some_and(|before| before < *created));
    TemplateChanges { created, memory_limits: memory_limits(Some(before), after), ..changes.0 }
}

#[derive(Default)]
struct Changes(TemplateChanges);

impl Changes {
    fn push(&mut self, subject: String, detail: ChangeDetail) {
        if self.0.changes.len() < CHANGES {
            self.0.changes.push(TemplateChange { subject, detail });
        } else {
            self.0.more += 1;
        }
    }

    fn values(&mut self, subject: String, before: &str, after: &str) {
        if before.len().max(after.len()) > VALUE_LIMIT {
            if before != after {
                self.push(subject, ChangeDetail::Changed);
            }
        } else if before != after {
            let [before, after] = [before, after].map(str::to_owned);
            self.push(subject, ChangeDetail::Values { before, after });
        }
    }

    fn lists(&mut self, kind: &str, before: &[ContainerTemplate], after: &[ContainerTemplate]) {
        for container in after {
            match before.iter().find(|own| own.name == container.name) {
                Some(own) => self.container(own, container),
                None => self.push(format!("{kind} {}", cut(&container.name)), ChangeDetail::Added),
            }
        }
        for gone in before.iter().filter(|own| after.iter().all(|container| container.name != own.name)) {
            self.push(format!("{kind} {}", cut(&gone.name)), ChangeDetail::Removed);
        }
    }

    fn container(&mut self, before: &ContainerTemplate, after: &ContainerTemplate) {
        let name = cut(&after.name);
        self.values(format!("image of {name}"), &before.image, &after.image);
        self.values(format!("command of {name}"), &before.command.join(" "), &after.command.join(" "));
        self.values(format!("args of {name}"), &before.args.join(" "), &after.args.join(" "));
        let resources: BTreeMap<_, _> = before.limits.iter().chain(&after.limits).collect();
        for resource in resources.into_keys() {
            let [before, after] =
                [before, after].map(|own| own.limits.get(resource).map(String::as_str).unwrap_or_default());
            self.values(format!("{} limit of {name}", cut(resource)), before, after);
        }
        for (probe, before, after) in [
            ("liveness", &before.liveness_probe, &after.liveness_probe),
            ("readiness", &before.readiness_probe, &after.readiness_probe),
            ("startup", &before.startup_probe, &after.startup_probe),
        ] {
            self.probe(&format!("{probe} probe of {name}"), before.as_ref(), after.as_ref());
        }
        self.names(format!("env of {name}"), &before.env, &after.env);
        self.names(format!("envFrom of {name}"), &before.env_from, &after.env_from);
    }

    fn probe(&mut self, subject: &str, before: Option<&(Probe, u64)>, after: Option<&(Probe, u64)>) {
        let ((before, before_hash), (after, after_hash)) = match (before, after) {
            (Some(before), Some(after)) => (before, after),
            (None, None) => return,
            (before, after) => {
                let action = |probe: Option<&(Probe, u64)>| probe.map(|(probe, _)| probe.action.to_string());
                let [before, after] = [before, after].map(|probe| action(probe).unwrap_or_default());
                return self.push(subject.to_owned(), ChangeDetail::Values { before, after });
            }
        };
        let count = |changes: &Self| changes.0.changes.len() + changes.0.more;
        let known = count(self);
        self.values(subject.to_owned(), &before.action, &after.action);
        let numbers = |probe: &Probe| {
            let grace = probe.termination_grace.map(|grace| grace.to_string()).unwrap_or_default();
            [
                ("initialDelaySeconds", probe.initial_delay.to_string()),
                ("periodSeconds", probe.period.to_string()),
                ("timeoutSeconds", probe.timeout.to_string()),
                ("failureThreshold", probe.failure_threshold.to_string()),
                ("terminationGracePeriodSeconds", grace),
            ]
        };
        for ((field, before), (_, after)) in numbers(before).into_iter().zip(numbers(after)) {
            self.values(format!("{field} of the {subject}"), &before, &after);
        }
        if count(self) == known && before_hash != after_hash {
            self.push(subject.to_owned(), ChangeDetail::Changed);
        }
    }

    fn names(&mut self, subject: String, before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) {
        let added = NameList::of(after.keys().filter(|name| !before.contains_key(*name)));
        let removed = NameList::of(before.keys().filter(|name| !after.contains_key(*name)));
        let is_changed = |(name, value): &(&String, &u64)| before.get(*name).is_some_and(|before| before != *value);
        let changed = NameList::of(after.iter().filter(is_changed).map(|(name, _)| name));
        if !(added.is_empty() && removed.is_empty() && changed.is_empty()) {
            self.push(subject, ChangeDetail::Names { added, removed, changed });
        }
    }
}

#[cfg(test)]
mod tests;
