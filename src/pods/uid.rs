//! The identity of a pod.

use std::fmt;

/// A pod's UID: the 128 bits of a UUID, or a hash of any other text. Stored in quarters, because a `u128` or a `u64`
/// would pad the structs that contain it to a multiple of 16 or 8 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid([u32; 4]);

impl Uid {
    /// Parses a UUID. Other texts, such as the UIDs of static pods, are hashed (FNV-1a).
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let digits = || text.bytes().filter(|byte| *byte != b'-');
        if digits().count() == 32 && digits().all(|byte| byte.is_ascii_hexdigit()) {
            let digit = |byte| u128::from(char::from(byte).to_digit(16).unwrap_or_default());
            return digits().fold(0, |uid: u128, byte| uid << 4 | digit(byte)).into();
        }
        let hash = text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        });
        hash.into()
    }
}

impl From<u128> for Uid {
    fn from(bits: u128) -> Self {
        Self([96, 64, 32, 0].map(|shift| (bits >> shift) as u32))
    }
}

impl From<Uid> for u128 {
    fn from(Uid(quarters): Uid) -> Self {
        quarters.into_iter().fold(0, |bits, quarter| bits << 32 | Self::from(quarter))
    }
}

/// The text of a UUID, in lower case as Kubernetes writes it.
impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([a, b, c, d]) = self;
        write!(f, "{a:08x}-{:04x}-{:04x}-{:04x}-{:04x}{d:08x}", b >> 16, b & 0xffff, c >> 16, c & 0xffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_a_uuid_as_it_was_parsed() {
        let text = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
        assert_eq!(Uid::from_text(text).to_string(), text);
    }

    #[test]
    fn keeps_all_bits() {
        let bits = 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978;
        assert_eq!(u128::from(Uid::from(bits)), bits);
        assert!(Uid::from(bits) < Uid::from(bits + 1) && Uid::from(1 << 96) > Uid::from((1 << 96) - 1));
    }

    #[test]
    fn distinguishes_uids_that_are_not_uuids() {
        assert_ne!(Uid::from_text("mirror-a"), Uid::from_text("mirror-b"));
    }
}
