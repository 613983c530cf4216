//! Interned names, since most of them occur many times.

use std::collections::HashMap;

/// The place of a name in [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NameId(u32);

#[derive(Debug, Default)]
pub(super) struct Names(Box<[Box<str>]>);

impl Names {
    pub(super) fn name(&self, NameId(place): NameId) -> &str {
        self.0.get(place as usize).map_or("", |name| name)
    }
}

/// Collects names.
#[derive(Default)]
pub(super) struct NewNames {
    ids: HashMap<Box<str>, NameId>,
    names: Vec<Box<str>>,
}

impl NewNames {
    pub(super) fn id(&mut self, name: &str) -> NameId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = NameId(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.names.push(name.into());
        self.ids.insert(name.into(), id);
        id
    }

    pub(super) fn name(&self, NameId(place): NameId) -> &str {
        self.names.get(place as usize).map_or("", |name| name)
    }

    pub(super) fn finish(self) -> Names {
        Names(self.names.into())
    }
}
