use super::{super::tests::rows, *};

#[test]
fn finds_the_error_in_each_waiting_message() {
    let error = "failed to pull and unpack image \"a:1\": not found";
    assert_eq!(own_error(error), error);
    assert_eq!(own_error(&format!("Back-off pulling image \"a:1\": ErrImagePull: {error}")), error);
    assert_eq!(own_error("Back-off pulling image \"a:1\""), "");
    assert_eq!(own_error("Back-off pulling image"), "");
    assert_eq!(own_error(""), "");
}

#[test]
fn finds_a_host_that_is_not_the_registry() {
    let other = |url: &str, registry: &str| {
        let error = format!("failed to do request: Head \"{url}\": dial tcp 10.1.2.3:443: i/o timeout");
        other_host(&error, registry).map(str::to_owned)
    };
    assert_eq!(other("https://mirror.local:5000/v2/a", "docker.io").as_deref(), Some("mirror.local:5000"));
    assert_eq!(other("https://registry-1.docker.io/v2/a", "docker.io"), None);
    assert_eq!(other("https://auth.docker.io/token", "index.docker.io"), None);
    assert_eq!(other("https://notdocker.io/v2/a", "docker.io").as_deref(), Some("notdocker.io"));
    assert_eq!(other("https://r.acme.dev:5000/v2/a", "r.acme.dev:5000"), None);
    assert_eq!(other("https://cdn.acme.dev?sig=x", "r.acme.dev").as_deref(), Some("cdn.acme.dev"));
    let proxy =
        "Head \"https://r.acme.dev/v2/a\": proxyconnect tcp: dial tcp 10.0.0.9:3128: connect: connection refused";
    assert_eq!(other_host(proxy, "r.acme.dev"), Some("the node's proxy"));
    assert_eq!(other_host("connection refused", "r.acme.dev"), None);
}

#[test]
fn shows_the_innermost_error() {
    let error =
        "failed to do request: Head \"http://127.0.0.1:1/v2/\": dial tcp 127.0.0.1:1: connect: connection refused";
    assert_eq!(cause_of(error), "dial tcp 127.0.0.1:1: connect: connection refused");
    assert_eq!(cause_of("rpc error: code = Unknown desc = oops"), "oops");
}

#[test]
fn classifies_the_errors_of_each_runtime() {
    for [text, cause] in rows(include_str!("../../../../tests/fixtures/messages/image.tsv")) {
        let found = classify(text, false).map_or("-", |(cause, _)| cause.as_str());
        assert_eq!(found, cause, "{text}");
    }
}

#[test]
fn docker_hub_also_denies_missing_repositories() {
    let text = "reading manifest latest in docker.io/acme/cart: requested access to the resource is denied";
    assert_eq!(classify(text, true), Some((Cause::ImageNotFoundOrPrivate, AMBIGUOUS)));
    assert_eq!(classify(text, false).unwrap().0, Cause::ImageAuth);
    let wrong = "unauthorized: incorrect username or password";
    assert_eq!(classify(wrong, true).unwrap().0, Cause::ImageAuth);
}

#[test]
fn the_name_of_an_image_proves_nothing() {
    for text in [
        "failed to pull and unpack image \"r.io/denied/manifest unknown:toomanyrequests\": unexpected EOF",
        "reading manifest 1 in r.io/unauthorized/x509: unexpected EOF",
    ] {
        assert_eq!(classify(text, false), None, "{text}");
    }
}

#[test]
fn finds_the_registry_of_an_image() {
    for (image, name) in [
        ("nginx", "docker.io"),
        ("acme/cart:1", "docker.io"),
        ("ghcr.io/acme/cart", "ghcr.io"),
        ("localhost/a", "localhost"),
        ("10.0.0.1:5000/a@sha256:ab", "10.0.0.1:5000"),
    ] {
        assert_eq!(registry(image), name, "{image}");
    }
}
