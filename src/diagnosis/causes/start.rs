//! Explains why a container cannot be created or started.

use crate::api::Cause;

use super::{
    super::container::{Container, Failure, never_started},
    Case, Found,
    config::missing,
    name_of,
    parse::{all_parts, filled, parts, without_grpc},
};

pub(super) fn explain<'a>(case: &Case<'a>, container: Container<'a>) -> Found {
    let name = name_of(container);
    let failure = container.last_failure();
    let run = failure.and_then(|failure| container.termination(failure)).or(container.status.last.as_ref());
    let error = match failure {
        Some(Failure::Waiting(waiting)) if waiting.reason != "CrashLoopBackOff" && !waiting.message.is_empty() => {
            waiting.message.as_str()
        }
        // Only the runtime writes the message of an instance that never ran.
        _ => run.filter(|run| never_started(run)).map_or("", |run| run.message.as_str()),
    };
    let error = if error.is_empty() { reported_error(case, container).unwrap_or_default() } else { error };
    if error.is_empty() {
        return Found::silent(format!("{name} cannot be started"));
    }
    if let Some(missing) = missing(error, &case.pod.namespace) {
        return missing.needed_by(&name);
    }
    if let Some((cause, command)) = command(error) {
        // The image may have the file, but not in $PATH, or a volume may hide it.
        let why = match cause {
            Cause::CommandNotFound if command.contains('/') => "was not found",
            Cause::CommandNotFound => "was not found in $PATH",
            _ => "may not be executed",
        };
        return Found::new(cause, format!("the command {command} of {name} {why}"));
    }
    if let Some(sentence) = refused_user(error, &name) {
        return Found::new(Cause::SecurityContext, sentence);
    }
    // runc sees that its own process in the container was killed before it could start the command.
    if error.contains("container init was OOM-killed") {
        let limit = container.memory_limit().map(|limit| format!("; limit {limit}")).unwrap_or_default();
        return Found::new(Cause::OutOfMemory, format!("{name} was OOM-killed before its command started{limit}"));
    }
    if let Some(path) = mount(error) {
        return Found::new(
            Cause::MountFailed,
            format!("a volume cannot be mounted into {name} at {path}: {}", without_grpc(error)),
        );
    }
    Found::unknown(format!("{name} cannot be started: {}", without_grpc(error)))
}

/// The error of the last attempt that an event reports.
fn reported_error<'a>(case: &Case<'a>, container: Container<'a>) -> Option<&'a str> {
    case.events(&["Failed"], &container.status.name)
        .filter_map(|event| event.text().strip_prefix("Error: "))
        .find(|error| error.contains(' '))
}

/// The command that was not found or may not be executed, in a runtime's error:
/// `exec: "/no/such/binary": stat /no/such/binary: no such file or directory`.
fn command(error: &str) -> Option<(Cause, String)> {
    // Runtimes that quote the error of runc escape its quotes, some twice.
    let plain = error.replace('\\', "");
    let mut rest = plain.as_str();
    while let Some((_, after)) = rest.split_once("exec: ") {
        rest = after;
        let Some((name, why)) = after.strip_prefix('"').and_then(|after| after.split_once("\": ")) else { continue };
        let why = why.strip_prefix("stat ").and_then(|stat| stat.strip_prefix(name)?.strip_prefix(": ")).unwrap_or(why);
        let cause = match () {
            () if why.starts_with("executable file not found") => Cause::CommandNotFound,
            () if why.starts_with("no such file or directory") => Cause::CommandNotFound,
            () if why.starts_with("permission denied") => Cause::PermissionDenied,
            () => continue,
        };
        return Some((cause, name.to_owned()));
    }
    // crun: executable file `foo` not found in $PATH: No such file or directory
    let (name, why) = plain.split_once("executable file `")?.1.split_once('`')?;
    why.starts_with(" not found").then(|| (Cause::CommandNotFound, name.to_owned()))
}

/// How the kubelet refuses to start a container with `runAsNonRoot` whose user is, or may be, root.
const REFUSED_USERS: [(&str, &str); 3] = [
    (
        "container has runAsNonRoot and image will run as root{}",
        "{0} has runAsNonRoot, but its image runs as root: set runAsUser, or use an image with a user",
    ),
    (
        "container's runAsUser breaks non-root policy{}",
        "{0} has runAsNonRoot, but also runAsUser 0, which is root: set another runAsUser",
    ),
    (
        "container has runAsNonRoot and image has non-numeric user ({}), cannot verify user is non-root{}",
        "{0} has runAsNonRoot, and the user {1} of its image has no number: set runAsUser to that user's",
    ),
];

fn refused_user(error: &str, name: &str) -> Option<String> {
    REFUSED_USERS.iter().find_map(|(pattern, sentence)| {
        let mut parts = all_parts(pattern, error)?;
        parts.insert(0, name);
        Some(filled(sentence, &parts))
    })
}

/// The path inside the container at which the runtime could not mount a volume: `error mounting "…" to rootfs at "/etc/x"`.
fn mount(error: &str) -> Option<String> {
    let plain = error.replace('\\', "");
    let [_, _, path, _] = parts("{}error mounting {q} to rootfs at {q}{}", &plain)?;
    Some(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{super::tests::rows, *};

    #[test]
    fn finds_the_command_in_the_errors_of_runtimes() {
        for [error, cause, name] in rows(include_str!("../../../tests/fixtures/messages/commands.tsv")) {
            let found = command(error).unwrap();
            assert_eq!((found.0.as_str(), found.1.as_str()), (cause, name), "{error}");
        }
    }

    #[test]
    fn a_user_is_refused_by_the_kubelet_only() {
        let of = |error| refused_user(error, "app");
        let root = "container has runAsNonRoot and image will run as root (pod: \"web-1_shop(u)\", container: app)";
        assert!(of(root).is_some_and(|sentence| sentence.contains("set runAsUser, or use an image with a user")));
        let zero = "container's runAsUser breaks non-root policy (pod: \"web-1_shop(u)\", container: app)";
        assert!(of(zero).is_some_and(|sentence| sentence.contains("runAsUser 0")));
        let named = "container has runAsNonRoot and image has non-numeric user (nginx), cannot verify user is non-root \
                     (pod: \"web-1_shop(u)\", container: app)";
        assert!(of(named).is_some_and(|sentence| sentence.contains("the user nginx")));
        for error in ["", "unable to find user app: no matching entries in passwd file", &format!("exec: {root}")] {
            assert_eq!(of(error), None, "{error}");
        }
    }

    #[test]
    fn other_errors_prove_nothing_about_the_command() {
        for error in [
            "",
            "exec: ",
            "exec: \"x\"",
            "exec: \"x\": is a directory: unknown",
            "error mounting \"/a\" to rootfs at \"/b\": stat /a: no such file or directory",
            "chdir to cwd (\"/app\") set in config.json failed: no such file or directory",
            "stat /x: permission denied",
        ] {
            assert_eq!(command(error), None, "{error}");
        }
        let error =
            "runc create failed: error mounting \"/var/lib/kubelet/x\" to rootfs at \"/etc/app.yaml\": not a directory";
        assert_eq!(mount(error).as_deref(), Some("/etc/app.yaml"));
    }
}
