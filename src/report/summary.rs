//! The messages of the conditions Ready and PodsHealthy.

use std::{cmp::Reverse, collections::BTreeMap, fmt::Write as _};

use crate::api::Cause;

use super::{
    identity::Identity,
    incident::MissingPods,
    problem::Problem,
    truncate::{self, CONDITION_MESSAGE_LIMIT},
};

/// How many reasons a message lists.
const REASONS: usize = 5;
/// The longest reason in a message, in bytes.
pub(super) const REASON_LIMIT: usize = 64;
/// How many owners a message names for each reason: the first number that leaves the message within its limit.
const OWNERS: [usize; 3] = [3, 1, 0];

/// Ready, of an object that watches pods.
pub(super) fn watching(watched: u64, unreadable: Option<&(u64, String)>, warnings: &[String]) -> String {
    let mut message = format!("watching {}", pods(watched));
    match unreadable {
        None | Some((0, _)) => {}
        Some((count, pod)) => _ = write!(message, "; {}", self::unreadable(*count, pod)),
    }
    for warning in warnings {
        _ = write!(message, "; {warning}");
    }
    message
}

/// How many pods could not be decoded, and one of them.
pub(super) fn unreadable(count: u64, pod: &str) -> String {
    match count {
        1 => format!("1 pod could not be read: {pod}"),
        _ => format!("{count} pods could not be read, one of them: {pod}"),
    }
}

/// How many failed pods are left out, because their Jobs were not read yet.
pub(super) fn unread_jobs(count: u64) -> String {
    match count {
        1 => "the Job of 1 failed pod was not read yet".to_owned(),
        _ => format!("the Jobs of {count} failed pods were not read yet"),
    }
}

/// PodsHealthy, if no pod has a problem.
pub(super) fn healthy(watched: u64) -> String {
    match watched {
        1 => "the 1 pod is healthy".to_owned(),
        _ => format!("all {} are healthy", pods(watched)),
    }
}

/// The reasons of all problems, each with its number of pods and its owners.
pub(super) struct Reasons<'a> {
    /// Of pods that exist.
    existing: Vec<Reason<'a>>,
    /// Of pods that should exist.
    missing: Vec<Reason<'a>>,
}

/// For each reason, the number of pods by owner.
type Counts<'a> = BTreeMap<&'a str, BTreeMap<(&'a str, &'a str), usize>>;

impl<'a> Reasons<'a> {
    /// Sorts by the number of pods, then by name.
    pub(super) fn of(problems: &[Problem<'a>], missing: &'a [MissingPods]) -> Self {
        let mut existing = Counts::new();
        for problem in problems {
            let owners = existing.entry(truncate::name(&problem.finding.reason)).or_default();
            let identity = problem.identity();
            *owners.entry((identity.namespace, identity.owner_name)).or_default() += 1;
        }
        let mut absent = Counts::new();
        for missing in missing {
            let identity = Identity::of_missing(missing);
            let owners = absent.entry(missing.reason).or_default();
            let pods = owners.entry((identity.namespace, identity.owner_name)).or_default();
            *pods = pods.saturating_add(usize::try_from(missing.missing).unwrap_or(usize::MAX));
        }
        let sorted = |counts: Counts<'a>| {
            let mut reasons: Vec<_> = counts.into_iter().map(|(reason, owners)| Reason::new(reason, owners)).collect();
            reasons.sort_by_key(|reason| Reverse(reason.pods));
            reasons
        };
        Self { existing: sorted(existing), missing: sorted(absent) }
    }

    /// The reason with the most pods; empty if there are no problems.
    pub(super) fn top(&self) -> &'a str {
        let first = [self.existing.first(), self.missing.first()].into_iter().flatten();
        first.min_by_key(|reason| Reverse(reason.pods)).map_or("", |reason| reason.name)
    }
}

/// The proven cause with the most pods; the first by name if several have the same number.
pub(super) fn top_cause(problems: &[Problem<'_>], missing: &[MissingPods]) -> Option<Cause> {
    let existing = problems.iter().map(|problem| (problem.finding.explanation.cause, 1));
    let missing = missing.iter().map(|own| (own.explanation.cause, own.missing));
    let mut causes = BTreeMap::<&str, (u64, Cause)>::new();
    for (cause, pods) in existing.chain(missing) {
        let (count, _) = causes.entry(cause.as_str()).or_insert((0, cause));
        *count = count.saturating_add(pods);
    }
    causes.remove(Cause::Unknown.as_str());
    causes.into_values().min_by_key(|(pods, _)| Reverse(*pods)).map(|(_, cause)| cause)
}

/// PodsHealthy, if pods have problems or are missing: the most frequent reasons, each with the owners of most of its pods.
pub(super) fn unhealthy(Reasons { existing, missing }: &Reasons<'_>, problematic: usize, watched: u64) -> String {
    let render = |owners| {
        let mut text = format!("{problematic} of {}", pods(watched));
        match existing.as_slice() {
            [] => text.push_str(" have a problem"),
            reasons => _ = write!(text, ": {}", list(reasons, owners)),
        }
        let reasons = match missing.as_slice() {
            [] => return text,
            [only] => only.with_owners(only.to_name(), owners),
            reasons => list(reasons, owners),
        };
        let pods = missing.iter().map(|reason| reason.pods).fold(0, usize::saturating_add);
        _ = write!(text, "; {pods} {} missing: {reasons}", if pods == 1 { "is" } else { "are" });
        text
    };
    OWNERS.map(render).into_iter().find(|text| text.len() <= CONDITION_MESSAGE_LIMIT).unwrap_or_else(|| render(0))
}

fn list(reasons: &[Reason<'_>], owners: usize) -> String {
    let shown: Vec<String> = reasons.iter().take(REASONS).map(|reason| reason.to_text(owners)).collect();
    let mut text = shown.join(", ");
    match reasons.len() - shown.len() {
        0 => {}
        1 => text.push_str(" and 1 more reason"),
        more => _ = write!(text, " and {more} more reasons"),
    }
    text
}

/// A message without the number of watched pods, to compare two messages that may differ in it.
pub(super) fn without_count(message: &str, watched: i64) -> String {
    let watched = u64::try_from(watched).unwrap_or_default();
    message.replacen(&pods(watched), "", 1)
}

fn pods(count: u64) -> String {
    format!("{count} pod{}", if count == 1 { "" } else { "s" })
}

struct Reason<'a> {
    name: &'a str,
    pods: usize,
    /// The owners with the most pods come first.
    owners: Vec<(&'a str, &'a str)>,
}

impl<'a> Reason<'a> {
    fn new(name: &'a str, owners: BTreeMap<(&'a str, &'a str), usize>) -> Self {
        let mut owners: Vec<_> = owners.into_iter().collect();
        owners.sort_by_key(|(_, pods)| Reverse(*pods));
        Self {
            name,
            pods: owners.iter().map(|(_, pods)| *pods).fold(0, usize::saturating_add),
            owners: owners.into_iter().map(|(owner, _)| owner).collect(),
        }
    }

    fn to_text(&self, owners: usize) -> String {
        self.with_owners(format!("{} {}", self.pods, self.to_name()), owners)
    }

    fn to_name(&self) -> String {
        truncate::with_ellipsis(self.name, REASON_LIMIT).into_owned()
    }

    fn with_owners(&self, text: String, owners: usize) -> String {
        if owners == 0 {
            return text;
        }
        let shown: Vec<String> = self
            .owners
            .iter()
            .take(owners)
            .map(|(namespace, name)| format!("{namespace}/{}", truncate::shown_name(name)))
            .collect();
        match self.owners.len() - shown.len() {
            0 => format!("{text} ({})", shown.join(", ")),
            more => format!("{text} ({} and {more} more)", shown.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{Scenario, crashing};

    /// The message of PodsHealthy.
    fn message(pods: &[(&str, &str, &str)], watched: u64) -> String {
        let pods = pods.iter().map(|(namespace, owner, reason)| crashing(namespace, owner, reason, 50));
        Scenario { watched, ..Scenario::of(pods) }.status(None).conditions[1].message.clone()
    }

    #[test]
    fn counts_unhealthy_pods_by_reason_and_names_their_owners() {
        for (pods, watched, expected) in [
            (
                vec![("shop", "cart", "OOMKilled"), ("ml", "train", "Unschedulable")],
                1284,
                "2 of 1284 pods: 1 OOMKilled (shop/cart), 1 Unschedulable (ml/train)",
            ),
            (vec![("shop", "cart", "OOMKilled")], 1, "1 of 1 pod: 1 OOMKilled (shop/cart)"),
            (
                vec![("a", "x", "Error"), ("b", "y", "OOMKilled"), ("b", "y", "OOMKilled"), ("a", "z", "OOMKilled")],
                9,
                "4 of 9 pods: 3 OOMKilled (b/y, a/z), 1 Error (a/x)",
            ),
            (
                vec![("a", "v", "E"), ("a", "w", "E"), ("a", "x", "E"), ("a", "y", "E"), ("a", "z", "E")],
                9,
                "5 of 9 pods: 5 E (a/v, a/w, a/x and 2 more)",
            ),
            (
                vec![
                    ("a", "p", "A"),
                    ("a", "p", "B"),
                    ("a", "p", "C"),
                    ("a", "p", "D"),
                    ("a", "p", "E"),
                    ("a", "p", "F"),
                ],
                9,
                "6 of 9 pods: 1 A (a/p), 1 B (a/p), 1 C (a/p), 1 D (a/p), 1 E (a/p) and 1 more reason",
            ),
        ] {
            assert_eq!(message(&pods, watched), expected);
        }
    }

    #[test]
    fn names_fewer_owners_if_the_message_grows_too_long() {
        let long = |name: &str| name.repeat(250);
        let (x, y, z) = (long("x"), long("y"), long("z"));
        let all = message(&[("a", &x, "E"), ("a", &y, "E"), ("a", &z, "E")], 9);
        assert_eq!(all, format!("3 of 9 pods: 3 E (a/{x}, a/{y}, a/{z})"));
        let one = message(&[("a", &x, "E"), ("a", &y, "E"), ("a", &z, "E"), ("a", &x, "F"), ("a", &y, "F")], 9);
        assert_eq!(one, format!("5 of 9 pods: 3 E (a/{x} and 2 more), 2 F (a/{x} and 1 more)"));
        let reasons = ["A", "B", "C", "D", "E", "F", "G"];
        let none: Vec<_> = reasons.iter().map(|reason| ("a", &*x, *reason)).collect();
        assert_eq!(message(&none, 9), "7 of 9 pods: 1 A, 1 B, 1 C, 1 D, 1 E and 2 more reasons");
    }

    #[test]
    fn the_message_is_one_short_line_for_any_reason() {
        let reasons: Vec<_> = (0..9).map(|n| format!("{n}\n\u{202e}{}", "\u{1}é".repeat(3000))).collect();
        let pods: Vec<_> = reasons.iter().map(|reason| ("a", "x", &**reason)).collect();
        let message = message(&pods, 9);
        assert!(message.starts_with("9 of 9 pods: 1 0 "), "{message:?}");
        assert!(message.ends_with("… (a/x) and 4 more reasons"), "{message:?}");
        assert!(message.len() <= CONDITION_MESSAGE_LIMIT);
        assert!(!message.contains(|character: char| character.is_control() || character == '\u{202e}'));
    }

    #[test]
    fn ready_counts_watched_and_unreadable_pods() {
        let pod = "shop/cart (a value of the wrong type at line 1, column 9)".to_owned();
        for (watched, unreadable, expected) in [
            (1284, None, "watching 1284 pods".to_owned()),
            (1, Some((0, pod.clone())), "watching 1 pod".to_owned()),
            (0, Some((1, pod.clone())), format!("watching 0 pods; 1 pod could not be read: {pod}")),
            (5, Some((3, pod.clone())), format!("watching 5 pods; 3 pods could not be read, one of them: {pod}")),
        ] {
            assert_eq!(super::watching(watched, unreadable.as_ref(), &[]), expected);
        }
        assert_eq!(healthy(1284), "all 1284 pods are healthy");
        assert_eq!(healthy(1), "the 1 pod is healthy");
    }

    #[test]
    fn the_top_cause_is_the_most_frequent_proven_one() {
        use Cause::{ExitCode, OutOfMemory, Unknown};
        for (causes, expected) in [
            (&[Unknown, OutOfMemory, Unknown][..], Some(OutOfMemory)),
            (&[OutOfMemory, ExitCode, ExitCode], Some(ExitCode)),
            (&[OutOfMemory, ExitCode], Some(ExitCode)),
            (&[Unknown], None),
            (&[], None),
        ] {
            let pods = causes.iter().map(|cause| {
                let (pod, mut finding) = crashing("shop", "cart", "OOMKilled", 50);
                finding.explanation.cause = *cause;
                (pod, finding)
            });
            assert_eq!(Scenario::of(pods).status(None).top_cause, expected, "{causes:?}");
        }
    }

    #[test]
    fn removes_only_the_count_from_a_message() {
        assert_eq!(without_count("2 of 2 pods: 2 Error (a/2)", 2), "2 of : 2 Error (a/2)");
        assert_eq!(
            without_count("watching 12 pods; 2 pods could not be read", 12),
            "watching ; 2 pods could not be read"
        );
    }
}
