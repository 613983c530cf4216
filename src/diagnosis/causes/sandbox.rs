//! Explains why a pod's sandbox or network cannot be set up. Only events show it.

use crate::{api::Cause, events::Event};

use super::{Found, View, evidence::text, volumes::short};

const REASONS: [&str; 2] = ["FailedCreatePodSandBox", "NetworkNotReady"];

/// The error of the last attempt, with its event.
pub(super) fn explain<'a>(view: &View<'a>) -> Option<(&'a Event, Found)> {
    let event = view.events(&REASONS, "").next()?;
    let message = text(event);
    let sentence = match message.strip_prefix("network is not ready: ") {
        Some(error) => format!("the network of the node is not ready: {error}"),
        None => {
            let error = message.strip_prefix("Failed to create pod sandbox: ").unwrap_or(message);
            format!("the pod's sandbox cannot be created: {}", without_ids(short(error)))
        }
    };
    (!message.trim().is_empty()).then(|| (event, Found::new(Cause::SandboxFailed, sentence)))
}

/// The text without the quoted identifiers of sandboxes, which differ at each attempt.
fn without_ids(error: &str) -> String {
    let is_id = |part: &&str| part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let ids = error.split('"').filter(is_id);
    ids.take(4).fold(error.to_owned(), |text, id| text.replace(&format!(" \"{id}\""), ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_the_identifiers_of_sandboxes() {
        let id = "0123456789abcdef".repeat(4);
        let error =
            format!("failed to setup network for sandbox \"{id}\": plugin type=\"x\" failed (add): no IP addresses");
        assert_eq!(
            without_ids(&error),
            "failed to setup network for sandbox: plugin type=\"x\" failed (add): no IP addresses"
        );
        assert_eq!(without_ids("plugin type=\"calico\" failed"), "plugin type=\"calico\" failed");
    }
}
