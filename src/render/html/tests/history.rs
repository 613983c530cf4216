use jiff::Timestamp;

use crate::{
    api::{Cause, EndedIncident, NamespacedName, OrchestrStatus, ProblemKind, UnwatchedSpan},
    render::{
        document::StatusPart,
        timeline::{
            Timeline,
            tests::{noon, status},
        },
    },
};

use super::*;

/// A page with only the history of an object.
fn render_history(object: &NamespacedName, status: &OrchestrStatus, now: Timestamp) -> String {
    let timeline = Timeline::of(object, status, None, now);
    let headline = timeline.headline();
    let status = StatusPart { history: Some(timeline), ..StatusPart::default() };
    render(&Section { headline, status, ..report(&[], &[]) })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_history_cannot_become_markup(texts in vec(hostile(), 7), seconds in vec(any::<i32>(), 6), pods in any::<i64>()) {
        let time = |index: usize| Time(jiff::Timestamp::from_second(seconds[index].into()).unwrap());
        let own = |index: usize| texts[index].clone();
        let owner = Owner { kind: own(0), name: own(1) };
        let ended = EndedIncident {
            key: own(2), kind: ProblemKind::Crash, namespace: own(3), owner, container: own(2), reason: own(4),
            cause: Cause::ExitCode, message: own(5), pods, began: time(0), last_seen: Some(time(1)), ended: time(2),
        };
        let lasting = Incident { since: time(3), ..incident(&own(3), &own(1), pods) };
        let span = UnwatchedSpan { from: time(4), until: Some(time(5)), reason: own(6), spec_changed: false };
        let status = OrchestrStatus {
            history: vec![EndedIncident { last_seen: None, ..ended.clone() }, ended].into(),
            unwatched: vec![UnwatchedSpan { until: None, ..span.clone() }, span].into(),
            history_since: Some(time(5)),
            incidents: vec![lasting],
            ..OrchestrStatus::default()
        };
        let page = render_history(&NamespacedName::new(own(0), own(1)), &status, time(5).0);
        let elements = elements(&page);
        assert_own_markup(&elements);
        let shown: BTreeSet<&str> = texts_of(&elements);
        for index in [4, 5] {
            prop_assert!(shown.contains(shortened(&texts[index]).as_str()), "{:?}", texts[index]);
        }
        prop_assert!(!page.contains(is_invisible));
    }
}

#[test]
fn draws_the_history_and_lists_it() {
    let page = render_history(&NamespacedName::new("ops", "cluster"), &status(), noon());
    let elements = elements(&page);
    assert_own_markup(&elements);
    assert_eq!(texts(&elements, "h1"), ["2 incidents ended since 2026-02-27 08:00 UTC, and 1 lasts"]);
    let class = |element: &Element| element.attributes.iter().find(|own| own.0 == "class").map(|own| own.1.clone());
    let bars: Vec<_> = elements.iter().filter(|own| own.name == "rect").filter_map(class).collect();
    assert_eq!(bars, ["gap", "lasting", "ended", "ended", "unsure"]);
    assert_eq!(
        texts(&elements, "tr")[1],
        "1. shop/cartOOMKilledOutOfMemory3 pods2026-03-01 11:26it lasts34m so farapp was OOM-killed 7 times; limit 512Mi"
    );
    assert!(texts(&elements, "tr")[3].contains("between 2026-02-28 02:10 and 2026-02-28 04:0030m to 140m"));
    assert_eq!(
        texts(&elements, "li"),
        [
            "Not watched from 2026-02-28 02:10:00 UTC to 2026-02-28 04:00:00 UTC (110m): the operator was not running, or could not write the status"
        ]
    );
}

#[test]
fn the_drawing_contains_early_ended_incidents() {
    let mut status = status();
    status.history_since = status.history[0].ended.clone().into();
    let page = render_history(&NamespacedName::new("ops", "cluster"), &status, noon());
    let attribute = |element: &Element, name: &str| {
        element.attributes.iter().find(|own| own.0 == name).map(|own| own.1.clone()).unwrap_or_default()
    };
    let elements = elements(&page);
    let bars: Vec<_> = elements.iter().filter(|own| own.name == "rect" && attribute(own, "class") != "gap").collect();
    assert_eq!(bars.len(), 4, "two of them belong to the incident whose end is not exact");
    let places: std::collections::BTreeSet<_> = bars.iter().map(|own| attribute(own, "x")).collect();
    assert_eq!(places.len(), 4, "none is cut off: {places:?}");
}

#[test]
fn a_long_history_does_not_make_the_page_larger() {
    let mut status = status();
    let long = "<\"&\">".repeat(1_000);
    for entry in &mut status.history.items {
        (entry.namespace, entry.reason, entry.message) = (long.clone(), long.clone(), long.clone());
    }
    status.history.items = vec![status.history.items; 500].concat();
    status.unwatched.items = vec![UnwatchedSpan { reason: long, ..status.unwatched.items[0].clone() }; 500];
    let (incidents, pods) = many(50, 500, "INFO a line\n");
    let history = Some(Timeline::of(&NamespacedName::new("ops", "cluster"), &status, None, noon()));
    let status = StatusPart { history, ..StatusPart::default() };
    let page = render(&Section { status, ..report(&incidents, &pods) });
    assert!(page.len() < PAGE_LIMIT, "{} bytes", page.len());
    for part in [" more incidents, which this page leaves out", "and 480 more such times, which this page leaves out"] {
        assert!(page.contains(part), "{part}");
    }
    assert_own_markup(&elements(&page));
}
