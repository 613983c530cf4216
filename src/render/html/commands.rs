//! The kubectl commands that show more, to be copied into a shell.

use crate::api::{ContainerIssue, ContainerStateName, Incident, LogSource, Owner, PodProblem, is_object_name};

/// How many containers of a pod have a command.
const CONTAINERS: usize = 4;

/// The commands about a pod. Empty if an API server would not accept a name, or a context has special
/// characters: a file may contain any text, and a shell would run parts of it.
pub(super) fn of_pod(context: Option<&str>, pod: &PodProblem) -> Vec<String> {
    let Some(kubectl) = kubectl(context).filter(|_| is_object_name(&pod.namespace) && is_object_name(&pod.name)) else {
        return Vec::new();
    };
    let PodProblem { namespace, name, .. } = pod;
    let mut commands = vec![format!("{kubectl} describe pod -n {namespace} {name}")];
    let issues = pod.container_issues.iter().filter(|issue| is_object_name(&issue.name));
    commands.extend(issues.take(CONTAINERS).filter_map(|issue| {
        let flag = if reads_previous(issue)? { " --previous" } else { "" };
        Some(format!("{kubectl} logs -n {namespace} {name} -c {}{flag}", issue.name))
    }));
    commands
}

/// The commands about the owner of pods, and about the controllers that cannot create its pods.
pub(super) fn of_owner(context: Option<&str>, namespace: &str, owner: &Owner, incidents: &[&Incident]) -> Vec<String> {
    let Some(kubectl) = kubectl(context) else { return Vec::new() };
    let controllers = incidents.iter().flat_map(|incident| &incident.controllers);
    let mut commands = Vec::new();
    for Owner { kind, name } in std::iter::once(owner).filter(|owner| owner.kind != "Pod").chain(controllers) {
        let is_kind = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if is_kind && is_object_name(namespace) && is_object_name(name) {
            let command = format!("{kubectl} describe {} -n {namespace} {name}", kind.to_ascii_lowercase());
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
    }
    commands
}

/// kubectl with the context, if the page is about several clusters. Absent if a shell may not take the context as it is.
fn kubectl(context: Option<&str>) -> Option<String> {
    match context {
        None => Some("kubectl".to_owned()),
        Some(context) if is_context(context) => Some(format!("kubectl --context {context}")),
        Some(_) => None,
    }
}

/// Whether a context is a word to a shell: it has only the characters of the names that cloud providers and kubeadm give,
/// such as `arn:aws:eks:eu-west-1:1234:cluster/prod` or `kubernetes-admin@prod`.
fn is_context(text: &str) -> bool {
    text.len() <= 253
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:/@".contains(&byte))
        && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
}

/// Whether the log that explains the issue is that of the previous run; absent if the container has none.
fn reads_previous(issue: &ContainerIssue) -> Option<bool> {
    match (issue.log_source, issue.state) {
        (Some(LogSource::Previous), _) => Some(true),
        (Some(LogSource::Current), _) | (_, ContainerStateName::Running | ContainerStateName::Terminated) => {
            Some(false)
        }
        (_, ContainerStateName::Waiting) => issue.last_termination.as_ref().map(|_| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_names_that_a_shell_does_not_interpret() {
        for name in ["cart", "cart-5d9f.x", "0"] {
            assert!(is_object_name(name), "{name}");
        }
        for name in ["", "-n", "--all", ".", "a b", "a;b", "$(b)", "a`b`", "a\nb", "A", "a/b", "a'", "ä", "a|b", "a&b"]
        {
            assert!(!is_object_name(name), "{name:?}");
        }
    }

    #[test]
    fn accepts_only_contexts_that_a_shell_does_not_interpret() {
        for context in
            ["prod", "kubernetes-admin@prod", "arn:aws:eks:eu-west-1:1234:cluster/prod", "gke_shop_eu-1_Prod", "0"]
        {
            assert_eq!(kubectl(Some(context)), Some(format!("kubectl --context {context}")));
        }
        for context in [
            "", "-n", "@prod", "/prod", "a b", "a;b", "$(b)", "a`b`", "a\nb", "a'", "a\"", "ä", "a|b", "a&b", "a~",
            "a\\b",
        ] {
            assert_eq!(kubectl(Some(context)), None, "{context:?}");
        }
        assert_eq!(kubectl(Some(&"a".repeat(254))), None);
        assert_eq!(kubectl(None).as_deref(), Some("kubectl"));
    }
}
