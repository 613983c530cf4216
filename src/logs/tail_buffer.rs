//! The end of a stream, in bounded memory.

use std::collections::VecDeque;

/// The shortest piece that a runtime cuts a long line into, in bytes: CRI-O's; containerd's and Docker's
/// are of 16 KiB. Each piece counts as a line where a kubelet counts them.
const PIECE: usize = 8 * 1024;

/// The last bytes of what was pushed, and how much that was.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: VecDeque<u8>,
    capacity: usize,
    /// All that was pushed.
    pub total: usize,
    /// How many lines a kubelet may have counted in it, at most.
    pieces: usize,
    line: usize,
}

impl Ring {
    pub fn new(capacity: usize) -> Self {
        Self { bytes: VecDeque::new(), capacity, total: 0, pieces: 0, line: 0 }
    }

    pub fn push(&mut self, chunk: &[u8]) {
        self.total += chunk.len();
        for part in chunk.split_inclusive(|&byte| byte == b'\n') {
            self.line += part.len();
            self.pieces += self.line / PIECE;
            self.line %= PIECE;
            if part.ends_with(b"\n") {
                self.pieces += 1;
                self.line = 0;
            }
        }
        let chunk = chunk.get(chunk.len().saturating_sub(self.capacity)..).unwrap_or_default();
        let excess = (self.bytes.len() + chunk.len()).saturating_sub(self.capacity);
        self.bytes.drain(..excess);
        self.bytes.extend(chunk);
    }

    /// Whether bytes were pushed that are no longer here.
    pub fn lost_some(&self) -> bool {
        self.total > self.bytes.len()
    }

    /// Whether a kubelet that was asked for so many lines may have begun in the middle of one.
    pub fn may_be_cut(&self, lines: usize) -> bool {
        self.lost_some() || self.pieces + usize::from(self.line > 0) >= lines
    }

    pub fn bytes(&mut self) -> &[u8] {
        self.bytes.make_contiguous()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_stays() {
        let mut ring = Ring::new(8);
        for chunk in ["abc", "", "defgh"] {
            ring.push(chunk.as_bytes());
        }
        assert!(ring.bytes() == b"abcdefgh" && !ring.lost_some());
        ring.push(b"i");
        assert!(ring.bytes() == b"bcdefghi" && ring.lost_some() && ring.total == 9);
        ring.push(b"0123456789");
        assert_eq!(ring.bytes(), b"23456789");
    }

    #[test]
    fn long_lines_count_as_their_pieces() {
        let counts = |parts: &[&[u8]], lines| {
            let mut ring = Ring::new(1 << 20);
            parts.iter().for_each(|part| ring.push(part));
            ring.may_be_cut(lines)
        };
        assert!(counts(&[b"a\nb\n"], 2) && !counts(&[b"a\nb\n"], 3));
        assert!(counts(&[b"a\n", b"b", b"c"], 2) && !counts(&[b"a\n", b"b", b"c"], 3));
        let long = vec![b'x'; PIECE];
        assert!(counts(&[&long, &long, b"\n"], 3) && !counts(&[&long, &long, b"\n"], 4));
        let mut small = Ring::new(4);
        small.push(b"abcde");
        assert!(small.may_be_cut(1000), "what was lost was cut");
    }
}
