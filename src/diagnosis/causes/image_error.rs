//! Classifies the errors of image pulls, as containerd, CRI-O and Docker write them.

use crate::api::Cause;

/// The cause and a few words about it. None if the text says nothing that is recognised.
///
/// The names of images and URLs may contain any word, so they are removed first.
pub(super) fn classify(text: &str, is_docker_hub: bool) -> Option<(Cause, String)> {
    let words = without_names(text).to_lowercase();
    let found = |cause: Cause, what: &str| Some((cause, what.to_owned()));
    // Some messages contain several of these, so the order matters: `no match for platform in manifest: not found`.
    let platform = [
        "no match for platform",
        "no matching manifest for",
        "no image found in manifest list",
        "no image found in image index",
    ];
    if let Some(phrase) = first_of(&words, &platform) {
        return found(Cause::ImagePlatform, phrase);
    }
    if let Some(phrase) = first_of(&words, &["toomanyrequests", "429 too many requests", "too many requests"]) {
        return found(Cause::ImageRateLimited, phrase);
    }
    if let Some(phrase) = first_of(
        &words,
        &["invalid reference format", "could not parse reference", "repository name must be lowercase"],
    ) {
        return found(Cause::ImageNameInvalid, phrase);
    }
    // The kubelet's connection to the container runtime is a Unix socket.
    if first_of(&words, &["dial unix", "read unix", "write unix"]).is_some() {
        return None;
    }
    let unreachable = [
        "no such host",
        "server misbehaving",
        "temporary failure in name resolution",
        "certificate signed by unknown authority",
        "x509",
        "server gave http response to https client",
        "tls handshake timeout",
        "remote error: tls",
        "tls: ",
        "connection refused",
        "i/o timeout",
        "no route to host",
        "network is unreachable",
        "connection reset by peer",
        "connection timed out",
        "client.timeout exceeded",
        "request canceled while waiting for connection",
        "502 bad gateway",
        "503 service unavailable",
        "504 gateway timeout",
        "registry is unavailable",
        "registryunavailable",
    ];
    if let Some(phrase) = first_of(&words, &unreachable) {
        return found(Cause::RegistryUnreachable, phrase.trim_end_matches([':', ' ']));
    }
    // Go reports the answer of a proxy to CONNECT without its code. The registry was not asked.
    let answer = words.trim_end_matches([' ', '.']);
    if let Some(phrase) = ["proxy authentication required", "forbidden"].into_iter().find(|phrase| {
        answer.strip_suffix(phrase).is_some_and(|rest| rest.trim_end().ends_with("failed to do request: head:"))
    }) {
        return found(Cause::RegistryUnreachable, phrase);
    }
    // The registry asks for a password, and the node has none: true whether or not the repository exists.
    if let Some(phrase) = first_of(&words, &["incorrect username or password", "no basic auth credentials"]) {
        return found(Cause::ImageAuth, phrase);
    }
    let ambiguous = ["repository does not exist or may require", "or it may not exist"];
    if first_of(&words, &ambiguous).is_some() {
        return found(Cause::ImageNotFoundOrPrivate, AMBIGUOUS);
    }
    let denied = [
        "401 unauthorized",
        "403 forbidden",
        "unauthorized",
        "authentication required",
        "authorization failed",
        "access denied",
        "access forbidden",
        "denied",
        "forbidden",
    ];
    // The registry has resolved the reference before containerd reads and unpacks the layers. After that, the node's file
    // system or the server of the layers may deny something, too.
    let is_resolved = words.contains("failed to pull and unpack image")
        && first_of(&words, &["failed to resolve", "failed to authorize"]).is_none();
    let denied = if is_resolved { None } else { first_of(&words, &denied) };
    if let Some(phrase) = denied {
        // Docker Hub answers this for a repository that does not exist, too.
        let (cause, words) =
            if is_docker_hub { (Cause::ImageNotFoundOrPrivate, AMBIGUOUS) } else { (Cause::ImageAuth, phrase) };
        return found(cause, words);
    }
    // The address of the token service is wrong.
    if first_of(&words, &["failed to authorize"]).is_some() && words.contains("404 not found") {
        return None;
    }
    let missing = ["manifest unknown", "name unknown", "404 not found", "repository name not known to registry"];
    // containerd's own store lacks something if the error is not about the reference.
    let is_local = words.contains("failed to pull and unpack image") && !words.contains("failed to resolve reference");
    let is_missing = first_of(&words, &missing).is_some()
        || !is_local && words.trim_end_matches([' ', '.']).ends_with(": not found")
        || words.contains("manifest for") && words.contains("not found");
    if is_missing { found(Cause::ImageNotFound, "not found") } else { None }
}

/// The words about a text that fits both causes.
const AMBIGUOUS: &str = "the repository does not exist, or it requires credentials";

fn first_of<'a>(words: &str, phrases: &[&'a str]) -> Option<&'a str> {
    phrases.iter().copied().find(|phrase| words.contains(phrase))
}

/// The text without quoted parts and without words that contain a slash. Colons at their end remain.
fn without_names(text: &str) -> String {
    let mut unquoted = String::with_capacity(text.len());
    for (index, part) in text.split('"').enumerate() {
        unquoted.push_str(if index % 2 == 0 { part } else { " " });
    }
    let mut words = String::with_capacity(unquoted.len());
    for word in unquoted.split_whitespace() {
        let is_phrase = word.eq_ignore_ascii_case("i/o");
        let kept = if word.contains('/') && !is_phrase {
            word.get(word.trim_end_matches(':').len()..).unwrap_or_default()
        } else {
            word
        };
        if !words.is_empty() && !kept.starts_with(':') {
            words.push(' ');
        }
        words.push_str(kept);
    }
    words
}

/// The registry of an image, with its port.
pub(super) fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => DOCKER_HUB,
    }
}

pub(super) const DOCKER_HUB: &str = "docker.io";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classifies_the_errors_of_each_runtime() {
        for (text, cause) in [
            // containerd
            (
                "rpc error: code = NotFound desc = failed to pull and unpack image \"docker.io/library/nginx:nope\": failed to \
              resolve reference \"docker.io/library/nginx:nope\": docker.io/library/nginx:nope: not found",
                Some(Cause::ImageNotFound),
            ),
            (
                "failed to pull and unpack image \"docker.io/acme/cart:1\": failed to resolve reference \"docker.io/acme/cart:1\": \
              pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: \
              authorization failed",
                Some(Cause::ImageNotFoundOrPrivate),
            ),
            (
                "failed to pull and unpack image \"ghcr.io/acme/cart:1.4.2\": failed to resolve reference \
              \"ghcr.io/acme/cart:1.4.2\": failed to authorize: failed to fetch anonymous token: unexpected status from GET \
              request to https://ghcr.io/token?scope=repository%3Aacme%2Fcart%3Apull&service=ghcr.io: 401 Unauthorized",
                Some(Cause::ImageAuth),
            ),
            (
                "failed to pull and unpack image \"r.example.com/a:1\": failed to resolve reference \"r.example.com/a:1\": \
              unexpected status from HEAD request to https://r.example.com/v2/a/manifests/1: 403 Forbidden",
                Some(Cause::ImageAuth),
            ),
            (
                "failed to pull and unpack image \"docker.io/library/redis:7\": failed to copy: httpReadSeeker: failed open: \
              unexpected status code https://registry-1.docker.io/v2/library/redis/manifests/sha256:ab: 429 Too Many Requests - \
              Server message: toomanyrequests: You have reached your pull rate limit.",
                Some(Cause::ImageRateLimited),
            ),
            (
                "failed to pull and unpack image \"nope.example.com/a:1\": failed to resolve reference \"nope.example.com/a:1\": \
              failed to do request: Head \"https://nope.example.com/v2/a/manifests/1\": dial tcp: lookup nope.example.com on \
              10.96.0.10:53: no such host",
                Some(Cause::RegistryUnreachable),
            ),
            (
                "failed to do request: Head \"https://r.local/v2/a/manifests/1\": tls: failed to verify certificate: x509: \
              certificate signed by unknown authority",
                Some(Cause::RegistryUnreachable),
            ),
            (
                "failed to do request: Head \"https://r.local:5000/v2/a/manifests/1\": http: server gave HTTP response to HTTPS \
              client",
                Some(Cause::RegistryUnreachable),
            ),
            (
                "failed to do request: Head \"http://127.0.0.1:1/v2/no/such/manifests/1\": dial tcp 127.0.0.1:1: connect: \
              connection refused",
                Some(Cause::RegistryUnreachable),
            ),
            (
                "failed to do request: Head \"https://10.1.2.3/v2/a/manifests/1\": dial tcp 10.1.2.3:443: i/o timeout",
                Some(Cause::RegistryUnreachable),
            ),
            (
                "failed to pull and unpack image \"docker.io/acme/x86:1\": no match for platform in manifest: not found",
                Some(Cause::ImagePlatform),
            ),
            (
                "failed to pull and unpack image \"docker.io/a/b:1\": failed to extract layer sha256:ab: no space left on device",
                None,
            ),
            (
                "failed to pull and unpack image \"docker.io/a/b:1\": failed to unpack image on snapshotter overlayfs: content \
                 digest sha256:ab: not found",
                None,
            ),
            (
                "failed to pull and unpack image \"docker.io/a/b:1\": failed to unpack image on snapshotter overlayfs: unexpected \
                 media type text/html for sha256:ab: not found",
                None,
            ),
            (
                "failed to pull and unpack image \"1.dkr.ecr.eu.amazonaws.com/a:1\": failed to resolve reference \
                 \"1.dkr.ecr.eu.amazonaws.com/a:1\": pull access denied, repository does not exist or may require \
                 authorization: authorization failed: no basic auth credentials",
                Some(Cause::ImageAuth),
            ),
            (
                "failed to do request: Head \"https://r.example.com/v2/a/manifests/1\": Forbidden",
                Some(Cause::RegistryUnreachable),
            ),
            (
                "failed to do request: Head \"https://r.example.com/v2/a/manifests/1\": Proxy Authentication Required",
                Some(Cause::RegistryUnreachable),
            ),
            (
                "failed to pull and unpack image \"r.example.com/a:1\": failed to extract layer sha256:ab: mount callback failed on \
                 /var/lib/containerd/tmpmounts/x: open /var/lib/containerd/tmpmounts/x/etc/shadow: permission denied: unknown",
                None,
            ),
            (
                "failed to pull and unpack image \"r.example.com/a:1\": failed to copy: httpReadSeeker: failed open: unexpected \
                 status code https://cdn.example.com/sha256/ab: 403 Forbidden",
                None,
            ),
            (
                "failed to pull and unpack image \"r.example.com/a:1\": failed to resolve reference \"r.example.com/a:1\": failed to \
                 authorize: failed to fetch anonymous token: unexpected status from GET request to \
                 https://auth.example.com/token?service=x: 404 Not Found",
                None,
            ),
            (
                "rpc error: code = Unavailable desc = error reading from server: read unix \
                 @->/run/containerd/containerd.sock: read: connection reset by peer",
                None,
            ),
            ("context deadline exceeded", None),
            (
                "failed to resolve reference \"1.dkr.ecr.eu-west-1.amazonaws.com/cart:7\": pull access denied, repository does not \
                 exist or may require authorization: authorization failed: no basic auth credentials",
                Some(Cause::ImageAuth),
            ),
            // CRI-O
            ("reading manifest nope in docker.io/library/nginx: manifest unknown", Some(Cause::ImageNotFound)),
            (
                "reading manifest 1 in quay.io/acme/cart: unauthorized: access to the requested resource is not authorized",
                Some(Cause::ImageAuth),
            ),
            (
                "reading manifest v3.20.0 in docker.io/calico/kube-controllers: toomanyrequests: You have reached your pull rate \
              limit.",
                Some(Cause::ImageRateLimited),
            ),
            (
                "pinging container registry r.example.com: Get \"https://r.example.com/v2/\": dial tcp: lookup r.example.com: no \
              such host",
                Some(Cause::RegistryUnreachable),
            ),
            (
                "choosing an image from manifest list docker://docker.io/a/b:1: no image found in manifest list for architecture \
              \"arm64\", variant \"v8\", OS \"linux\"",
                Some(Cause::ImagePlatform),
            ),
            // Docker
            (
                "Error response from daemon: manifest for nginx:nope not found: manifest unknown: manifest unknown",
                Some(Cause::ImageNotFound),
            ),
            (
                "Error response from daemon: pull access denied for acme/cart, repository does not exist or may require 'docker \
              login': denied: requested access to the resource is denied",
                Some(Cause::ImageNotFoundOrPrivate),
            ),
            (
                "Error response from daemon: no matching manifest for linux/arm64/v8 in the manifest list entries",
                Some(Cause::ImagePlatform),
            ),
            (
                "Error response from daemon: Get \"https://r.example.com/v2/\": net/http: request canceled while waiting for \
              connection (Client.Timeout exceeded while awaiting headers)",
                Some(Cause::RegistryUnreachable),
            ),
            ("Error response from daemon: unauthorized: authentication required", Some(Cause::ImageAuth)),
            ("couldn't parse image name \"UPPER//bad\": invalid reference format", Some(Cause::ImageNameInvalid)),
            // Google's Artifact Registry
            (
                "unexpected status from HEAD request to https://europe-docker.pkg.dev/v2/p/r/i/manifests/1: 403 Forbidden - Server \
              message: denied: Permission \"artifactregistry.repositories.downloadArtifacts\" denied on resource \
              \"projects/p/locations/europe/repositories/r\" (or it may not exist)",
                Some(Cause::ImageNotFoundOrPrivate),
            ),
            ("", None),
        ] {
            assert_eq!(classify(text, false).map(|(cause, _)| cause), cause, "{text}");
        }
    }

    #[test]
    fn docker_hub_also_denies_missing_repositories() {
        let text = "reading manifest latest in docker.io/acme/cart: requested access to the resource is denied";
        assert_eq!(classify(text, true), Some((Cause::ImageNotFoundOrPrivate, AMBIGUOUS.to_owned())));
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
}
