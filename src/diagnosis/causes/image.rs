//! Explains why an image cannot be had.
//!
//! A registry is whoever answers at the host in the image's name, and its answer may name any other host. So the subject is
//! always taken from the image's name, and the text only says what went wrong with it.

use crate::api::Cause;

use super::{
    super::{
        container::{Container, Trouble},
        finding::{Subject, SubjectKind},
        one_line::{MESSAGE_LIMIT, one_line},
    },
    Found, View,
    evidence::text,
    image_error::{DOCKER_HUB, classify, registry},
    name_of,
    parse::quoted,
};

pub(super) fn explain<'a>(view: &View<'a>, container: Container<'a>) -> Found {
    let waiting = match container.last_trouble() {
        Some(Trouble::Waiting(waiting)) => waiting,
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
            namespace = &view.pod.namespace;
            reported_error(view, container).unwrap_or_default()
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
    let secrets = if view.pod.has_pull_secrets { "" } else { "; the pod has no imagePullSecrets" };
    let (sentence, kind) = match cause {
        Cause::ImageNotFound => (format!("the registry {name} does not have {quoted_image}"), SubjectKind::Image),
        Cause::ImageAuth => {
            // Many registries hide whether a repository exists from those who may not read it.
            let proven = ["incorrect username or password", "no basic auth credentials"];
            let or = if proven.contains(&words.as_str()) { "" } else { ", or it does not exist" };
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
    let Some(rest) = message.strip_prefix("Back-off pulling image") else { return message };
    let rest = quoted(rest.trim_start()).map_or("", |(_, rest)| rest);
    let rest = rest.strip_prefix(": ").unwrap_or_default();
    // The kubelet's own error, such as ErrImagePull.
    rest.split_once(": ").map_or(rest, |(_, error)| error)
}

/// The error of the last attempt that an event reports.
fn reported_error<'a>(view: &View<'a>, container: Container<'a>) -> Option<&'a str> {
    view.events(&["Failed"], &container.status.name).find_map(|event| {
        let rest = text(event).strip_prefix("Failed to pull image ")?;
        quoted(rest)?.1.strip_prefix(": ")
    })
}

/// The innermost error, which comes last: `dial tcp 127.0.0.1:1: connect: connection refused`.
fn cause_of(error: &str) -> &str {
    let error = error.rsplit_once("\": ").map_or(error, |(_, inner)| inner);
    let error = match error.strip_prefix("rpc error: code = ").and_then(|rest| rest.split_once(" desc = ")) {
        Some((_, description)) => description,
        None => error,
    };
    error.trim()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
