//! Single delivery attempts, against receivers that fail in different ways.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use http::HeaderMap;
use jiff::Timestamp;
use orchestr::{
    alerts::{
        Notification,
        address::{AddressPolicy, AddressRefusal},
        delivery::{
            DeliveryOptions, HttpClient, Lookup, hint,
            http_client::private_roots,
            secrets::Endpoint,
            send::{Attempt, send},
            system_lookup,
        },
        destination::{Destination, UrlPolicy},
        retry::AttemptOutcome,
        signature::SigningKeys,
    },
    api::{NamespacedName, WebhookFormat},
    version::version_and_revision,
};
use orchestr_testbed::{Receiver, Reply};

use crate::support::TIMEOUT;

/// The maximum size of the two socket buffers: Linux's defaults of 6 MiB and 4 MiB, with a margin.
const SOCKETS_HOLD: usize = 16 * 1024 * 1024;

const ALLOWED: AddressPolicy = AddressPolicy { private: true, loopback: true };

fn access(addresses: AddressPolicy) -> DeliveryOptions {
    DeliveryOptions { urls: UrlPolicy { plain_http: true, addresses }, proxy_from_env: false }
}

fn endpoint(url: &str, ca: Option<&str>) -> Endpoint {
    let policy = UrlPolicy { plain_http: true, addresses: ALLOWED };
    Endpoint {
        custom: None,
        destination: Destination::new(WebhookFormat::Generic, url.as_bytes(), policy).unwrap(),
        headers: HeaderMap::new(),
        keys: None,
        tls: ca.map(|pem| private_roots(pem.as_bytes()).unwrap()),
    }
}

fn message() -> Notification {
    let object = NamespacedName { namespace: "shop".to_owned(), name: "cluster".to_owned() };
    Notification::test("msg-1".to_owned(), object, "ops".to_owned(), Timestamp::now())
}

async fn attempt(endpoint: &Endpoint, timeout: Duration) -> Attempt {
    let client = HttpClient::new(access(ALLOWED), system_lookup());
    send(&client, endpoint, &message(), timeout).await
}

fn answered(status: u16) -> AttemptOutcome {
    AttemptOutcome::Answered { status, retry_after: None }
}

#[tokio::test]
async fn classifies_each_outcome_of_an_attempt() {
    let receiver = Receiver::start().await.unwrap();
    let redirect = || Reply::Header(302, "Location", "http://169.254.169.254/latest/meta-data/".to_owned());
    let busy = |wait: &str| Reply::Header(429, "Retry-After", wait.to_owned());
    let patient = |seconds| AttemptOutcome::Answered { status: 429, retry_after: Some(Duration::from_secs(seconds)) };
    let script = [
        (Reply::Status(200), answered(200)),
        (Reply::Status(202), answered(202)),
        (Reply::Status(204), answered(204)),
        (Reply::Status(410), answered(410)),
        (Reply::Status(413), AttemptOutcome::Refused { status: 413, code: "", words: "ok".to_owned() }),
        (
            Reply::Body(400, "no".repeat(5_000)),
            AttemptOutcome::Refused { status: 400, code: "", words: "no".repeat(98) + "n…" },
        ),
        (Reply::Status(500), answered(500)),
        (busy("7"), patient(7)),
        (busy("soon"), answered(429)),
        (redirect(), answered(302)),
        (Reply::Close, AttemptOutcome::Interrupted),
        (Reply::BreakInBody, answered(200)),
        (Reply::Endless, answered(200)),
    ];
    receiver.then(script.iter().map(|(reply, _)| reply.clone()));
    let endpoint = endpoint(&receiver.url("/hook?a=b"), None);
    for (reply, outcome) in &script {
        let found = attempt(&endpoint, Duration::from_secs(20)).await.outcome;
        assert_eq!(&found, outcome, "{reply:?}");
        let taken = matches!(found, AttemptOutcome::Answered { status: 200..=299, .. });
        assert_eq!(hint(&found, WebhookFormat::Generic).is_none(), taken, "{reply:?}");
    }
    let received = receiver.received();
    assert_eq!(received.len(), script.len(), "each was asked once: no redirect was followed, nothing retried");
    let cut = orchestr_testbed::eventually("the endless body is cut", TIMEOUT, async || {
        receiver.cut().first().copied().ok_or_else(|| "its connection is still open".to_owned())
    });
    let cut = cut.await.unwrap();
    println!("the receiver could write {cut} bytes of a body without an end");
    assert!(cut < SOCKETS_HOLD, "{cut}");
    let first = &received[0];
    assert_eq!((first.method.as_str(), first.path.as_str()), ("POST", "/hook?a=b"));
    assert_eq!(first.header("content-type"), "application/json");
    assert_eq!(first.header("webhook-id"), "msg-1");
    assert_eq!(first.header("user-agent"), format!("orchestr/{}", version_and_revision()));
    assert_eq!(first.header("authorization"), "", "no credentials of anybody's");
    assert_eq!(first.json()["alerts"][0]["labels"]["alertname"], "Test");
}

#[tokio::test]
async fn gives_up_a_hanging_receiver_at_its_timeout() {
    let receiver = Receiver::start().await.unwrap();
    receiver.then([Reply::Hang]);
    let begun = Instant::now();
    let found = attempt(&endpoint(&receiver.url("/"), None), Duration::from_millis(300)).await;
    assert_eq!(found.outcome, AttemptOutcome::TimedOut);
    assert!((Duration::from_millis(300)..Duration::from_secs(20)).contains(&begun.elapsed()), "{found:?}");
}

#[tokio::test]
async fn reports_a_refused_connection_as_not_delivered() {
    let receiver = Receiver::start().await.unwrap();
    let nobody = endpoint(&receiver.url("/"), None);
    drop(receiver);
    assert_eq!(attempt(&nobody, Duration::from_secs(5)).await.outcome, AttemptOutcome::ConnectionRefused);
    let nowhere = endpoint("http://does-not-exist.invalid/", None);
    assert_eq!(attempt(&nowhere, Duration::from_secs(20)).await.outcome, AttemptOutcome::Unresolved);
    let receiver = Receiver::start_tls().await.unwrap();
    receiver.hold(true);
    let held = endpoint(&receiver.url("/"), Some(receiver.ca_pem()));
    assert_eq!(attempt(&held, Duration::from_millis(300)).await.outcome, AttemptOutcome::Unreachable);
    assert_eq!((receiver.connections(), receiver.received().len()), (1, 0));
}

#[tokio::test]
async fn trusts_a_private_ca_only_for_its_webhook() {
    let receiver = Receiver::start_tls().await.unwrap();
    let other = Receiver::start_tls().await.unwrap();
    let url = receiver.url("/");
    let own = attempt(&endpoint(&url, Some(receiver.ca_pem())), Duration::from_secs(20)).await;
    assert_eq!(own.outcome, answered(200));
    let foreign = attempt(&endpoint(&url, Some(other.ca_pem())), Duration::from_secs(20)).await;
    assert_eq!(foreign.outcome, AttemptOutcome::Untrusted);
    let client = HttpClient::new(access(ALLOWED), system_lookup());
    let public = Endpoint { tls: Some(client.public_roots().await.unwrap()), ..endpoint(&url, None) };
    let unknown = send(&client, &public, &message(), Duration::from_secs(20)).await;
    assert_eq!(unknown.outcome, AttemptOutcome::Untrusted);
    let loopback: Lookup = {
        let port = receiver.port();
        Arc::new(move |_| Box::pin(async move { Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]) }))
    };
    let client = HttpClient::new(access(ALLOWED), loopback);
    let wrong_name = endpoint("https://alerts.example.com/", Some(receiver.ca_pem()));
    let misnamed = send(&client, &wrong_name, &message(), Duration::from_secs(20)).await;
    assert_eq!(misnamed.outcome, AttemptOutcome::Untrusted);
    assert_eq!(receiver.received().len(), 1, "nothing was sent to whom is not trusted");
}

#[tokio::test]
async fn rejects_a_name_that_is_rebound_to_loopback() {
    let receiver = Receiver::start().await.unwrap();
    let lookups = Arc::new(AtomicUsize::new(0));
    let rebinding: Lookup = {
        let (lookups, port) = (Arc::clone(&lookups), receiver.port());
        Arc::new(move |_| {
            // The first lookup returns an address for documentation, where no host is.
            let first = lookups.fetch_add(1, Ordering::SeqCst) == 0;
            let address = if first { [192, 0, 2, 1] } else { [127, 0, 0, 1] };
            Box::pin(async move { Ok(vec![SocketAddr::from((address, port))]) })
        })
    };
    let client = HttpClient::new(access(AddressPolicy::default()), rebinding);
    let endpoint = endpoint("http://rebound.example.com/", None);
    let first = send(&client, &endpoint, &message(), Duration::from_millis(200)).await.outcome;
    // Depending on the network, a connection to an address for documentation is refused or never established.
    assert!(matches!(first, AttemptOutcome::Unreachable | AttemptOutcome::ConnectionRefused), "{first:?}");
    let second = send(&client, &endpoint, &message(), Duration::from_secs(5)).await.outcome;
    assert_eq!(second, AttemptOutcome::AddressRefused(AddressRefusal::Loopback));
    assert_eq!((lookups.load(Ordering::SeqCst), receiver.connections()), (2, 0));

    // If a name has several addresses, only the allowed ones are tried.
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mixed: Lookup = {
        let (seen, port) = (Arc::clone(&seen), receiver.port());
        Arc::new(move |name| {
            seen.lock().unwrap().push(name);
            Box::pin(async move {
                let addresses = [[169, 254, 169, 254], [10, 0, 0, 1], [127, 0, 0, 1]];
                Ok(addresses.map(|address| SocketAddr::from((address, port))).to_vec())
            })
        })
    };
    let client = HttpClient::new(access(AddressPolicy { private: false, loopback: true }), mixed);
    let outcome = send(&client, &endpoint, &message(), Duration::from_secs(20)).await.outcome;
    assert_eq!((outcome, receiver.connections()), (answered(200), 1));
    assert_eq!(*seen.lock().unwrap(), ["rebound.example.com"]);
}

#[tokio::test]
async fn checks_literal_addresses_when_it_connects() {
    let receiver = Receiver::start().await.unwrap();
    let client = HttpClient::new(access(AddressPolicy::default()), system_lookup());
    for url in [
        receiver.url("/"),
        format!("http://0x7f.1:{}/", receiver.port()),
        format!("http://localhost:{}/", receiver.port()),
    ] {
        let outcome = send(&client, &endpoint(&url, None), &message(), Duration::from_secs(20)).await.outcome;
        assert_eq!(outcome, AttemptOutcome::AddressRefused(AddressRefusal::Loopback), "{url}");
    }
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn the_reference_library_verifies_signatures_of_both_keys() {
    let receiver = Receiver::start().await.unwrap();
    let keys = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"];
    let mut endpoint = endpoint(&receiver.url("/"), None);
    endpoint.keys = Some(SigningKeys::parse(keys.join("\n").as_bytes()).unwrap());
    assert_eq!(attempt(&endpoint, Duration::from_secs(20)).await.outcome, answered(200));
    let received = &receiver.received()[0];
    let mut headers = HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        headers.insert(name, received.header(name).parse().unwrap());
    }
    for key in keys {
        let verifier = standardwebhooks::Webhook::new(key).unwrap();
        verifier.verify(&received.body, &headers).unwrap();
        let mut forged = received.body.clone();
        forged[10] ^= 1;
        assert!(verifier.verify(&forged, &headers).is_err());
    }
}
