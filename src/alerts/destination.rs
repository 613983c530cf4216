//! Parses and checks the URL of a webhook.

use std::{fmt, net::IpAddr, num::NonZeroU32};

use ring::pbkdf2;
use url::{Host, Url};

use super::{address::AddressPolicy, formats::receiver};
use crate::{api::WebhookFormat, hex::hex};

/// A receiver's URL. It is a secret, so `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Destination {
    format: WebhookFormat,
    url: Url,
    routing_key: String,
}

/// Which URLs are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UrlPolicy {
    /// Whether `http:` is allowed in addition to `https:`.
    pub plain_http: bool,
    /// Applies to literal addresses in the URL, and to those that its host name resolves to.
    pub addresses: AddressPolicy,
}

/// What is not a URL, not UTF-8, or longer than 2,048 bytes.
const NO_URL: &str = "is not a URL";

/// How often [`Destination::identity`] hashes: about a millisecond.
const HASH_ROUNDS: NonZeroU32 = NonZeroU32::MIN.saturating_add(1_999);
/// The limit of a URL, in bytes.
const LIMIT: usize = 2_048;

impl Destination {
    /// Parses the value of a Secret. Surrounding white space, such as the newline of `echo`, is ignored.
    ///
    /// What the format adds to the URL is appended, and a key that belongs into messages is removed and kept apart.
    ///
    /// # Errors
    /// If the URL is invalid or not allowed. The text contains no part of it. A host name may still resolve to an address that [`AddressPolicy::check`]
    /// refuses.
    pub fn new(format: WebhookFormat, value: &[u8], policy: UrlPolicy) -> Result<Self, String> {
        let text = str::from_utf8(value).map_err(|_| NO_URL)?.trim();
        if text.len() > LIMIT {
            return Err(NO_URL.to_owned());
        }
        let mut url = Url::parse(text).map_err(|_| NO_URL)?;
        let problem = match url.scheme() {
            "http" if !policy.plain_http => Some("is an http:// URL, which only --webhook-allow-http allows"),
            "http" | "https" if !url.username().is_empty() || url.password().is_some() => {
                Some("must not hold a user name or password: send them by headersFrom")
            }
            // HTTP clients accept fewer characters in a host.
            "http" | "https" => url.as_str().parse::<http::Uri>().is_err().then_some(NO_URL),
            _ => Some("must begin with https://"),
        };
        if let Some(problem) = problem {
            return Err(problem.to_owned());
        }
        // `Url` parses every spelling of an IPv4 address that a resolver accepts: octal, hexadecimal, a single number,
        // full-width digits.
        let literal = match url.host().ok_or(NO_URL)? {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some(IpAddr::V4(address)),
            Host::Ipv6(address) => Some(IpAddr::V6(address)),
        };
        if let Some(address) = literal {
            let refused = |refusal| format!("names an address that is refused: {refusal}");
            policy.addresses.check(address).map_err(refused)?;
        }
        url.set_fragment(None);
        let routing_key = receiver(format).complete_url(&mut url)?;
        Ok(Self { format, url, routing_key })
    }

    #[must_use]
    pub fn format(&self) -> WebhookFormat {
        self.format
    }

    /// The URL to request. A secret.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Identifies the receiver of an object's webhook in its status: by format, URL and routing key, so that it stays the
    /// same whatever else changes in the Secret. It is a slow hash, salted with the object's namespace, so that those who may
    /// read the status, but not the Secret, can hardly guess even a short secret in the URL.
    #[must_use]
    pub fn identity(&self, namespace: &str) -> String {
        let salt = format!("orchestr receiver\0{namespace}");
        let secret = [self.format.as_str(), self.url.as_str(), &self.routing_key].join("\0");
        let mut identity = [0; 8];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, HASH_ROUNDS, salt.as_bytes(), secret.as_bytes(), &mut identity);
        hex(&identity)
    }

    /// PagerDuty's integration key; empty for other formats. A secret.
    #[must_use]
    pub fn routing_key(&self) -> &str {
        &self.routing_key
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Destination").field("format", &self.format).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_ALLOWED: &str = "is an http:// URL, which only --webhook-allow-http allows";
    const SCHEME: &str = "must begin with https://";
    const CREDENTIALS: &str = "must not hold a user name or password: send them by headersFrom";
    const LAX: UrlPolicy = UrlPolicy { plain_http: true, addresses: AddressPolicy { private: true, loopback: false } };

    fn read(format: WebhookFormat, text: &str) -> Result<Destination, String> {
        Destination::new(format, text.as_bytes(), UrlPolicy::default())
    }

    #[test]
    fn a_receiver_is_its_format_url_and_routing_key() {
        let identity = |format, url: &str| read(format, url).unwrap().identity("shop");
        let pager = "https://events.example.com/v2/enqueue?routing_key=";
        let known = identity(WebhookFormat::PagerDuty, &format!("{pager}a1"));
        assert_eq!(known.len(), 16);
        assert_eq!(identity(WebhookFormat::PagerDuty, &format!(" {pager}a1#x\n")), known, "it is requested alike");
        for (format, url) in [
            (WebhookFormat::PagerDuty, format!("{pager}a2")),
            (WebhookFormat::PagerDuty, "https://events.example.com/v2?routing_key=a1".to_owned()),
            (WebhookFormat::Generic, format!("{pager}a1")),
        ] {
            assert_ne!(identity(format, &url), known, "{url}");
        }
        let other = read(WebhookFormat::PagerDuty, &format!("{pager}a1")).unwrap().identity("ml");
        assert_ne!(other, known, "another namespace cannot tell that it has the same receiver");
    }

    #[test]
    fn trims_white_space_and_fragment() {
        let destination = read(WebhookFormat::Slack, " https://hooks.example.com/services/T0/B0/x?a=b#c\n").unwrap();
        assert_eq!(destination.url().as_str(), "https://hooks.example.com/services/T0/B0/x?a=b");
        assert_eq!(format!("{destination:?}"), "Destination { format: Slack, .. }");
    }

    #[test]
    fn rejects_invalid_urls() {
        for (text, error) in [
            ("", NO_URL),
            ("hooks.example.com", NO_URL),
            ("https://", NO_URL),
            ("https://a b/", NO_URL),
            ("https://{{host}}/x", NO_URL),
            ("http://example.com", NOT_ALLOWED),
            ("file:///etc/passwd", SCHEME),
            ("unix:/run/x.sock", SCHEME),
            ("https://user@example.com", CREDENTIALS),
            ("https://user:secret@example.com", CREDENTIALS),
            ("https://:secret@example.com", CREDENTIALS),
        ] {
            assert_eq!(read(WebhookFormat::Generic, text), Err(error.to_owned()), "{text}");
        }
        let long = format!("https://example.com/{}", "x".repeat(LIMIT));
        assert_eq!(read(WebhookFormat::Generic, &long), Err(NO_URL.to_owned()));
        let bytes = Destination::new(WebhookFormat::Generic, b"https://\xff", UrlPolicy::default());
        assert_eq!(bytes, Err(NO_URL.to_owned()));
    }

    #[test]
    fn rejects_addresses_in_every_spelling() {
        for host in [
            "169.254.169.254",
            "2852039166",
            "0xa9fea9fe",
            "0251.0376.0251.0376",
            "0xa9.254.0xa9fe",
            "169.254.43518",
            "169.254.169.254.",
            "１６９.254.169.254",
            "169。254。169。254",
            "%31%36%39.254.169.254",
            "[::ffff:169.254.169.254]",
            "[::ffff:a9fe:a9fe]",
            "[64:ff9b::169.254.169.254]",
            "[fd00:ec2::254]",
        ] {
            let refused = Destination::new(WebhookFormat::Generic, format!("http://{host}/x").as_bytes(), LAX);
            let metadata = "names an address that is refused: it is a cloud's metadata service";
            assert_eq!(refused, Err(metadata.to_owned()), "{host}");
        }
        for host in ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "017700000001", "[::1]"] {
            let refused = Destination::new(WebhookFormat::Generic, format!("http://{host}/x").as_bytes(), LAX);
            assert!(refused.unwrap_err().contains("it is a loopback address"), "{host}");
        }
    }

    #[test]
    fn appends_the_path_of_alertmanagers_api() {
        for (url, expected) in [
            ("https://am.example.com", "https://am.example.com/api/v2/alerts"),
            ("https://am.example.com/", "https://am.example.com/api/v2/alerts"),
            ("https://example.com/am/", "https://example.com/am/api/v2/alerts"),
            ("https://am.example.com/api/v2/alerts", "https://am.example.com/api/v2/alerts"),
        ] {
            assert_eq!(read(WebhookFormat::Alertmanager, url).unwrap().url().as_str(), expected);
        }
    }

    #[test]
    fn takes_the_routing_key_out_of_a_pagerduty_url() {
        let url = "https://events.example.com/v2/enqueue?a=b&routing_key=R012345678901234567890123456789A";
        let destination = read(WebhookFormat::PagerDuty, url).unwrap();
        assert_eq!(destination.url().as_str(), "https://events.example.com/v2/enqueue?a=b");
        assert_eq!(destination.routing_key(), "R012345678901234567890123456789A");
        for bad in ["", "?routing_key=", "?routing_key=a%20b", "?key=abc"] {
            let url = format!("https://events.example.com/v2/enqueue{bad}");
            let refused = read(WebhookFormat::PagerDuty, &url);
            assert!(refused.unwrap_err().starts_with("lacks its routing_key"), "{bad}");
        }
    }
}
