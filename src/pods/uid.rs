//! The identity of a pod.

use std::fmt;

/// A pod's UID: the 128 bits of a UUID, or a hash of any other text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(u128);

impl Uid {
    /// Parses a UUID. Other texts, such as the UIDs of static pods, are hashed (FNV-1a).
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let digits = || text.bytes().filter(|byte| *byte != b'-');
        if digits().count() == 32 && digits().all(|byte| byte.is_ascii_hexdigit()) {
            let digit = |byte| u128::from(char::from(byte).to_digit(16).unwrap_or_default());
            return Self(digits().fold(0, |uid, byte| uid << 4 | digit(byte)));
        }
        let hash = text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        });
        Self(hash)
    }
}

impl From<u128> for Uid {
    fn from(bits: u128) -> Self {
        Self(bits)
    }
}

impl From<Uid> for u128 {
    fn from(Uid(bits): Uid) -> Self {
        bits
    }
}

/// The text of a UUID, in lower case as Kubernetes writes it.
impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.0);
        let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
        f.write_str(&parts.join("-"))
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
    fn distinguishes_uids_that_are_not_uuids() {
        assert_ne!(Uid::from_text("mirror-a"), Uid::from_text("mirror-b"));
    }
}
