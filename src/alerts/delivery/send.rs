//! One attempt to deliver a message: render, sign, post, and read the answer: whether the receiver refuses the message for its
//! content, and what it says, without secrets. And the hints of `orchestr webhook test` about failures.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use tokio::time::Instant;
use url::Url;

use super::{
    http_client::{BODY_LIMIT, HttpClient, Post},
    secrets::Endpoint,
};
use crate::{
    alerts::{
        Notification,
        address::AddressRefusal,
        destination::Destination,
        formats::receiver,
        retry::AttemptOutcome,
        sanitize,
        signature::{ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER},
    },
    api::WebhookFormat,
};

#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    pub outcome: AttemptOutcome,
    /// From name resolution to the end of the response.
    pub latency: Duration,
    /// The thread that the message has begun.
    pub thread: Option<String>,
}

impl Attempt {
    /// An attempt that began then.
    fn since(begun: Instant, outcome: AttemptOutcome) -> Self {
        Self { outcome, latency: begun.elapsed(), thread: None }
    }
}

/// Renders a message, signs it if the webhook has a signing key, and posts it.
pub async fn send(client: &HttpClient, endpoint: &Endpoint, message: &Notification, timeout: Duration) -> Attempt {
    let begun = Instant::now();
    let destination = &endpoint.destination;
    let rendered = match endpoint.receiver().request(message, destination.routing_key()) {
        Ok(rendered) => rendered,
        Err(error) => return Attempt::since(begun, AttemptOutcome::Unrendered(error)),
    };
    let now = Timestamp::now();
    let url = rendered.url(destination.url());
    let mut headers = rendered.headers;
    headers.extend(endpoint.headers.clone());
    let mut set = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    // Also without a signature: receivers recognize retries by the ID.
    set(ID_HEADER, &message.id);
    set(TIMESTAMP_HEADER, &now.as_second().to_string());
    if let Some(keys) = &endpoint.keys {
        set(SIGNATURE_HEADER, &keys.sign(&message.id, now, &rendered.body));
    }
    let post = Post {
        method: rendered.method,
        url: &url,
        tls: endpoint.tls.clone(),
        headers: headers.clone(),
        content_type: rendered.content_type,
        body: rendered.body,
        timeout,
    };
    let (outcome, body) = client.exchange(post).await;
    let outcome = classify(outcome, &body, destination, &headers);
    let is_delivered = matches!(outcome, AttemptOutcome::Answered { status: 200..=299, .. });
    let thread = if is_delivered { endpoint.receiver().thread(&body) } else { None };
    Attempt { thread, ..Attempt::since(begun, outcome) }
}

/// How much of an answer is quoted, in bytes.
const WORDS: usize = 200;
const MASK: &str = "***";
/// Shorter parts of a URL's path, such as `api`, are no secrets: they would also hide other words.
const MIN_SEGMENT: usize = 8;
const MIN_SECRET: usize = 4;

/// The outcome of an attempt that was answered with this body. `headers` are those of the request.
fn classify(outcome: AttemptOutcome, body: &[u8], destination: &Destination, headers: &HeaderMap) -> AttemptOutcome {
    let AttemptOutcome::Answered { status, retry_after } = outcome else { return outcome };
    let reported = match status {
        200..=299 => receiver(destination.format()).reported_status(body),
        _ => None,
    };
    let code = reported.map_or("", |(_, code)| code);
    match reported.map_or(status, |(status, _)| status) {
        400 | 413 | 422 => AttemptOutcome::Refused { status, code, words: words(body, &secrets(destination, headers)) },
        status if reported.is_some() => AttemptOutcome::Reported { status, code, retry_after },
        status => AttemptOutcome::Answered { status, retry_after },
    }
}

/// Everything secret that a request contains, the longest first.
fn secrets(destination: &Destination, headers: &HeaderMap) -> Vec<String> {
    let mut secrets = url_secrets(destination.url());
    secrets.push(destination.routing_key().to_owned());
    for value in headers.values().filter_map(|value: &HeaderValue| value.to_str().ok()) {
        secrets.push(value.to_owned());
        // For example the token after "Bearer", or the signature after "v1,".
        secrets.extend(value.split([' ', ',']).map(str::to_owned));
    }
    let mut secrets: Vec<String> = secrets.iter().map(|secret| sanitize::single_line(secret, usize::MAX)).collect();
    secrets.retain(|secret| secret.len() >= MIN_SECRET);
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.dedup();
    secrets
}

fn url_secrets(url: &Url) -> Vec<String> {
    let mut secrets = vec![url.as_str().to_owned(), url[url::Position::BeforePath..].to_owned(), url.path().to_owned()];
    let segments = url.path_segments().into_iter().flatten().filter(|segment| segment.len() >= MIN_SEGMENT);
    let decode = |text: &str| {
        // As the value of a query, because `+` is no space in a path.
        let query = format!("x={}", text.replace('+', "%2B"));
        url::form_urlencoded::parse(query.as_bytes()).next().map(|(_, value)| value.into_owned())
    };
    for segment in segments {
        secrets.push(segment.to_owned());
        secrets.extend(decode(segment));
    }
    secrets.extend(url.query().map(str::to_owned));
    secrets.extend(url.query().into_iter().flat_map(|query| query.split(['&', '='])).map(str::to_owned));
    secrets.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
    secrets
}

/// The beginning of an answer in one line, with these secrets masked.
fn words(body: &[u8], secrets: &[String]) -> String {
    let mut text = sanitize::single_line(&String::from_utf8_lossy(body), usize::MAX);
    for secret in secrets {
        text = text.replace(secret.as_str(), MASK);
    }
    if body.len() >= BODY_LIMIT {
        // A secret may be cut at the end of what was read.
        let cut = |secret: &String| {
            (1..secret.len()).rev().find(|length| secret.get(..*length).is_some_and(|start| text.ends_with(start)))
        };
        let cut = secrets.iter().filter_map(cut).max().unwrap_or_default();
        text.truncate(text.len() - cut);
    }
    if text.len() <= WORDS {
        return text;
    }
    const ELLIPSIS: char = '…';
    let end = (0..=WORDS - ELLIPSIS.len_utf8()).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text.truncate(end);
    text.push(ELLIPSIS);
    text
}

/// Returns what usually fixes the failure; absent after a success.
#[must_use]
pub fn hint(outcome: &AttemptOutcome, format: WebhookFormat) -> Option<&'static str> {
    let hint = match outcome {
        AttemptOutcome::Refused { status: 200..=299, .. } => "see what the receiver answered",
        AttemptOutcome::Answered { status, .. }
        | AttemptOutcome::Reported { status, .. }
        | AttemptOutcome::Refused { status, .. } => match status {
            200..=299 => return None,
            300..=399 => "put the URL that it redirects to into the Secret",
            status => receiver(format).hint(*status).unwrap_or_else(|| general(*status)),
        },
        AttemptOutcome::Unresolved => {
            "check the host's name in the URL (DNS does not know it); a Service's name is SERVICE.NAMESPACE.svc, \
             which resolves only inside the cluster"
        }
        AttemptOutcome::ConnectionRefused => {
            "check the port in the URL, and that the receiver runs: nothing listens there"
        }
        AttemptOutcome::Unreachable => {
            "check the port in the URL, that a NetworkPolicy or firewall lets the operator out, that the receiver speaks \
             TLS if the URL says https, and the proxy if --webhook-proxy-from-env is set"
        }
        AttemptOutcome::Interrupted => {
            "something between here and the receiver ends connections, or it does not speak HTTP there"
        }
        AttemptOutcome::TimedOut => {
            "the receiver accepted the request but is slow: raise the webhook's timeout, at most 60s"
        }
        AttemptOutcome::Untrusted => {
            "put the receiver's CA into a Secret and name it in caFrom, and use the host name of its certificate"
        }
        AttemptOutcome::AddressRefused(AddressRefusal::Private) => {
            "leave out --webhook-refuse-private, of the operator too, if receivers may be inside the cluster"
        }
        AttemptOutcome::AddressRefused(AddressRefusal::Loopback) => {
            "a loopback address is the operator's own pod: use a Service's name"
        }
        AttemptOutcome::AddressRefused(_) => {
            "alerts are never sent to this address: check what the host's name resolves to"
        }
        // The error already names the missing Secret, key or permission, or the place in the template.
        AttemptOutcome::Unusable(_) | AttemptOutcome::Unrendered(_) => return None,
    };
    Some(hint)
}

/// What usually fixes a failure with this status, whatever the format.
fn general(status: u16) -> &'static str {
    match status {
        400 | 422 => "check that the webhook's format is the one that this receiver reads",
        401 | 403 => "check the URL's token, or the Authorization header in headersFrom",
        404 => "the webhook was deleted, or the URL is not copied completely",
        405 => "this URL does not accept POST: it belongs to a page, not to a webhook",
        410 => "make a new webhook, and put its URL into the Secret",
        413 => "a proxy before the receiver does not accept a body of this size: raise its limit",
        429 => "the receiver limits its rate: wait, or have fewer senders use this URL",
        500..=599 => "the receiver, or a proxy before it, fails: see its log",
        _ => "see the receiver's log",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::destination::UrlPolicy;

    const URL: &str = "https://hooks.example.com/services/T0/B0LONGID/s3cr%2Fet-token?key=q-secret";

    fn classified(format: WebhookFormat, status: u16, body: &str) -> AttemptOutcome {
        let url = format!("{URL}{}", if format == WebhookFormat::PagerDuty { "&routing_key=R0UT1NGK3Y" } else { "" });
        let destination = Destination::new(format, url.as_bytes(), UrlPolicy::default()).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_static("Bearer t0k3n-of-ops"));
        headers.insert("webhook-signature", HeaderValue::from_static("v1,c2lnbmF0dXJl v1,b3RoZXI="));
        classify(AttemptOutcome::Answered { status, retry_after: None }, body.as_bytes(), &destination, &headers)
    }

    fn words_of(body: &str) -> String {
        match classified(WebhookFormat::PagerDuty, 400, body) {
            AttemptOutcome::Refused { words, .. } => words,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn recognizes_refusals_by_content() {
        let teams = |error: &str| format!("Webhook message delivery failed with error: {error} with ContextId tcid=0");
        let http = |status: u16| teams(&format!("Microsoft Teams endpoint returned HTTP error {status}"));
        for (format, status, body, expected) in [
            (WebhookFormat::Generic, 400, String::new(), Ok(400)),
            (WebhookFormat::Generic, 413, String::new(), Ok(413)),
            (WebhookFormat::Generic, 422, String::new(), Ok(422)),
            (WebhookFormat::Generic, 401, String::new(), Err(401)),
            (WebhookFormat::Generic, 200, r#"{"ok":false}"#.to_owned(), Err(200)),
            (WebhookFormat::Slack, 200, "ok".to_owned(), Err(200)),
            (WebhookFormat::Slack, 200, r#"{"ok":true}"#.to_owned(), Err(200)),
            (WebhookFormat::Slack, 200, r#"{"ok":false,"error":"invalid_blocks"}"#.to_owned(), Ok(200)),
            (WebhookFormat::Slack, 200, r#"{"success": false}"#.to_owned(), Ok(200)),
            (WebhookFormat::Slack, 200, r#"{"ok":false,"error":"ratelimited"}"#.to_owned(), Err(429)),
            (WebhookFormat::Slack, 200, r#"{"ok":false,"error":"invalid_auth"}"#.to_owned(), Err(401)),
            (WebhookFormat::Slack, 200, r#"{"ok":false,"error":"token_revoked"}"#.to_owned(), Err(401)),
            (WebhookFormat::Slack, 200, r#"{"ok":false,"error":"no_permission"}"#.to_owned(), Err(403)),
            (WebhookFormat::Slack, 200, r#"{"ok":false,"error":"channel_not_found"}"#.to_owned(), Err(404)),
            (WebhookFormat::Slack, 200, r#"{"ok":false,"error":"fatal_error"}"#.to_owned(), Err(503)),
            (WebhookFormat::Teams, 200, "1".to_owned(), Err(200)),
            (WebhookFormat::Teams, 202, String::new(), Err(202)),
            (WebhookFormat::Teams, 200, http(413), Ok(200)),
            (WebhookFormat::Teams, 200, http(429), Err(429)),
            (WebhookFormat::Teams, 200, http(503), Err(503)),
            (WebhookFormat::Teams, 200, http(200), Ok(200)),
            (WebhookFormat::Teams, 200, teams("Summary or Text is required."), Ok(200)),
        ] {
            let found = match classified(format, status, &body) {
                AttemptOutcome::Refused { status, .. } => Ok(status),
                AttemptOutcome::Answered { status, .. } | AttemptOutcome::Reported { status, .. } => Err(status),
                other => panic!("{other:?}"),
            };
            assert_eq!(found, expected, "{format:?} {status} {body}");
        }
    }

    #[test]
    fn quotes_the_answer_without_the_secrets_of_the_request() {
        for (body, expected) in [
            ("invalid_blocks", "invalid_blocks"),
            ("", ""),
            ("two\nlines\u{1b}[31m", "two lines [31m"),
            (&format!("Cannot POST {URL}"), "Cannot POST ***"),
            ("Cannot POST /services/T0/B0LONGID/s3cr%2Fet-token", "Cannot POST ***"),
            (r"no \/services\/T0\/B0LONGID\/ here", r"no \/***\/T0\/***\/ here"),
            ("token s3cr/et-token, key q-secret", "token ***, key ***"),
            ("routing key R0UT1NGK3Y is invalid", "routing key *** is invalid"),
            ("Bearer t0k3n-of-ops was sent: t0k3n-of-ops", "*** was sent: ***"),
            ("signature c2lnbmF0dXJl or v1,b3RoZXI=", "signature *** or v1,***"),
        ] {
            assert_eq!(words_of(body), expected, "{body}");
        }
    }

    #[test]
    fn quotes_at_most_200_bytes_and_no_part_of_a_secret() {
        let long = words_of(&"é".repeat(300));
        assert!((195..=WORDS).contains(&long.len()) && long.ends_with('…'), "{} bytes", long.len());
        let secret = "t0k3n-of-ops";
        for before in 0..2 * secret.len() {
            // Masking shortens the text, so its end may be quoted.
            let body = format!("{}{}", "x".repeat(before), secret.repeat(BODY_LIMIT / secret.len()));
            let quoted = words_of(&body[..body.len().min(BODY_LIMIT)]);
            assert!(!quoted.contains("t0k") && !quoted.contains("ops"), "{quoted}");
            let spaced = format!("{}{secret}", " ".repeat(BODY_LIMIT - before.min(secret.len())));
            let quoted = words_of(&spaced[..BODY_LIMIT]);
            assert!(["", MASK].contains(&quoted.as_str()), "{quoted}");
        }
    }
}
