//! Cuts a log as a real kubelet does, according to the options of the request.
//!
//! containerd stores a log as records of at most 16 KiB: one for a short line, several for a long one. For `tailLines`,
//! the kubelet counts *records* instead of lines. `limitBytes` counts from the start of that tail, so it cuts off the
//! end of the log, not its beginning. See `k8s.io/cri-client/pkg/logs` (`ReadLogs`, `findTailLineStartIndex`) and
//! containerd's `internal/cri/io/logger.go` (`redirectLogs`).

use std::{collections::BTreeMap, str::FromStr};

/// containerd's `max_container_log_line_size`.
const RECORD: usize = 16 * 1024;

/// The options of a log request that affect the response. `sinceTime` and `sinceSeconds` are ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogOptions {
    pub tail_lines: Option<usize>,
    pub limit_bytes: Option<usize>,
    pub timestamps: bool,
}

impl LogOptions {
    pub(crate) fn new(query: &BTreeMap<String, String>) -> Self {
        fn read<T: FromStr>(query: &BTreeMap<String, String>, name: &str) -> Option<T> {
            query.get(name).and_then(|value| value.parse().ok())
        }
        Self {
            tail_lines: read(query, "tailLines"),
            limit_bytes: read(query, "limitBytes"),
            timestamps: read(query, "timestamps").unwrap_or(false),
        }
    }

    /// The part of `log` that is sent.
    pub(crate) fn cut(self, log: &[u8]) -> Vec<u8> {
        let records = records(log);
        let skip = self.tail_lines.map_or(0, |lines| records.len().saturating_sub(lines));
        let mut sent = Vec::new();
        let mut new_line = true;
        for (index, record) in records.iter().enumerate().skip(skip) {
            if self.timestamps && new_line {
                let time = format!("2026-01-01T00:00:00.{:09}Z ", index % 1_000_000_000);
                sent.extend_from_slice(time.as_bytes());
            }
            sent.extend_from_slice(record);
            new_line = record.ends_with(b"\n");
        }
        sent.truncate(self.limit_bytes.unwrap_or(usize::MAX));
        sent
    }
}

/// Splits a log as containerd stores it: a line's newline belongs to its last record.
fn records(log: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    for line in log.split_inclusive(|&byte| byte == b'\n') {
        let mut rest = line;
        while rest.strip_suffix(b"\n").unwrap_or(rest).len() > RECORD {
            let (record, more) = rest.split_at(RECORD);
            records.push(record);
            rest = more;
        }
        records.push(rest);
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
