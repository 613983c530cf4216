//! Turns kube's errors into messages that name the cluster, the request and what to do next.
//!
//! kube's own messages repeat themselves and quote the response, which may contain secrets. Of a response, these messages
//! contain only the API server's error message.

use std::{error::Error, io};

use kube::{client::AuthError, core::Status};

use super::Failure;

/// How much of the API server's error message is shown, in characters.
const MESSAGE_LIMIT: usize = 300;

/// The cluster of a request, as messages name it.
#[derive(Clone, Debug)]
pub(super) struct Target {
    url: String,
    context: Option<String>,
}

/// The permission that a request needs, in the terms of RBAC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Permission<'a> {
    pub verb: &'static str,
    /// Such as `pods` or `orchestrs.kopf.dev`.
    pub resource: &'static str,
    /// Absent for the whole cluster.
    pub namespace: Option<&'a str>,
    pub grant: Grant,
}

/// How a missing permission is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grant {
    /// To a person, with Kubernetes' own ClusterRole `view`.
    View,
    /// To the operator, with the manifests in `deploy`.
    Install,
}

impl Target {
    /// `context` is that of the kubeconfig, if one was used.
    pub(super) fn new(url: &str, context: Option<String>) -> Self {
        Self { url: url.trim_end_matches('/').to_owned(), context }
    }

    /// The context of the kubeconfig, or else the address.
    pub(super) fn name(&self) -> &str {
        self.context.as_deref().unwrap_or(&self.url)
    }

    /// Describes a failed request.
    pub(super) fn describe(&self, error: &kube::Error) -> Failure {
        Failure::new(self.message(error))
    }

    /// Describes a failed request that needs this permission. If it was denied, the message says how to grant it.
    pub(super) fn describe_denied(&self, error: &kube::Error, permission: &Permission<'_>) -> Failure {
        match error {
            kube::Error::Api(status) if status.code == 403 => Failure::new(self.denied(status, permission)),
            _ => self.describe(error),
        }
    }

    /// Describes a request without a response.
    pub(super) fn timed_out(&self, seconds: u64) -> Failure {
        Failure::new(format!("the cluster at {} did not respond within {seconds} s", self.url))
    }

    fn message(&self, error: &kube::Error) -> String {
        let url = &self.url;
        match error {
            kube::Error::Api(status) => self.api_status(status),
            kube::Error::Auth(error) => credential_error(error),
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
                format!("cannot read the response from {url}: is it the address of a Kubernetes API server?")
            }
            kube::Error::RustlsTls(error) => format!("cannot use the kubeconfig's certificates: {error}"),
            kube::Error::ProxyProtocolUnsupported { .. } | kube::Error::ProxyProtocolDisabled { .. } => {
                "cannot use the proxy of the kubeconfig or HTTPS_PROXY: only http and https proxies are supported"
                    .to_owned()
            }
            kube::Error::Service(error) => match find::<AuthError>(error.as_ref()) {
                Some(error) => credential_error(error),
                None => self.unreachable(error.as_ref()),
            },
            other => self.unreachable(other),
        }
    }

    fn api_status(&self, status: &Status) -> String {
        let url = &self.url;
        match status.code {
            401 => {
                let context = self.context.as_ref().map(|name| format!(" of context {name:?}")).unwrap_or_default();
                format!(
                    "the cluster at {url} rejects the credentials{context}: they may have expired; log in again, and \
                     check with `kubectl auth whoami`"
                )
            }
            code => format!("the cluster at {url} returned {code}: {}", status_message(status)),
        }
    }

    fn denied(&self, status: &Status, permission: &Permission<'_>) -> String {
        let Permission { verb, resource, namespace, grant } = *permission;
        let user = refused_user(&status.message);
        if user == Some("system:anonymous") {
            return format!(
                "the request to the cluster at {} has no credentials and may not {verb} {resource}: check with `kubectl \
                 auth whoami`",
                self.url
            );
        }
        let who = user.map_or_else(|| "these credentials".to_owned(), |user| format!("{user:?}"));
        let (place, flag) = match namespace {
            Some(namespace) => (format!("in namespace {namespace}"), format!("--namespace {namespace}")),
            None => ("in all namespaces".to_owned(), "--all-namespaces".to_owned()),
        };
        let remedy = match (grant, namespace) {
            (Grant::Install, None) => "grant it with `kubectl apply -k deploy`".to_owned(),
            (Grant::Install, Some(_)) => "grant it with a Role as in deploy/namespaced".to_owned(),
            (Grant::View, None) => format!(
                "grant it with `kubectl create clusterrolebinding orchestr-scan --clusterrole=view {}`, or check one \
                 namespace with -n",
                subject(user)
            ),
            (Grant::View, Some(namespace)) => format!(
                "grant it with `kubectl create rolebinding orchestr-scan --namespace {namespace} --clusterrole=view {}`",
                subject(user)
            ),
        };
        let impersonate = match user {
            Some(user) if grant == Grant::Install => format!(" --as {}", quoted(user)),
            _ => String::new(),
        };
        format!(
            "RBAC does not allow {who} to {verb} {resource} {place}: check with `kubectl auth can-i {verb} {resource} \
             {flag}{impersonate}`, {remedy}"
        )
    }

    fn unreachable(&self, error: &(dyn Error + 'static)) -> String {
        let url = &self.url;
        if let Some(error) = find::<rustls::Error>(error) {
            return format!(
                "cannot trust the cluster at {url}: {error}; check the kubeconfig's certificate-authority-data and server"
            );
        }
        let cause = match find::<io::Error>(error).map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
            Some(io::ErrorKind::TimedOut) => "the connection timed out".to_owned(),
            Some(io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe) => {
                "the connection was closed".to_owned()
            }
            _ => clipped(&chain(error).last().map(ToString::to_string).unwrap_or_default()),
        };
        let hint = match &self.context {
            Some(name) => format!("; is it running, and is context {name:?} the right one?"),
            None => String::new(),
        };
        format!("cannot reach the cluster at {url}: {cause}{hint}")
    }
}

/// Describes why the credentials cannot be used. A plugin's output, arguments and environment may contain secrets, and
/// kube includes them in its errors: the message repeats none of them.
fn credential_error(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(error) => format!("cannot start the kubeconfig's credential plugin: {error}"),
        AuthError::AuthExecRun { out, .. } => {
            format!("the kubeconfig's credential plugin failed ({}): run it by hand to see why", out.status)
        }
        AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed | AuthError::AuthExec(_) => {
            "the kubeconfig's credential plugin returned no credentials: run it by hand to see why".to_owned()
        }
        AuthError::MissingCommand => "the kubeconfig's credential plugin has no command".to_owned(),
        AuthError::ReadTokenFile(error, path) => format!("cannot read the token file {}: {error}", path.display()),
        AuthError::InvalidBearerToken(_) => {
            "the kubeconfig's token contains characters that are not allowed in a token".to_owned()
        }
        AuthError::InvalidBasicAuth(_) => {
            "the kubeconfig's password contains characters that cannot be sent".to_owned()
        }
        _ => "the kubeconfig's login method is not supported: use a credential plugin (exec)".to_owned(),
    }
}

/// The API server's error message. kube wraps any other response, such as a proxy's error page, in a status as well; its
/// text is not shown.
fn status_message(status: &Status) -> String {
    let is_page = status.reason == "Failed to parse error data";
    match status.message.as_str() {
        message if !is_page && !message.is_empty() => clipped(message),
        _ => "the response is not from a Kubernetes API server; is there a proxy in between?".to_owned(),
    }
}

/// The user name in `pods is forbidden: User "jane" cannot list resource "pods" in API group "" …`.
fn refused_user(message: &str) -> Option<&str> {
    message.split_once("User \"")?.1.split_once("\" cannot ").map(|(user, _)| user)
}

fn subject(user: Option<&str>) -> String {
    match user.map(|user| (user, user.strip_prefix("system:serviceaccount:"))) {
        Some((_, Some(account))) => format!("--serviceaccount={}", quoted(account)),
        Some((user, None)) => format!("--user={}", quoted(user)),
        None => "--user=…".to_owned(),
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_LIMIT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// An error and its sources. `io::Error::source` skips the error that it wraps, and rustls' errors are wrapped so.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => (*error).source(),
    })
}

/// The innermost error of type `E`.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    chain(error).filter_map(|error| error.downcast_ref()).last()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target::new("https://10.0.0.1:6443/", Some("prod".to_owned()))
    }

    fn status(code: u16, reason: &str, message: &str) -> kube::Error {
        kube::Error::Api(Status::failure(message, reason).with_code(code).boxed())
    }

    fn described(error: &kube::Error, permission: &Permission<'_>) -> String {
        target().describe_denied(error, permission).to_string()
    }

    const PODS: Permission<'static> =
        Permission { verb: "list", resource: "pods", namespace: None, grant: Grant::View };

    #[test]
    fn names_a_denied_permission_and_the_command_that_grants_it() {
        let jane = r#"pods is forbidden: User "jane" cannot list resource "pods" in API group "" at the cluster scope"#;
        let account = jane.replace("jane", "system:serviceaccount:ci:bot");
        let hostile = jane.replace("jane", "o'brien; rm -rf");
        let shop = Permission { namespace: Some("shop"), ..PODS };
        let operator =
            Permission { verb: "watch", resource: "orchestrs.kopf.dev", namespace: None, grant: Grant::Install };
        for (message, permission, expected) in [
            (
                jane,
                PODS,
                "RBAC does not allow \"jane\" to list pods in all namespaces: check with `kubectl auth can-i list pods \
                 --all-namespaces`, grant it with `kubectl create clusterrolebinding orchestr-scan --clusterrole=view \
                 --user=jane`, or check one namespace with -n",
            ),
            (
                &account,
                shop,
                "RBAC does not allow \"system:serviceaccount:ci:bot\" to list pods in namespace shop: check with `kubectl auth \
                 can-i list pods --namespace shop`, grant it with `kubectl create rolebinding orchestr-scan --namespace \
                 shop --clusterrole=view --serviceaccount=ci:bot`",
            ),
            (
                &account,
                operator,
                "RBAC does not allow \"system:serviceaccount:ci:bot\" to watch orchestrs.kopf.dev in all namespaces: check with \
                 `kubectl auth can-i watch orchestrs.kopf.dev --all-namespaces --as system:serviceaccount:ci:bot`, grant \
                 it with `kubectl apply -k deploy`",
            ),
            (
                &hostile,
                shop,
                "RBAC does not allow \"o'brien; rm -rf\" to list pods in namespace shop: check with `kubectl auth can-i list \
                 pods --namespace shop`, grant it with `kubectl create rolebinding orchestr-scan --namespace shop \
                 --clusterrole=view --user='o'\\''brien; rm -rf'`",
            ),
            (
                "no",
                shop,
                "RBAC does not allow these credentials to list pods in namespace shop: check with `kubectl auth can-i list pods \
                 --namespace shop`, grant it with `kubectl create rolebinding orchestr-scan --namespace shop \
                 --clusterrole=view --user=…`",
            ),
        ] {
            assert_eq!(described(&status(403, "Forbidden", message), &permission), expected);
        }
    }

    #[test]
    fn describes_other_errors_with_what_to_do() {
        for (error, expected) in [
            (
                status(401, "Unauthorized", "Unauthorized"),
                "the cluster at https://10.0.0.1:6443 rejects the credentials of context \"prod\": they may have expired; \
                 log in again, and check with `kubectl auth whoami`",
            ),
            (
                status(403, "Forbidden", r#"pods is forbidden: User "system:anonymous" cannot list resource"#),
                "the request to the cluster at https://10.0.0.1:6443 has no credentials and may not list pods: check with \
                 `kubectl auth whoami`",
            ),
            (
                status(500, "InternalError", "etcdserver:\n request timed out"),
                "the cluster at https://10.0.0.1:6443 returned 500: etcdserver: request timed out",
            ),
            (
                status(502, "Failed to parse error data", "<html>token=hunter2</html>"),
                "the cluster at https://10.0.0.1:6443 returned 502: the response is not from a Kubernetes API server; is \
                 there a proxy in between?",
            ),
            (
                kube::Error::SerdeError(serde_json::from_str::<u8>(r#""hunter2""#).unwrap_err()),
                "cannot read the response from https://10.0.0.1:6443: is it the address of a Kubernetes API server?",
            ),
            (
                kube::Error::Service(io::Error::from(io::ErrorKind::TimedOut).into()),
                "cannot reach the cluster at https://10.0.0.1:6443: the connection timed out; is it running, and is context \
                 \"prod\" the right one?",
            ),
            (
                kube::Error::Service(
                    io::Error::other(io::Error::other(rustls::Error::InvalidCertificate(
                        rustls::CertificateError::UnknownIssuer,
                    )))
                    .into(),
                ),
                "cannot trust the cluster at https://10.0.0.1:6443: invalid peer certificate: UnknownIssuer; check the \
                 kubeconfig's certificate-authority-data and server",
            ),
            (
                kube::Error::Service(AuthError::MissingCommand.into()),
                "the kubeconfig's credential plugin has no command",
            ),
        ] {
            assert_eq!(described(&error, &PODS), expected);
        }
    }

    #[test]
    fn never_repeats_the_output_of_a_credential_plugin() {
        let out =
            std::process::Command::new("sh").args(["-c", "echo hunter2; echo hunter2 >&2; exit 3"]).output().unwrap();
        let error = kube::Error::Auth(AuthError::AuthExecRun {
            cmd: "login --password hunter2".to_owned(),
            out: Box::new(out),
        });
        assert_eq!(
            target().describe(&error).to_string(),
            "the kubeconfig's credential plugin failed (exit status: 3): run it by hand to see why"
        );
    }

    #[test]
    fn truncates_long_messages() {
        let message = target().describe(&status(500, "InternalError", &"é".repeat(10_000))).to_string();
        assert!(message.ends_with("é…") && message.chars().count() < MESSAGE_LIMIT + 100, "{message}");
    }
}
