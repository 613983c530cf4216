use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::report::{
    KnownStatus, NotWatching, OmittedIncidents, json_size, not_watching,
    tests::{Scenario, at, crashing},
};

/// The status in the API, and what the controller remembers of an object.
struct Sim {
    stored: Option<OrchestrStatus>,
    gap: Option<Gap>,
    now: i64,
    generation: i64,
    unclear: bool,
    /// The namespace that the object selects now, if it does not select all.
    only: Option<&'static str>,
}

/// An owner, and since when its pods fail.
type Failing = (&'static str, i64);

impl Sim {
    fn new() -> Self {
        Self { stored: None, gap: None, now: 10_000, generation: 3, unclear: false, only: None }
    }

    fn status(&self) -> &OrchestrStatus {
        self.stored.as_ref().unwrap()
    }

    fn known(&self) -> Option<KnownStatus> {
        self.stored.clone().map(|stored| KnownStatus::new(stored, true))
    }

    fn with_history(&self, mut new: OrchestrStatus, omitted: &OmittedIncidents) -> OrchestrStatus {
        let known = self.known();
        let old = known.as_ref().map(KnownStatus::with_lists);
        let unclear = self.unclear;
        let selects = |namespace: &str| self.only.is_none_or(|only| only == namespace);
        let (is_unclear, now) = (|_: &Incident| unclear, at(self.now));
        let step = Step { old: old.as_ref(), gap: self.gap, omitted, is_unclear: &is_unclear, selects: &selects, now };
        let history = known.as_ref().map(KnownStatus::history).unwrap_or_default();
        history.advance(&new, &step).put_into(&mut new);
        // As it is read back.
        serde_json::from_str(&serde_json::to_string(&new).unwrap()).unwrap()
    }

    /// The pods are watched, and these fail.
    fn watch(&mut self, failing: &[Failing]) -> &mut Self {
        self.watch_and(failing, true)
    }

    /// The same, and the write may be lost.
    fn watch_and(&mut self, failing: &[Failing], is_written: bool) -> &mut Self {
        // An owner may be given with its namespace.
        let place = |owner: &'static str| owner.split_once('/').unwrap_or(("shop", owner));
        let pods = failing.iter().map(|(owner, since)| (place(owner), *since));
        let pods = pods.map(|((namespace, owner), since)| crashing(namespace, owner, "OOMKilled", since));
        let scenario = Scenario { generation: self.generation, now: at(self.now), ..Scenario::of(pods) };
        let (mut new, omitted) = scenario.listed(self.stored.as_ref());
        if let Some(known) = self.known() {
            known.keep_most_pods(&mut new.incidents);
        }
        let new = self.with_history(new, &omitted);
        if is_written {
            (self.stored, self.gap) = (Some(new), None);
        }
        self
    }

    fn stop_watching(&mut self, state: &NotWatching) -> &mut Self {
        self.gap = self.gap.or(Some(Gap { from: at(self.now), reason: state.reason() }));
        let new = not_watching(state, self.generation, self.stored.as_ref(), at(self.now));
        self.stored = Some(self.with_history(new, &OmittedIncidents::default()));
        self
    }

    fn wait(&mut self, seconds: i64) -> &mut Self {
        self.now += seconds;
        self
    }

    fn change_spec(&mut self) -> &mut Self {
        self.generation += 1;
        self
    }

    fn restart(&mut self) -> &mut Self {
        self.gap = Gap::before_start(self.stored.as_ref());
        self
    }

    /// The owner, beginning, the last time it was seen, and the end of each entry.
    fn entries(&self) -> Vec<(&str, i64, Option<i64>, i64)> {
        let second = |time: &Time| time.0.as_second();
        let entries = self.status().history.iter();
        entries
            .map(|own| (&*own.owner.name, second(&own.began), own.last_seen.as_ref().map(second), second(&own.ended)))
            .collect()
    }

    fn spans(&self) -> Vec<(i64, Option<i64>, &str)> {
        let second = |time: &Time| time.0.as_second();
        let spans = self.status().unwatched.iter();
        spans.map(|own| (second(&own.from), own.until.as_ref().map(second), &*own.reason)).collect()
    }
}

#[test]
fn an_end_while_pods_are_watched_is_exact() {
    let mut sim = Sim::new();
    sim.watch(&[("cart", 9_000), ("cart", 9_100), ("pay", 9_500)]).wait(60).watch(&[("cart", 9_000), ("pay", 9_500)]);
    assert_eq!((sim.entries(), sim.status().incidents[1].most_pods), (vec![], 2));
    sim.wait(60).watch(&[("pay", 9_500)]);
    assert_eq!((sim.entries(), sim.spans()), (vec![("cart", 9_000, None, 10_120)], vec![]));
    let entry = &sim.status().history[0];
    assert_eq!((entry.pods, &*entry.reason, &*entry.namespace, &*entry.container), (2, "OOMKilled", "shop", "app"));
    assert_eq!(sim.status().history_since, Some(Time(at(10_000))));
    // Nothing changes it, and the next one comes first.
    sim.wait(600).watch(&[("pay", 9_500)]).wait(10).watch(&[]);
    assert_eq!(sim.entries(), [("pay", 9_500, None, 10_730), ("cart", 9_000, None, 10_120)]);
    // When it begins again, that is another incident.
    sim.wait(60).watch(&[("cart", 10_785)]).wait(60).watch(&[]);
    assert_eq!(sim.entries()[0], ("cart", 10_785, None, 10_850));
    assert_eq!(sim.entries().len(), 3);
}

#[test]
fn a_write_that_is_lost_or_a_crash_before_it_loses_no_entry() {
    let mut sim = Sim::new();
    sim.watch(&[("cart", 9_000)]).wait(60).watch_and(&[], false).wait(5).watch_and(&[], false).wait(5).watch(&[]);
    assert_eq!(sim.entries(), [("cart", 9_000, None, 10_070)]);
    let mut sim = Sim::new();
    sim.watch(&[("cart", 9_000)]).wait(60).watch_and(&[], false).restart().wait(5).watch(&[]);
    assert_eq!((sim.entries(), sim.spans()), (vec![("cart", 9_000, Some(10_000), 10_065)], vec![]));
}

#[test]
fn an_end_while_nobody_watched_is_not_exact() {
    let interrupted = NotWatching::Interrupted { message: "HTTP 500".to_owned() };
    let denied = NotWatching::PodAccessDenied { message: "no".to_owned() };
    let mut down = Sim::new();
    down.watch(&[("cart", 9_000)]).wait(3_600).restart().watch(&[]);
    assert_eq!(down.spans(), [(10_000, Some(13_600), "NotRunning")]);
    let mut slow = Sim::new();
    slow.watch(&[("cart", 9_000)]).wait(3_500).restart().stop_watching(&NotWatching::Syncing).wait(100).watch(&[]);
    assert_eq!(slow.spans(), [(13_500, Some(13_600), "Syncing"), (10_000, Some(13_500), "NotRunning")]);
    let mut outage = Sim::new();
    outage
        .watch(&[("cart", 9_000)])
        .stop_watching(&interrupted)
        .wait(3_000)
        .stop_watching(&denied)
        .wait(600)
        .watch(&[]);
    assert_eq!(outage.spans(), [(13_000, Some(13_600), "PodAccessDenied"), (10_000, Some(13_000), "Syncing")]);
    let mut both = Sim::new();
    both.watch(&[("cart", 9_000)]).stop_watching(&denied).wait(3_600).restart().watch(&[]);
    assert_eq!(both.spans(), [(10_000, Some(13_600), "PodAccessDenied")]);
    for sim in [down, slow, outage, both] {
        assert_eq!(sim.entries(), [("cart", 9_000, Some(10_000), 13_600)]);
    }
}

#[test]
fn an_incident_that_lasts_through_a_gap_has_not_ended() {
    for state in [NotWatching::Syncing, NotWatching::Paused, NotWatching::PodAccessDenied { message: String::new() }] {
        let mut sim = Sim::new();
        sim.watch(&[("cart", 9_000)]).wait(60).stop_watching(&state);
        assert_eq!((sim.entries(), sim.spans()), (vec![], vec![(10_060, None, state.reason())]));
        sim.wait(3_600).watch(&[("cart", 9_000)]);
        assert_eq!((sim.entries(), sim.spans().len()), (vec![], 1));
        sim.wait(60).watch(&[]);
        assert_eq!(sim.entries(), [("cart", 9_000, None, 13_720)], "{state:?}");
    }
    let mut sim = Sim::new();
    sim.watch(&[("cart", 9_000)]).wait(3_600).restart().watch(&[("cart", 9_000)]).wait(60).watch(&[]);
    assert_eq!(sim.entries(), [("cart", 9_000, None, 13_660)]);
}

#[test]
fn an_incident_that_leaves_view_has_not_ended() {
    let denied = NotWatching::PodAccessDenied { message: String::new() };
    type Sequence<'a> = &'a dyn Fn(&mut Sim);
    let sequences: [(&str, Sequence<'_>); 6] = [
        ("another spec", &|sim| _ = sim.change_spec().watch(&[])),
        ("another spec while the operator is down", &|sim| _ = sim.wait(900).restart().change_spec().watch(&[])),
        ("another spec during an outage", &|sim| {
            sim.stop_watching(&denied).wait(900).change_spec().stop_watching(&denied).wait(9).watch(&[]);
        }),
        ("another spec between two outages", &|sim| {
            sim.change_spec().stop_watching(&denied).wait(900).stop_watching(&NotWatching::Syncing).wait(9).watch(&[]);
        }),
        ("a pause", &|sim| {
            sim.change_spec().stop_watching(&NotWatching::Paused).wait(900).change_spec().watch(&[]);
        }),
        ("pods that cannot be judged", &|sim| {
            sim.unclear = true;
            sim.watch(&[]);
        }),
    ];
    for (what, sequence) in sequences {
        let mut sim = Sim::new();
        sim.watch(&[("cart", 9_000)]).wait(60);
        sequence(&mut sim);
        assert!(is_watching(sim.status()) && sim.status().incidents.is_empty(), "{what}");
        assert_eq!(sim.entries(), [], "{what}");
    }
}

#[test]
fn an_incident_that_returns_with_its_beginning_had_not_ended() {
    let mut sim = Sim::new();
    sim.watch(&[("cart", 9_000), ("pay", 9_000)]).wait(60).watch(&[]).wait(60);
    assert_eq!(sim.entries().len(), 2);
    sim.watch(&[("cart", 9_000), ("pay", 10_060)]);
    assert_eq!(sim.entries(), [("pay", 9_000, None, 10_060)]);
}

#[test]
fn an_incident_that_began_earlier_replaces_no_ended_one() {
    let mut sim = Sim::new();
    // Another pod of the owner fails since 10 680, but is reported only when its threshold has passed.
    sim.watch(&[("cart", 9_000)]).wait(800).watch(&[]).wait(120).watch(&[("cart", 10_680)]);
    assert_eq!(sim.entries(), [("cart", 9_000, None, 10_800)]);
    sim.wait(60).watch(&[]);
    assert_eq!(sim.entries(), [("cart", 10_680, None, 10_980), ("cart", 9_000, None, 10_800)]);
}

#[test]
fn messages_are_dropped_when_the_spec_changes() {
    let message = |change: fn(&mut Sim) -> &mut Sim| {
        let mut sim = Sim::new();
        sim.watch(&[("cart", 9_000)]);
        sim.stored.as_mut().unwrap().incidents[0].message = "password of my own kind".to_owned();
        sim.wait(60).watch(&[]).wait(60);
        change(&mut sim).watch(&[]);
        sim.status().history[0].message.clone()
    };
    assert_eq!(message(|sim| sim), "password of my own kind");
    assert_eq!(message(Sim::change_spec), "");
    assert_eq!(message(|sim| sim.change_spec().stop_watching(&NotWatching::Syncing)), "");
}

#[test]
fn drops_entries_of_namespaces_that_are_not_selected() {
    let refused = NotWatching::InvalidSpec { message: "spec.pods.namespaces: must be [\"shop\"]".to_owned() };
    type Change<'a> = &'a dyn Fn(&mut Sim);
    let changes: [(&str, Change<'_>); 4] = [
        ("a narrower spec", &|sim| _ = sim.change_spec().watch(&[])),
        ("a narrower spec before pods can be read", &|sim| _ = sim.change_spec().stop_watching(&NotWatching::Syncing)),
        ("a pause", &|sim| _ = sim.change_spec().stop_watching(&NotWatching::Paused)),
        ("a refusal by --own-namespace-only", &|sim| _ = sim.restart().stop_watching(&refused)),
    ];
    for (what, change) in changes {
        let mut sim = Sim::new();
        sim.watch(&[("cart", 9_000), ("bank/ledger", 9_100), ("bank/audit", 9_200)]).wait(60);
        sim.watch(&[("bank/audit", 9_200)]).wait(60).watch(&[]).wait(60).watch(&[("pay", 10_100)]).wait(60).watch(&[]);
        assert_eq!(sim.entries().iter().map(|own| own.0).collect::<Vec<_>>(), ["pay", "audit", "ledger", "cart"]);
        sim.only = Some("shop");
        change(sim.wait(60));
        assert_eq!(sim.entries().iter().map(|own| own.0).collect::<Vec<_>>(), ["pay", "cart"], "{what}");
        assert!(!serde_json::to_string(sim.status()).unwrap().contains("bank"), "{what}");
        // The end of bank/audit. It is no longer known what else had ended until then, if the object selects bank again.
        assert_eq!(sim.status().history_since, Some(Time(at(10_120))), "{what}");
        assert_eq!(sim.status().omitted_history, 0, "{what}");
    }
}

#[test]
fn short_interruptions_are_not_recorded() {
    let mut sim = Sim::new();
    sim.watch(&[]).wait(300).restart().wait(60).watch(&[]);
    sim.stop_watching(&NotWatching::Syncing).wait(59).watch(&[]);
    assert_eq!(sim.spans(), []);
    sim.stop_watching(&NotWatching::Paused).wait(1).watch(&[]).wait(361).restart().watch(&[]);
    assert_eq!(sim.spans().iter().map(|own| own.2).collect::<Vec<_>>(), ["NotRunning", "Paused"]);
}

#[test]
fn begins_when_the_pods_are_first_watched() {
    let mut sim = Sim::new();
    sim.stop_watching(&NotWatching::Syncing).wait(600);
    assert_eq!((sim.spans(), &sim.status().history_since), (vec![], &None));
    sim.watch(&[]);
    assert_eq!((sim.spans(), &sim.status().history_since), (vec![], &Some(Time(at(10_600)))));
    // The status of an operator that had no history.
    let mut sim = Sim::new();
    sim.watch(&[("cart", 9_000)]);
    sim.stored.as_mut().unwrap().history_since = None;
    sim.wait(3_600).restart().watch(&[]);
    assert_eq!((sim.spans(), sim.entries()), (vec![], vec![("cart", 9_000, Some(10_000), 13_600)]));
}

#[test]
fn drops_what_is_old_and_counts_what_is_too_much() {
    let owner = |number: usize| -> &'static str { Box::leak(format!("service-{number:03}").into_boxed_str()) };
    let mut sim = Sim::new();
    for number in 0..60 {
        sim.watch(&[(owner(number), sim.now)]).wait(60).watch(&[]).wait(60);
    }
    let status = sim.status();
    assert_eq!((status.history.len(), status.omitted_history), (50, 10));
    assert_eq!((&*status.history[0].owner.name, &*status.history[49].owner.name), ("service-059", "service-010"));
    // The end of service-009, which was dropped.
    assert_eq!(status.history_since, Some(Time(at(10_000 + 9 * 120 + 60))));
    let week = 7 * 24 * 3600;
    sim.wait(week - 60).restart().watch(&[]);
    let status = sim.status();
    assert_eq!((status.history.len(), status.omitted_history), (1, 10), "what is old is not counted");
    // The end of the one before it.
    assert_eq!(status.history_since, Some(Time(at(10_000 + 58 * 120 + 60))));

    let mut sim = Sim::new();
    sim.watch(&[]);
    for _ in 0..30 {
        sim.stop_watching(&NotWatching::Paused).wait(10).watch(&[]).wait(10);
    }
    assert_eq!((sim.spans().len(), sim.spans()[19].0), (20, 10_000 + 10 * 20));
    assert_eq!(sim.status().history_since, Some(Time(at(10_000 + 9 * 20 + 10))));
}

#[test]
fn the_largest_namespace_loses_its_oldest_entries_first() {
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let plain = |number: usize| leak(format!("evil/pod-{number:03}"));
    // As many bytes in a few entries.
    let large = |number: usize| leak(format!("evil/{number:03}{}", "<".repeat(250)));
    for (what, name) in [("many", &plain as &dyn Fn(usize) -> &'static str), ("large", &large)] {
        let mut sim = Sim::new();
        sim.watch(&[("cart", 9_000), ("bank/ledger", 9_500)]).wait(60).watch(&[("bank/ledger", 9_500)]);
        sim.wait(60).watch(&[]);
        for number in 0..70 {
            sim.watch(&[(name(number), sim.now)]).wait(20).watch(&[]).wait(20);
        }
        let status = sim.status();
        let of = |namespace: &str| status.history.iter().filter(|own| own.namespace == namespace).count();
        let (entries, omitted) = (status.history.len(), usize::try_from(status.omitted_history).unwrap());
        assert_eq!((of("shop"), of("bank"), of("evil"), omitted), (1, 1, entries - 2, 72 - entries), "{what}");
        assert!(entries > 10, "{what}: {entries}");
        assert!(status.history.is_sorted_by(|one, other| one.ended >= other.ended), "{what}");
        // The end of the last one that was dropped; there may be earlier ones.
        let dropped = 70 - of("evil");
        let ended = 10_120 + 40 * i64::try_from(dropped - 1).unwrap() + 20;
        assert_eq!(status.history_since, Some(Time(at(ended))), "{what}");
        let before = status.history.clone();
        sim.wait(10).watch(&[]);
        assert_eq!((&sim.status().history, sim.status().omitted_history), (&before, omitted as i64), "{what}");
    }
}

#[test]
fn an_end_gets_an_entry_while_others_fill_the_list() {
    let many: Vec<Failing> = (0..300_i64)
        .map(|number| (&*Box::leak(format!("evil/pod-{number:03}").into_boxed_str()), 9_500 + number))
        .collect();
    let mut sim = Sim::new();
    sim.watch(&[&[("cart", 9_000)], &*many].concat());
    assert_eq!((sim.status().incidents.len(), sim.status().omitted_incidents), (100, 201));
    sim.wait(60).watch(&many);
    assert_eq!(sim.entries(), [("cart", 9_000, None, 10_060)]);
}

#[test]
fn a_history_with_any_names_fits_into_its_part() {
    let mut sim = Sim::new();
    sim.watch(&[]);
    let mut status = sim.stored.take().unwrap();
    let long = "\u{1}".repeat(253);
    let entry = EndedIncident {
        key: "f".repeat(16),
        kind: crate::api::ProblemKind::Initializing,
        namespace: long.clone(),
        owner: crate::api::Owner { kind: long.clone(), name: long.clone() },
        container: long.clone(),
        reason: long.clone(),
        cause: crate::api::Cause::InsufficientResources,
        message: "<".repeat(9_000),
        pods: i64::MAX,
        began: Time(Timestamp::MAX),
        last_seen: Some(Time(Timestamp::UNIX_EPOCH)),
        ended: Time(Timestamp::MAX),
    };
    let span = UnwatchedSpan {
        from: Time(Timestamp::MAX),
        until: None,
        reason: "PodAccessDenied".to_owned(),
        spec_changed: true,
    };
    let short = EndedIncident {
        namespace: "n".to_owned(),
        owner: crate::api::Owner::default(),
        container: String::new(),
        reason: "r".to_owned(),
        ..entry.clone()
    };
    for entry in [entry, short] {
        status.history = vec![entry; 500].into();
        status.unwatched = vec![span.clone(); 500].into();
        (status.omitted_history, status.history_since) = (i64::MAX, Some(Time(Timestamp::MAX)));
        let mut sim = Sim { stored: Some(status.clone()), ..Sim::new() };
        sim.watch(&[]);
        let full = sim.stored.unwrap();
        let mut rest = full.clone();
        let known = KnownStatus::new(full.clone(), true).history();
        assert_eq!(known, History::take(&mut rest));
        let size = json_size::size(&full) - json_size::size(&rest);
        // The rest of it is for the most pods of a hundred incidents.
        assert!(size < fit::HISTORY - 100 * r#""mostPods":9223372036854775807,"#.len(), "{size}");
        assert!((1..=MAX_ENTRIES).contains(&full.history.len()) && full.unwatched.len() <= MAX_SPANS);
    }
}

#[test]
fn what_another_version_wrote_is_repaired_or_counted() {
    let entry = |more: serde_json::Value| {
        let mut entry = serde_json::json!({
            "key": "5f0c2a915f0c2a91", "kind": "Newer", "namespace": "shop", "owner": {"kind": "Deployment", "name": "cart"},
            "reason": "OOMKilled", "cause": "NewerCause", "pods": 3, "newField": {"a": [1]},
            "began": "1970-01-01T02:00:00Z", "ended": "1970-01-01T02:30:00Z",
        });
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry
    };
    let mut sim = Sim::new();
    sim.watch(&[]).wait(50).watch(&[]);
    let mut status = serde_json::to_value(sim.status()).unwrap();
    status["history"] = serde_json::json!([
        entry(serde_json::json!({})),
        entry(serde_json::json!({"pods": "many"})),
        entry(serde_json::json!({"began": "2999-01-01T00:00:00Z", "ended": "2998-01-01T00:00:00Z", "pods": -1})),
        7,
    ]);
    status["unwatched"] = serde_json::json!([
        {"from": "1970-01-01T01:00:00Z", "reason": "Newer"},
        {"from": "1970-01-01T02:00:00Z", "reason": "Paused", "more": 1},
        {"from": 7},
    ]);
    sim.stored = Some(serde_json::from_value(status).unwrap());
    sim.wait(50).watch(&[]);
    let status = sim.status();
    assert_eq!(sim.entries(), [("cart", 10_100, None, 10_100), ("cart", 7_200, None, 9_000)]);
    assert_eq!(sim.spans(), [(7_200, Some(10_100), "Paused"), (3_600, Some(7_200), "Newer")]);
    assert_eq!((status.omitted_history, status.history[0].pods), (3, 0));
    // Those that were dropped may have ended until the last check.
    assert_eq!(status.history_since, Some(Time(at(10_050))));
    sim.wait(100).watch(&[]);
    assert_eq!(sim.status().omitted_history, 3, "they are counted once");
}

const OWNERS: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The pods of an owner begin or cease to fail.
    Toggle(usize),
    /// The spec selects an owner, or does not any more.
    Select(usize),
    Watch,
    LostWrite,
    Restart,
    Outage,
    Denied,
    Pause,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..OWNERS.len()).prop_map(Event::Toggle),
        1 => (0..OWNERS.len()).prop_map(Event::Select),
        4 => Just(Event::Watch),
        1 => Just(Event::LostWrite),
        1 => Just(Event::Restart),
        1 => Just(Event::Outage),
        1 => Just(Event::Denied),
        1 => Just(Event::Pause),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Pods of four owners begin and cease to fail while the operator watches, is paused or restarted, loses access, gets
    /// another spec, or loses a write.
    #[test]
    fn the_history_contains_what_has_ended_and_nothing_that_lasts(events in vec((event(), 1..2_000_i64), 0..80)) {
        let mut sim = Sim::new();
        let mut failing: [Option<i64>; 4] = [None; 4];
        let mut selected = [true; 4];
        // The times at which each owner was found not to fail.
        let mut fine: [BTreeSet<i64>; 4] = Default::default();
        sim.watch(&[]);
        for (event, seconds) in events {
            sim.wait(seconds);
            for (own, times) in failing.iter().zip(&mut fine) {
                if own.is_none() && !matches!(event, Event::Toggle(_)) {
                    times.insert(sim.now);
                }
            }
            let before = sim.stored.clone().unwrap();
            let was_continuous = sim.gap.is_none();
            let shown: Vec<Failing> = (0..4)
                .filter(|own| selected[*own])
                .filter_map(|own| Some((OWNERS[own], failing[own]?)))
                .collect();
            match event {
                Event::Toggle(own) => {
                    failing[own] = if failing[own].is_none() { Some(sim.now) } else { None };
                    continue;
                }
                Event::Select(own) => {
                    selected[own] = !selected[own];
                    sim.change_spec();
                    continue;
                }
                Event::Watch => _ = sim.watch(&shown),
                Event::LostWrite => _ = sim.watch_and(&shown, false),
                Event::Restart => _ = sim.restart(),
                Event::Outage => _ = sim.stop_watching(&NotWatching::Syncing),
                Event::Denied => _ = sim.stop_watching(&NotWatching::PodAccessDenied { message: String::new() }),
                Event::Pause => _ = sim.change_spec().stop_watching(&NotWatching::Paused),
            }
            let status = sim.status();
            prop_assert!(status.history.len() <= MAX_ENTRIES && status.unwatched.len() <= MAX_SPANS);
            prop_assert!(status.history_since >= before.history_since);
            prop_assert!(status.unwatched.iter().skip(1).all(|span| span.until.is_some()));
            prop_assert!(status.unwatched.is_sorted_by(|one, other| other.until.as_ref().is_some_and(|end| *end <= one.from)));
            prop_assert!(status.unwatched.iter().all(|span| span.until.as_ref().is_none_or(|end| *end > span.from)));
            prop_assert!(status.history.is_sorted_by(|one, other| one.ended >= other.ended));
            for entry in status.history.iter() {
                let seen = entry.last_seen.as_ref().unwrap_or(&entry.began);
                prop_assert!(entry.began <= *seen && *seen <= entry.ended, "{entry:?}");
                let owner = OWNERS.iter().position(|name| *name == entry.owner.name).unwrap();
                prop_assert!(fine[owner].contains(&entry.ended.0.as_second()), "it lasted: {entry:?}");
                let lasting = status.incidents.iter().find(|own| own.key == entry.key);
                prop_assert!(lasting.is_none_or(|own| own.since != entry.began), "{entry:?}, {lasting:?}");
            }
            if !matches!(event, Event::Watch) || before.observed_generation != Some(sim.generation) || !is_watching(&before) {
                continue;
            }
            for gone in before.incidents.iter().filter(|own| !shown.iter().any(|(name, _)| *name == own.owner.name)) {
                let entry = status.history.iter().find(|own| own.key == gone.key && own.ended.0 == at(sim.now));
                let Some(entry) = entry else { panic!("no entry for {gone:?}") };
                prop_assert_eq!((&entry.began, entry.last_seen.is_none()), (&gone.since, was_continuous));
            }
        }
    }
}
