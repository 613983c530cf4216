//! Which pods the status details: each incident's before any incident's many.

use std::collections::HashMap;

use super::{
    incidents::{Group, Identity},
    problem::Problem,
};

/// How many pods of each incident come first.
const FIRST: usize = 2;

/// At most `max` of the problems, those that matter most first: one of each incident, then a second of each, then the
/// most recent of the rest. Problems and incidents come with the most recent first.
pub(super) fn pick<'p, 'a>(problems: &'p [Problem<'a>], incidents: &[Group<'a>], max: usize) -> Vec<&'p Problem<'a>> {
    if problems.len() <= 1 {
        return problems.iter().take(max).collect();
    }
    let places: HashMap<Identity<'_>, usize> =
        incidents.iter().enumerate().map(|(place, group)| (group.identity, place)).collect();
    let mut seen = vec![0; incidents.len()];
    let mut ranked: Vec<(usize, usize, &Problem<'_>)> = problems
        .iter()
        .map(|problem| {
            let place = places.get(&problem.identity()).copied().unwrap_or_default();
            let round = seen.get_mut(place).map_or(FIRST, |seen| {
                *seen += 1;
                (*seen - 1).min(FIRST)
            });
            (round, if round < FIRST { place } else { 0 }, problem)
        })
        .collect();
    // Stable: the rest stays in its order.
    ranked.sort_by_key(|(round, place, _)| (*round, *place));
    ranked.into_iter().take(max).map(|(_, _, problem)| problem).collect()
}
