//! Cutting a log as a real kubelet does.

use orchestr_testbed::LogOptions;

/// The most bytes of a record of containerd.
const RECORD: usize = 16 * 1024;

fn cut(log: &str, tail_lines: Option<usize>, limit_bytes: Option<usize>) -> String {
    let options = LogOptions { tail_lines, limit_bytes, timestamps: false };
    String::from_utf8(options.cut(log.as_bytes())).unwrap()
}

#[test]
fn counts_lines_from_the_end_and_bytes_from_there_on() {
    let log = "one\ntwo\nthree\nfour";
    assert_eq!(cut(log, None, None), log);
    assert_eq!(cut(log, Some(2), None), "three\nfour");
    assert_eq!(cut(log, Some(2), Some(4)), "thre");
    assert_eq!(cut(log, Some(0), None), "");
    assert_eq!(cut(log, Some(9), Some(5)), "one\nt");
    assert_eq!(cut("", Some(2), Some(4)), "");
}

#[test]
fn counts_the_records_of_a_long_line_as_lines() {
    let log = format!("first\n{}\n", "x".repeat(2 * RECORD + 3));
    assert_eq!(cut(&log, Some(1), None), "xxx\n");
    assert_eq!(cut(&log, Some(2), None).len(), RECORD + 4);
    let whole = format!("{}\n", "x".repeat(RECORD));
    assert_eq!(cut(&whole, Some(1), None), whole);
}

#[test]
fn adds_timestamps_to_lines_and_not_to_records() {
    let options = LogOptions { timestamps: true, ..LogOptions::default() };
    let log = format!("{}\nend", "x".repeat(RECORD + 1));
    let sent = String::from_utf8(options.cut(log.as_bytes())).unwrap();
    assert_eq!(sent.matches("2026-01-01T").count(), 2);
    assert!(sent.ends_with("\n2026-01-01T00:00:00.000000002Z end"));
}
