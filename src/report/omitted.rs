//! The incidents for which a status has no room.

use super::wire::number;

/// The keys of the incidents that a status does not list although they last, because they are too many. Without them, an
/// incident that was cut from the list could not be distinguished from one that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmittedIncidents(Box<[u64]>);

impl OmittedIncidents {
    pub(super) fn new<'a>(keys: impl Iterator<Item = &'a str>) -> Self {
        let mut keys: Vec<u64> = keys.filter_map(number).collect();
        keys.sort_unstable();
        Self(keys.into())
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        number(key).is_some_and(|key| self.0.binary_search(&key).is_ok())
    }
}
