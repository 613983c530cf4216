//! Explains why an image cannot be had.
//!
//! A registry is whoever answers at the host in the image's name, and its answer may name any other host. So the subject is
//! always taken from the image's name, and the text only says what went wrong with it.

use crate::api::Cause;

use super::{
    super::{
        container::{Container, Failure},
        finding::{Subject, SubjectKind},
        one_line::{MESSAGE_LIMIT, one_line},
    },
    Case, Found, name_of,
    parse::{parts, without_grpc},
};

pub(super) fn explain<'a>(case: &Case<'a>, container: Container<'a>) -> Found {
    let waiting = match container.last_failure() {
        Some(Failure::Waiting(waiting)) => waiting,
        _ => return Found::silent(format!("the image of {} cannot be pulled", name_of(container))),
    };
    let image = container.spec.map(|spec| spec.image.as_str()).unwrap_or_default();
    let quoted_image =
        if image.is_empty() { format!("the image of {}", name_of(container)) } else { format!("the image {image}") };
    let mut namespace = "";
    let error = match (waiting.reason.as_str(), own_error(&waiting.message)) {
        ("InvalidImageName", error) => {
            let sentence = format!("the image name {image} cannot be parsed");
            let sentence = if image.is_empty() { one_line(error, MESSAGE_LIMIT) } else { sentence };
            return Found::new(Cause::ImageNameInvalid, sentence)
                .about(Subject::cluster_wide(SubjectKind::Image, image));
        }
        ("ErrImageNeverPull", _) => {
            let sentence = format!("{quoted_image} is not on the node, and imagePullPolicy Never forbids to pull it");
            return Found::new(Cause::ImageNeverPull, sentence);
        }
        ("RegistryUnavailable", _) => "registry is unavailable",
        (_, "") => {
            namespace = &case.pod.namespace;
            reported_error(case, container).unwrap_or_default()
        }
        (_, error) => error,
    };
    let is_docker_hub = !image.is_empty() && is_docker_hub(registry(image));
    // containerd asks a mirror before the registry, and names the registry in the query.
    let mirror = host(error).filter(|_| error.contains("?ns="));
    let name = mirror.unwrap_or_else(|| registry(image));
    let Some((cause, words)) = classify(error, is_docker_hub) else {
        if error.is_empty() {
            return Found::silent(format!("{quoted_image} cannot be pulled"));
        }
        return Found::unknown(format!("{quoted_image} cannot be pulled: {}", cause_of(error)));
    };
    let secrets = if case.pod.has_pull_secrets { "" } else { "; the pod has no imagePullSecrets" };
    let (sentence, kind) = match cause {
        Cause::ImageNotFound => (format!("the registry {name} does not have {quoted_image}"), SubjectKind::Image),
        Cause::ImageAuth => {
            // Many registries hide whether a repository exists from those who may not read it.
            let or = if PROVEN_REFUSALS.contains(&words) { "" } else { ", or it does not exist" };
            (format!("the registry {name} refuses access to {quoted_image} ({words}){or}{secrets}"), SubjectKind::Image)
        }
        Cause::ImageRateLimited => {
            (format!("the registry {name} limits the rate of pulls ({words})"), SubjectKind::Registry)
        }
        Cause::RegistryUnreachable => {
            let sentence = match other_host(error, name) {
                // A proxy, or the server of the layers or of the tokens.
                Some(host) => format!("{quoted_image} cannot be pulled through {host}: {}", cause_of(error)),
                None => format!("the registry {name} cannot be reached: {}", cause_of(error)),
            };
            (sentence, SubjectKind::Registry)
        }
        Cause::ImagePlatform => (format!("{quoted_image} does not exist for the node's platform"), SubjectKind::Image),
        Cause::ImageNameInvalid => (format!("the image name {image} cannot be parsed"), SubjectKind::Image),
        // No subject: images of several teams may be denied for different causes.
        _ => {
            return Found::new(cause, format!("the registry {name} denies access to {quoted_image}: {words}{secrets}"));
        }
    };
    let found = Found::new(cause, sentence);
    match kind {
        _ if image.is_empty() => found,
        SubjectKind::Registry => found.about(Subject::namespaced(kind, namespace, registry(image))),
        _ => found.about(Subject::namespaced(kind, namespace, image)),
    }
}

/// The host that the runtime could not reach if it is not the registry itself: `Head "https://mirror/v2/…": …`.
fn other_host<'a>(error: &'a str, registry: &str) -> Option<&'a str> {
    if error.contains("proxyconnect tcp: ") {
        return Some("the node's proxy");
    }
    let host = host(error)?;
    let is_own = host == registry || is_docker_hub(registry) && is_docker_hub(host);
    (!is_own).then_some(host)
}

/// The host of the last URL in an error, with its port.
fn host(error: &str) -> Option<&str> {
    let (_, rest) = error.rsplit_once("://")?;
    let host = rest.split(|char: char| matches!(char, '/' | '?' | '"' | ',') || char.is_whitespace()).next()?;
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host).trim_end_matches(':');
    (!host.is_empty()).then_some(host)
}

/// Whether a host is one of Docker Hub's, such as `registry-1.docker.io`.
fn is_docker_hub(host: &str) -> bool {
    host == DOCKER_HUB || host.strip_suffix(DOCKER_HUB).is_some_and(|rest| rest.ends_with('.'))
}

/// The error in a waiting message. Older kubelets keep none while they back off.
fn own_error(message: &str) -> &str {
    if !message.starts_with("Back-off pulling image") {
        return message;
    }
    // The first part of the rest is the kubelet's own error, such as ErrImagePull.
    let Some([_, rest]) = parts("Back-off pulling image {q}: {}", message) else { return "" };
    rest.split_once(": ").map_or(rest, |(_, error)| error)
}

/// The error of the last attempt that an event reports.
fn reported_error<'a>(case: &Case<'a>, container: Container<'a>) -> Option<&'a str> {
    case.events(&["Failed"], &container.status.name).find_map(|event| {
        let [_, error] = parts("Failed to pull image {q}: {}", event.text())?;
        Some(error)
    })
}

/// The innermost error, which comes last: `dial tcp 127.0.0.1:1: connect: connection refused`.
fn cause_of(error: &str) -> &str {
    without_grpc(error.rsplit_once("\": ").map_or(error, |(_, inner)| inner)).trim()
}

/// What the errors of containerd, CRI-O and Docker say, in the order in which it counts, because some say several of these things:
/// `no match for platform in manifest: not found`.
const PHRASES: [(Option<Cause>, &[&str]); 7] = [
    (
        Some(Cause::ImagePlatform),
        &[
            "no match for platform",
            "no matching manifest for",
            "no image found in manifest list",
            "no image found in image index",
        ],
    ),
    (Some(Cause::ImageRateLimited), &["toomanyrequests", "429 too many requests", "too many requests"]),
    (
        Some(Cause::ImageNameInvalid),
        &["invalid reference format", "could not parse reference", "repository name must be lowercase"],
    ),
    // The kubelet's connection to the container runtime is a Unix socket.
    (None, &["dial unix", "read unix", "write unix"]),
    (
        Some(Cause::RegistryUnreachable),
        &[
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
        ],
    ),
    // The registry asks for a password, and the node has none: true whether or not the repository exists.
    (Some(Cause::ImageAuth), &PROVEN_REFUSALS),
    (Some(Cause::ImageNotFoundOrPrivate), &["repository does not exist or may require", "or it may not exist"]),
];

const PROVEN_REFUSALS: [&str; 2] = ["incorrect username or password", "no basic auth credentials"];

const REFUSALS: [&str; 9] = [
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

/// The words about a text that fits both causes.
const AMBIGUOUS: &str = "the repository does not exist, or it requires credentials";

/// The cause and a few words about it. None if the text says nothing that is recognised.
///
/// The names of images and URLs may contain any word, so they are removed first.
fn classify(text: &str, is_docker_hub: bool) -> Option<(Cause, &'static str)> {
    let words = without_names(text).to_lowercase();
    let first_of = |phrases: &[&'static str]| phrases.iter().copied().find(|phrase| words.contains(phrase));
    let found = PHRASES.iter().find_map(|(cause, phrases)| Some((*cause, first_of(phrases)?)));
    match found {
        Some((Some(Cause::ImageNotFoundOrPrivate), _)) => return Some((Cause::ImageNotFoundOrPrivate, AMBIGUOUS)),
        Some((cause, phrase)) => return Some((cause?, phrase.trim_end_matches([':', ' ']))),
        None => {}
    }
    let words_end = words.trim_end_matches([' ', '.']);
    // Go reports the answer of a proxy to CONNECT without its code. The registry was not asked.
    if let Some(phrase) = ["proxy authentication required", "forbidden"].into_iter().find(|phrase| {
        words_end.strip_suffix(phrase).is_some_and(|rest| rest.trim_end().ends_with("failed to do request: head:"))
    }) {
        return Some((Cause::RegistryUnreachable, phrase));
    }
    // The registry has resolved the reference before containerd reads and unpacks the layers. After that, the node's file
    // system or the server of the layers may deny something, too.
    let is_unpacking = words.contains("failed to pull and unpack image");
    let is_resolved = is_unpacking && first_of(&["failed to resolve", "failed to authorize"]).is_none();
    match first_of(&REFUSALS).filter(|_| !is_resolved) {
        // Docker Hub answers this for a repository that does not exist, too.
        Some(_) if is_docker_hub => return Some((Cause::ImageNotFoundOrPrivate, AMBIGUOUS)),
        Some(phrase) => return Some((Cause::ImageAuth, phrase)),
        None => {}
    }
    // The address of the token service is wrong.
    if words.contains("failed to authorize") && words.contains("404 not found") {
        return None;
    }
    let missing = ["manifest unknown", "name unknown", "404 not found", "repository name not known to registry"];
    // containerd's own store lacks something if the error is not about the reference.
    let is_local = is_unpacking && !words.contains("failed to resolve reference");
    let is_missing = first_of(&missing).is_some()
        || !is_local && words_end.ends_with(": not found")
        || words.contains("manifest for") && words.contains("not found");
    is_missing.then_some((Cause::ImageNotFound, "not found"))
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
fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => DOCKER_HUB,
    }
}

const DOCKER_HUB: &str = "docker.io";

#[cfg(test)]
mod tests;
