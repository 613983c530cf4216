//! Why there is no log, in words of our own: those of a kubelet's error may quote the log.

use std::time::Duration;

use kube::core::Status;

use super::LogRequest;

/// A request for a log that was refused or failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReadError {
    /// Why, in words.
    pub note: String,
    /// After how long it may be otherwise, if it may.
    pub retry: Option<Duration>,
    /// Whether the node gave no answer.
    pub silent: bool,
}

/// A kubelet that restarts, or a connection that broke.
const SOON: Duration = Duration::from_secs(10);

/// Something that somebody must mend first.
const LATER: Duration = Duration::from_secs(60);

impl ReadError {
    pub fn of(error: &kube::Error, request: &LogRequest) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status, request),
            kube::Error::BuildRequest(_) => Self::new("the pod's name can't be asked for", None),
            _ => Self::new("the API server can't be reached", Some(SOON)),
        }
    }

    fn new(note: impl Into<String>, retry: Option<Duration>) -> Self {
        Self { note: note.into(), retry, silent: false }
    }

    fn of_status(status: &Status, request: &LogRequest) -> Self {
        let message = status.message.as_str();
        let says = |words: &str| message.contains(words);
        match status.code {
            400 if says("is waiting to start") => Self::new("the container is waiting to start", None),
            400 if says("previous terminated container") => {
                Self::new("the kubelet has no log of the previous life", None)
            }
            400 if says("is not valid for pod") => Self::new("the pod has no such container", None),
            400 if says("is terminated") => Self::new("the runtime lost the container, and its log with it", None),
            400 if says("is not available") => Self::new("the kubelet doesn't know the container yet", Some(SOON)),
            401 => Self::new("the API server doesn't accept the operator's credentials", Some(LATER)),
            403 if says("cannot get resource") => {
                Self::new(format!("not allowed: get on pods/log in namespace {}", request.namespace), Some(LATER))
            }
            403 => Self::new("the kubelet doesn't allow the API server to read logs", Some(LATER)),
            404 if says(&format!("\"{}\" not found", request.pod)) => Self::new("the pod is gone", None),
            // The API server calls a node that it doesn't find a pod.
            404 if says(&format!("\"{}\" not found", request.node)) => Self::new("the pod's node is gone", None),
            404 => Self::new("the kubelet doesn't know the pod", Some(SOON)),
            429 => Self::new("the API server has too many requests", Some(SOON)),
            code @ 500.. => {
                let unreachable = unreachable(message);
                let note = match unreachable {
                    Some(why) => format!("the node's kubelet can't be reached: {why}"),
                    None => format!("the kubelet failed (HTTP {code})"),
                };
                Self { note, retry: Some(SOON), silent: unreachable.is_some() || code != 500 }
            }
            code => Self::new(format!("the kubelet refused (HTTP {code})"), None),
        }
    }
}

/// Why the API server reached no kubelet, by the words of Go's network errors.
fn unreachable(message: &str) -> Option<&'static str> {
    const WHYS: [(&str, &str); 10] = [
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
    WHYS.iter().find(|(words, _)| message.contains(words)).map(|&(_, why)| why)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        logs::{ContainerInstance, InstanceId, LogPolicy},
        pods::Uid,
    };

    #[test]
    fn refusals_are_told_in_words_of_our_own() {
        let request = LogRequest {
            instance: ContainerInstance { uid: Uid::from(1), container: "app".into(), id: InstanceId::Running(0) },
            namespace: "shop".into(),
            pod: "cart".into(),
            node: "n".into(),
            previous: false,
            started_again: false,
            termination_message: "".into(),
            policy: Arc::new(LogPolicy { tail_lines: 1, max_bytes: 256, redact: true, redact_patterns: Vec::new() }),
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
            (400, "previous terminated container \"app\" in pod \"cart\" not found", "previous life", false, false),
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
        for (code, message, note, retry, silent) in table {
            let status = Status { code: *code, message: (*message).to_owned(), ..Status::default() };
            let refusal = ReadError::of(&kube::Error::Api(Box::new(status)), &request);
            assert!(refusal.note.contains(note), "{code} {message}: {}", refusal.note);
            assert_eq!((refusal.retry.is_some(), refusal.silent), (*retry, *silent), "{code} {message}");
            assert!(!refusal.note.contains("hunter2"));
        }
    }
}
