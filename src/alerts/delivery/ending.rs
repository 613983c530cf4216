//! Limits how many workers of deleted objects notify receivers at the same time.

use std::collections::HashMap;

/// The most workers in one namespace, and of all.
const IN_NAMESPACE: usize = 16;
const ALL: usize = 128;

/// The workers of deleted objects, by namespace.
#[derive(Debug, Default)]
pub(super) struct Ending(HashMap<String, usize>);

impl Ending {
    /// Whether the worker of another deleted object may notify its receivers. Counts it if so.
    pub(super) fn admit(&mut self, namespace: &str) -> bool {
        let all: usize = self.0.values().sum();
        let own = self.0.get(namespace).copied().unwrap_or_default();
        let is_admitted = own < IN_NAMESPACE && all < ALL;
        if is_admitted {
            self.0.insert(namespace.to_owned(), own + 1);
        }
        is_admitted
    }

    /// A worker of this namespace has ended.
    pub(super) fn ended(&mut self, namespace: &str) {
        if let Some(own) = self.0.get_mut(namespace) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                self.0.remove(namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admits_a_bounded_number_of_a_namespace_and_of_all() {
        let mut ending = Ending::default();
        let admitted = |ending: &mut Ending, namespace: &str| (0..1000).filter(|_| ending.admit(namespace)).count();
        assert_eq!(admitted(&mut ending, "attacker"), IN_NAMESPACE);
        assert_eq!(admitted(&mut ending, "shop"), IN_NAMESPACE, "another namespace has its own");
        let others: usize = (0..100).map(|number| admitted(&mut ending, &number.to_string())).sum();
        assert_eq!(others, ALL - 2 * IN_NAMESPACE);
        ending.ended("shop");
        assert_eq!((admitted(&mut ending, "attacker"), admitted(&mut ending, "shop")), (0, 1));
    }

    #[test]
    fn keeps_nothing_of_namespaces_whose_workers_have_ended() {
        let mut ending = Ending::default();
        for number in 0..1000 {
            assert!(ending.admit(&number.to_string()));
            ending.ended(&number.to_string());
            ending.ended("unknown");
        }
        assert!(ending.0.is_empty());
    }
}
