//! Parses the headers that a user adds to the requests of a webhook.

use http::{HeaderMap, HeaderName, HeaderValue};

const COUNT_LIMIT: usize = 20;
/// The limit of all names and values, in bytes.
const SIZE_LIMIT: usize = 8 * 1024;
const TOO_MANY: &str = "there are more than 20 headers, or they are longer than 8 KiB";

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
/// If a header is invalid or reserved, or there are too many. The text names the header, but not its value.
pub(super) fn headers<'a>(entries: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let mut size = 0;
    for (name, value) in entries {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| no_name(name))?;
        if RESERVED.contains(&name.as_str()) || RESERVED_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix))
        {
            // It frames, routes or signs the request, or is set by Orchestr.
            return Err(format!("{name} can't be set"));
        }
        let mut value = HeaderValue::from_bytes(value.trim_ascii())
            .map_err(|_| format!("the value of {name} can't be sent as a header"))?;
        value.set_sensitive(true);
        size += name.as_str().len() + value.len();
        if headers.len() == COUNT_LIMIT || size > SIZE_LIMIT {
            return Err(TOO_MANY.to_owned());
        }
        if headers.insert(name.clone(), value).is_some() {
            return Err(no_name(name.as_str()));
        }
    }
    Ok(headers)
}

fn no_name(name: &str) -> String {
    format!("{:?} is not a header's name", name.chars().take(64).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, value: &[u8]) -> Result<HeaderMap, String> {
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
            assert_eq!(one(name, b"x"), Err(format!("{} can't be set", name.to_lowercase())));
        }
        assert_eq!(one("Proxy-Authorization", b"x"), Err("proxy-authorization can't be set".to_owned()));
        assert!(RESERVED.is_sorted());
    }

    #[test]
    fn rejects_header_injection() {
        for value in [&b"x\r\nX-B: y"[..], b"x\0y"] {
            assert_eq!(one("X-A", value), Err("the value of x-a can't be sent as a header".to_owned()));
        }
        for name in ["", ":path", "a b", "a:b", "a\nb", "caf\u{e9}"] {
            assert_eq!(one(name, b"x"), Err(no_name(name)));
        }
    }

    #[test]
    fn errors_do_not_contain_the_value() {
        let error = one("X-A", b"s3cr3t\x01").unwrap_err();
        assert_eq!(error, "the value of x-a can't be sent as a header");
        assert_eq!(one("a b", b"s3cr3t").unwrap_err(), "\"a b\" is not a header's name");
        assert_eq!(one(&" ".repeat(99), b"s3cr3t"), Err(no_name(&" ".repeat(64))));
    }

    #[test]
    fn limits_count_and_size() {
        let names: Vec<String> = (0..=COUNT_LIMIT).map(|number| format!("x-{number}")).collect();
        let entries = |count: usize| names.iter().take(count).map(|name| (name.as_str(), b"v".as_slice()));
        assert_eq!(headers(entries(COUNT_LIMIT)).unwrap().len(), COUNT_LIMIT);
        assert_eq!(headers(entries(COUNT_LIMIT + 1)), Err(TOO_MANY.to_owned()));
        let [two, most, over] = [4_094, 8_191, 8_192].map(|length| vec![b'v'; length]);
        assert!(one("x", &most).is_ok());
        assert_eq!(one("x", &over), Err(TOO_MANY.to_owned()));
        assert!(headers([("x", two.as_slice()), ("y", &two)]).is_ok());
        assert_eq!(headers([("xyz", two.as_slice()), ("yz", &two)]), Err(TOO_MANY.to_owned()));
        assert_eq!(
            headers([("x-a", b"1".as_slice()), ("X-A", b"2")]),
            Err("\"x-a\" is not a header's name".to_owned())
        );
    }
}
