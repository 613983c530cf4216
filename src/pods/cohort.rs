//! Pods that no selection can tell apart: the same namespace and the same labels. A selection is
//! evaluated once per cohort, not per pod, and a healthy pod is no more than a member of one.

use std::{collections::HashMap, sync::Arc};

/// A cohort's place in [`Cohorts`]. Places of cohorts that are gone are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CohortId(pub u32);

/// All cohorts that have members.
#[derive(Debug, Default)]
pub struct Cohorts {
    ids: HashMap<Arc<str>, CohortId>,
    places: Vec<Place>,
    free: Vec<CohortId>,
}

#[derive(Debug)]
struct Place {
    /// Namespace, then key and value of each label, each ended by a NUL: one allocation, and its own
    /// key in the map.
    text: Arc<str>,
    members: u32,
}

impl Cohorts {
    /// Adds a member to the cohort of this namespace and these labels; tells whether the cohort is new.
    pub fn join(&mut self, namespace: &str, labels: &[(String, String)]) -> (CohortId, bool) {
        let text = encode(namespace, labels);
        if let Some(&id) = self.ids.get(text.as_str()) {
            self.places[id.0 as usize].members += 1;
            return (id, false);
        }
        let text: Arc<str> = text.into();
        let place = Place { text: Arc::clone(&text), members: 1 };
        let id = match self.free.pop() {
            Some(id) => {
                self.places[id.0 as usize] = place;
                id
            }
            None => {
                self.places.push(place);
                CohortId(u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX))
            }
        };
        self.ids.insert(text, id);
        (id, true)
    }

    /// Takes a member out; with the last, the cohort is gone.
    pub fn leave(&mut self, id: CohortId) {
        let Some(place) = self.places.get_mut(id.0 as usize) else { return };
        place.members = place.members.saturating_sub(1);
        if place.members == 0 {
            self.ids.remove(&place.text);
            place.text = Arc::from("");
            self.free.push(id);
        }
    }

    /// Whether this is the cohort of this namespace and these labels.
    #[must_use]
    pub fn is(&self, id: CohortId, namespace: &str, labels: &[(String, String)]) -> bool {
        self.places.get(id.0 as usize).is_some_and(|place| {
            let mut parts = place.text.split_terminator('\0');
            parts.next() == Some(namespace)
                && labels.iter().all(|(key, value)| parts.next() == Some(key) && parts.next() == Some(value))
                && parts.next().is_none()
        })
    }

    /// The members' namespace.
    #[must_use]
    pub fn namespace(&self, id: CohortId) -> &str {
        let text = self.places.get(id.0 as usize).map_or("", |place| &*place.text);
        text.split('\0').next().unwrap_or_default()
    }

    /// How many members a cohort has.
    #[must_use]
    pub fn members(&self, id: CohortId) -> u32 {
        self.places.get(id.0 as usize).map_or(0, |place| place.members)
    }

    /// Every cohort with its namespace and labels.
    pub fn iter(&self) -> impl Iterator<Item = (CohortId, &str, Vec<(String, String)>)> {
        self.places.iter().enumerate().filter(|(_, place)| place.members > 0).map(|(index, place)| {
            let mut parts = place.text.split_terminator('\0');
            let namespace = parts.next().unwrap_or_default();
            let mut labels = Vec::new();
            while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
                labels.push((key.to_owned(), value.to_owned()));
            }
            (CohortId(u32::try_from(index).unwrap_or(u32::MAX)), namespace, labels)
        })
    }
}

fn encode(namespace: &str, labels: &[(String, String)]) -> String {
    let length = labels.iter().map(|(key, value)| key.len() + value.len() + 2).sum::<usize>();
    let mut text = String::with_capacity(namespace.len() + 1 + length);
    for part in std::iter::once(namespace).chain(labels.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]))
    {
        text.push_str(part);
        text.push('\0');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn members_share_a_cohort_until_the_last_leaves() {
        let mut cohorts = Cohorts::default();
        let web = labels(&[("app", "web"), ("empty", "")]);
        let (a, new) = cohorts.join("shop", &web);
        assert!(new);
        assert_eq!(cohorts.join("shop", &web), (a, false));
        let (b, new) = cohorts.join("bank", &web);
        assert!(new && b != a);
        assert_eq!((cohorts.members(a), cohorts.namespace(a)), (2, "shop"));
        assert!(cohorts.is(a, "shop", &web) && !cohorts.is(b, "shop", &web) && !cohorts.is(a, "shop", &web[..1]));
        assert_eq!(cohorts.iter().next(), Some((a, "shop", web.clone())));

        cohorts.leave(a);
        assert_eq!(cohorts.members(a), 1);
        cohorts.leave(a);
        assert_eq!(cohorts.iter().map(|(id, ..)| id).collect::<Vec<_>>(), [b]);
        assert_eq!(cohorts.join("other", &[]), (a, true), "its place is used again");
    }
}
