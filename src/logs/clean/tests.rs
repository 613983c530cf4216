use proptest::prelude::*;

use super::*;
use crate::logs::{MASK, Masking, Pattern, clean_text};

fn policy(tail_lines: u32, max_bytes: u32) -> LogPolicy {
    LogPolicy { tail_lines, max_bytes, redact: true, redact_patterns: Vec::new() }
}

fn whole(raw: &[u8]) -> String {
    clean(raw, false, &policy(1000, 65536)).text
}

#[test]
fn removes_control_sequences() {
    let table: &[(&str, &str)] = &[
        ("plain\ttext\n", "plain\ttext"),
        ("\u{1b}[1;31mred\u{1b}[0m", "red"),
        ("\u{1b}[38:2::255:0:0mred\u{1b}[m", "red"),
        ("\u{1b}]0;title\u{7}text", "text"),
        ("\u{1b}]8;;https://example.com\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
        ("\u{1b}]0;never closed\nnext", "0;never closed\nnext"),
        ("\u{1b}Pq#0;2;0\u{1b}\\sixel", "sixel"),
        ("\u{1b}(Btext\u{1b}7\u{1b}8\u{1b}c", "text"),
        ("\u{1b}[notfinal\u{1b}", "otfinal"),
        ("\u{1b}[12", "12"),
        ("\u{9b}31mred\u{9d}0;t\u{9c}x", "redx"),
        ("a\u{1b}\nb", "a\nb"),
        ("a\r\nb\r\r\nc", "a\nb\nc"),
        ("10%\r20%\r30%\ndone", "30%\ndone"),
        ("done\r\r", "done"),
        ("a\0b\u{8}c\u{7f}d\u{85}e\u{b}f", "abcdef"),
        ("\u{202e}evil\u{2066}x\u{200b}y\u{feff}z\u{e0041}", "evilxyz"),
        ("a\u{2028}b", "a b"),
        ("emoji 👩\u{200d}🚀 ok", "emoji 👩🚀 ok"),
        ("  indented\n\n  more\n\n\n", "  indented\n\n  more"),
    ];
    for (raw, want) in table {
        assert_eq!(whole(raw.as_bytes()), *want, "{raw:?}");
    }
}

#[test]
fn replaces_and_reports_invalid_utf8() {
    let cleaned = clean(b"a\xff\xfeb \xe2\x82", false, &policy(10, 256));
    assert_eq!(cleaned.text, "a\u{fffd}\u{fffd}b \u{fffd}");
    assert!(cleaned.lossy);
    // A character that was split by the cut is not reported.
    let cut = "€€€€ head\nshown".as_bytes();
    assert_eq!(
        clean(&cut[1..], true, &policy(10, 256)),
        Cleaned { text: "shown".into(), shortened: true, lossy: false, masked_whole: false }
    );
}

#[test]
fn keeps_the_end_within_bounds() {
    let log: String = (0..100).map(|line| format!("line {line}\n")).collect();
    let cleaned = clean(log.as_bytes(), false, &policy(2, 256));
    assert_eq!(cleaned.text, "line 98\nline 99");
    assert!(cleaned.shortened);

    let log = format!("{}€end\n\n", "x".repeat(3_000_000));
    let cleaned = clean(log.as_bytes(), false, &policy(20, 257));
    assert!(cleaned.text.ends_with("€end") && cleaned.text.len() == 257, "{}", cleaned.text.len());
    let cleaned = clean("€".repeat(100).as_bytes(), false, &policy(20, 256));
    assert_eq!(cleaned.text, "€".repeat(85));
    assert!(!clean(b"one\ntwo\n", false, &policy(2, 256)).shortened);
}

#[test]
fn removes_a_cut_line() {
    let policy = policy(1000, 65536);
    assert_eq!(clean(b"word=hunter2\nnext\n", true, &policy).text, "next");
    // Of a short log of one word, nothing is left.
    assert_eq!(clean("s".repeat(400).as_bytes(), true, &policy).text, "");
    // Of a log of one line, only the head is removed, up to a space.
    let line = format!("{} tail of it", "s".repeat(40));
    assert_eq!(clean(line.as_bytes(), true, &policy).text, "tail of it");
    let line = format!("{} tail of it", "s".repeat(4000));
    assert_eq!(clean(line.as_bytes(), true, &policy).text.len(), line.len() - line.len() / 4);
    let line = format!("{} {}", "s".repeat(12), "t".repeat(36));
    assert_eq!(clean(line.as_bytes(), true, &policy).text, "t".repeat(36));
}

#[test]
fn removes_the_last_word_of_a_log_that_lost_its_end() {
    for (log, kept) in [
        ("the password is hunter", "the password is "),
        ("one\ntwo\n", "one\ntwo\n"),
        ("one\ntoken", "one\n"),
        ("word", ""),
        ("", ""),
    ] {
        assert_eq!(without_last_word(log.as_bytes()), kept.as_bytes());
    }
    assert_eq!(without_last_word(&[b'x'; 10_000]).len(), 10_000 - MARGIN);
}

#[test]
fn uses_the_removed_head_as_context() {
    let head = format!("cut off\n-----BEGIN PRIVATE KEY-----\n{}\n", "A1b2".repeat(16));
    let log = format!("{head}{}\n-----END PRIVATE KEY-----\nlast", "C3z4".repeat(16));
    assert_eq!(clean(log.as_bytes(), true, &policy(1000, 65536)).text, format!("{MASK}\nlast"));
    // Both ends of the key are missing.
    let log = format!("f3Zz\n{0}\n{0}\n", "C3z4".repeat(16));
    assert_eq!(clean(log.as_bytes(), true, &policy(1000, 65536)).text, MASK);
    // Lines that are too long for a key, or hexadecimal.
    let log = format!("f3Zz\n{}\n{}\n", "C3z4".repeat(30), "c3d4".repeat(16));
    assert!(!clean(log.as_bytes(), true, &policy(1000, 65536)).text.contains(MASK));
}

#[test]
fn redacts_credentials_hidden_by_control_characters() {
    for log in [
        "pass\u{1b}[1mword=\u{1b}[31mhunter2",
        "pass\0word=hunter2",
        "pass\u{200b}word: hunter2",
        "\u{202e}password=hunter2",
        "password=\rhunter2",
        "password=x\rpassword=hunter2",
        "\u{1b}]0;t\u{7}password=hunter2",
    ] {
        assert!(!whole(log.as_bytes()).contains("hunter2"), "{log:?}");
    }
}

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::new(text).unwrap().0).collect()
}

#[test]
fn redacts_user_defined_patterns() {
    let mut policy = policy(20, 4096);
    policy.redact_patterns = patterns(&["(?m)^card .*$", "z+"]);
    assert_eq!(clean(b"card 4111\na password=x zz", false, &policy).text, format!("{MASK}\na password={MASK} {MASK}"));
    policy.redact = false;
    assert_eq!(clean(b"card 4111\npassword=x", false, &policy).text, format!("{MASK}\npassword=x"));
}

#[test]
fn masks_a_log_to_its_end_if_patterns_take_too_long() {
    let mut policy = policy(1000, 65536);
    policy.redact_patterns = patterns(&["x[^z]*z|x"]);
    let log = format!("{}\n{}secret", "start of the log", "x y ".repeat(64 * 1024));
    let Cleaned { text, masked_whole, .. } = clean(log.as_bytes(), false, &policy);
    assert!(masked_whole && text.starts_with("start of the log\n") && text.ends_with(MASK), "{}", &text[..100]);
    assert!(!text.contains(['x', 'z']) && !text.contains("secret"));
    assert!(!clean(b"x y z x", false, &policy).masked_whole);
}

#[test]
fn makes_one_line_of_a_message() {
    assert_eq!(clean_text("back-off\n\t5m0s \u{1b}[1mrestarting  x", None, 100), "back-off 5m0s restarting x");
    assert_eq!(clean_text("bad token=abc123 x", None, 100), format!("bad token={MASK} x"));
    assert_eq!(clean_text("€€€€€€", None, 10), "€€…");
    assert_eq!(clean_text("abc", None, 2), "");
    let open = LogPolicy { redact: false, ..policy(1, 256) };
    assert_eq!(clean_text("token=abc123", Some(&Masking::immediate(Some(&open))), 100), "token=abc123");
}

#[test]
fn removes_the_head_of_a_message_that_the_kubelet_cut() {
    let secret = "Winter-Mole-7-Winter-Mole-7";
    for length in [4096, 2048, 1024, 128] {
        // The key of the first value is lost.
        for line in [format!("{secret}\nsecond line "), format!("{secret}\", \"user\": \"bob\" ")] {
            let message = line.clone() + &"x".repeat(length - line.len() - 4) + " end";
            let shown = clean_text(&format!("…{message}"), None, usize::MAX);
            assert!(!shown.contains("Mole") && shown.ends_with("end"), "{length}: {shown}");
            assert!(clean_text(&message, None, usize::MAX).contains("Mole"), "a whole message");
        }
    }
}

/// Every kind of credential, with a placeholder for its secret.
const KINDS: &[&str] = &[
    "password={}",
    "DB_PASSWORD={}",
    "db.password: {}",
    "{\"id\":1,\"apiKey\":\"{}\",\"x\":2}",
    "{\"msg\":\"{\\\"token\\\":\\\"{}\\\"}\"}",
    "{'secret': '{}'}",
    "run --password {} --force",
    "GET /?access_token={}&x=1",
    "Authorization: Bearer {}",
    "authorization: Basic {}==",
    "postgres://bob:{}@db/shop",
    "Server=db;AccountKey={};x=1",
    "eyJ{}.{}.{}",
    "ghp_{}",
    "github_pat_{}",
    "glpat-{}",
    "xoxb-1234-{}",
    "https://hooks.slack.com/services/{}",
    "https://discord.com/api/webhooks/123/{}",
    "sk_live_{}",
    "sk-ant-api03-{}",
    "hvs.{}",
    "SG.{}.{}",
    "GOCSPX-{}",
    "-----BEGIN PRIVATE KEY-----\\n{}\\n-----END PRIVATE KEY-----",
    "-----BEGIN RSA PRIVATE KEY-----\n{}{}{}\n{}{}{}\n{}\n-----END RSA PRIVATE KEY-----",
];

/// Kinds that are found by what stands before and after them.
const CONTEXT_KINDS: &[&str] = &[
    "Authorization: Splunk {}",
    "svc:{}@tcp(db:3306)/shop",
    "scott/{}@//db:1521/shop",
    "mysql -u root -p{} shop",
    "redis-cli -a {} ping",
    "curl -u bob:{} https://a.example",
    "machine git.example login bob password {}",
    "<user name=\"bob\" password=\"{}\"/>",
    "env['API_TOKEN'] = '{}'",
    "{\"raw\":\"host: a\\r\\ncookie: {}\\r\\n\"}",
];

/// Whether a text contains eight consecutive characters of a secret.
fn leaks(text: &str, secret: &str) -> bool {
    (0..secret.len() - 7).any(|at| text.contains(&secret[at..at + 8]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn redacts_credentials_wherever_the_log_is_cut(
        kind in prop::sample::select([KINDS, CONTEXT_KINDS].concat()),
        secret in "[A-Z][a-z][0-9][a-zA-Z0-9]{21}",
        before in prop::collection::vec("[a-z ]{0,40}", 0..8),
        after in prop::collection::vec("[a-z ]{0,40}", 0..8),
        break_lines: bool,
        cut in any::<prop::sample::Index>(),
    ) {
        let planted = kind.replace("{}", &secret);
        let log = if break_lines || planted.contains('\n') {
            format!("{}\n{planted}\n{}\nthe end\n", before.join("\n"), after.join("\n"))
        } else {
            // One line, long enough that no credential is a quarter of it.
            format!("{} {planted} {}", before.join(" "), " and so on".repeat(100))
        };
        let policy = policy(1000, 65536);
        let shown = clean(log.as_bytes(), false, &policy).text;
        prop_assert!(!leaks(&shown, &secret), "whole: {shown}");

        // The end is missing: at most seven characters of a token cannot be told from a word.
        let shown = clean(&log.as_bytes()[..cut.index(log.len())], false, &policy).text;
        prop_assert!(CONTEXT_KINDS.contains(&kind) || !leaks(&shown, &secret), "without its end: {shown}");

        let log = &log.as_bytes()[cut.index(log.len())..];
        let shown = clean(log, true, &policy).text;
        prop_assert!(!leaks(&shown, &secret), "cut to {:?}: {shown}", String::from_utf8_lossy(log));
    }

    #[test]
    fn bounds_any_input(
        raw in prop::collection::vec(prop_oneof![
            3 => any::<u8>(),
            3 => prop::sample::select(b"\x1b[]P\\;m\x07\r\n\t \"'=:{}-".to_vec()),
            2 => prop::sample::select(b"password".to_vec()),
        ], 0..600),
        cut: bool,
        lines in 1..50_u32,
        bytes in 256..400_u32,
    ) {
        let policy = policy(lines, bytes);
        let text = clean(&raw, cut, &policy).text;
        prop_assert!(text.len() <= bytes as usize);
        prop_assert!(text.lines().count() <= lines as usize);
        prop_assert!(!text.chars().any(|letter| letter.is_control() && !matches!(letter, '\n' | '\t')));
        prop_assert!(clean_text(&String::from_utf8_lossy(&raw), Some(&Masking::immediate(Some(&policy))), 50).len() <= 50);
    }

    #[test]
    fn is_idempotent(parts in prop::collection::vec(
        (prop_oneof![
            "[ -~]{0,24}",
            (prop::sample::select(KINDS), "[a-zA-Z0-9]{1,30}").prop_map(|(kind, secret)| kind.replace("{}", &secret)),
        ], prop::sample::select(vec!["\n", " ", "\r"])),
        0..8,
    )) {
        let log: String = parts.iter().flat_map(|(part, end)| [part.as_str(), end]).collect();
        let once = whole(log.as_bytes());
        prop_assert_eq!(&whole(once.as_bytes()), &once);
    }
}
