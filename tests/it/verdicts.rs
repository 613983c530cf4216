//! Properties of all verdicts, for random pods, thresholds and times.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use orchestr::{
    diagnosis::{
        Explanation, Facts, Health, JobFacts, Thresholds, Verdict, assess, is_healthy_under_any_thresholds,
        kubectl_status, owner, ready_counts, restarts,
    },
    pods::Pod,
};
use proptest::{prelude::*, sample::select};

use crate::{arbitrary::any_pod, cases::at};

fn thresholds() -> impl Strategy<Value = Thresholds> {
    let duration = || {
        prop_oneof![
            4 => (0_u64..900).prop_map(Duration::from_secs),
            1 => select(vec![Duration::ZERO, Duration::MAX, Duration::from_nanos(1)]),
        ]
    };
    (duration(), duration(), duration(), duration(), duration(), duration()).prop_map(
        |(pending, initializing, not_ready, terminating, restarted, failed)| Thresholds {
            pending,
            initializing,
            not_ready,
            terminating,
            restarted,
            failed,
        },
    )
}

fn now() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        8 => (-2000_i64..2000).prop_map(at),
        1 => select(vec![Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX]),
    ]
}

fn facts() -> impl Strategy<Value = Facts> {
    (any::<Option<bool>>(), any::<bool>()).prop_map(|(complete, replaced)| Facts {
        job: complete.map(|complete| Arc::new(JobFacts { complete, ..JobFacts::default() })),
        replaced,
        ..Facts::default()
    })
}

/// Omits `since`, which is the time of the verdict if the pod contains no time for it, and the explanation, which may say
/// more as time passes.
fn timeless(verdict: Verdict) -> Health {
    match verdict.health {
        Health::Problem(mut finding) => {
            (finding.since, finding.explanation) = (Timestamp::UNIX_EPOCH, Explanation::default());
            for other in &mut finding.others {
                (other.since, other.explanation) = (Timestamp::UNIX_EPOCH, Explanation::default());
            }
            Health::Problem(finding)
        }
        other => other,
    }
}

fn check(pod: &Pod, verdict: &Verdict, now: Timestamp) {
    assert!(verdict.recheck.is_none_or(|recheck| recheck > now), "{verdict:?}");
    match &verdict.health {
        Health::Healthy => {}
        Health::Settling => assert!(verdict.recheck.is_some(), "settling for ever"),
        Health::Problem(found) => {
            assert!(!found.reason.is_empty() && !found.message.is_empty(), "{found:?}");
            assert!(found.reason.len() <= 128 && found.status.len() <= 128 && found.message.len() <= 1024);
            for line in [&found.reason, &found.status, &found.message] {
                assert!(!line.contains(|c: char| c.is_control() || c == '\u{202e}'), "{line:?}");
            }
            assert_eq!(found.owner, owner(pod));
            let names: Vec<_> = found.containers.iter().map(|container| container.name.as_str()).collect();
            assert!(found.container.is_empty() || names.first() == Some(&found.container.as_str()), "{found:?}");
            assert!(found.containers.iter().all(|container| container.reason.len() <= 128));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn verdicts_are_sound_and_stand_until_their_recheck(
        pod in any_pod(), facts in facts(), thresholds in thresholds(), now in now(), part in 0.0..1.0_f64,
    ) {
        let pod = pod.decode();
        let verdict = assess(&pod, &facts, &thresholds, now);
        check(&pod, &verdict, now);
        prop_assert_eq!(&verdict, &assess(&pod, &facts, &thresholds, now), "the same again");

        // Until the recheck, the verdict stays the same. At the recheck, it changes.
        let end = verdict.recheck.unwrap_or(Timestamp::MAX);
        let span = end.duration_since(now).as_secs_f64() * part;
        let between = now.checked_add(SignedDuration::from_secs_f64(span)).unwrap_or(now).clamp(now, end);
        if between < end {
            let then = assess(&pod, &facts, &thresholds, between);
            prop_assert_eq!(then.recheck, verdict.recheck);
            prop_assert_eq!(timeless(then), timeless(verdict.clone()));
        }
        if let Some(recheck) = verdict.recheck {
            let then = assess(&pod, &facts, &thresholds, recheck);
            prop_assert!(then.recheck.is_none_or(|later| later > recheck));
            prop_assert_ne!(then, verdict);
        }
    }

    #[test]
    fn rechecks_are_finite(pod in any_pod(), thresholds in thresholds(), now in now()) {
        let pod = pod.decode();
        let (mut now, mut rechecks) = (now, 0);
        loop {
            let verdict = assess(&pod, &Facts::default(), &thresholds, now);
            let Some(recheck) = verdict.recheck else {
                prop_assert_ne!(verdict.health, Health::Settling);
                break;
            };
            (now, rechecks) = (recheck, rechecks + 1);
            prop_assert!(rechecks < 100, "{:?}", verdict);
        }
    }

    #[test]
    fn pods_healthy_under_any_thresholds_stay_healthy(
        pod in any_pod(), facts in facts(), thresholds in thresholds(), lookback in 0..10_000_u64, now in now(),
        later in 0..1_000_000_i64,
    ) {
        let pod = pod.decode();
        let lookback = Duration::from_secs(lookback);
        let thresholds = Thresholds { restarted: thresholds.restarted.min(lookback), ..thresholds };
        if is_healthy_under_any_thresholds(&pod, lookback, now) {
            let later = now.checked_add(jiff::SignedDuration::from_secs(later)).unwrap_or(Timestamp::MAX);
            let verdict = assess(&pod, &facts, &thresholds, later);
            prop_assert_eq!(verdict, Verdict { health: Health::Healthy, recheck: None, lacks_job: false });
        }
    }

    #[test]
    fn a_complete_job_affects_only_failed_pods(pod in any_pod(), thresholds in thresholds(), now in now()) {
        let pod = pod.owned_by("Job", "sums").decode();
        let [complete, other] = [true, false].map(|complete| {
            let job = Some(Arc::new(JobFacts { complete, ..JobFacts::default() }));
            assess(&pod, &Facts { job, ..Facts::default() }, &thresholds, now)
        });
        if pod.phase == "Failed" && pod.deletion.is_none() {
            prop_assert_eq!(complete.health, Health::Healthy);
        } else if pod.phase != "Failed" {
            prop_assert_eq!(complete, other);
        }
    }

    #[test]
    fn prints_the_columns_of_any_pod(pod in any_pod(), now in now()) {
        let pod = pod.decode();
        let (ready, total) = ready_counts(&pod);
        prop_assert!(ready <= pod.statuses.len() + pod.init_statuses.len());
        prop_assert!(total >= pod.containers.len());
        prop_assert!(restarts(&pod, now).starts_with(|c: char| c == '-' || c.is_ascii_digit()));
        prop_assert!(kubectl_status(&pod).len() <= 2 * orchestr::pods::TEXT_LIMIT);
    }
}
