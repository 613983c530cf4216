use proptest::prelude::*;
use regex::Regex;

use super::{automaton, *};

/// A spec may have this many patterns.
const PATTERNS: usize = crate::api::limits::REDACT_PATTERNS;
/// The longest text: the buffer of a log with the largest `maxBytes`.
const LONGEST: usize = 256 * 1024;

/// What a pattern matches if the clock stands still.
fn unlimited(pattern: &str, text: &str) -> Matches {
    found(Automaton::new(pattern), text, u32::MAX)
}

/// What a pattern matches if the time is over after so many readings of the clock.
fn found(automaton: Result<Automaton, PatternError>, text: &str, readings: u32) -> Matches {
    find_in([automaton.map(Arc::new)].into_iter(), text, clock(readings))
}

fn clock(readings: u32) -> impl FnMut() -> Duration {
    let mut read = 0;
    move || {
        read += 1;
        if read <= readings { Duration::ZERO } else { 2 * MAX_TIME }
    }
}

#[test]
fn finds_what_a_regular_expression_finds() {
    for (pattern, text, found) in [
        ("acct-[0-9]+", "acct-1 acct- acct-22", &["acct-1", "acct-22"][..]),
        ("a|ab", "ab ab", &["a", "a"]),
        ("ab|a", "ab a", &["ab", "a"]),
        ("a.*?b", "a b b", &["a b"]),
        ("(?m)^card .*$", "card 1\nmy card 2\ncard 3", &["card 1", "card 3"]),
        (r"\bärger\b", "ärger verärgert ärger", &["ärger", "ärger"]),
        (r"(?i)straße", "STRAßE", &["STRAßE"]),
        (r"\w+@\w+", "jürgen@例え and x@ y", &["jürgen@例え"]),
        (r"(?s)BEGIN.*END", "x BEGIN\n1\nEND y END z", &["BEGIN\n1\nEND y END"]),
        ("[^ -~]", "aéb", &["é"]),
    ] {
        let texts: Vec<_> = unlimited(pattern, text).ranges.into_iter().map(|range| &text[range]).collect();
        assert_eq!(texts, found, "{pattern}");
    }
}

fn expected(pattern: &str, text: &str) -> Vec<Range<usize>> {
    let mut ranges = Regex::new(pattern).unwrap().find_iter(text).map(|found| found.range()).collect();
    merge(&mut ranges);
    ranges
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn agrees_with_the_regex_crate(
        pattern in r"(\(\?[ims]\))?((a|b|é|\.|\[\^a\]|\[ab\]|\\w|\\W|\\b|\\B|\^|\$|\(a\|ab\)|\(\?:b\|\)|\(é\|a\.\))(\*|\+|\?|\*\?|\+\?|\{2\})?\|?){1,6}",
        text in "[abéA \n]{0,12}",
    ) {
        if let Ok(automaton) = Automaton::exact(&pattern) {
            let matches = found(Ok(automaton), &text, u32::MAX);
            prop_assert_eq!(matches.ranges, expected(&pattern, &text));
        }
    }

    #[test]
    fn coarse_classes_are_exact_within_ascii(
        pattern in r"(\(\?i\))?((a|é|\[ab\]|\\w|\\W|\\d|\\D|\\s|\\S|\\b|\[\^\\w-\]|\(\?:b\|\\d\))(\*|\+|\?|\*\?|\{2\})?\|?){1,6}",
        text in "[abA1_ \n-]{0,12}",
    ) {
        if let Ok(automaton) = Automaton::coarse(&pattern) {
            let matches = found(Ok(automaton), &text, u32::MAX);
            prop_assert_eq!(matches.ranges, expected(&pattern, &text));
        }
    }

    #[test]
    fn a_cut_search_masks_what_the_whole_one_would(
        patterns in prop::collection::vec(r"(a|b|\[\^a\]|\[ab\]|\.|\(a\|ab\))(\*|\+)?(a|b|\.)(b\*c\|a)?", 1..4),
        text in "[ab ]{1,200}",
        readings in 2_u32..12,
    ) {
        let automata: Vec<_> = patterns.iter().filter_map(|pattern| Automaton::new(pattern).ok().map(Arc::new)).collect();
        let find = |readings| find_in(automata.iter().map(|automaton| Ok(Arc::clone(automaton))), &text, clock(readings));
        let (cut, whole) = (find(readings), find(u32::MAX));
        prop_assert!(cut.is_cut || cut == whole);
        let covers = |range: &Range<usize>| cut.ranges.iter().any(|mask| mask.start <= range.start && range.end <= mask.end);
        prop_assert!(whole.ranges.iter().all(covers), "{:?} {:?}", cut, whole);
    }
}

#[test]
fn ordinary_patterns_search_the_longest_texts_to_the_end() {
    let line = "2026-11-21T10:00:00Z INFO request id=7f3a customer=4711 path=/shop/cart?item=12 took 31 ms\n";
    let text = line.repeat(LONGEST / line.len());
    let ordinary = [
        r"customer=\d+",
        r"(?i)customer[_-]?id\s*[:=]\s*\d+",
        r"acct-[0-9a-f]{8,}",
        r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}",
        r"\b\d{4}[ -]?\d{4}[ -]?\d{4}[ -]?\d{4}\b",
        r"\b(?:\d{1,3}\.){3}\d{1,3}\b",
        r"[A-Za-z0-9+/=]{40,}",
        r"(?i)bearer\s+\S+",
        r"\w{30,64}",
    ];
    let automata = ordinary.map(|pattern| Automaton::new(pattern).map(Arc::new));
    let matches = find_in(automata.into_iter(), &text, clock(u32::MAX));
    assert_eq!((matches.is_cut, matches.ranges.len()), (false, text.lines().count()), "the customers");
}

/// They read to the end of the text for each match.
#[test]
fn patterns_that_take_quadratic_time_are_stopped() {
    let automata = || (0..PATTERNS).map(|index| Automaton::new(&format!("a[^z]*z{index}|a")).map(Arc::new));
    let text = format!("kept {}", "a ".repeat(16 * 1024));
    let mut readings = 0;
    let mut time = Duration::ZERO;
    let matches = find_in(automata().collect::<Vec<_>>().into_iter(), &text, || {
        readings += 1;
        time += Duration::from_millis(10);
        time
    });
    assert!(matches.is_cut && readings < 64, "{readings} readings");
    assert_eq!((matches.ranges[0].start, matches.ranges.last().unwrap().end), (5, text.len()));
}

#[test]
fn a_search_that_reaches_too_many_states_is_given_up() {
    // The letters of a text so far decide which states are reached: of 200 letters, each a or b.
    let mut state = 1_u32;
    let letters = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if state >> 31 == 0 { 'a' } else { 'b' }
    });
    let text: String = letters.take(LONGEST).collect();
    for (text, is_cut) in [(&text[..], true), (&text[..4096], false)] {
        let matches = unlimited("a[ab]{200}q", text);
        assert_eq!(matches.is_cut, is_cut);
        let whole = 0..text.len();
        assert_eq!(matches.ranges, if is_cut { vec![whole] } else { vec![] });
    }
}

#[test]
fn the_budget_grows_with_the_text_up_to_a_limit() {
    let budgets = [0, 1024, 4096, LONGEST, usize::MAX].map(budget);
    assert_eq!(budgets, [MIN_TIME, MIN_TIME.max(1024 * TIME_PER_BYTE), 4096 * TIME_PER_BYTE, MAX_TIME, MAX_TIME]);
    let before = processor_time();
    assert!(before > Duration::ZERO && processor_time() >= before);
}

#[test]
fn an_expensive_pattern_leaves_the_others_their_share() {
    let text = format!("card 4711 {}", "x ".repeat(2048));
    let automata = ["x[^z]*z|x", "card [0-9]+"].map(|pattern| Automaton::new(pattern).map(Arc::new));
    let mut time = Duration::ZERO;
    let matches = find_in(automata.into_iter(), &text, || {
        time += Duration::from_millis(1);
        time
    });
    assert!(matches.is_cut);
    assert_eq!(matches.ranges[0], 0..9, "found by the pattern after the expensive one");
    assert!(matches.ranges[1].start >= 10 && matches.ranges.last().unwrap().end == text.len());
}

#[test]
fn word_boundaries_are_those_of_unicode_in_long_texts() {
    let text = "é card 4711 écard 12 ".repeat(2048);
    let matches = unlimited(r"\bcard \d+", &text);
    assert_eq!((matches.is_cut, matches.ranges.len()), (false, 2048));
}

#[test]
fn accepts_repetitions_of_classes() {
    let text = "id=4711 card 4111111111111111, session Ab_3456789 müller_geheim — x_12345678…";
    for (pattern, found) in [
        (r"\w{8,64}", &["4111111111111111", "Ab_3456789", "müller_geheim", "x_12345678…"][..]),
        (r"\b\w{10}\b", &["Ab_3456789", "x_12345678"]),
        (r"card \d{16,64}", &["card 4111111111111111"]),
        (r"session[\s:=]+\w{10,40}", &["session Ab_3456789"]),
        (r"(?i)SESSION \S{4,64}", &["session Ab_3456789"]),
        (r"\w{4,40}[:=]\d{1,64}", &[]),
        (r"[\w.-]{10,100}", &["4111111111111111", "Ab_3456789", "müller_geheim", "x_12345678…"]),
    ] {
        let (_, bytes) = Pattern::new(pattern).unwrap_or_else(|error| panic!("{pattern} {error}"));
        println!("{pattern}: {bytes} bytes");
        let texts: Vec<_> = unlimited(pattern, text).ranges.into_iter().map(|range| &text[range]).collect();
        assert_eq!(texts, found, "{pattern}");
    }
}

/// Outside of ASCII, digits and white space match nothing, and other classes everything.
#[test]
fn coarse_classes_are_safe_outside_of_ascii() {
    let text = "1٣ \u{a0} _é—…";
    for (pattern, expected) in [
        (r"\d", &["1"][..]),
        (r"\s", &[" ", " "]),
        (r"[\d\s]+", &["1", " ", " "]),
        (r"\w+", &["1٣", "\u{a0}", "_é—…"]),
        (r"\S+", &["1٣", "\u{a0}", "_é—…"]),
        (r"\D+", &["٣ \u{a0} _é—…"]),
        (r"[^\w]", &["٣ \u{a0} ", "é—…"]),
        (r"é", &["é"]),
        (r"[é—]+", &["é—"]),
    ] {
        let ranges = found(Automaton::coarse(pattern), text, u32::MAX).ranges;
        let texts: Vec<_> = ranges.into_iter().map(|range| &text[range]).collect();
        assert_eq!(texts, expected, "{pattern}");
    }
}

#[test]
fn small_patterns_have_exact_classes() {
    for (pattern, found) in [(r"\w+", &["Müller", "x", "٣"][..]), (r"\d{4}|\d", &["٣"]), (r"\s", &[" ", "\u{a0}"])] {
        let text = "Müller—x…\u{a0}٣".replacen('—', " ", 1);
        let texts: Vec<_> = unlimited(pattern, &text).ranges.into_iter().map(|range| text[range].to_owned()).collect();
        assert_eq!(texts, found, "{pattern}");
    }
}

#[test]
fn bounds_the_size_of_patterns() {
    for (pattern, problem) in [
        (r"\w{8}", None),
        (r"\w{8,64}", None),
        (r"[0-9A-Za-z_é]{500,1000}", Some(PatternError::TooLarge)),
        (r"(?:\w{1000}){1000}", Some(PatternError::TooLarge)),
        (r"(?:(?:(?:(?:a{100}){100}){100}){100}){100}", Some(PatternError::TooLarge)),
        (r"(?i)[\S\s][\S\s][\S\s]", Some(PatternError::TooSlow)),
        (r"(?i:[\S--a]|[\D])", Some(PatternError::TooSlow)),
        (r"(?i)[a-z[^b]&&\S]", Some(PatternError::TooSlow)),
        (r"(?i)x[\S\s]+y", None),
        (r"[\S\s][\S\s][\S\s]", None),
        (r"(?i)token=[^&\s;]+;[^\w]", None),
        (r"\w{6}", None),
        ("[0-9A-Za-z_]{1000}", None),
        ("x*", Some(PatternError::MatchesEmpty)),
        (r"\b", Some(PatternError::MatchesEmpty)),
        ("a|", Some(PatternError::MatchesEmpty)),
        ("(a", Some(PatternError::Syntax("unclosed group".to_owned()))),
    ] {
        let result = Pattern::new(pattern);
        assert_eq!(result.as_ref().err(), problem.as_ref(), "{pattern}");
        assert!(result.is_err() || result.is_ok_and(|(_, bytes)| bytes <= automaton::MAX_BYTES), "{pattern}");
    }
    let nested = format!("{}a{}", "(".repeat(40), ")".repeat(40));
    assert!(matches!(Pattern::new(&nested), Err(PatternError::Syntax(_))));
}

#[test]
fn shares_equal_patterns() {
    let [one, other] = [0; 2].map(|_| Pattern::unchecked("shared-[0-9]+").compiled().unwrap());
    assert!(Arc::ptr_eq(&one, &other));
}

#[test]
fn evicts_the_least_recently_used_pattern_beyond_its_bytes() {
    let patterns: Vec<_> = (0..4).map(|index| Pattern::unchecked(&format!("card{index} [0-9]+"))).collect();
    let automata: Vec<_> = patterns.iter().map(|pattern| Arc::new(Automaton::new(pattern.as_str()).unwrap())).collect();
    let size = |index: usize| patterns[index].0.len() + automata[index].memory() + ENTRY_BYTES;
    let mut memory = Cache::new(size(0) + size(1) + size(2), 0);
    for index in 0..3 {
        assert!(cached(&mut memory, &patterns[index]).is_none());
        remember(&mut memory, &patterns[index], &automata[index]);
        remember(&mut memory, &patterns[index], &automata[index]);
    }
    assert_eq!(memory.total(), size(0) + size(1) + size(2), "a pattern that is inserted twice counts once");
    assert!(cached(&mut memory, &patterns[0]).is_some());
    remember(&mut memory, &patterns[3], &automata[3]);
    let kept: Vec<_> = patterns.iter().map(|pattern| cached(&mut memory, pattern).is_some()).collect();
    assert_eq!(kept, [true, false, true, true], "the second was used least recently");
    assert_eq!(memory.total(), size(0) + size(2) + size(3));
}
