use proptest::prelude::*;
use regex::Regex;

use super::*;

/// A spec may have this many patterns.
const PATTERNS: usize = crate::api::limits::REDACT_PATTERNS;
/// The longest text: the buffer of a log with the largest `maxBytes`.
const LONGEST: usize = 256 * 1024;

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::new(text).unwrap_or_else(|error| panic!("{text} {error}")).0).collect()
}

fn unlimited(pattern: &str, text: &str) -> Matches {
    let automaton = Automaton::new(pattern).map(Arc::new);
    find_in([automaton].into_iter(), text, u64::MAX)
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
            let found = find_in([Ok(Arc::new(automaton))].into_iter(), &text, u64::MAX);
            prop_assert_eq!(found.ranges, expected(&pattern, &text));
        }
    }

    #[test]
    fn coarse_classes_are_exact_within_ascii(
        pattern in r"(\(\?i\))?((a|é|\[ab\]|\\w|\\W|\\d|\\D|\\s|\\S|\\b|\[\^\\w-\]|\(\?:b\|\\d\))(\*|\+|\?|\*\?|\{2\})?\|?){1,6}",
        text in "[abA1_ \n-]{0,12}",
    ) {
        if let Ok(automaton) = Automaton::coarse(&pattern) {
            let found = find_in([Ok(Arc::new(automaton))].into_iter(), &text, u64::MAX);
            prop_assert_eq!(found.ranges, expected(&pattern, &text));
        }
    }

    #[test]
    fn a_cut_search_masks_what_the_whole_one_would(
        pattern in r"(a|b|\[\^a\]|\[ab\]|\.|\(a\|ab\))(\*|\+)?(a|b|\.)(b\*c\|a)?",
        text in "[ab ]{1,40}",
        budget in 0_u64..400,
    ) {
        if let Ok(automaton) = Automaton::new(&pattern) {
            let cut = find_in([Ok(Arc::new(automaton))].into_iter(), &text, budget);
            let whole = unlimited(&pattern, &text);
            prop_assert!(cut.steps <= budget);
            prop_assert_eq!(cut.is_cut, whole.steps > budget);
            let covers = |range: &Range<usize>| cut.ranges.iter().any(|own| own.start <= range.start && range.end <= own.end);
            prop_assert!(whole.ranges.iter().all(covers), "{:?} {:?}", cut, whole);
        }
    }
}

#[test]
fn ordinary_patterns_take_a_few_steps_for_each_byte() {
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
    ];
    for pattern in ordinary {
        let matches = find(&patterns(&[pattern]), &text);
        assert!(!matches.is_cut, "{pattern}");
        println!("{pattern}: {:.1} steps for each byte", matches.steps as f64 / text.len() as f64);
    }
    let together = find(&patterns(&ordinary), &text);
    assert!(!together.is_cut && together.steps < budget(text.len()), "{} steps", together.steps);
    assert_eq!(together.ranges.len(), text.lines().count(), "the customers");
}

/// For each match these read to the end of the text: 4,096 of them, which were allowed for each pattern, took 16 · 1.8 s.
#[test]
fn bounds_the_steps_of_patterns_that_read_to_the_end_for_every_match() {
    let texts: Vec<_> = (0..PATTERNS).map(|index| format!("a[^z]*z{index}|a")).collect();
    let patterns = patterns(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let text = "a".repeat(LONGEST);
    let matches = find(&patterns, &text);
    assert_eq!((matches.steps <= MAX_STEPS, matches.is_cut), (true, true));
    assert_eq!((matches.ranges.len(), matches.ranges[0].clone()), (1, 0..text.len()));

    let text = format!("kept {}", "a ".repeat(LONGEST / 2));
    let matches = find(&patterns, &text);
    assert!(matches.steps <= MAX_STEPS && matches.is_cut, "{} steps", matches.steps);
    assert_eq!((matches.ranges[0].start, matches.ranges.last().unwrap().end), (5, text.len()));
}

#[test]
fn bounds_the_steps_of_large_automata() {
    let pattern = patterns(&["[^q]{1,250}q"]);
    let text = "a".repeat(LONGEST);
    let matches = find(&pattern, &text);
    assert_eq!((matches.steps, matches.is_cut), (budget(LONGEST), true));
}

#[test]
fn the_budget_grows_with_the_text_up_to_a_limit() {
    let budgets = [0, 100, 4096, 32 * 1024, LONGEST, usize::MAX].map(budget);
    assert_eq!(budgets, [MIN_STEPS, 25_600, 1 << 20, MAX_STEPS, MAX_STEPS, MAX_STEPS]);
}

#[test]
fn an_expensive_pattern_leaves_the_others_their_share() {
    let text = format!("card 4711 {}", "x".repeat(4096));
    let matches = find(&patterns(&["x[^z]*z|x", "card [0-9]+"]), &text);
    assert!(matches.is_cut);
    assert_eq!(matches.ranges[0], 0..9, "found by the pattern after the expensive one");
    assert!(matches.ranges[1].start >= 10 && matches.ranges.last().unwrap().end == text.len());
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
    for (pattern, found) in [
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
        let automaton = Automaton::coarse(pattern).map(Arc::new);
        let ranges = find_in([automaton].into_iter(), text, u64::MAX).ranges;
        let texts: Vec<_> = ranges.into_iter().map(|range| &text[range]).collect();
        assert_eq!(texts, found, "{pattern}");
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
        assert!(result.is_err() || result.is_ok_and(|(_, bytes)| bytes <= MAX_BYTES), "{pattern}");
    }
    let nested = format!("{}a{}", "(".repeat(40), ")".repeat(40));
    assert!(matches!(Pattern::new(&nested), Err(PatternError::Syntax(_))));
}
