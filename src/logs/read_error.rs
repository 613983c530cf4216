//! Explains a failed request for a log, and a kubelet's error in the body of a log. The texts are our own, because a kubelet's
//! error may quote the log.

use std::time::Duration;

use kube::core::Status;

use super::LogRead;

/// A failed request for a log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadError {
    pub note: String,
    /// The delay after which another try may succeed.
    pub retry: Option<Duration>,
    /// Whether the node did not respond.
    pub is_unresponsive: bool,
}

/// For errors that pass by themselves, such as a broken connection.
const SOON: Duration = Duration::from_secs(10);

/// For errors that someone must fix, such as a missing permission.
const LATER: Duration = Duration::from_secs(60);

impl ReadError {
    pub(crate) fn new(error: &kube::Error, request: &LogRead) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(status, request),
            kube::Error::BuildRequest(_) => Self::error("the pod's name is invalid", None),
            _ => Self::error("the API server can't be reached", Some(SOON)),
        }
    }

    fn error(note: impl Into<String>, retry: Option<Duration>) -> Self {
        Self { note: note.into(), retry, is_unresponsive: false }
    }

    fn from_status(status: &Status, request: &LogRead) -> Self {
        let message = status.message.as_str();
        let contains = |text: &str| message.contains(text);
        match status.code {
            400 if contains("is waiting to start") => Self::error("the container is waiting to start", None),
            400 if contains("previous terminated container") => {
                Self::error("the kubelet has no log of the previous instance", None)
            }
            400 if contains("is not valid for pod") => Self::error("the pod has no such container", None),
            400 if contains("is terminated") => {
                Self::error("the runtime lost the container, and its log with it", None)
            }
            400 if contains("is not available") => {
                Self::error("the kubelet doesn't know the container yet", Some(SOON))
            }
            401 => Self::error("the API server doesn't accept the operator's credentials", Some(LATER)),
            403 if contains("cannot get resource") => {
                Self::error(format!("not allowed: get on pods/log in namespace {}", request.namespace), Some(LATER))
            }
            403 => Self::error("the kubelet doesn't allow the API server to read logs", Some(LATER)),
            404 if contains(&format!("\"{}\" not found", request.pod)) => Self::error("the pod is gone", None),
            // The API server reports a missing node as a missing pod.
            404 if contains(&format!("\"{}\" not found", request.node)) => Self::error("the pod's node is gone", None),
            404 => Self::error("the kubelet doesn't know the pod", Some(SOON)),
            429 => Self::error("the API server has too many requests", Some(SOON)),
            code @ 500.. => {
                let unreachable = unreachable(message);
                let note = match unreachable {
                    Some(cause) => format!("the node's kubelet can't be reached: {cause}"),
                    None => format!("the kubelet failed (HTTP {code})"),
                };
                Self { note, retry: Some(SOON), is_unresponsive: unreachable.is_some() || code != 500 }
            }
            code => Self::error(format!("the kubelet refused (HTTP {code})"), None),
        }
    }
}

/// Why the API server could not reach the kubelet, from the texts of Go's network errors.
fn unreachable(message: &str) -> Option<&'static str> {
    const CAUSES: [(&str, &str); 10] = [
        ("connection refused", "connection refused"),
        ("no route to host", "no route to host"),
        ("network is unreachable", "network is unreachable"),
        ("i/o timeout", "timed out"),
        ("TLS handshake timeout", "TLS handshake timed out"),
        ("context deadline exceeded", "timed out"),
        ("x509:", "its certificate isn't trusted"),
        ("no such host", "its name isn't known"),
        ("connection reset", "connection reset"),
        ("EOF", "connection closed"),
    ];
    CAUSES.iter().find(|(text, _)| message.contains(text)).map(|&(_, cause)| cause)
}

/// The longest error text that is recognized, in bytes.
const MAX_ERROR: usize = 4096;

/// The beginnings of errors that end in any text.
const BEGINNINGS: [&str; 6] = [
    "failed to try resolving symlinks in path \"",
    "failed to open log file \"",
    "failed to read log file \"",
    "failed to get parse function: unsupported log format: \"",
    "failed to create fsnotify watcher",
    "failed to watch directory",
];

/// Returns where a kubelet's error begins at the end of a body, and the meaning of the error. `whole` means that the
/// body is complete.
///
/// A kubelet starts its response before it opens the log, so its errors are sent in the body of a 200. The texts are those
/// of Kubernetes v1.36: `pkg/kubelet/kuberuntime/kuberuntime_container.go` and `k8s.io/cri-client/pkg/logs`.
///
/// A kubelet writes its error without a line break, while a runtime ends each line of a log with one, so the same text
/// printed by a program is not mistaken for an error. A line break is accepted only if the error is the whole body.
pub(super) fn error_in(body: &[u8], whole: bool) -> Option<(usize, &'static str)> {
    let end = body.trim_ascii_end();
    let start = end.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let line = end.get(start..)?;
    let is_whole = whole && start == 0;
    let ends_line = body.get(end.len()..).is_some_and(|rest| rest.contains(&b'\n'));
    if line.len() > MAX_ERROR || (ends_line && !is_whole) {
        return None;
    }
    let line = std::str::from_utf8(line).ok()?;
    is_error(line).then(|| (start, meaning(line)))
}

fn is_error(line: &str) -> bool {
    line == "container status is nil"
        || BEGINNINGS.iter().any(|beginning| line.starts_with(beginning))
        || line.strip_prefix("unable to retrieve container logs for ").is_some_and(is_container_id)
        || line
            .strip_prefix("rpc error: code = ")
            .and_then(|rest| rest.split_once(" desc = "))
            .is_some_and(|(code, _)| !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_alphabetic()))
        || ["failed to tail ", "failed to seek "].iter().filter_map(|verb| line.strip_prefix(verb)).any(is_position)
}

/// Such as `containerd://0123abcd`.
fn is_container_id(text: &str) -> bool {
    let Some((runtime, id)) = text.split_once("://") else { return false };
    let is_runtime =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'+' | b'-');
    runtime.starts_with(|first: char| first.is_ascii_lowercase())
        && runtime.bytes().all(is_runtime)
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Such as `20 lines of log file "/var/log/…`.
fn is_position(text: &str) -> bool {
    let Some((number, rest)) = text.split_once(' ') else { return false };
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number && ["lines of log file \"", "in log file \""].iter().any(|file| rest.starts_with(file))
}

/// The meaning of an error, in our own words because its text may quote the log.
fn meaning(error: &str) -> &'static str {
    if error.starts_with("unable to retrieve") {
        "the runtime has no such container any more"
    } else if error.contains("no such file or directory") {
        "the log's file is gone"
    } else if error.contains("too many open files") {
        "the kubelet has too many files open"
    } else if error.starts_with("rpc error") {
        "the runtime doesn't answer the kubelet"
    } else {
        "the kubelet can't read the log's file"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        logs::{ContainerInstance, InstanceId, Need},
        pods::Uid,
    };

    #[test]
    fn explains_errors_without_quoting_them() {
        let request = LogRead {
            instance: ContainerInstance { uid: Uid::from(1), container: "app".into(), id: InstanceId::Running(0) },
            namespace: "shop".into(),
            pod: "cart".into(),
            node: "n".into(),
            previous: false,
            need: Need::MOST,
        };
        let secret = "password=hunter2";
        let table: &[(u16, &str, &str, bool, bool)] = &[
            (
                400,
                "container \"app\" in pod \"cart\" is waiting to start: PodInitializing",
                "waiting to start",
                false,
                false,
            ),
            (400, "previous terminated container \"app\" in pod \"cart\" not found", "previous instance", false, false),
            (400, "container app is not valid for pod cart", "no such container", false, false),
            (400, "container \"app\" in pod \"cart\" is terminated", "lost the container", false, false),
            (400, "container \"app\" in pod \"cart\" is not available", "doesn't know the container", true, false),
            (400, secret, "HTTP 400", false, false),
            (401, "Unauthorized", "credentials", true, false),
            (
                403,
                "pods \"cart\" is forbidden: User \"x\" cannot get resource \"pods/log\" in API group \"\"",
                "get on pods/log in namespace shop",
                true,
                false,
            ),
            (
                403,
                "Forbidden (user=kube-apiserver, verb=get, resource=nodes, subresource=proxy) (get pods/log cart)",
                "kubelet doesn't allow",
                true,
                false,
            ),
            (404, "pods \"cart\" not found", "the pod is gone", false, false),
            (404, "pods \"n\" not found", "node is gone", false, false),
            (
                404,
                "the server could not find the requested resource (get pods cart)",
                "kubelet doesn't know the pod",
                true,
                false,
            ),
            (429, "slow down", "too many requests", true, false),
            (
                500,
                "Get \"https://10.0.0.1:10250/containerLogs/shop/cart/app\": dial tcp 10.0.0.1:10250: connect: connection refused",
                "connection refused",
                true,
                true,
            ),
            (500, secret, "HTTP 500", true, false),
            (503, "the server is currently unable to handle the request", "HTTP 503", true, true),
            (418, secret, "HTTP 418", false, false),
        ];
        for (code, message, note, retry, is_unresponsive) in table {
            let status = Status { code: *code, message: (*message).to_owned(), ..Status::default() };
            let error = ReadError::new(&kube::Error::Api(Box::new(status)), &request);
            assert!(error.note.contains(note), "{code} {message}: {}", error.note);
            assert_eq!((error.retry.is_some(), error.is_unresponsive), (*retry, *is_unresponsive), "{code} {message}");
            assert!(!error.note.contains("hunter2"));
        }
    }

    #[test]
    fn recognizes_errors_of_the_kubelet() {
        let id = "0123456789abcdef".repeat(4);
        for (error, expected) in [
            (format!("unable to retrieve container logs for containerd://{id}"), "no such container"),
            ("unable to retrieve container logs for docker://".to_owned(), "no such container"),
            (
                "failed to try resolving symlinks in path \"/var/log/pods/a/b/0.log\": lstat /var/log/pods/a: no such file \
                 or directory"
                    .to_owned(),
                "file is gone",
            ),
            ("failed to open log file \"/var/log/pods/a\": open /var/log/pods/a: too many open files".to_owned(), "too many"),
            ("failed to get parse function: unsupported log format: \"\\x00password=hunter2\"".to_owned(), "can't read"),
            ("failed to tail 20 lines of log file \"/var/log/pods/a\": seek: invalid argument".to_owned(), "can't read"),
            ("failed to seek -1 in log file \"/var/log/pods/a\": invalid argument".to_owned(), "can't read"),
            ("failed to watch directory \"/var/log\": no space left on device".to_owned(), "can't read"),
            ("container status is nil".to_owned(), "can't read"),
            ("failed to read log file \"/var/log/pods/a\": read: input/output error".to_owned(), "can't read"),
            ("rpc error: code = Unavailable desc = connection error".to_owned(), "doesn't answer"),
        ] {
            for (body, whole) in [(error.clone(), true), (format!("{error}\n"), true), (error.clone(), false)] {
                let (at, meaning) = error_in(body.as_bytes(), whole).unwrap_or_else(|| panic!("{body:?}"));
                assert!(at == 0 && meaning.contains(expected) && !meaning.contains("hunter2"), "{meaning}");
            }
            // After part of a log, too, the kubelet ends without a line break, unlike a program.
            let body = format!("begun\n{error}");
            assert_eq!(error_in(body.as_bytes(), true).map(|(at, _)| at), Some(6));
            assert_eq!(error_in(format!("{body}\n").as_bytes(), true), None);
            assert_eq!(error_in(format!("{error}\n").as_bytes(), false), None);
        }
    }

    #[test]
    fn does_not_mistake_logs_for_errors() {
        for log in [
            "",
            "\n",
            "Error: unable to retrieve container logs for containerd://abc",
            "unable to retrieve container logs for the user",
            "rpc error: the code is bad",
            "failed to open log file: permission denied",
            "failed to tail the log file \"/var/log/app\"",
            "failed to seek 1x in log file \"a\"",
            "rpc error: code = 14 desc = unavailable",
            "unable to retrieve container logs for Containerd://abc",
            "container status is nil, retrying",
        ] {
            assert_eq!(error_in(log.as_bytes(), true), None, "{log:?}");
        }
        assert_eq!(error_in(b"rpc error: code = Unavailable desc = \xff", true), None);
    }
}
