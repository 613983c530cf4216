//! From what went wrong with a request to the sentence that helps.
//!
//! kube's own messages repeat themselves and quote what was received. These name the cluster, what was
//! asked of it and what to do next, and hold nothing of an answer but the API server's own words.

use std::{error::Error, io};

use kube::{client::AuthError, core::Status};

use super::Failure;

/// The longest part of the API server's own words that is repeated, in characters.
const WORDS_LIMIT: usize = 300;

/// What to call a cluster.
#[derive(Clone, Debug)]
pub struct Target {
    url: String,
    context: Option<String>,
}

/// What was asked, as RBAC names it.
#[derive(Clone, Copy, Debug)]
pub struct Permission<'a> {
    /// Such as `list`.
    pub verb: &'static str,
    /// Such as `pods` or `orchestrs.kopf.dev`.
    pub resource: &'static str,
    /// Where; absent for the whole cluster.
    pub namespace: Option<&'a str>,
    /// Who grants it.
    pub grant: Grant,
}

/// How a missing right is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// To a person, by Kubernetes' own role `view`.
    View,
    /// To the operator, by what is in `deploy`.
    Install,
}

impl Target {
    /// A cluster at this URL, by this context of a kubeconfig if there is one.
    pub(super) fn new(url: &str, context: Option<String>) -> Self {
        Self { url: url.trim_end_matches('/').to_owned(), context }
    }

    /// The sentence for a failed request that RBAC doesn't govern.
    pub fn describe(&self, error: &kube::Error) -> Failure {
        Failure::new(self.sentence(error))
    }

    /// The sentence for a failed request.
    pub fn describe_denied(&self, error: &kube::Error, permission: &Permission<'_>) -> Failure {
        match error {
            kube::Error::Api(status) if status.code == 403 => Failure::new(self.refused(status, permission)),
            _ => self.describe(error),
        }
    }

    /// The sentence for a request that had no answer in time.
    pub fn timed_out(&self, seconds: u64) -> Failure {
        Failure::new(format!("the cluster at {} has not answered for {seconds} s", self.url))
    }

    fn sentence(&self, error: &kube::Error) -> String {
        let url = &self.url;
        match error {
            kube::Error::Api(status) => self.answered(status),
            kube::Error::Auth(error) => credentials(error),
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
                format!("what answers at {url} is no Kubernetes API server, or not one that this version understands")
            }
            kube::Error::RustlsTls(error) => format!("cannot use the kubeconfig's certificates: {error}"),
            kube::Error::ProxyProtocolUnsupported { .. } | kube::Error::ProxyProtocolDisabled { .. } => {
                "cannot use the proxy that the kubeconfig or HTTPS_PROXY names: only http and https proxies are known"
                    .to_owned()
            }
            kube::Error::Service(error) => match find::<AuthError>(error.as_ref()) {
                Some(error) => credentials(error),
                None => self.unreachable(error.as_ref()),
            },
            other => self.unreachable(other),
        }
    }

    fn answered(&self, status: &Status) -> String {
        let url = &self.url;
        match status.code {
            401 => {
                let whose = self.context.as_ref().map(|name| format!(" of context {name:?}")).unwrap_or_default();
                format!(
                    "the cluster at {url} refuses the credentials{whose}: they may have expired; log in again, and see \
                     `kubectl auth whoami`"
                )
            }
            code => format!("the cluster at {url} answers {code}: {}", words(status)),
        }
    }

    fn refused(&self, status: &Status, permission: &Permission<'_>) -> String {
        let Permission { verb, resource, namespace, grant } = *permission;
        let user = refused_user(&status.message);
        if user == Some("system:anonymous") {
            return format!(
                "the cluster at {} was sent no credentials and refuses to {verb} {resource}: see `kubectl auth whoami`",
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
                "grant it with `kubectl create clusterrolebinding orchestr-scan --clusterrole=view {}`, or look at one \
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
            "RBAC refuses {who} to {verb} {resource} {place}: check with `kubectl auth can-i {verb} {resource} \
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
            Some(io::ErrorKind::ConnectionRefused) => "the connection is refused".to_owned(),
            Some(io::ErrorKind::TimedOut) => "nothing answers there".to_owned(),
            Some(io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe) => {
                "the connection was cut".to_owned()
            }
            _ => clipped(&chain(error).last().map(ToString::to_string).unwrap_or_default()),
        };
        let which = match &self.context {
            Some(name) => format!("; is it running, and is context {name:?} the right one?"),
            None => String::new(),
        };
        format!("cannot reach the cluster at {url}: {cause}{which}")
    }
}

/// Why there are no credentials. A plugin's output may hold them, as may its arguments and its environment,
/// which kube makes part of its name: none is repeated.
fn credentials(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(error) => format!("cannot start the kubeconfig's credential plugin: {error}"),
        AuthError::AuthExecRun { out, .. } => {
            format!("the kubeconfig's credential plugin failed ({}): run it by hand to see why", out.status)
        }
        AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed | AuthError::AuthExec(_) => {
            "the kubeconfig's credential plugin gave no credentials: run it by hand to see why".to_owned()
        }
        AuthError::MissingCommand => "the kubeconfig's credential plugin has no command".to_owned(),
        AuthError::ReadTokenFile(error, path) => format!("cannot read the token file {}: {error}", path.display()),
        AuthError::InvalidBearerToken(_) => "the kubeconfig's token has characters that no token has".to_owned(),
        AuthError::InvalidBasicAuth(_) => "the kubeconfig's password has characters that cannot be sent".to_owned(),
        _ => "the kubeconfig's way to log in is not known to orchestr; a credential plugin (exec) is".to_owned(),
    }
}

/// What the API server says, where it is the API server that speaks: kube makes the whole text of any
/// other answer, such as a proxy's page, the message of a status without a `status`.
fn words(status: &Status) -> String {
    let is_page = status.reason == "Failed to parse error data";
    match status.message.as_str() {
        message if !is_page && !message.is_empty() => clipped(message),
        _ => "not in a Kubernetes API server's words; is there a proxy in between?".to_owned(),
    }
}

/// The user in `pods is forbidden: User "jane" cannot list resource "pods" in API group "" …`.
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

/// A word that a shell takes as it stands.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(WORDS_LIMIT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// An error and what caused it. An `io::Error` that holds another has that one's `source`: it would be
/// stepped over, and rustls' errors are such.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => (*error).source(),
    })
}

/// The innermost error of a kind.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    chain(error).filter_map(|error| error.downcast_ref()).last()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target::new("https://10.0.0.1:6443/", Some("prod".to_owned()))
    }

    fn answer(code: u16, reason: &str, message: &str) -> kube::Error {
        kube::Error::Api(Status::failure(message, reason).with_code(code).boxed())
    }

    fn told(error: &kube::Error, permission: &Permission<'_>) -> String {
        target().describe_denied(error, permission).to_string()
    }

    const PODS: Permission<'static> =
        Permission { verb: "list", resource: "pods", namespace: None, grant: Grant::View };

    #[test]
    fn a_refused_right_is_named_with_the_command_that_grants_it() {
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
                "RBAC refuses \"jane\" to list pods in all namespaces: check with `kubectl auth can-i list pods \
                 --all-namespaces`, grant it with `kubectl create clusterrolebinding orchestr-scan --clusterrole=view \
                 --user=jane`, or look at one namespace with -n",
            ),
            (
                &account,
                shop,
                "RBAC refuses \"system:serviceaccount:ci:bot\" to list pods in namespace shop: check with `kubectl auth \
                 can-i list pods --namespace shop`, grant it with `kubectl create rolebinding orchestr-scan --namespace \
                 shop --clusterrole=view --serviceaccount=ci:bot`",
            ),
            (
                &account,
                operator,
                "RBAC refuses \"system:serviceaccount:ci:bot\" to watch orchestrs.kopf.dev in all namespaces: check with \
                 `kubectl auth can-i watch orchestrs.kopf.dev --all-namespaces --as system:serviceaccount:ci:bot`, grant \
                 it with `kubectl apply -k deploy`",
            ),
            (
                &hostile,
                shop,
                "RBAC refuses \"o'brien; rm -rf\" to list pods in namespace shop: check with `kubectl auth can-i list \
                 pods --namespace shop`, grant it with `kubectl create rolebinding orchestr-scan --namespace shop \
                 --clusterrole=view --user='o'\\''brien; rm -rf'`",
            ),
            (
                "no",
                shop,
                "RBAC refuses these credentials to list pods in namespace shop: check with `kubectl auth can-i list pods \
                 --namespace shop`, grant it with `kubectl create rolebinding orchestr-scan --namespace shop \
                 --clusterrole=view --user=…`",
            ),
        ] {
            assert_eq!(told(&answer(403, "Forbidden", message), &permission), expected);
        }
    }

    #[test]
    fn other_answers_say_what_to_do() {
        for (error, expected) in [
            (
                answer(401, "Unauthorized", "Unauthorized"),
                "the cluster at https://10.0.0.1:6443 refuses the credentials of context \"prod\": they may have expired; \
                 log in again, and see `kubectl auth whoami`",
            ),
            (
                answer(403, "Forbidden", r#"pods is forbidden: User "system:anonymous" cannot list resource"#),
                "the cluster at https://10.0.0.1:6443 was sent no credentials and refuses to list pods: see `kubectl auth \
                 whoami`",
            ),
            (
                answer(500, "InternalError", "etcdserver:\n request timed out"),
                "the cluster at https://10.0.0.1:6443 answers 500: etcdserver: request timed out",
            ),
            (
                answer(502, "Failed to parse error data", "<html>token=hunter2</html>"),
                "the cluster at https://10.0.0.1:6443 answers 502: not in a Kubernetes API server's words; is there a \
                 proxy in between?",
            ),
            (
                kube::Error::SerdeError(serde_json::from_str::<u8>(r#""hunter2""#).unwrap_err()),
                "what answers at https://10.0.0.1:6443 is no Kubernetes API server, or not one that this version \
                 understands",
            ),
            (
                kube::Error::Service(io::Error::from(io::ErrorKind::TimedOut).into()),
                "cannot reach the cluster at https://10.0.0.1:6443: nothing answers there; is it running, and is context \
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
            assert_eq!(told(&error, &PODS), expected);
        }
    }

    #[test]
    fn a_credential_plugins_output_is_never_repeated() {
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
    fn the_longest_answer_is_clipped() {
        let told = target().describe(&answer(500, "InternalError", &"é".repeat(10_000))).to_string();
        assert!(told.ends_with("é…") && told.chars().count() < WORDS_LIMIT + 100, "{told}");
    }
}
