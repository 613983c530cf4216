//! Headers that a user adds to a webhook's requests.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Why a Secret's keys and values are no headers. It names a header, never its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Not a header's name.
    #[error("{0:?} is not a header's name")]
    Name(String),
    /// Not a header's value: it holds a line break or another control character.
    #[error("the value of {0} can't be sent as a header")]
    Value(HeaderName),
    /// A header that says how the request itself is to be read, or who signed it.
    #[error("{0} can't be set")]
    Reserved(HeaderName),
    /// More than 20 headers, or more than 8 KiB.
    #[error("there are more than 20 headers, or they are longer than 8 KiB")]
    TooMany,
}

/// How many headers a webhook may add.
const COUNT_LIMIT: usize = 20;
/// How long they may be together, in bytes.
const SIZE_LIMIT: usize = 8 * 1024;

/// What frames a request, routes it, or is ours to say. Sorted.
const RESERVED: [&str; 14] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];
/// Beginnings of names that are not to be set: those of Standard Webhooks, of proxies, and HTTP/2's own.
const RESERVED_PREFIXES: [&str; 2] = ["webhook-", "proxy-"];

/// Reads a Secret's keys and values as headers. Space around a value, such as the newline that `echo`
/// leaves, is no part of it. The values are marked sensitive.
///
/// # Errors
/// When one of them can't or may not be sent.
pub fn headers<'a>(entries: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<HeaderMap, HeaderError> {
    let mut headers = HeaderMap::new();
    let mut size = 0;
    for (name, value) in entries {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| HeaderError::Name(clip(name)))?;
        if RESERVED.contains(&name.as_str()) || RESERVED_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix))
        {
            return Err(HeaderError::Reserved(name));
        }
        let mut value = HeaderValue::from_bytes(value.trim_ascii()).map_err(|_| HeaderError::Value(name.clone()))?;
        value.set_sensitive(true);
        size += name.as_str().len() + value.len();
        if headers.len() == COUNT_LIMIT || size > SIZE_LIMIT {
            return Err(HeaderError::TooMany);
        }
        if headers.insert(name.clone(), value).is_some() {
            return Err(HeaderError::Name(name.to_string()));
        }
    }
    Ok(headers)
}

fn clip(name: &str) -> String {
    name.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, value: &[u8]) -> Result<HeaderMap, HeaderError> {
        headers([(name, value)])
    }

    #[test]
    fn headers_are_taken_as_written_and_marked_sensitive() {
        let headers = headers([("Authorization", b"Bearer abc\n".as_slice()), ("X-Team", b" shop ")]).unwrap();
        assert_eq!(headers["authorization"], "Bearer abc");
        assert_eq!(headers["x-team"], "shop");
        assert!(headers.values().all(HeaderValue::is_sensitive));
        assert!(!format!("{headers:?}").contains("Bearer"));
    }

    #[test]
    fn what_frames_or_signs_the_request_is_refused() {
        for name in ["Host", "Content-Length", "TRANSFER-ENCODING", "Connection", "webhook-id", "Webhook-Signature"] {
            let refused = one(name, b"x");
            assert!(matches!(refused, Err(HeaderError::Reserved(_))), "{name}: {refused:?}");
        }
        assert!(matches!(one("Proxy-Authorization", b"x"), Err(HeaderError::Reserved(_))));
        assert!(RESERVED.is_sorted());
    }

    #[test]
    fn nothing_can_be_smuggled_in() {
        assert!(matches!(one("X-A", b"x\r\nX-B: y"), Err(HeaderError::Value(_))));
        assert!(matches!(one("X-A", b"x\0y"), Err(HeaderError::Value(_))));
        for name in ["", ":path", "a b", "a:b", "a\nb", "caf\u{e9}"] {
            assert!(matches!(one(name, b"x"), Err(HeaderError::Name(_))), "{name:?}");
        }
    }

    #[test]
    fn an_error_does_not_tell_the_value() {
        let error = one("X-A", b"s3cr3t\x01").unwrap_err().to_string();
        assert_eq!(error, "the value of x-a can't be sent as a header");
    }

    #[test]
    fn there_is_a_limit() {
        let names: Vec<String> = (0..=COUNT_LIMIT).map(|number| format!("x-{number}")).collect();
        let entries = |count: usize| names.iter().take(count).map(|name| (name.as_str(), b"v".as_slice()));
        assert_eq!(headers(entries(COUNT_LIMIT)).unwrap().len(), COUNT_LIMIT);
        assert_eq!(headers(entries(COUNT_LIMIT + 1)), Err(HeaderError::TooMany));
        assert_eq!(one("x", &[b'v'; SIZE_LIMIT]), Err(HeaderError::TooMany));
        assert_eq!(headers([("x-a", b"1".as_slice()), ("X-A", b"2")]), Err(HeaderError::Name("x-a".to_owned())));
    }
}
