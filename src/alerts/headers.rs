//! Parses the headers that a user adds to the requests of a webhook.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Why headers are rejected. The error names the header, but not its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeaderError {
    #[error("{0:?} is not a header's name")]
    Name(String),
    /// The value contains a line break or another control character.
    #[error("the value of {0} can't be sent as a header")]
    Value(HeaderName),
    /// The header frames, routes or signs the request, or is set by Orchestr.
    #[error("{0} can't be set")]
    Reserved(HeaderName),
    #[error("there are more than 20 headers, or they are longer than 8 KiB")]
    TooMany,
}

const COUNT_LIMIT: usize = 20;
/// The limit of all names and values, in bytes.
const SIZE_LIMIT: usize = 8 * 1024;

/// Headers that frame or route the request, or that Orchestr sets. Sorted.
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
/// Standard Webhooks, and proxies.
const RESERVED_PREFIXES: [&str; 2] = ["webhook-", "proxy-"];

/// Parses the keys and values of a Secret as headers. White space around a value, such as the newline of `echo`, is
/// ignored. The values are marked as sensitive, so that they are not printed.
///
/// # Errors
/// If a header is invalid or reserved, or there are too many.
pub(super) fn headers<'a>(entries: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<HeaderMap, HeaderError> {
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
    fn trims_values_and_marks_them_as_sensitive() {
        let headers = headers([("Authorization", b"Bearer abc\n".as_slice()), ("X-Team", b" shop ")]).unwrap();
        assert_eq!(headers["authorization"], "Bearer abc");
        assert_eq!(headers["x-team"], "shop");
        assert!(headers.values().all(HeaderValue::is_sensitive));
        assert!(!format!("{headers:?}").contains("Bearer"));
    }

    #[test]
    fn rejects_headers_that_frame_or_sign_the_request() {
        for name in ["Host", "Content-Length", "TRANSFER-ENCODING", "Connection", "webhook-id", "Webhook-Signature"] {
            let result = one(name, b"x");
            assert!(matches!(result, Err(HeaderError::Reserved(_))), "{name}: {result:?}");
        }
        assert!(matches!(one("Proxy-Authorization", b"x"), Err(HeaderError::Reserved(_))));
        assert!(RESERVED.is_sorted());
    }

    #[test]
    fn rejects_header_injection() {
        assert!(matches!(one("X-A", b"x\r\nX-B: y"), Err(HeaderError::Value(_))));
        assert!(matches!(one("X-A", b"x\0y"), Err(HeaderError::Value(_))));
        for name in ["", ":path", "a b", "a:b", "a\nb", "caf\u{e9}"] {
            assert!(matches!(one(name, b"x"), Err(HeaderError::Name(_))), "{name:?}");
        }
    }

    #[test]
    fn errors_do_not_contain_the_value() {
        let error = one("X-A", b"s3cr3t\x01").unwrap_err().to_string();
        assert_eq!(error, "the value of x-a can't be sent as a header");
        assert_eq!(one("a b", b"s3cr3t").unwrap_err().to_string(), "\"a b\" is not a header's name");
        assert_eq!(one(&" ".repeat(99), b"s3cr3t"), Err(HeaderError::Name(" ".repeat(64))));
    }

    #[test]
    fn limits_count_and_size() {
        let names: Vec<String> = (0..=COUNT_LIMIT).map(|number| format!("x-{number}")).collect();
        let entries = |count: usize| names.iter().take(count).map(|name| (name.as_str(), b"v".as_slice()));
        assert_eq!(headers(entries(COUNT_LIMIT)).unwrap().len(), COUNT_LIMIT);
        assert_eq!(headers(entries(COUNT_LIMIT + 1)), Err(HeaderError::TooMany));
        let [two, most, over] = [4_094, 8_191, 8_192].map(|length| vec![b'v'; length]);
        assert!(one("x", &most).is_ok());
        assert_eq!(one("x", &over), Err(HeaderError::TooMany));
        assert!(headers([("x", two.as_slice()), ("y", &two)]).is_ok());
        assert_eq!(headers([("xyz", two.as_slice()), ("yz", &two)]), Err(HeaderError::TooMany));
        assert_eq!(headers([("x-a", b"1".as_slice()), ("X-A", b"2")]), Err(HeaderError::Name("x-a".to_owned())));
    }
}
