//! Decides for which pods to list events. The watch of events starts in the present, so it lacks the events about the
//! problems that exist already: their events are listed, for one pod of each owner, within a limit. No I/O; the caller
//! passes the time.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::{diagnosis::Finding, facts::Question, pods::Pod};

/// How many lists may be requested within an interval: one a second on average. They are requested together, because each
/// may change a status.
const BURST: u32 = 5;
const INTERVAL: Duration = Duration::from_secs(5);
/// How many lists may be requested after a start of the watch.
const LIMIT: u32 = 100;
/// How many of them only for events about kills. The watch shows none of these, but most other events when they repeat.
const FOR_KILLS: u32 = 50;
/// For how long after a start of the watch lists are requested: until the limit is reached at the latest.
const WINDOW: Duration = Duration::from_secs(300);
/// A watch that starts again sooner than this causes no further lists, so that a server that keeps ending it does not
/// receive a hundred lists each time.
const LEAST_BETWEEN: Duration = Duration::from_secs(600);

/// The lists that were requested.
#[derive(Debug)]
pub(super) struct EventLists {
    /// When the watch last started with a new allowance.
    started: Option<Instant>,
    left: u32,
    /// How many may be requested in the interval that began at this time.
    tokens: u32,
    interval: Instant,
    /// The owners for which a list was requested: at most [`LIMIT`].
    asked: HashSet<OwnerKey>,
}

/// The namespace, kind and name of an owner. Not a hash of them: owner references may name anything, so that one can be
/// found whose hash is that of another owner.
type OwnerKey = (String, String, String);

impl EventLists {
    pub(super) fn new(now: Instant) -> Self {
        Self { started: None, left: 0, tokens: BURST, interval: now, asked: HashSet::new() }
    }

    /// A watch of events has started in the present, or this replica begins to lead: earlier events are unknown. Returns
    /// whether lists may be requested.
    pub(super) fn watch_started(&mut self, now: Instant) -> bool {
        let is_recent = self.started.is_some_and(|started| now.saturating_duration_since(started) < LEAST_BETWEEN);
        // A follower requests none.
        if is_recent && self.left < LIMIT {
            return false;
        }
        self.started = Some(now);
        self.left = LIMIT;
        self.asked.clear();
        true
    }

    /// Whether any list may be requested.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.left > 0 && self.started.is_some_and(|started| now.saturating_duration_since(started) < WINDOW)
    }

    /// Given the pods whose problem lacks events, returns the lists to request now, and when further ones may be requested.
    pub(super) fn ask<'a>(
        &mut self,
        pods: impl Iterator<Item = (&'a Pod, &'a Finding)>,
        now: Instant,
    ) -> (Vec<Question>, Option<Instant>) {
        if !self.is_open(now) {
            return (Vec::new(), None);
        }
        let mut newest: HashMap<OwnerKey, (bool, Option<Timestamp>, &Pod)> = HashMap::new();
        for (pod, finding) in pods {
            let owner = owner_key(pod, finding);
            if !self.asked.contains(&owner) {
                let own = (finding.needs_kills(), pod.created, pod);
                let of_owner = newest.entry(owner).or_insert(own);
                if (own.0, own.1, own.2.uid) > (of_owner.0, of_owner.1, of_owner.2.uid) {
                    *of_owner = own;
                }
            }
        }
        let mut newest: Vec<_> = newest.into_iter().collect();
        newest.sort_unstable_by_key(|(_, (kills, created, pod))| (std::cmp::Reverse((*kills, *created)), pod.uid));
        // Namespaces take turns, so that none takes all lists.
        let mut turns: HashMap<String, u32> = HashMap::new();
        for (namespace, _, _) in &self.asked {
            *turns.entry(namespace.clone()).or_default() += 1;
        }
        let mut ordered: Vec<_> = newest
            .into_iter()
            .map(|(owner, (kills, _, pod))| {
                let turn = turns.entry(owner.0.clone()).or_default();
                *turn += 1;
                (*turn, owner, pod, kills)
            })
            .collect();
        ordered.sort_by_key(|(turn, ..)| *turn);
        let mut queries = Vec::new();
        for (_, owner, pod, kills) in ordered {
            if self.left == 0 {
                break;
            }
            if !kills && self.left <= FOR_KILLS {
                continue;
            }
            if !self.take(now) {
                return (queries, Some(self.interval + INTERVAL));
            }
            self.left -= 1;
            self.asked.insert(owner);
            queries.push(Question::EventsOf { namespace: pod.namespace.to_string(), pod: pod.uid });
        }
        (queries, None)
    }

    fn take(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.interval) >= INTERVAL {
            self.tokens = BURST;
            self.interval = now;
        }
        let granted = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        granted
    }
}

fn owner_key(pod: &Pod, finding: &Finding) -> OwnerKey {
    let (kind, name) = match &finding.owner {
        Some(owner) => (owner.kind.to_string(), owner.name.to_string()),
        None => ("Pod".to_owned(), pod.name.to_string()),
    };
    (pod.namespace.to_string(), kind, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::{Cause, ProblemKind},
        diagnosis::{Facts, Health, PodOwner, Thresholds, assess},
        pods::{Uid, from_json},
    };

    /// A failing pod of a StatefulSet, created at this second.
    fn failing(owner: usize, created: i64) -> (Pod, Finding) {
        let pod =
            from_json(r#"{"metadata":{"namespace":"shop"},"status":{"phase":"Failed","reason":"Evicted"}}"#).unwrap();
        let pod = Pod {
            uid: Uid::from(((owner as u128) << 64) + created.unsigned_abs() as u128),
            created: Timestamp::from_second(created).ok(),
            ..pod
        };
        let verdict = assess(&pod, &Facts::default(), &Thresholds::default(), Timestamp::UNIX_EPOCH);
        let Health::Problem(mut finding) = verdict.health else { panic!("{verdict:?}") };
        finding.owner = Some(PodOwner { kind: "StatefulSet".into(), name: format!("db-{owner}").into() });
        (pod, *finding)
    }

    fn ask(lists: &mut EventLists, pods: &[(Pod, Finding)], now: Instant) -> Vec<Uid> {
        let (queries, due) = lists.ask(pods.iter().map(|(pod, finding)| (pod, finding)), now);
        assert!(due.is_none_or(|due| due > now && due <= now + INTERVAL), "{due:?}");
        let pod = |question| match question {
            Question::EventsOf { pod, .. } => pod,
            other => panic!("{other:?}"),
        };
        queries.into_iter().map(pod).collect()
    }

    #[test]
    fn lists_the_events_of_the_newest_pod_of_each_owner_once() {
        let now = Instant::now();
        let mut lists = EventLists::new(now);
        let pods = [failing(1, 10), failing(1, 30), failing(1, 20), failing(2, 5)];
        assert_eq!(ask(&mut lists, &pods, now), [], "the watch has not started");
        assert!(lists.watch_started(now));
        assert_eq!(ask(&mut lists, &pods, now), [pods[1].0.uid, pods[3].0.uid]);
        assert_eq!(ask(&mut lists, &pods, now), []);
    }

    #[test]
    fn a_namespace_with_many_newer_failures_leaves_lists_to_others() {
        let now = Instant::now();
        let mut lists = EventLists::new(now);
        lists.watch_started(now);
        let mut pods: Vec<_> = (10..300).map(|owner| failing(owner, 1_000)).collect();
        let others =
            [failing(1, 10), failing(2, 20)].map(|(pod, finding)| (Pod { namespace: "ml".into(), ..pod }, finding));
        let expected = [others[1].0.uid, others[0].0.uid];
        pods.extend(others);
        let asked = ask(&mut lists, &pods, now);
        assert!(expected.iter().all(|uid| asked.contains(uid)), "{asked:?}");
    }

    #[test]
    fn limits_the_rate_and_the_number_of_lists() {
        let start = Instant::now();
        let mut lists = EventLists::new(start);
        lists.watch_started(start);
        let pods: Vec<_> = (0..300).map(|owner| failing(owner, 10)).collect();
        let mut asked = Vec::new();
        for second in 0..WINDOW.as_secs() {
            let now = start + Duration::from_secs(second);
            let more = ask(&mut lists, &pods, now);
            assert!(more.len() <= if second % INTERVAL.as_secs() == 0 { 5 } else { 0 }, "{second}: {more:?}");
            asked.extend(more);
        }
        asked.sort_unstable();
        asked.dedup();
        assert_eq!(asked.len(), 50);
    }

    #[test]
    fn half_of_the_lists_are_for_events_about_kills() {
        let start = Instant::now();
        let mut lists = EventLists::new(start);
        lists.watch_started(start);
        let mut pods: Vec<_> = (0..300).map(|owner| failing(owner, 10)).collect();
        for (_, finding) in &mut pods[100..200] {
            finding.kind = ProblemKind::Crash;
            finding.explanation.cause = Cause::Signal;
        }
        let asked: Vec<_> = (0..WINDOW.as_secs())
            .flat_map(|second| ask(&mut lists, &pods, start + Duration::from_secs(second)))
            .collect();
        let killed = pods[100..200].iter().filter(|(pod, _)| asked.contains(&pod.uid)).count();
        assert_eq!((asked.len(), killed), (100, 100), "those of one namespace come first");
        lists.watch_started(start + LEAST_BETWEEN);
        let others: Vec<_> = pods.drain(..100).collect();
        let mut later = start + LEAST_BETWEEN;
        let mut asked = 0;
        for _ in 0..60 {
            asked += ask(&mut lists, &others, later).len();
            later += INTERVAL;
        }
        assert_eq!(asked, 50);
        assert_eq!(ask(&mut lists, &pods[..100], later - INTERVAL).len(), 5, "the other half is left");
    }

    #[test]
    fn a_follower_keeps_its_lists_until_it_leads() {
        let start = Instant::now();
        let mut lists = EventLists::new(start);
        assert!(lists.watch_started(start));
        let later = start + WINDOW + Duration::from_secs(1);
        assert!(!lists.is_open(later));
        assert!(lists.watch_started(later) && lists.is_open(later));
    }

    #[test]
    fn a_watch_that_starts_again_and_again_causes_no_further_lists() {
        let start = Instant::now();
        let mut lists = EventLists::new(start);
        assert!(lists.watch_started(start));
        let pods: Vec<_> = (0..300).map(|owner| failing(owner, 10)).collect();
        let mut asked = 0;
        asked += ask(&mut lists, &pods, start).len();
        for second in 1..600 {
            let now = start + Duration::from_secs(second);
            assert!(!lists.watch_started(now));
            asked += ask(&mut lists, &pods, now).len();
        }
        assert_eq!(asked, 50);
        assert!(lists.watch_started(start + LEAST_BETWEEN));
        assert_eq!(ask(&mut lists, &pods, start + LEAST_BETWEEN).len(), 5);
        assert!(!lists.is_open(start + LEAST_BETWEEN + WINDOW));
    }
}
