//! Decides when to read the two revisions that are compared if a new revision of a workload fails, or the one whose pods
//! are OOM-killed: at most once per revision, and no more than two requests each time.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    api::NamespacedName,
    index::HealthyBefore,
    pods::Pod,
    report::Comparison,
    revisions::{RevisionKey, RevisionReading},
};

/// The most comparisons that are kept, in all and in one namespace. No others are made until some of them are no longer
/// needed.
const COMPARISONS: usize = 512;
const IN_NAMESPACE: usize = 64;
/// How often a comparison is tried that fails for a reason that may pass.
const TRIES: u32 = 3;
/// The delay before the second try. It doubles with each further one.
const RETRY: Duration = Duration::from_secs(30);
/// How long no other object of a kind is read in a namespace after access was denied.
const DENIED: Duration = Duration::from_secs(10 * 60);
/// How long a comparison is kept after it was last asked for.
const UNUSED: Duration = Duration::from_secs(10 * 60);

/// The comparisons of revisions.
#[derive(Debug, Default)]
pub(super) struct Rollouts {
    known: HashMap<RevisionKey, State>,
    /// By namespace and resource.
    denied: HashMap<(String, &'static str), Denial>,
}

#[derive(Debug)]
struct Denial {
    /// Until when nothing else is read.
    until: Instant,
    /// The API server's message.
    message: String,
    /// The objects that asked.
    objects: HashSet<NamespacedName>,
}

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RolloutQuery {
    pub(super) key: RevisionKey,
}

#[derive(Debug)]
struct State {
    outcome: Outcome,
    tries: u32,
    last_asked: Instant,
    /// The objects to reconcile when the comparison is ready.
    waiting: HashSet<NamespacedName>,
}

#[derive(Debug)]
enum Outcome {
    Reading,
    RetryAt(Instant),
    /// Final. Absent if the failing revision is not newer than the other one.
    Compared(Option<Comparison>),
}

/// The answer to [`Rollouts::ask`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RolloutAnswer {
    /// Absent if the revision that fails is not newer.
    pub(super) comparison: Option<Comparison>,
    /// The read to start.
    pub(super) query: Option<RolloutQuery>,
    /// Whether a read is under way or about to start.
    pub(super) is_lacking: bool,
}

impl RolloutQuery {
    /// The query for a pod of the revision that fails.
    pub(super) fn new(pod: &Pod, hash: &str, before: Option<&HealthyBefore<'_>>) -> Option<Self> {
        RevisionKey::new(pod, hash, before.map(|before| before.hash)).map(|key| Self { key })
    }
}

impl Rollouts {
    /// Returns the known comparison on behalf of an object, and the read to start if one is due.
    pub(super) fn ask(&mut self, query: RolloutQuery, object: &NamespacedName, now: Instant) -> RolloutAnswer {
        let mut answer = RolloutAnswer { comparison: Some(Comparison::Unknown), query: None, is_lacking: false };
        if query.key.before.is_empty() && !self.known.contains_key(&query.key) {
            // It was compared while an earlier revision had pods.
            let mut same = self.known.iter_mut().filter(|(key, _)| key.is_of_same_revision(&query.key));
            let compared =
                same.find(|(_, state)| matches!(state.outcome, Outcome::Compared(Some(Comparison::Compared(_)))));
            if let Some((_, state)) = compared
                && let Outcome::Compared(comparison) = &state.outcome
            {
                answer.comparison.clone_from(comparison);
                state.last_asked = now;
                return answer;
            }
        }
        if let Some(state) = self.known.get_mut(&query.key) {
            state.last_asked = now;
            match &state.outcome {
                Outcome::Compared(comparison) => {
                    answer.comparison.clone_from(comparison);
                    return answer;
                }
                Outcome::Reading => {
                    state.waiting.insert(object.clone());
                    answer.is_lacking = true;
                    return answer;
                }
                Outcome::RetryAt(at) if now < *at => return answer,
                Outcome::RetryAt(_) => {}
            }
        }
        if let Some(denial) = self.denied.get_mut(&query.key.scope()) {
            denial.objects.insert(object.clone());
            if now < denial.until {
                return answer;
            }
        }
        if !self.known.contains_key(&query.key) && !self.has_room(&query.key.namespace) {
            return answer;
        }
        let state = self.known.entry(query.key.clone()).or_insert_with(|| State {
            outcome: Outcome::Reading,
            tries: 0,
            last_asked: now,
            waiting: HashSet::new(),
        });
        state.outcome = Outcome::Reading;
        state.tries += 1;
        state.waiting.insert(object.clone());
        answer.query = Some(query);
        answer.is_lacking = true;
        answer
    }

    fn has_room(&self, namespace: &str) -> bool {
        let in_namespace = || self.known.keys().filter(|key| key.namespace == namespace).count();
        self.known.len() < COMPARISONS && in_namespace() < IN_NAMESPACE
    }

    /// Stores the result of a read. Returns the objects that wait for it.
    pub(super) fn answered(
        &mut self,
        key: &RevisionKey,
        reading: RevisionReading,
        now: Instant,
    ) -> HashSet<NamespacedName> {
        let Some(state) = self.known.get_mut(key) else { return HashSet::new() };
        let waiting = std::mem::take(&mut state.waiting);
        if !matches!(reading, RevisionReading::Denied(_) | RevisionReading::Unavailable) {
            self.denied.remove(&key.scope());
        }
        let mut own_template = None;
        state.outcome = match reading {
            RevisionReading::Read(changes) => Outcome::Compared(Some(Comparison::Compared(changes))),
            RevisionReading::Gone => Outcome::Compared(Some(Comparison::Unknown)),
            RevisionReading::TooLarge => Outcome::Compared(Some(Comparison::TooLarge)),
            RevisionReading::NotNewer(template) => {
                own_template = Some(template);
                Outcome::Compared(None)
            }
            RevisionReading::Unavailable if state.tries >= TRIES => Outcome::Compared(Some(Comparison::Unknown)),
            RevisionReading::Unavailable => Outcome::RetryAt(now + RETRY * 2_u32.pow(state.tries - 1)),
            RevisionReading::Denied(message) => {
                self.known.remove(key);
                let mut objects = self.denied.remove(&key.scope()).map(|denial| denial.objects).unwrap_or_default();
                objects.extend(waiting.iter().cloned());
                self.denied.insert(key.scope(), Denial { until: now + DENIED, message, objects });
                return waiting;
            }
        };
        let alone = RevisionKey { before: String::new(), ..key.clone() };
        if let Some(template) = own_template
            && !self.known.contains_key(&alone)
            && self.has_room(&key.namespace)
        {
            // It is asked for next, and not read again.
            let outcome = Outcome::Compared(Some(Comparison::Compared(template)));
            self.known.insert(alone, State { outcome, tries: 0, last_asked: now, waiting: HashSet::new() });
        }
        waiting
    }

    /// Which right is missing to compare the revisions that this object asked for, in one sentence.
    pub(super) fn warning(&self, object: &NamespacedName) -> Option<String> {
        let denied = self.denied.iter().filter(|(_, denial)| denial.objects.contains(object));
        // The same sentence each time.
        let ((_, resource), denial) = denied.min_by(|(one, _), (other, _)| one.cmp(other))?;
        let kind = if *resource == "replicasets" { "ReplicaSets" } else { "ControllerRevisions" };
        Some(format!("could not read the {kind} of a workload to find what changed: {}", denial.message))
    }

    /// Forgets a deleted object.
    pub(super) fn forget(&mut self, object: &NamespacedName) {
        for state in self.known.values_mut() {
            state.waiting.remove(object);
        }
        for denial in self.denied.values_mut() {
            denial.objects.remove(object);
        }
    }

    /// Forgets the comparisons that no object has asked for in a while, and the denials that have passed.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.known.retain(|_, state| matches!(state.outcome, Outcome::Reading) || now < state.last_asked + UNUSED);
        self.denied.retain(|_, denial| now < denial.until + UNUSED);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{diagnosis::TemplateChanges, pods::testing::controller};

    fn pod(kind: &str, name: &str, label: &str, hash: &str) -> Pod {
        let labels = vec![(label.into(), hash.into())];
        Pod { namespace: "shop".into(), labels, controller: Some(controller(kind, name, "u")), ..Pod::default() }
    }

    fn query(hash: &str) -> RolloutQuery {
        let pod = pod("ReplicaSet", &format!("cart-{hash}"), "pod-template-hash", hash);
        RolloutQuery::new(&pod, hash, Some(&HealthyBefore { hash: "one", pods: 7 })).unwrap()
    }

    fn object(name: &str) -> NamespacedName {
        NamespacedName { namespace: "ops".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn names_the_objects_to_read() {
        for (kind, name, label, [hash, before], expected) in [
            ("ReplicaSet", "cart-two", "pod-template-hash", ["two", "one"], ["replicasets", "cart-two", "cart-one"]),
            (
                "ReplicaSet",
                "cart-two",
                "rollouts-pod-template-hash",
                ["two", "one"],
                ["replicasets", "cart-two", "cart-one"],
            ),
            (
                "StatefulSet",
                "db",
                "controller-revision-hash",
                ["db-2", "db-1"],
                ["controllerrevisions", "db-2", "db-1"],
            ),
            ("DaemonSet", "log", "controller-revision-hash", ["2", "1"], ["controllerrevisions", "log-2", "log-1"]),
        ] {
            let pod = pod(kind, name, label, hash);
            let query = RolloutQuery::new(&pod, hash, Some(&HealthyBefore { hash: before, pods: 1 })).unwrap();
            assert_eq!([query.key.resource, &query.key.failing, &query.key.before], expected);
        }
        let odd = pod("DaemonSet", "log", "controller-revision-hash", "2");
        for before in ["1/../../secrets", "1?watch=true", "%2f", "É", ""] {
            let before = HealthyBefore { hash: before, pods: 1 };
            let query = RolloutQuery::new(&odd, "2", Some(&before));
            assert!(query.is_none() || before.hash.is_empty(), "{query:?}");
        }
        let only = RolloutQuery::new(&odd, "2", None).unwrap();
        assert_eq!([only.key.failing.as_str(), &only.key.before], ["log-2", ""]);
        assert_eq!(RolloutQuery::new(&Pod::default(), "2", Some(&HealthyBefore { hash: "1", pods: 1 })), None);
    }

    fn not_newer() -> RevisionReading {
        RevisionReading::NotNewer(Arc::default())
    }

    #[test]
    fn reads_each_revision_once_for_all_objects() {
        let (mut rollouts, now) = (Rollouts::default(), Instant::now());
        let first = rollouts.ask(query("two"), &object("a"), now);
        assert_eq!((first.query, first.is_lacking), (Some(query("two")), true));
        let second = rollouts.ask(query("two"), &object("b"), now);
        assert_eq!((second.query, second.is_lacking), (None, true));
        let done = RevisionReading::TooLarge;
        let waiting = rollouts.answered(&query("two").key, done, now);
        assert_eq!(waiting, HashSet::from([object("a"), object("b")]));
        for seconds in [0, 3600] {
            let answer = rollouts.ask(query("two"), &object("a"), now + Duration::from_secs(seconds));
            assert_eq!((answer.comparison, answer.query), (Some(Comparison::TooLarge), None));
        }
        rollouts.ask(query("three"), &object("a"), now);
        rollouts.answered(&query("three").key, not_newer(), now);
        assert_eq!(rollouts.ask(query("three"), &object("a"), now).comparison, None);
        assert!(rollouts.answered(&query("four").key, not_newer(), now).is_empty());
        rollouts.sweep(now + Duration::from_secs(3600));
        assert_eq!(rollouts.known.len(), 1, "the one that was asked for last");
    }

    #[test]
    fn compares_a_revision_again_if_its_predecessor_changes() {
        let (mut rollouts, now) = (Rollouts::default(), Instant::now());
        let pod = pod("ReplicaSet", "cart-three", "pod-template-hash", "three");
        let after = |hash| RolloutQuery::new(&pod, "three", Some(&HealthyBefore { hash, pods: 1 })).unwrap();
        rollouts.ask(after("two"), &object("a"), now);
        rollouts.answered(&after("two").key, not_newer(), now);
        // The pods of the second revision are gone.
        let answer = rollouts.ask(after("one"), &object("a"), now);
        assert_eq!((answer.comparison, answer.query), (Some(Comparison::Unknown), Some(after("one"))));
        assert_eq!(rollouts.ask(after("two"), &object("a"), now).comparison, None);
    }

    #[test]
    fn remembers_the_comparison_after_the_earlier_revision_is_gone() {
        let (mut rollouts, now) = (Rollouts::default(), Instant::now());
        let pod = pod("ReplicaSet", "cart-two", "pod-template-hash", "two");
        let alone = || RolloutQuery::new(&pod, "two", None).unwrap();
        let changes = || Arc::new(TemplateChanges { more: 3, ..TemplateChanges::default() });
        rollouts.ask(query("two"), &object("a"), now);
        assert_eq!(rollouts.ask(alone(), &object("a"), now).query, Some(alone()), "nothing is known yet");
        rollouts = Rollouts::default();
        rollouts.ask(query("two"), &object("a"), now);
        rollouts.answered(&query("two").key, RevisionReading::Read(changes()), now);
        let answer = rollouts.ask(alone(), &object("a"), now);
        assert_eq!((answer.comparison, answer.query), (Some(Comparison::Compared(changes())), None));
        let other = RolloutQuery::new(&pod, "three", None).unwrap();
        assert_eq!(rollouts.ask(other.clone(), &object("a"), now).query, Some(other));
    }

    #[test]
    fn gives_up_after_three_outages() {
        let (mut rollouts, mut now) = (Rollouts::default(), Instant::now());
        let mut reads = 0;
        for _ in 0..3600 {
            if rollouts.ask(query("two"), &object("a"), now).query.is_some() {
                reads += 1;
                rollouts.answered(&query("two").key, RevisionReading::Unavailable, now);
            }
            now += Duration::from_secs(1);
        }
        assert_eq!(reads, TRIES);
    }

    #[test]
    fn asks_for_no_other_revision_while_access_is_denied() {
        let (mut rollouts, now) = (Rollouts::default(), Instant::now());
        rollouts.ask(query("two"), &object("a"), now);
        let waiting = rollouts.answered(&query("two").key, RevisionReading::Denied("no".to_owned()), now);
        assert_eq!(waiting.len(), 1);
        for hash in ["two", "three"] {
            let answer = rollouts.ask(query(hash), &object("a"), now);
            assert_eq!((answer.query, answer.comparison), (None, Some(Comparison::Unknown)));
        }
        let warning = rollouts.warning(&object("a")).unwrap();
        assert_eq!(warning, "could not read the ReplicaSets of a workload to find what changed: no");
        assert_eq!(rollouts.warning(&object("b")), None);
        let mut elsewhere = query("two");
        elsewhere.key.namespace = "bank".to_owned();
        assert!(rollouts.ask(elsewhere, &object("a"), now).query.is_some());
        assert!(rollouts.ask(query("three"), &object("b"), now + DENIED).query.is_some());
        assert!(rollouts.warning(&object("b")).is_some(), "it is still denied");
        rollouts.answered(&query("three").key, not_newer(), now + DENIED);
        assert_eq!(rollouts.warning(&object("a")), None);
    }

    #[test]
    fn keeps_a_bounded_number_of_comparisons() {
        let (mut rollouts, now) = (Rollouts::default(), Instant::now());
        let hash = |number: usize| format!("h{number}");
        let mut started = |namespace: &str| {
            let mut is_started = |number: usize| {
                let mut query = query(&hash(number));
                query.key.namespace = namespace.to_owned();
                rollouts.ask(query, &object("a"), now).query.is_some()
            };
            (0..2 * COMPARISONS).filter(|number| is_started(*number)).count()
        };
        assert_eq!(started("attacker"), IN_NAMESPACE);
        assert_eq!(started("shop"), IN_NAMESPACE);
        let others: usize = (0..COMPARISONS).map(|number| started(&number.to_string())).sum();
        assert_eq!(others, COMPARISONS - 2 * IN_NAMESPACE);
    }
}
