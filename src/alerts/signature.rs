//! Signatures by which a receiver knows that a request is ours, after Standard Webhooks 1.0.

use std::fmt;

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use ring::hmac;

/// The keys of one webhook. Several of them let a receiver change over from one to the next.
#[derive(Clone)]
pub struct SigningKeys(Vec<hmac::Key>);

/// Why a text holds no signing keys. It never holds any part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Nothing but space.
    #[error("holds no key")]
    Empty,
    /// More than four keys.
    #[error("holds more than 4 keys")]
    TooMany,
    /// A key that doesn't begin with `whsec_`, or isn't base64.
    #[error("holds a key that is not whsec_ and base64")]
    Syntax,
    /// A key that is too short to be safe, or longer than any receiver takes.
    #[error("holds a key that is not 24 to 64 bytes long")]
    Length,
}

/// The header that holds a message's id. It stays the same when the message is sent again.
pub const ID_HEADER: &str = "webhook-id";
/// The header that holds the time of the attempt, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
/// The header that holds the signatures.
pub const SIGNATURE_HEADER: &str = "webhook-signature";

const PREFIX: &str = "whsec_";
const COUNT_LIMIT: usize = 4;

impl SigningKeys {
    /// Reads the value of a Secret: keys of 24 to 64 bytes as base64 behind `whsec_`, with space or line
    /// breaks between them.
    ///
    /// # Errors
    /// When there is no key, or one can't be used.
    pub fn parse(value: &[u8]) -> Result<Self, KeyError> {
        let text = str::from_utf8(value).map_err(|_| KeyError::Syntax)?;
        let keys = text.split_ascii_whitespace().map(key).collect::<Result<Vec<_>, _>>()?;
        match keys.len() {
            0 => Err(KeyError::Empty),
            1..=COUNT_LIMIT => Ok(Self(keys)),
            _ => Err(KeyError::TooMany),
        }
    }

    /// The value of [`SIGNATURE_HEADER`]: one signature by each key.
    ///
    /// `time` is that of the attempt: receivers refuse what is more than five minutes off.
    #[must_use]
    pub fn sign(&self, id: &str, time: Timestamp, body: &[u8]) -> String {
        let signatures: Vec<String> = self.0.iter().map(|key| signature(key, id, time, body)).collect();
        signatures.join(" ")
    }
}

impl fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKeys({})", self.0.len())
    }
}

fn key(text: &str) -> Result<hmac::Key, KeyError> {
    let encoded = text.strip_prefix(PREFIX).ok_or(KeyError::Syntax)?;
    let bytes = BASE64_STANDARD.decode(encoded).map_err(|_| KeyError::Syntax)?;
    if !(24..=64).contains(&bytes.len()) {
        return Err(KeyError::Length);
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

fn signature(key: &hmac::Key, id: &str, time: Timestamp, body: &[u8]) -> String {
    let mut signing = hmac::Context::with_key(key);
    signing.update(format!("{id}.{}.", time.as_second()).as_bytes());
    signing.update(body);
    format!("v1,{}", BASE64_STANDARD.encode(signing.sign()))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use standardwebhooks::Webhook;

    use super::*;

    const ONE: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const TWO: &str = "whsec_b3JjaGVzdHItc2Vjb25kLWtleS1vZi0zMi1ieXRlcw==";

    fn verify(key: &str, id: &str, time: Timestamp, signature: &str, body: &[u8]) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(ID_HEADER, id.parse().unwrap());
        headers.insert(TIMESTAMP_HEADER, time.as_second().to_string().parse().unwrap());
        headers.insert(SIGNATURE_HEADER, signature.parse().unwrap());
        Webhook::new(key).unwrap().verify(body, &headers).is_ok()
    }

    #[test]
    fn the_official_library_accepts_our_signature_and_no_other() {
        let (now, body) = (Timestamp::now(), br#"{"text":"cart is down"}"#);
        let signature = SigningKeys::parse(ONE.as_bytes()).unwrap().sign("m1", now, body);
        assert!(verify(ONE, "m1", now, &signature, body));
        assert!(!verify(TWO, "m1", now, &signature, body), "another key");
        assert!(!verify(ONE, "m2", now, &signature, body), "another id");
        assert!(!verify(ONE, "m1", now, &signature, b"{}"), "another body");
    }

    #[test]
    fn a_receiver_may_change_over_from_one_key_to_the_next() {
        let (now, body) = (Timestamp::now(), b"{}");
        let both = SigningKeys::parse(format!("{ONE}\n {TWO}\n").as_bytes()).unwrap().sign("m1", now, body);
        assert!(verify(ONE, "m1", now, &both, body));
        assert!(verify(TWO, "m1", now, &both, body));
    }

    #[test]
    fn keys_that_cannot_be_used_are_refused_without_being_repeated() {
        let of = |length: usize| format!("whsec_{}", BASE64_STANDARD.encode(vec![7; length]));
        let parse = |text: &str| SigningKeys::parse(text.as_bytes()).map(|_| ());
        assert_eq!(parse(" \n"), Err(KeyError::Empty));
        assert_eq!(parse("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), Err(KeyError::Syntax));
        assert_eq!(parse("whsec_***"), Err(KeyError::Syntax));
        assert_eq!(parse(&of(23)), Err(KeyError::Length));
        assert_eq!(parse(&of(24)), Ok(()));
        assert_eq!(parse(&of(64)), Ok(()));
        assert_eq!(parse(&of(65)), Err(KeyError::Length));
        assert_eq!(parse(&[ONE; 5].join(" ")), Err(KeyError::TooMany));
        assert_eq!(format!("{:?}", SigningKeys::parse(ONE.as_bytes()).unwrap()), "SigningKeys(1)");
    }
}
