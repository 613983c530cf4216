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
