//! Recognizes a kubelet's error messages in the body of a log.
//!
//! A kubelet starts its response before it opens the log, so its errors are sent in the body of a 200. The texts are those
//! of Kubernetes v1.36: `pkg/kubelet/kuberuntime/kuberuntime_container.go` and `k8s.io/cri-client/pkg/logs`.

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
