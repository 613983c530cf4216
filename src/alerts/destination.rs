//! Where a webhook's requests go: its URL, checked.

use std::{fmt, net::IpAddr};

use url::{Host, Url};

use super::address::{AddressPolicy, AddressRefusal};
use crate::api::WebhookFormat;

/// A receiver's URL, fit to be requested. Being a secret, it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Destination {
    format: WebhookFormat,
    url: Url,
    routing_key: String,
}

/// What a URL may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UrlPolicy {
    /// Whether `http:` is allowed too.
    pub plain_http: bool,
    /// Which addresses a URL may name instead of a host.
    pub addresses: AddressPolicy,
}

/// Why a text is no URL to send alerts to. It never holds any part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not a URL, not UTF-8, or longer than 2,048 bytes.
    #[error("is not a URL")]
    Syntax,
    /// `http:`, which is not allowed.
    #[error("is an http:// URL, which only --webhook-allow-http allows")]
    PlainHttp,
    /// Neither `https:` nor `http:`.
    #[error("must begin with https://")]
    Scheme,
    /// A user name or a password stands before the host.
    #[error("must not hold a user name or password: send them by headersFrom")]
    Credentials,
    /// It names an address that is refused.
    #[error("names an address that is refused: {0}")]
    Address(AddressRefusal),
    /// A PagerDuty URL without its integration key.
    #[error("lacks its routing_key: it must end with ?routing_key=<the integration key>, which is letters and digits")]
    RoutingKey,
}

/// The longest URL in bytes.
const LIMIT: usize = 2_048;
/// Where Alertmanager takes alerts.
const ALERTMANAGER_PATH: &str = "/api/v2/alerts";
/// The query parameter of a PagerDuty URL that holds the integration key. It is ours: PagerDuty wants
/// the key in the body.
const ROUTING_KEY: &str = "routing_key";

impl Destination {
    /// Reads the value of a Secret. Space around it, such as the newline that `echo` leaves, is no part
    /// of it.
    ///
    /// Alertmanager's URL may be that of the server or of its API; PagerDuty's is that of its API with
    /// the integration key as a parameter `routing_key`, which is taken off.
    ///
    /// # Errors
    /// When alerts can't or may not be sent there. An allowed URL's name may still lead to an address
    /// that [`AddressPolicy::check`] refuses.
    pub fn new(format: WebhookFormat, value: &[u8], policy: UrlPolicy) -> Result<Self, UrlError> {
        let text = str::from_utf8(value).map_err(|_| UrlError::Syntax)?.trim();
        if text.len() > LIMIT {
            return Err(UrlError::Syntax);
        }
        let mut url = Url::parse(text).map_err(|_| UrlError::Syntax)?;
        match url.scheme() {
            "https" => {}
            "http" if policy.plain_http => {}
            "http" => return Err(UrlError::PlainHttp),
            _ => return Err(UrlError::Scheme),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::Credentials);
        }
        // The URL standard reads every spelling of an IPv4 address that a resolver would: octal,
        // hexadecimal, a single number, full-width digits.
        let literal = match url.host().ok_or(UrlError::Syntax)? {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some(IpAddr::V4(address)),
            Host::Ipv6(address) => Some(IpAddr::V6(address)),
        };
        if let Some(address) = literal {
            policy.addresses.check(address).map_err(UrlError::Address)?;
        }
        url.set_fragment(None);
        let mut routing_key = String::new();
        match format {
            WebhookFormat::Alertmanager => {
                let path = url.path().trim_end_matches('/').to_owned();
                if !path.ends_with(ALERTMANAGER_PATH) {
                    url.set_path(&format!("{path}{ALERTMANAGER_PATH}"));
                }
            }
            WebhookFormat::PagerDuty => {
                routing_key = take_routing_key(&mut url).ok_or(UrlError::RoutingKey)?;
            }
            WebhookFormat::Generic
            | WebhookFormat::Slack
            | WebhookFormat::Discord
            | WebhookFormat::Teams
            | WebhookFormat::CloudEvents => {}
        }
        Ok(Self { format, url, routing_key })
    }

    /// What the receiver reads.
    #[must_use]
    pub fn format(&self) -> WebhookFormat {
        self.format
    }

    /// What to request. A secret.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
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

fn take_routing_key(url: &mut Url) -> Option<String> {
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let key = pairs.iter().find(|(name, _)| name == ROUTING_KEY).map(|(_, value)| value.clone())?;
    let rest: Vec<_> = pairs.into_iter().filter(|(name, _)| name != ROUTING_KEY).collect();
    url.set_query(None);
    if !rest.is_empty() {
        url.query_pairs_mut().extend_pairs(rest);
    }
    let plain = key.len() <= 64 && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (plain && !key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAX: UrlPolicy = UrlPolicy { plain_http: true, addresses: AddressPolicy { private: true, loopback: false } };

    fn read(format: WebhookFormat, text: &str) -> Result<Destination, UrlError> {
        Destination::new(format, text.as_bytes(), UrlPolicy::default())
    }

    #[test]
    fn a_url_is_used_as_it_stands_in_the_secret() {
        let destination = read(WebhookFormat::Slack, " https://hooks.example.com/services/T0/B0/x?a=b#c\n").unwrap();
        assert_eq!(destination.url().as_str(), "https://hooks.example.com/services/T0/B0/x?a=b");
        assert_eq!(format!("{destination:?}"), "Destination { format: Slack, .. }");
    }

    #[test]
    fn what_is_no_receiver_is_refused_without_being_repeated() {
        for (text, error) in [
            ("", UrlError::Syntax),
            ("hooks.example.com", UrlError::Syntax),
            ("https://", UrlError::Syntax),
            ("https://a b/", UrlError::Syntax),
            ("http://example.com", UrlError::PlainHttp),
            ("file:///etc/passwd", UrlError::Scheme),
            ("unix:/run/x.sock", UrlError::Scheme),
            ("https://user@example.com", UrlError::Credentials),
            ("https://user:secret@example.com", UrlError::Credentials),
            ("https://:secret@example.com", UrlError::Credentials),
        ] {
            assert_eq!(read(WebhookFormat::Generic, text), Err(error), "{text}");
        }
        let long = format!("https://example.com/{}", "x".repeat(LIMIT));
        assert_eq!(read(WebhookFormat::Generic, &long), Err(UrlError::Syntax));
        assert_eq!(
            Destination::new(WebhookFormat::Generic, b"https://\xff", UrlPolicy::default()),
            Err(UrlError::Syntax)
        );
    }

    #[test]
    fn an_address_is_known_in_every_spelling() {
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
            assert_eq!(refused, Err(UrlError::Address(AddressRefusal::Metadata)), "{host}");
        }
        for host in ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "017700000001", "[::1]"] {
            let refused = Destination::new(WebhookFormat::Generic, format!("http://{host}/x").as_bytes(), LAX);
            assert_eq!(refused, Err(UrlError::Address(AddressRefusal::Loopback)), "{host}");
        }
    }

    #[test]
    fn alertmanager_is_named_by_its_server_or_its_api() {
        for (given, used) in [
            ("https://am.example.com", "https://am.example.com/api/v2/alerts"),
            ("https://am.example.com/", "https://am.example.com/api/v2/alerts"),
            ("https://example.com/am/", "https://example.com/am/api/v2/alerts"),
            ("https://am.example.com/api/v2/alerts", "https://am.example.com/api/v2/alerts"),
        ] {
            assert_eq!(read(WebhookFormat::Alertmanager, given).unwrap().url().as_str(), used);
        }
    }

    #[test]
    fn pagerduty_wants_its_key_which_leaves_the_url() {
        let url = "https://events.example.com/v2/enqueue?a=b&routing_key=R012345678901234567890123456789A";
        let destination = read(WebhookFormat::PagerDuty, url).unwrap();
        assert_eq!(destination.url().as_str(), "https://events.example.com/v2/enqueue?a=b");
        assert_eq!(destination.routing_key(), "R012345678901234567890123456789A");
        for bad in ["", "?routing_key=", "?routing_key=a%20b", "?key=abc"] {
            let url = format!("https://events.example.com/v2/enqueue{bad}");
            assert_eq!(read(WebhookFormat::PagerDuty, &url), Err(UrlError::RoutingKey), "{bad}");
        }
    }
}
