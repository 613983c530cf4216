//! Chooses what the status lists, so that no incident crowds out the pods of another, and no namespace the incidents of
//! another.

use std::collections::{BTreeSet, HashMap};

use super::{identity::Identity, incidents::Group, problem::Problem};

/// How many pods of each incident are chosen before more of any.
const FIRST: usize = 2;

/// Chooses at most `max` problems: one of each incident, then a second of each, then the most recent of the rest. In each of
/// these rounds, namespaces take turns, so that the incidents of one do not leave others without rows. Problems and incidents
/// are given with the most recent first. The order of the result is the order of preference.
pub(super) fn pick<'p, 'a>(problems: &'p [Problem<'a>], incidents: &[Group<'a>], max: usize) -> Vec<&'p Problem<'a>> {
    if problems.len() <= 1 {
        return problems.iter().take(max).collect();
    }
    let places: HashMap<Identity<'_>, usize> =
        incidents.iter().enumerate().map(|(place, group)| (group.identity, place)).collect();
    let mut counts = vec![0; incidents.len()];
    // The rest keeps its order, so it has no places.
    let mut ranked: Vec<(usize, usize, &'p Problem<'a>)> = Vec::with_capacity(problems.len());
    for problem in problems {
        let place = places.get(&problem.identity()).copied().unwrap_or_default();
        match counts.get_mut(place) {
            Some(round) if *round < FIRST => {
                ranked.push((*round, place, problem));
                *round += 1;
            }
            _ => ranked.push((FIRST, 0, problem)),
        }
    }
    ranked.sort_by_key(|(round, place, _)| (*round, *place));
    let mut turns: HashMap<(usize, &str), usize> = HashMap::new();
    let mut ordered: Vec<_> = ranked
        .into_iter()
        .map(|(round, _, problem)| {
            let turn = turns.entry((round, problem.namespace)).or_default();
            *turn += 1;
            (round, *turn, problem)
        })
        .collect();
    // A stable sort: of one turn, the most recent come first.
    ordered.sort_by_key(|(round, turn, _)| (*round, *turn));
    ordered.into_iter().map(|(_, _, problem)| problem).take(max).collect()
}

/// What a list may take.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) items: usize,
    /// Of JSON.
    pub(super) bytes: usize,
}

/// Chooses the items of a list in which namespaces take turns. The next item is always that of the namespace that takes the
/// least so far; the first one of the list decides a tie, so the first item of each namespace comes before a second one of
/// any. Of one namespace, items are chosen in the order of the list. The choice ends with the first item that does not fit.
///
/// `namespaces` contains that of each item, and `size` returns the bytes that an item takes in the list. The result is in the
/// order of the list.
pub(super) fn take_turns(namespaces: &[&str], room: Room, mut size: impl FnMut(usize) -> usize) -> Vec<usize> {
    // Many small items take as much as a few large ones.
    let least = room.bytes / room.items.max(1);
    let mut following = vec![None; namespaces.len()];
    let mut first = HashMap::new();
    for (index, namespace) in namespaces.iter().enumerate().rev() {
        let next = first.insert(*namespace, index);
        if let Some(place) = following.get_mut(index) {
            *place = next;
        }
    }
    // How much a namespace takes, and its next item.
    let mut turns: BTreeSet<(usize, usize)> = first.into_values().map(|index| (0, index)).collect();
    let (mut chosen, mut left) = (Vec::new(), room.bytes);
    while chosen.len() < room.items
        && let Some((taken, index)) = turns.pop_first()
    {
        let size = size(index);
        let Some(rest) = left.checked_sub(size) else { break };
        left = rest;
        chosen.push(index);
        if let Some(next) = following.get(index).copied().flatten() {
            turns.insert((taken.saturating_add(size.max(least)), next));
        }
    }
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;
    use crate::report::{
        incidents, problem,
        tests::{Scenario, crashing},
    };

    #[test]
    fn prefers_pods_of_each_incident_in_turn_then_recent_ones() {
        // Incidents are ordered by the time at which their oldest pod failed: web, cart, train.
        let pods = [
            ("web", 300),
            ("web", 310),
            ("web", 350),
            ("cart", 200),
            ("cart", 320),
            ("cart", 340),
            ("cart", 360),
            ("train", 100),
            ("train", 330),
        ];
        let preferred = [
            ("web", 350),
            ("cart", 360),
            ("train", 330),
            ("web", 310),
            ("cart", 340),
            ("train", 100),
            ("cart", 320),
            ("web", 300),
            ("cart", 200),
        ];
        let scenario = Scenario::of(pods.map(|(owner, since)| crashing("shop", owner, "Error", since)));
        scenario.with_input(None, |input| {
            let problems = problem::ordered(&input.findings, None);
            let lookup = incidents::Lookup { workload: input.find_workload, ownership: input.find_ownership };
            let incidents = incidents::ordered(&problems, input.missing, input.tracker, lookup);
            for max in 0..=preferred.len() {
                let picked: Vec<_> = pick(&problems, &incidents, max)
                    .into_iter()
                    .map(|problem| (problem.identity().owner_name, problem.since.as_second()))
                    .collect();
                assert_eq!(picked, preferred[..max], "at most {max}");
            }
            assert_eq!(pick(&problems[..1], &incidents, 0).len(), 0);
        });
    }

    #[test]
    fn namespaces_share_a_list_by_what_their_items_take() {
        let turns = |namespaces: &str, sizes: &[usize], items, bytes| {
            let namespaces: Vec<&str> = namespaces.split_terminator("").skip(1).collect();
            take_turns(&namespaces, Room { items, bytes }, |index| sizes[index])
        };
        // One namespace: the beginning of the list.
        assert_eq!(turns("aaaa", &[10; 4], 3, 100), [0, 1, 2]);
        assert_eq!(turns("aaaa", &[10, 10, 10, 10], 4, 39), [0, 1, 2]);
        // All fit.
        assert_eq!(turns("aabab", &[10; 5], 5, 50), [0, 1, 2, 3, 4]);
        assert_eq!(turns("", &[], 5, 50), [0; 0]);
        // Whoever has many leaves room for one who has few.
        assert_eq!(turns("aaaaabb", &[10; 7], 5, 100), [0, 1, 2, 5, 6]);
        // Whoever has large ones, too.
        assert_eq!(turns("aaaabbbb", &[40, 40, 40, 40, 10, 10, 10, 10], 8, 120), [0, 1, 4, 5, 6, 7]);
        // The first of each comes before a second one of any.
        assert_eq!(turns("aaaabcd", &[10; 7], 4, 100), [0, 4, 5, 6]);
        assert_eq!(turns("aaaabcd", &[10; 7], 3, 100), [0, 4, 5]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_choice_takes_the_first_of_each_namespace(
            items in vec((select(vec!["a", "b", "c", "d"]), 1_usize..50), 0..60),
            max in 1_usize..40,
            bytes in 0_usize..1_000,
        ) {
            let namespaces: Vec<&str> = items.iter().map(|(namespace, _)| *namespace).collect();
            let room = Room { items: max, bytes };
            let chosen = take_turns(&namespaces, room, |index| items[index].1);
            let size: usize = chosen.iter().map(|index| items[*index].1).sum();
            prop_assert!(chosen.len() <= max && size <= bytes && chosen.is_sorted());
            let all: usize = items.iter().map(|(_, size)| size).sum();
            prop_assert!(chosen.len() == items.len() || items.len() > max || all > bytes, "only what does not fit is left out");
            for namespace in ["a", "b", "c", "d"] {
                let own: Vec<usize> = (0..items.len()).filter(|index| namespaces[*index] == namespace).collect();
                let listed: Vec<usize> = chosen.iter().copied().filter(|index| namespaces[*index] == namespace).collect();
                prop_assert_eq!(&own[..listed.len()], &listed[..]);
            }
            // What was chosen is chosen again.
            let kept: Vec<&str> = chosen.iter().map(|index| namespaces[*index]).collect();
            prop_assert_eq!(take_turns(&kept, room, |index| items[chosen[index]].1).len(), chosen.len());
        }
    }
}
