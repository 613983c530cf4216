//! The book of a fault run finds what is wrong, and nothing else.

use std::time::Duration;

use orchestr_testbed::book::{Answer, Entry, Event, Message, Span, Style, check, check_history};

type Events = Vec<(Duration, Event)>;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn broke(at: u64) -> (Duration, Event) {
    (s(at), Event::Broke("cart".to_owned()))
}

fn mended(at: u64) -> (Duration, Event) {
    (s(at), Event::Mended("cart".to_owned()))
}

fn sent(at: u64, id: &str, firing: &[&str], resolved: &[&str], answer: Answer) -> (Duration, Event) {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let message = Message { id: id.to_owned(), firing: names(firing), resolved: names(resolved), answer };
    (s(at), Event::Sent("ops".to_owned(), message))
}

fn starts(at: u64, id: &str) -> (Duration, Event) {
    sent(at, id, &["cart"], &[], Answer::Accepted)
}

fn ends(at: u64, id: &str) -> (Duration, Event) {
    sent(at, id, &[], &["cart"], Answer::Accepted)
}

fn left(at: u64) -> (Duration, Event) {
    (s(at), Event::Left("ops".to_owned()))
}

/// What is wrong or missing after ten minutes at a receiver of this style.
fn found(style: Style, events: impl IntoIterator<Item = (Duration, Event)>) -> Vec<String> {
    let opened = (s(0), Event::Opened("ops".to_owned(), style));
    let events: Events = std::iter::once(opened).chain(events).collect();
    let findings = check(&events, s(600));
    findings.wrong.into_iter().chain(findings.missing).collect()
}

#[track_caller]
fn finds(style: Style, events: impl IntoIterator<Item = (Duration, Event)>, what: &str) {
    let found = found(style, events);
    assert!(found.len() == 1 && found[0].contains(what), "{found:?}");
}

#[track_caller]
fn is_right(style: Style, events: impl IntoIterator<Item = (Duration, Event)>) {
    assert_eq!(found(style, events), Vec::<String>::new());
}

#[test]
fn what_is_sent_once_and_ends_once_is_right() {
    for style in [Style::Single, Style::Grouped, Style::Repeated] {
        is_right(style, [broke(10), starts(11, "a"), mended(100), ends(131, "b")]);
        is_right(style, [broke(10), starts(11, "a")]);
        // It was over before it was sent.
        is_right(style, [broke(10), mended(12)]);
        // It returned after its end.
        is_right(style, [broke(10), starts(11, "a"), mended(100), ends(131, "b"), broke(200), starts(201, "c")]);
    }
    is_right(Style::Repeated, [broke(10), starts(11, "a"), starts(71, "b")]);
    // A message may name what lasts besides its news.
    let (other, both) = ((s(50), Event::Broke("web".to_owned())), ["cart", "web"]);
    is_right(Style::Grouped, [broke(10), starts(11, "a"), other, sent(51, "b", &both, &[], Answer::Accepted)]);
}

#[test]
fn a_repetition_needs_the_same_id() {
    is_right(Style::Single, [broke(10), starts(11, "a"), starts(12, "a")]);
    for style in [Style::Single, Style::Grouped] {
        finds(style, [broke(10), starts(11, "a"), starts(12, "b")], "started twice");
        let lost = sent(11, "a", &["cart"], &[], Answer::Lost);
        is_right(style, [broke(10), lost.clone(), starts(12, "a")]);
        is_right(style, [broke(10), lost.clone(), mended(30), broke(50), starts(51, "b")]);
        finds(style, [broke(10), lost, starts(12, "b")], "may have been accepted");
        finds(style, [broke(10), starts(11, "a"), mended(50), ends(80, "b"), ends(90, "c")], "ended twice");
        let refused = sent(11, "a", &["cart"], &[], Answer::Refused);
        is_right(style, [broke(10), refused, starts(12, "b")]);
    }
}

#[test]
fn what_lasts_has_a_start_and_what_is_over_an_end() {
    finds(Style::Single, [broke(10)], "lost: cart lasts");
    finds(Style::Single, [broke(10), sent(11, "a", &["cart"], &[], Answer::Refused)], "lost: cart lasts");
    finds(Style::Single, [broke(10), sent(11, "a", &["cart"], &[], Answer::Lost)], "lost: cart lasts");
    finds(Style::Single, [broke(10), starts(11, "a"), mended(50)], "no end: cart is over");
    let lost = sent(80, "b", &[], &["cart"], Answer::Lost);
    finds(Style::Single, [broke(10), starts(11, "a"), mended(50), lost], "no end: cart is over");
}

#[test]
fn nothing_starts_that_is_over_and_nothing_ends_that_lasts() {
    let start = starts(90, "a");
    finds(Style::Single, [broke(10), mended(50), start.clone(), ends(95, "b")], "false start");
    finds(Style::Single, [start, ends(95, "b")], "never had a problem");
    finds(Style::Repeated, [broke(10), starts(11, "a"), ends(90, "b"), starts(91, "c")], "false end");
    // The operator could not know.
    let blind = [(s(40), Event::BlindFrom("outage")), (s(89), Event::SeesAgain("outage"))];
    let [from, until] = blind;
    is_right(Style::Single, [broke(10), from, mended(50), until, starts(90, "a"), ends(95, "b")]);
}

#[test]
fn a_receiver_that_is_left_gets_ends_only_and_soon() {
    is_right(Style::Single, [broke(10), starts(11, "a"), left(50), ends(60, "b")]);
    is_right(Style::Single, [broke(10), starts(11, "a"), left(50)]);
    finds(Style::Single, [broke(10), left(50), starts(90, "a")], "has left");
    let late = found(Style::Single, [broke(10), starts(11, "a"), left(50), ends(200, "b")]);
    assert!(late.iter().any(|what| what.contains("has left")), "{late:?}");
    let elsewhere = sent(5, "a", &[], &[], Answer::Accepted);
    let Event::Sent(_, message) = elsewhere.1 else { unreachable!() };
    finds(Style::Single, [(s(5), Event::Sent("other".to_owned(), message))], "no webhook has ever sent here");
}

#[test]
fn what_a_restored_state_lacks_may_be_sent_again() {
    let restored = |backup| (s(100), Event::Restored(s(backup)));
    is_right(Style::Single, [broke(10), starts(50, "a"), restored(20), starts(120, "b")]);
    finds(Style::Single, [broke(10), starts(11, "a"), restored(20), starts(120, "b")], "started twice");
    finds(
        Style::Single,
        [broke(10), starts(50, "a"), restored(20), starts(120, "b"), starts(150, "c")],
        "started twice",
    );
    is_right(Style::Single, [broke(10), starts(11, "a"), (s(100), Event::Deleted), ends(101, "b"), starts(140, "c")]);
    finds(Style::Single, [broke(10), starts(11, "a"), (s(100), Event::Deleted)], "lost: cart lasts");
}

#[test]
fn an_earlier_version_may_send_again_what_lasts_but_must_send_its_end() {
    let downgraded = |at| (s(at), Event::Downgraded);
    is_right(Style::Single, [broke(10), starts(11, "a"), downgraded(50), starts(60, "b")]);
    finds(
        Style::Single,
        [broke(10), starts(11, "a"), downgraded(50), starts(60, "b"), starts(70, "c")],
        "started twice",
    );
    finds(Style::Single, [broke(10), starts(11, "a"), downgraded(50), mended(60)], "no end: cart is over");
}

fn entry(ended: u64) -> Entry {
    Entry { name: "cart".to_owned(), ended: s(ended) }
}

#[test]
fn a_history_has_what_has_ended_and_nothing_else() {
    let events = [broke(10), mended(100)];
    let wrong = |entries: &[Entry]| check_history(&events, entries, &[], false);
    assert_eq!(wrong(&[entry(101)]), Vec::<String>::new());
    assert!(wrong(&[entry(60)])[0].contains("which it had not"));
    assert!(wrong(&[entry(101), entry(140)])[0].contains("has cart 2 times"));
    assert!(wrong(&[])[0].contains("lacks cart"));
    assert_eq!(check_history(&events, &[], &[], true), Vec::<String>::new(), "it was cut");
    // Nobody could have noticed it.
    assert_eq!(check_history(&[broke(10), mended(12)], &[], &[], false), Vec::<String>::new());
}

#[test]
fn a_gap_in_a_history_needs_an_interruption() {
    let gap = Span { from: s(100), until: s(170), reason: "Syncing".to_owned() };
    let wrong = |from, until| {
        let blind = [(s(from), Event::BlindFrom("outage")), (s(until), Event::SeesAgain("outage"))];
        check_history(&blind, &[], std::slice::from_ref(&gap), false).len()
    };
    assert_eq!(wrong(100, 165), 0);
    assert_eq!(wrong(100, 120), 1, "too short");
    assert_eq!(wrong(300, 400), 1, "at another time");
    let outage = |from, until| [(s(from), Event::BlindFrom("outage")), (s(until), Event::SeesAgain("outage"))];
    let two = [outage(100, 120), outage(130, 165)].concat();
    assert_eq!(check_history(&two, &[], &[gap], false), Vec::<String>::new(), "two that follow each other");
}
