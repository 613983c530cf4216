//! Interned names, since most of them occur many times.

use std::{collections::HashMap, num::NonZeroU32};

/// The number of a name, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NameId(NonZeroU32);

#[derive(Debug, Default)]
pub(super) struct Names(Box<[Box<str>]>);

impl Names {
    pub(super) fn name(&self, NameId(number): NameId) -> &str {
        self.0.get(number.get() as usize - 1).map_or("", |name| name)
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|name| size_of_val(name) + name.len()).sum()
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
        self.names.push(name.into());
        let id = NameId(u32::try_from(self.names.len()).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX));
        self.ids.insert(name.into(), id);
        id
    }

    pub(super) fn name(&self, NameId(number): NameId) -> &str {
        self.names.get(number.get() as usize - 1).map_or("", |name| name)
    }

    pub(super) fn finish(self) -> Names {
        Names(self.names.into())
    }
}
