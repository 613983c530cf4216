//! Which revisions are known: the two that are compared if a new revision of a workload fails, or the one whose pods are
//! OOM-killed. They are read at most once per revision, by no more than two requests each time.

use std::{collections::HashSet, time::Duration};

use tokio::time::Instant;

use crate::{
    api::NamespacedName,
    report::Comparison,
    revisions::{RevisionKey, RevisionReading},
};

use super::shared_reads::{Answer, Requests, SharedKey, SharedReads};

/// How often a comparison is tried that fails for a reason that may pass.
const TRIES: u32 = 3;
/// The delay before the second try. It doubles with each further one.
const RETRY: Duration = Duration::from_secs(30);

impl SharedKey for RevisionKey {
    type Scope = (String, &'static str);

    fn scope(&self) -> Self::Scope {
        self.scope()
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }
}

/// The comparisons of revisions. None if the failing revision is not newer than the other one.
pub(super) type Rollouts = SharedReads<RevisionKey, Option<Comparison>>;
pub(super) type RolloutRequests<'a> = Requests<'a, RevisionKey, Option<Comparison>>;

impl RolloutRequests<'_> {
    /// How the revisions differ, as far as it is known. None if the one that fails is not newer.
    pub(super) fn comparison(&mut self, key: RevisionKey) -> Option<Comparison> {
        if key.before.is_empty() && !self.reads.is_known(&key) {
            // It was compared while an earlier revision had pods.
            let will_do = |known: &RevisionKey, comparison: &Option<Comparison>| {
                known.is_of_same_revision(&key) && matches!(comparison, Some(Comparison::Compared(_)))
            };
            if let Some(comparison) = self.reads.find(will_do, self.now) {
                return comparison.clone();
            }
        }
        self.ask(key).unwrap_or(Some(Comparison::Unknown))
    }
}

impl Rollouts {
    /// Stores the result of a read. Returns the objects that wait for it.
    pub(super) fn read(
        &mut self,
        key: &RevisionKey,
        reading: RevisionReading,
        now: Instant,
    ) -> HashSet<NamespacedName> {
        if !self.is_known(key) {
            return HashSet::new();
        }
        let tries = self.tries(key);
        let answer = match reading {
            RevisionReading::Read(changes) => Answer::Final(Some(Comparison::Compared(changes))),
            RevisionReading::Gone => Answer::Final(Some(Comparison::Unknown)),
            RevisionReading::TooLarge => Answer::Final(Some(Comparison::TooLarge)),
            RevisionReading::NotNewer(template) => {
                // Its own template is asked for next, and not read again.
                let alone = RevisionKey { before: String::new(), ..key.clone() };
                self.give(alone, Some(Comparison::Compared(template)), now);
                Answer::Final(None)
            }
            RevisionReading::Unavailable if tries >= TRIES => Answer::Failed(None),
            RevisionReading::Unavailable => Answer::Failed(Some(RETRY * 2_u32.pow(tries.saturating_sub(1)))),
            RevisionReading::Denied(message) => Answer::Denied(message),
        };
        self.answered(key, answer, now)
    }

    /// Which right is missing to compare the revisions that this object asked for, in one sentence.
    pub(super) fn warning(&self, object: &NamespacedName) -> Option<String> {
        let ((_, resource), message) = self.denial(object)?;
        let kind = if *resource == "replicasets" { "ReplicaSets" } else { "ControllerRevisions" };
        Some(format!("could not read the {kind} of a workload to find what changed: {message}"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        diagnosis::TemplateChanges,
        pods::{Pod, testing::controller},
    };

    fn pod(kind: &str, name: &str, label: &str, hash: &str) -> Pod {
        let labels = vec![(label.into(), hash.into())];
        Pod { namespace: "shop".into(), labels, controller: Some(controller(kind, name, "u")), ..Pod::default() }
    }

    fn key(hash: &str) -> RevisionKey {
        let pod = pod("ReplicaSet", &format!("cart-{hash}"), "pod-template-hash", hash);
        RevisionKey::new(&pod, hash, Some("one")).unwrap()
    }

    /// The comparison, the read to start, and whether one is awaited.
    fn ask(
        rollouts: &mut Rollouts,
        key: RevisionKey,
        object: &NamespacedName,
        now: Instant,
    ) -> (Option<Comparison>, Option<RevisionKey>, bool) {
        let mut requests = rollouts.requests(object, now);
        let comparison = requests.comparison(key);
        let (mut due, is_lacking) = requests.take();
        (comparison, due.pop(), is_lacking)
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
            let key = RevisionKey::new(&pod, hash, Some(before)).unwrap();
            assert_eq!([key.resource, &key.failing, &key.before], expected);
        }
        let odd = pod("DaemonSet", "log", "controller-revision-hash", "2");
        for before in ["1/../../secrets", "1?watch=true", "%2f", "É", ""] {
            let key = RevisionKey::new(&odd, "2", Some(before));
            assert!(key.is_none() || before.is_empty(), "{key:?}");
        }
        let only = RevisionKey::new(&odd, "2", None).unwrap();
        assert_eq!([only.failing.as_str(), &only.before], ["log-2", ""]);
        assert_eq!(RevisionKey::new(&Pod::default(), "2", Some("1")), None);
    }

    fn not_newer() -> RevisionReading {
        RevisionReading::NotNewer(Arc::default())
    }

    #[test]
    fn reads_each_revision_once() {
        let (mut rollouts, now, mine) = (Rollouts::default(), Instant::now(), object("a"));
        let unknown = Some(Comparison::Unknown);
        assert_eq!(ask(&mut rollouts, key("two"), &mine, now), (unknown.clone(), Some(key("two")), true));
        assert_eq!(ask(&mut rollouts, key("two"), &object("b"), now), (unknown, None, true));
        rollouts.read(&key("two"), RevisionReading::TooLarge, now);
        for seconds in [0, 3600] {
            let answer = ask(&mut rollouts, key("two"), &mine, now + Duration::from_secs(seconds));
            assert_eq!(answer, (Some(Comparison::TooLarge), None, false));
        }
        ask(&mut rollouts, key("three"), &mine, now);
        rollouts.read(&key("three"), not_newer(), now);
        assert_eq!(ask(&mut rollouts, key("three"), &mine, now).0, None);
        assert!(rollouts.read(&key("four"), not_newer(), now).is_empty());
    }

    #[test]
    fn compares_a_revision_again_if_its_predecessor_changes() {
        let (mut rollouts, now) = (Rollouts::default(), Instant::now());
        let pod = pod("ReplicaSet", "cart-three", "pod-template-hash", "three");
        let after = |hash| RevisionKey::new(&pod, "three", Some(hash)).unwrap();
        ask(&mut rollouts, after("two"), &object("a"), now);
        rollouts.read(&after("two"), not_newer(), now);
        // The pods of the second revision are gone.
        let (comparison, due, _) = ask(&mut rollouts, after("one"), &object("a"), now);
        assert_eq!((comparison, due), (Some(Comparison::Unknown), Some(after("one"))));
        assert_eq!(ask(&mut rollouts, after("two"), &object("a"), now).0, None);
    }

    #[test]
    fn remembers_the_comparison_after_the_earlier_revision_is_gone() {
        let (mut rollouts, now) = (Rollouts::default(), Instant::now());
        let pod = pod("ReplicaSet", "cart-two", "pod-template-hash", "two");
        let alone = || RevisionKey::new(&pod, "two", None).unwrap();
        let changes = || Arc::new(TemplateChanges { more: 3, ..TemplateChanges::default() });
        ask(&mut rollouts, key("two"), &object("a"), now);
        assert_eq!(ask(&mut rollouts, alone(), &object("a"), now).1, Some(alone()), "nothing is known yet");
        rollouts = Rollouts::default();
        ask(&mut rollouts, key("two"), &object("a"), now);
        rollouts.read(&key("two"), RevisionReading::Read(changes()), now);
        let (comparison, due, _) = ask(&mut rollouts, alone(), &object("a"), now);
        assert_eq!((comparison, due), (Some(Comparison::Compared(changes())), None));
        let other = RevisionKey::new(&pod, "three", None).unwrap();
        assert_eq!(ask(&mut rollouts, other.clone(), &object("a"), now).1, Some(other));
    }

    #[test]
    fn shows_the_template_of_a_revision_that_is_not_newer() {
        let (mut rollouts, now) = (Rollouts::default(), Instant::now());
        let template = || Arc::new(TemplateChanges { more: 3, ..TemplateChanges::default() });
        ask(&mut rollouts, key("two"), &object("a"), now);
        rollouts.read(&key("two"), RevisionReading::NotNewer(template()), now);
        let alone = RevisionKey { before: String::new(), ..key("two") };
        let answer = ask(&mut rollouts, alone, &object("a"), now);
        assert_eq!(answer, (Some(Comparison::Compared(template())), None, false));
    }

    #[test]
    fn gives_up_after_three_outages() {
        let (mut rollouts, mut now) = (Rollouts::default(), Instant::now());
        let mut reads = 0;
        for _ in 0..3600 {
            if ask(&mut rollouts, key("two"), &object("a"), now).1.is_some() {
                reads += 1;
                rollouts.read(&key("two"), RevisionReading::Unavailable, now);
            }
            now += Duration::from_secs(1);
        }
        assert_eq!(reads, TRIES);
    }

    #[test]
    fn says_once_which_right_is_missing() {
        let (mut rollouts, now) = (Rollouts::default(), Instant::now());
        ask(&mut rollouts, key("two"), &object("a"), now);
        rollouts.read(&key("two"), RevisionReading::Denied("no".to_owned()), now);
        for hash in ["two", "three"] {
            let (comparison, due, _) = ask(&mut rollouts, key(hash), &object("a"), now);
            assert_eq!((comparison, due), (Some(Comparison::Unknown), None));
        }
        let warning = rollouts.warning(&object("a")).unwrap();
        assert_eq!(warning, "could not read the ReplicaSets of a workload to find what changed: no");
        assert_eq!(rollouts.warning(&object("b")), None);
    }
}
