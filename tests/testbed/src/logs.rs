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
pub struct LogOptions {
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
    #[must_use]
    pub fn cut(self, log: &[u8]) -> Vec<u8> {
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
