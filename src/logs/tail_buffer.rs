//! A bounded buffer for the end of a stream.

use std::collections::VecDeque;

/// The shortest record into which a runtime splits a long line, in bytes: that of CRI-O. Those of containerd and Docker
/// have 16 KiB. A kubelet counts each record as a line.
const MIN_RECORD: usize = 8 * 1024;

/// Keeps the last bytes that were pushed, and counts all.
#[derive(Debug)]
pub(super) struct TailBuffer {
    bytes: VecDeque<u8>,
    capacity: usize,
    /// The number of bytes pushed.
    pub(super) total: usize,
    /// The most lines that a kubelet may have counted, without the last one.
    records: usize,
    /// The length of the last, incomplete record.
    last: usize,
}

impl TailBuffer {
    pub(super) fn new(capacity: usize) -> Self {
        Self { bytes: VecDeque::new(), capacity, total: 0, records: 0, last: 0 }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.total += chunk.len();
        for part in chunk.split_inclusive(|&byte| byte == b'\n') {
            self.last += part.len();
            self.records += self.last / MIN_RECORD;
            self.last %= MIN_RECORD;
            if part.ends_with(b"\n") {
                self.records += 1;
                self.last = 0;
            }
        }
        let chunk = chunk.get(chunk.len().saturating_sub(self.capacity)..).unwrap_or_default();
        let excess = (self.bytes.len() + chunk.len()).saturating_sub(self.capacity);
        self.bytes.drain(..excess);
        self.bytes.extend(chunk);
    }

    /// Whether earlier bytes were dropped.
    pub(super) fn has_dropped(&self) -> bool {
        self.total > self.bytes.len()
    }

    /// Whether the first line may be incomplete, if the kubelet was asked for this many lines.
    pub(super) fn may_be_cut(&self, lines: usize) -> bool {
        self.has_dropped() || self.records + usize::from(self.last > 0) >= lines
    }

    pub(super) fn bytes(&mut self) -> &[u8] {
        self.bytes.make_contiguous()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_end() {
        let mut buffer = TailBuffer::new(8);
        for chunk in ["abc", "", "defgh"] {
            buffer.push(chunk.as_bytes());
        }
        assert!(buffer.bytes() == b"abcdefgh" && !buffer.has_dropped());
        buffer.push(b"i");
        assert!(buffer.bytes() == b"bcdefghi" && buffer.has_dropped() && buffer.total == 9);
        buffer.push(b"0123456789");
        assert_eq!(buffer.bytes(), b"23456789");
    }

    #[test]
    fn counts_each_record_of_a_long_line() {
        let may_be_cut = |parts: &[&[u8]], lines| {
            let mut buffer = TailBuffer::new(1 << 20);
            parts.iter().for_each(|part| buffer.push(part));
            buffer.may_be_cut(lines)
        };
        assert!(may_be_cut(&[b"a\nb\n"], 2) && !may_be_cut(&[b"a\nb\n"], 3));
        assert!(may_be_cut(&[b"a\n", b"b", b"c"], 2) && !may_be_cut(&[b"a\n", b"b", b"c"], 3));
        let long = vec![b'x'; MIN_RECORD];
        assert!(may_be_cut(&[&long, &long, b"\n"], 3) && !may_be_cut(&[&long, &long, b"\n"], 4));
        let mut small = TailBuffer::new(4);
        small.push(b"abcde");
        assert!(small.may_be_cut(1000), "the beginning was dropped");
    }
}
