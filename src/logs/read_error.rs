//! Explains a failed request for a log. The text is our own, because a kubelet's error may quote the log.

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
}
