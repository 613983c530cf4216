//! Connects to the cluster of a kubeconfig or, without one, to the cluster that this pod runs in.

use std::{
    env, io,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use http::{Uri, header::USER_AGENT};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::{
        legacy::{self, connect::HttpConnector},
        proxy::matcher::Matcher,
    },
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    api::GetParams,
    client::{ClientBuilder, ConfigExt},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
    core::{DynamicObject, Request, Resource},
};
use tokio::time::timeout;
use tower::{BoxError, ServiceBuilder};

use crate::{version, watch::set_read_timeout};

use super::{
    Failure,
    api_error::{Grant, Permission, Target},
    kind::Kind,
};

/// kube's default of 30 s is long for a person who waits.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How many contexts an error message lists.
const CONTEXTS_LISTED: usize = 8;

#[derive(Debug, Default, Args)]
pub(super) struct ConnectionFlags {
    /// The kubeconfig file; by default $KUBECONFIG, ~/.kube/config, or the pod's own service account
    #[arg(long, env = "ORCHESTR_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The context in the kubeconfig; its current context by default
    #[arg(long, env = "ORCHESTR_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
}

/// Who retries requests that the API server rejects because it is overloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retries {
    /// kube's client, for single requests.
    InTheClient,
    /// The caller: each write, log and watch has its own backoff and timeout, which retries inside the client would use
    /// up.
    AtTheCaller,
}

/// A client for a cluster. No request was sent yet.
pub(super) struct Cluster {
    pub client: Client,
    /// How error messages name the cluster.
    pub target: Target,
}

impl Cluster {
    /// Reads an object as JSON.
    ///
    /// # Errors
    /// If it does not exist, or may not be read.
    pub(super) async fn get(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        limit: Duration,
    ) -> Result<String, Failure> {
        let request = Request::new(DynamicObject::url_path(&kind.api_resource(), Some(namespace)));
        let request = request.get(name, &GetParams::default()).map_err(Failure::new)?;
        let response = timeout(limit, self.client.request_text(request)).await;
        response.map_err(|_| self.target.timed_out(limit.as_secs()))?.map_err(|error| match error {
            kube::Error::Api(status) if status.code == 404 => {
                Failure::new(format!("there is no {} {name:?} in namespace {namespace:?}", kind.singular()))
            }
            error => self.denied("get", kind, namespace, &error),
        })
    }

    /// The error for a request that is not allowed, or that failed for another reason.
    pub(super) fn denied(&self, verb: &'static str, kind: Kind, namespace: &str, error: &kube::Error) -> Failure {
        let permission = Permission { verb, resource: kind.resource(), namespace: Some(namespace), grant: Grant::View };
        self.target.describe_denied(error, &permission)
    }
}

pub(super) async fn connect(flags: &ConnectionFlags, retries: Retries) -> Result<Cluster, Failure> {
    let (mut config, context) = config(flags).await?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    set_read_timeout(&mut config);
    config.headers.push((USER_AGENT, version::user_agent()));
    config.default_retry = retries == Retries::InTheClient;
    let target = Target::new(&config.cluster_url.to_string(), context);
    let client = match retries {
        Retries::InTheClient => Client::try_from(config),
        Retries::AtTheCaller => client_without_delay(config),
    };
    let client = client.map_err(|error| target.describe(&error))?;
    Ok(Cluster { client, target })
}

/// The names of all contexts of the kubeconfig.
pub(super) fn contexts(kubeconfig: Option<&Path>) -> Result<Vec<String>, Failure> {
    let kubeconfig = read(kubeconfig).map_err(|error| match error {
        KubeconfigError::FindPath => Failure::new("there is no kubeconfig: name one with --kubeconfig or KUBECONFIG"),
        error => unusable(&error, &[]),
    })?;
    let contexts: Vec<_> = kubeconfig.contexts.into_iter().map(|context| context.name).collect();
    if contexts.is_empty() { Err(Failure::new("the kubeconfig has no contexts")) } else { Ok(contexts) }
}

fn read(kubeconfig: Option<&Path>) -> Result<Kubeconfig, KubeconfigError> {
    kubeconfig.map_or_else(Kubeconfig::read, Kubeconfig::read_from)
}

async fn config(flags: &ConnectionFlags) -> Result<(Config, Option<String>), Failure> {
    let kubeconfig = match read(flags.kubeconfig.as_deref()) {
        Ok(kubeconfig) => kubeconfig,
        Err(error) if is_absent(&error) && !is_explicit(flags) => return in_cluster().map(|config| (config, None)),
        Err(error) => return Err(unusable(&error, &[])),
    };
    let contexts: Vec<_> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let context = flags.context.clone().or_else(|| kubeconfig.current_context.clone());
    let options = KubeConfigOptions { context: flags.context.clone(), ..KubeConfigOptions::default() };
    let has_proxy = names_proxy(&kubeconfig, context.as_deref());
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| unusable(&error, &contexts))?;
    if !has_proxy && is_proxy_bypassed(&config.cluster_url) {
        config.proxy_url = None;
    }
    Ok((config, context))
}

/// Whether the kubeconfig has a proxy for the context's cluster. It takes precedence over the environment.
fn names_proxy(kubeconfig: &Kubeconfig, context: Option<&str>) -> bool {
    let context = kubeconfig.contexts.iter().find(|named| Some(named.name.as_str()) == context);
    let name = context.and_then(|named| Some(&named.context.as_ref()?.cluster));
    let cluster = kubeconfig.clusters.iter().find(|named| Some(&named.name) == name);
    cluster.and_then(|named| named.cluster.as_ref()?.proxy_url.as_ref()).is_some_and(|url| !url.is_empty())
}

fn is_absent(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(error, _) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Whether the user has chosen a kubeconfig or a context: then the pod's service account is not a fallback.
fn is_explicit(flags: &ConnectionFlags) -> bool {
    flags.kubeconfig.is_some()
        || flags.context.is_some()
        || env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty())
}

fn in_cluster() -> Result<Config, Failure> {
    if env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
        return Err(Failure::new(
            "no cluster to ask: there is no ~/.kube/config, and this is not a pod of a cluster; name a kubeconfig with \
             --kubeconfig or KUBECONFIG",
        ));
    }
    Config::incluster().map_err(|error| {
        Failure::new(format!("cannot use the pod's service account: {error}; is automountServiceAccountToken false?"))
    })
}

/// Describes why a kubeconfig cannot be used. The parser's own message quotes the file with its credentials, so it is left
/// out.
fn unusable(error: &KubeconfigError, contexts: &[String]) -> Failure {
    let listed = || {
        let names = contexts.iter().take(CONTEXTS_LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if contexts.len() > CONTEXTS_LISTED { ", …" } else { "" };
        if names.is_empty() { "it has none".to_owned() } else { format!("it has {names}{more}") }
    };
    Failure::new(match error {
        KubeconfigError::ReadConfig(error, path) => match error.kind() {
            io::ErrorKind::NotFound => format!("there is no kubeconfig at {}", path.display()),
            _ => format!("cannot read the kubeconfig {}: {error}", path.display()),
        },
        KubeconfigError::Parse(error) => match error.location() {
            Some(location) => format!("the kubeconfig cannot be parsed: line {}", location.line()),
            None => "the kubeconfig cannot be parsed".to_owned(),
        },
        KubeconfigError::CurrentContextNotSet => {
            format!("the kubeconfig has no current context: choose one with --context ({})", listed())
        }
        KubeconfigError::LoadContext(name) => format!("the kubeconfig has no context {name:?}: {}", listed()),
        KubeconfigError::LoadClusterOfContext(name) => {
            format!("the kubeconfig lacks the cluster {name:?} that its context names")
        }
        KubeconfigError::MissingClusterUrl => "the kubeconfig's cluster has no server".to_owned(),
        KubeconfigError::ParseClusterUrl(_) => "the server of the kubeconfig's cluster is not a URL".to_owned(),
        KubeconfigError::ParseProxyUrl(_) => "the kubeconfig's proxy-url or HTTPS_PROXY is not a URL".to_owned(),
        // The remaining errors name files and kinds of mistakes, and quote nothing.
        other => format!("cannot use the kubeconfig: {other}"),
    })
}

/// Builds the client that kube would build, without its retries and with `TCP_NODELAY`. Without `TCP_NODELAY`, the first
/// request of a connection that resumes a TLS session waits about 40 ms for the API server's delayed acknowledgment.
///
/// # Errors
/// If the credentials or certificates cannot be used.
fn client_without_delay(config: Config) -> kube::Result<Client> {
    if config.proxy_url.is_some() {
        // A proxy adds more delay than this would save.
        return Client::try_from(config);
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(legacy::Client::builder(TokioExecutor::new()).build(connector));
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

/// Whether `NO_PROXY` excludes the cluster from the proxy of the environment. kube takes the proxy from `HTTPS_PROXY`, but compares
/// `NO_PROXY` with the proxy's host rather than the cluster's.
fn is_proxy_bypassed(cluster: &Uri) -> bool {
    let list =
        ["NO_PROXY", "no_proxy"].into_iter().find_map(|name| env::var(name).ok().filter(|list| !list.is_empty()));
    bypasses_proxy(cluster, &list.unwrap_or_default())
}

/// Adds three rules of Go's `httpproxy`, which kubectl uses, to those of [`Matcher`]: no proxy for this host, `*` for
/// everything, and `*.example.com` for `.example.com`.
fn bypasses_proxy(cluster: &Uri, list: &str) -> bool {
    let host = cluster.host().unwrap_or_default().trim_end_matches('.');
    let is_loopback = host.trim_matches(['[', ']']).parse().is_ok_and(|address: IpAddr| address.is_loopback());
    if host == "localhost" || is_loopback || list.split(',').any(|entry| entry.trim() == "*") {
        return true;
    }
    let matcher = Matcher::builder().all("http://proxy").no(list.replace("*.", ".").replace(['[', ']'], "")).build();
    format!("https://{host}").parse().is_ok_and(|destination| matcher.intercept(&destination).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn message(yaml: &str, context: Option<&str>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, yaml).unwrap();
        let flags = ConnectionFlags { kubeconfig: Some(path), context: context.map(str::to_owned) };
        config(&flags).await.map(|_| ()).unwrap_err().to_string()
    }

    #[tokio::test]
    async fn names_each_mistake_in_a_kubeconfig() {
        let contexts = "contexts: [{name: kind, context: {cluster: kind}}, {name: prod, context: {cluster: prod}}]\n";
        for (yaml, context, expected) in [
            ("", None, "the kubeconfig has no current context: choose one with --context (it has none)"),
            (contexts, None, "the kubeconfig has no current context: choose one with --context (it has kind, prod)"),
            (contexts, Some("prd"), r#"the kubeconfig has no context "prd": it has kind, prod"#),
            (contexts, Some("prod"), r#"the kubeconfig lacks the cluster "prod" that its context names"#),
            (
                "current-context: a\ncontexts: [{name: a, context: {cluster: a}}]\nclusters: [{name: a, cluster: {}}]",
                None,
                "the kubeconfig's cluster has no server",
            ),
        ] {
            assert_eq!(message(yaml, context).await, expected);
        }
    }

    #[tokio::test]
    async fn never_quotes_a_kubeconfig_that_cannot_be_parsed() {
        for yaml in [
            "users:\n- name: a\n  user: {token: hunter2\n",
            "users: hunter2",
            "hunter2",
            "users:\n- {name: [hunter2]}\n",
        ] {
            let message = message(yaml, None).await;
            assert!(
                message.starts_with("the kubeconfig cannot be parsed") && !message.contains("hunter2"),
                "{yaml}: {message}"
            );
        }
    }

    #[test]
    fn a_proxy_is_bypassed_by_the_rules_of_go() {
        for (host, list, bypassed) in [
            ("localhost", "", true),
            ("127.0.0.1", "", true),
            ("[::1]", "", true),
            ("10.0.0.1", "", false),
            ("10.0.0.1", "*", true),
            ("10.0.0.1", "example.com, 10.0.0.0/8", true),
            ("11.0.0.1", "10.0.0.0/8", false),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.11", "10.0.0.1", false),
            ("[fd00::1]", "fd00::/8", true),
            ("k8s.example.com", "example.com", true),
            ("K8S.Example.com.", "EXAMPLE.com", true),
            ("localhost.", "", true),
            ("[fd00::1]", "[fd00::1]", true),
            ("example.com", "example.com", true),
            ("k8s.example.com", ".example.com", true),
            ("k8s.example.com", "*.example.com", true),
            ("badexample.com", "example.com", false),
            ("badexample.com", "*.example.com", false),
            ("example.com.evil.org", "example.com", false),
        ] {
            let cluster = format!("https://{host}:6443/").parse().unwrap();
            assert_eq!(bypasses_proxy(&cluster, list), bypassed, "{host} with NO_PROXY={list}");
        }
    }

    /// Go excludes only the domains below it.
    #[test]
    fn a_domain_with_a_leading_dot_includes_the_domain_itself() {
        assert!(bypasses_proxy(&"https://example.com".parse().unwrap(), ".example.com"));
    }
}
