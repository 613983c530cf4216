//! Signs messages according to Standard Webhooks 1.0.

use std::fmt;

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use ring::hmac;

/// The keys of one webhook. A message is signed with all of them, which allows key rotation.
#[derive(Clone)]
pub struct SigningKeys(Vec<hmac::Key>);

/// What is wrong with a key that is not even one. Errors contain no part of a key.
const SYNTAX: &str = "holds a key that is not whsec_ and base64";

/// The header with the ID of the message, which is the same for all attempts.
pub(super) const ID_HEADER: &str = "webhook-id";
/// The header with the time of the attempt, in seconds since 1970.
pub(super) const TIMESTAMP_HEADER: &str = "webhook-timestamp";
pub(super) const SIGNATURE_HEADER: &str = "webhook-signature";

const PREFIX: &str = "whsec_";
const COUNT_LIMIT: usize = 4;

impl SigningKeys {
    /// Parses the value of a Secret: `whsec_` and base64 of 24 to 64 bytes for each key, separated by white space.
    ///
    /// # Errors
    /// If there is no key, or one is invalid.
    pub fn parse(value: &[u8]) -> Result<Self, &'static str> {
        let text = str::from_utf8(value).map_err(|_| SYNTAX)?;
        let keys = text.split_ascii_whitespace().map(key).collect::<Result<Vec<_>, _>>()?;
        match keys.len() {
            0 => Err("holds no key"),
            1..=COUNT_LIMIT => Ok(Self(keys)),
            _ => Err("holds more than 4 keys"),
        }
    }

    /// Returns the value of [`SIGNATURE_HEADER`], with one signature for each key.
    ///
    /// `time` is the time of the attempt. Receivers reject a time that is off by more than five minutes.
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

fn key(text: &str) -> Result<hmac::Key, &'static str> {
    let encoded = text.strip_prefix(PREFIX).ok_or(SYNTAX)?;
    let bytes = BASE64_STANDARD.decode(encoded).map_err(|_| SYNTAX)?;
    if !(24..=64).contains(&bytes.len()) {
        return Err("holds a key that is not 24 to 64 bytes long");
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
    fn the_official_library_verifies_signatures() {
        let (now, body) = (Timestamp::now(), br#"{"text":"cart is down"}"#);
        let signature = SigningKeys::parse(ONE.as_bytes()).unwrap().sign("m1", now, body);
        assert!(verify(ONE, "m1", now, &signature, body));
        assert!(!verify(TWO, "m1", now, &signature, body), "another key");
        assert!(!verify(ONE, "m2", now, &signature, body), "another id");
        assert!(!verify(ONE, "m1", now, &signature, b"{}"), "another body");
    }

    #[test]
    fn signs_with_every_key() {
        let (now, body) = (Timestamp::now(), b"{}");
        let both = SigningKeys::parse(format!("{ONE}\n {TWO}\n").as_bytes()).unwrap().sign("m1", now, body);
        assert!(verify(ONE, "m1", now, &both, body));
        assert!(verify(TWO, "m1", now, &both, body));
    }

    #[test]
    fn rejects_invalid_keys() {
        let of = |length: usize| format!("whsec_{}", BASE64_STANDARD.encode(vec![7; length]));
        let parse = |text: &str| SigningKeys::parse(text.as_bytes()).map(|_| ());
        assert_eq!(parse(" \n"), Err("holds no key"));
        assert_eq!(parse("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), Err(SYNTAX));
        assert_eq!(parse("whsec_***"), Err(SYNTAX));
        assert_eq!(parse(&of(23)), Err("holds a key that is not 24 to 64 bytes long"));
        assert_eq!(parse(&of(24)), Ok(()));
        assert_eq!(parse(&of(64)), Ok(()));
        assert_eq!(parse(&of(65)), Err("holds a key that is not 24 to 64 bytes long"));
        assert_eq!(parse(&[ONE; 5].join(" ")), Err("holds more than 4 keys"));
        assert_eq!(format!("{:?}", SigningKeys::parse(ONE.as_bytes()).unwrap()), "SigningKeys(1)");
    }
}
