//! Chooses the pods that the status lists, so that no incident crowds out another.

use std::collections::HashMap;

use super::{identity::Identity, incidents::Group, problem::Problem};

/// How many pods of each incident are chosen before more of any.
const FIRST: usize = 2;

/// Chooses at most `max` problems: one of each incident, then a second of each, then the most recent of the rest.
/// Problems and incidents are given with the most recent first. The order of the result is the order of preference.
pub(super) fn pick<'p, 'a>(problems: &'p [Problem<'a>], incidents: &[Group<'a>], max: usize) -> Vec<&'p Problem<'a>> {
    if problems.len() <= 1 {
        return problems.iter().take(max).collect();
    }
    let places: HashMap<Identity<'_>, usize> =
        incidents.iter().enumerate().map(|(place, group)| (group.identity, place)).collect();
    let mut counts = vec![0; incidents.len()];
    let mut ranked: Vec<(usize, usize, &Problem<'_>)> = problems
        .iter()
        .map(|problem| {
            let place = places.get(&problem.identity()).copied().unwrap_or_default();
            let round = counts.get_mut(place).map_or(FIRST, |count| {
                *count += 1;
                (*count - 1).min(FIRST)
            });
            (round, if round < FIRST { place } else { 0 }, problem)
        })
        .collect();
    // A stable sort: the rest keeps its order.
    ranked.sort_by_key(|(round, place, _)| (*round, *place));
    ranked.into_iter().take(max).map(|(_, _, problem)| problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{
        incidents, problem,
        tests::{Scenario, crashing},
    };

    #[test]
    fn prefers_one_pod_of_each_incident_then_a_second_then_recent_pods() {
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
            let incidents = incidents::ordered(&problems, input.missing, None, input.tracker, lookup);
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
}
