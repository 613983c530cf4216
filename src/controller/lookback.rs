//! Decides how old a failure may be to be kept: as old as the largest `restarted` threshold needs, in coarse steps. A
//! longer lookback requires another list of all pods, so it is extended in steps, and shortened only after an hour.

use std::{collections::HashSet, time::Duration};

use tokio::time::Instant;

use crate::pods::Uid;

use super::watch_health::Scope;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The steps. The first step is the default of `spec.thresholds.restarted`.
const STEPS: [Duration; 7] = [
    Duration::from_secs(10 * MINUTE),
    Duration::from_secs(HOUR),
    Duration::from_secs(6 * HOUR),
    Duration::from_secs(DAY),
    Duration::from_secs(7 * DAY),
    Duration::from_secs(30 * DAY),
    LONGEST,
];
/// As long as any duration in a spec can be: 292 years.
const LONGEST: Duration = Duration::from_nanos(i64::MAX as u64);
/// How long a lookback must have been unneeded before it is shortened.
const PATIENCE: Duration = Duration::from_secs(HOUR);

/// The lookback at the start.
pub(super) const SHORTEST: Duration = STEPS[0];

/// The shortest step that covers the need.
fn step(needed: Duration) -> Duration {
    STEPS.into_iter().find(|step| *step >= needed).unwrap_or(needed)
}

/// Decides when to change the lookback.
#[derive(Debug, Default)]
pub(super) struct Lookback {
    unneeded_since: Option<Instant>,
}

impl Lookback {
    /// Returns the new lookback if the present one is too short. All pods must then be listed once more.
    pub(super) fn extended(&mut self, present: Duration, needed: Duration) -> Option<Duration> {
        if needed <= present {
            return None;
        }
        self.unneeded_since = None;
        Some(step(needed))
    }

    /// Returns the new lookback if it is shorter than the present one.
    pub(super) fn shortened(&mut self, present: Duration, needed: Duration, now: Instant) -> Option<Duration> {
        let step = step(needed);
        if step >= present {
            self.unneeded_since = None;
            return None;
        }
        let since = *self.unneeded_since.get_or_insert(now);
        if now.saturating_duration_since(since) < PATIENCE {
            return None;
        }
        self.unneeded_since = None;
        Some(step)
    }
}

/// Lists all pods once more beside the watch, after the lookback was extended. The index has dropped the details of pods
/// whose failures were too old to matter, and now they matter.
///
/// The watch goes on meanwhile, so objects that need no older failures do not wait. Each pod of the list may be older than
/// what the watch has received, so the list only adds details to pods of which the watch has received nothing since.
#[derive(Debug)]
pub(super) struct Backfill {
    /// The scopes whose list is not complete yet.
    remaining: HashSet<Scope>,
    /// The pods that the watch has received since: they were judged with the present lookback.
    received: HashSet<Uid>,
}

impl Backfill {
    pub(super) fn new(scopes: impl IntoIterator<Item = Scope>) -> Self {
        Self { remaining: scopes.into_iter().collect(), received: HashSet::new() }
    }

    /// The watch has received a pod.
    pub(super) fn received(&mut self, pod: Uid) {
        self.received.insert(pod);
    }

    /// Whether the list may add the details of this pod.
    pub(super) fn lacks(&self, scope: &Scope, pod: Uid) -> bool {
        self.remaining.contains(scope) && !self.received.contains(&pod)
    }

    /// The list of a scope is complete.
    pub(super) fn listed(&mut self, scope: &Scope) {
        self.remaining.remove(scope);
    }

    pub(super) fn is_complete(&self) -> bool {
        self.remaining.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(minutes * MINUTE)
    }

    #[test]
    fn different_needs_share_a_few_steps() {
        let mut steps: Vec<_> = (0..=31 * 24 * 60).map(|needed| step(minutes(needed))).collect();
        steps.dedup();
        assert_eq!(steps, STEPS);
        assert_eq!(step(minutes(10)), SHORTEST, "the default needs no second list");
        assert_eq!(step(LONGEST), LONGEST);
    }

    #[test]
    fn shortens_the_lookback_after_an_hour() {
        let start = Instant::now();
        let mut lookback = Lookback::default();
        let (present, few, many) = (minutes(360), minutes(20), minutes(200));
        for (minute, needed, shortened) in [
            (0, few, None),
            (59, few, None),
            // It is needed again, so the hour starts over.
            (60, many, None),
            (61, few, None),
            (120, few, None),
            (121, few, Some(minutes(60))),
        ] {
            assert_eq!(lookback.shortened(present, needed, start + minutes(minute)), shortened, "minute {minute}");
        }
    }
    /// How often all pods are listed again if the need changes every second.
    fn lists(hours: u64, needed: impl Fn(u64) -> Duration) -> Vec<u64> {
        let start = Instant::now();
        let (mut lookback, mut present, mut lists) = (Lookback::default(), SHORTEST, Vec::new());
        for second in 0..hours * HOUR {
            let now = start + Duration::from_secs(second);
            if let Some(extended) = lookback.extended(present, needed(second)) {
                assert!(extended >= needed(second) && extended > present);
                present = extended;
                lists.push(second);
            }
            if second % MINUTE == 0
                && let Some(shortened) = lookback.shortened(present, needed(second), now)
            {
                present = shortened;
            }
        }
        lists
    }

    #[test]
    fn a_need_that_grows_all_the_time_causes_a_few_lists() {
        let week = Duration::from_secs(7 * DAY);
        for (what, needed) in [
            ("by 1 ms", Box::new(|second| week + Duration::from_millis(second)) as Box<dyn Fn(u64) -> Duration>),
            ("by a minute", Box::new(minutes)),
            (
                "and shrinks",
                Box::new(|second| if second % 100 < 50 { SHORTEST } else { minutes(1 << (second / 100 % 20)) }),
            ),
            ("after an hour without", Box::new(|second| if second % HOUR < 61 { minutes(second) } else { SHORTEST })),
        ] {
            let lists = lists(24, needed);
            let most_in_an_hour =
                lists.iter().map(|from| lists.iter().filter(|at| (*from..*from + HOUR).contains(at)).count()).max();
            assert!((1..=6).contains(&most_in_an_hour.unwrap()), "{what}: {lists:?}");
        }
    }
}
