//! How many events about `Orchestr` objects were dropped, by namespace.

use std::collections::HashMap;

/// The most namespaces that are counted apart.
const MOST_NAMESPACES: usize = 1024;
/// The most namespaces that the log names at a time.
const LOGGED: usize = 8;

/// Counts since the start of the operator. They only grow.
#[derive(Debug, Default)]
pub(in crate::controller) struct DroppedEvents {
    namespaces: HashMap<String, Count>,
    /// Those of further namespaces.
    others: Count,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    all: u64,
    logged: u64,
}

impl Count {
    fn unlogged(&self) -> u64 {
        self.all - self.logged
    }
}

impl DroppedEvents {
    pub(super) fn add(&mut self, namespace: &str, events: usize) {
        if events == 0 {
            return;
        }
        let is_counted = self.namespaces.contains_key(namespace) || self.namespaces.len() < MOST_NAMESPACES;
        let count = match is_counted {
            true => self.namespaces.entry(namespace.to_owned()).or_default(),
            false => &mut self.others,
        };
        count.all += events as u64;
    }

    /// The number of each namespace, in no particular order. An empty name stands for those that are not counted apart.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the metrics"))]
    pub(in crate::controller) fn by_namespace(&self) -> impl Iterator<Item = (&str, u64)> {
        let others = Some(("", self.others.all)).filter(|(_, count)| *count > 0);
        self.namespaces.iter().map(|(namespace, count)| (namespace.as_str(), count.all)).chain(others)
    }

    /// Logs what was dropped since this was last called.
    pub(super) fn log(&mut self) {
        for (namespace, dropped) in self.take_new() {
            tracing::warn!(
                namespace,
                dropped,
                "events about Orchestr objects were dropped, because there were too many"
            );
        }
    }

    /// The namespaces with the most dropped events since this was last called; an empty name stands for all others.
    fn take_new(&mut self) -> Vec<(String, u64)> {
        let mut new: Vec<_> = self
            .namespaces
            .iter()
            .map(|(namespace, count)| (namespace.clone(), count.unlogged()))
            .filter(|(_, count)| *count > 0)
            .collect();
        new.sort_unstable_by(|(one, a), (other, b)| b.cmp(a).then(one.cmp(other)));
        let rest = new.iter().skip(LOGGED).map(|(_, count)| count).sum::<u64>() + self.others.unlogged();
        new.truncate(LOGGED);
        if rest > 0 {
            new.push((String::new(), rest));
        }
        for count in self.namespaces.values_mut().chain([&mut self.others]) {
            count.logged = count.all;
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_namespace_and_names_those_with_the_most() {
        let mut dropped = DroppedEvents::default();
        dropped.add("quiet", 0);
        for number in 0..12 {
            dropped.add(&format!("team-{number:02}"), 10 + number);
        }
        dropped.add("team-03", 100);
        let new = dropped.take_new();
        assert_eq!((new.len(), &new[0], &new[1]), (9, &("team-03".to_owned(), 113), &("team-11".to_owned(), 21)));
        assert_eq!(new[8], (String::new(), 10 + 11 + 12 + 14));
        assert_eq!(dropped.take_new(), [], "logged once");
        dropped.add("team-03", 1);
        assert_eq!(dropped.take_new(), [("team-03".to_owned(), 1)]);
        assert_eq!(dropped.by_namespace().find(|(namespace, _)| *namespace == "team-03"), Some(("team-03", 114)));
    }

    #[test]
    fn keeps_a_bounded_number_of_namespaces() {
        let mut dropped = DroppedEvents::default();
        for number in 0..2 * MOST_NAMESPACES {
            dropped.add(&number.to_string(), 1);
        }
        assert_eq!(dropped.by_namespace().count(), MOST_NAMESPACES + 1);
        assert_eq!(dropped.by_namespace().map(|(_, count)| count).sum::<u64>(), 2 * MOST_NAMESPACES as u64);
    }
}
