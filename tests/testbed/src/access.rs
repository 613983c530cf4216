//! Clients of a control plane: as the administrator, as a service account, as any user, and kubectl.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, Config, api::PostParams};
use tokio::{io::AsyncWriteExt, process::Command};

use crate::{
    binaries::kubectl,
    control_plane::ControlPlane,
    error::{Doing, Error, Result},
    pki::base64,
};

/// The longest pause in an answer of the API server.
const SILENCE: Duration = Duration::from_secs(5 * 60);

/// The limit for a run of kubectl.
const KUBECTL: Duration = Duration::from_secs(3 * 60);

/// The lifetime of service account tokens: longer than any run.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

/// The credentials of a service account, with a token from the API server.
#[derive(Debug, Clone)]
pub struct ServiceAccountAccess {
    config: Config,
    kubeconfig: PathBuf,
}

impl ServiceAccountAccess {
    /// For a client; its default namespace is the account's.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// A new client. It is bound to the runtime in which it is made.
    pub fn client(&self) -> Result<Client> {
        Ok(Client::try_from(self.config())?)
    }

    /// A kubeconfig for other processes. It is deleted with the control plane.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

/// The result of a run of kubectl.
#[derive(Debug, Clone)]
pub struct KubectlOutput {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl ControlPlane {
    /// The administrator's configuration, with a client certificate in the group `system:masters`.
    pub fn admin_config(&self) -> Config {
        let mut config = self.anonymous_config();
        config.auth_info.client_certificate_data = Some(base64(&self.admin.cert_pem));
        config.auth_info.client_key_data = Some(base64(&self.admin.key_pem).into());
        config
    }

    /// A new client for the cluster's administrator. It is bound to the runtime in which it is made.
    pub fn admin(&self) -> Result<Client> {
        Ok(Client::try_from(self.admin_config())?)
    }

    /// The configuration of any user, who is impersonated by the administrator. The API server adds the group
    /// `system:authenticated`.
    pub fn user(&self, name: &str, groups: &[&str]) -> Config {
        let mut config = self.admin_config();
        config.auth_info.impersonate = Some(name.to_owned());
        config.auth_info.impersonate_groups = Some(groups.iter().map(|&group| group.to_owned()).collect());
        config
    }

    /// A configuration without credentials.
    pub fn anonymous_config(&self) -> Config {
        let mut config = Config::new(self.uri.clone());
        // Bounds every wait. Bookmarks arrive once a minute on an idle watch.
        config.read_timeout = Some(SILENCE);
        config.root_cert = Some(vec![self.pki.ca_der.clone()]);
        config
    }

    /// Writes a kubeconfig for `config`. It is deleted with the control plane.
    pub fn kubeconfig_for(&self, name: &str, config: &Config) -> Result<PathBuf> {
        let auth = &config.auth_info;
        let json = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "testbed", "cluster": {
                "server": config.cluster_url.to_string(),
                "certificate-authority-data": base64(&self.pki.ca_pem),
            }}],
            "users": [{"name": name, "user": auth}],
            "contexts": [{"name": "testbed", "context": {
                "cluster": "testbed",
                "user": name,
                "namespace": config.default_namespace,
            }}],
            "current-context": "testbed",
        });
        let path = self.run.join(format!("{name}.kubeconfig"));
        let text = serde_json::to_string_pretty(&json).map_err(Error::from)?;
        fs::write(&path, text).doing(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// The credentials of an existing service account.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Result<ServiceAccountAccess> {
        let accounts = Api::<ServiceAccount>::namespaced(self.admin()?, namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() }),
            ..TokenRequest::default()
        };
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await?;
        let mut config = self.anonymous_config();
        namespace.clone_into(&mut config.default_namespace);
        let token = answer.status.and_then(|status| status.token);
        config.auth_info.token = token.map(Into::into);
        let kubeconfig = self.kubeconfig_for(&format!("{namespace}.{name}"), &config)?;
        Ok(ServiceAccountAccess { config, kubeconfig })
    }

    /// Runs kubectl as the cluster's administrator, with `stdin` if any.
    /// Fails only if kubectl cannot be run: its own failures are in the output.
    pub async fn kubectl(&self, args: &[&str], stdin: Option<&str>) -> Result<KubectlOutput> {
        self.kubectl_as(self.admin_kubeconfig(), args, stdin).await
    }

    /// Runs kubectl with a kubeconfig, with `stdin` if any.
    /// Fails only if kubectl cannot be run: its own failures are in the output.
    pub async fn kubectl_as(&self, kubeconfig: &Path, args: &[&str], stdin: Option<&str>) -> Result<KubectlOutput> {
        let doing = || "run kubectl".to_owned();
        let mut child = Command::new(kubectl().await?)
            .args(args)
            .env("KUBECONFIG", kubeconfig)
            // The discovery cache of this run: the APIs of another run's server may differ.
            .env("KUBECACHEDIR", self.run.join("kubectl"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .doing(doing)?;
        let pipe = child.stdin.take();
        let feed = async {
            if let (Some(mut pipe), Some(text)) = (pipe, stdin) {
                // If it ends before it has read everything, its output has the reason.
                let _ = pipe.write_all(text.as_bytes()).await;
            }
        };
        let ended = async { tokio::join!(child.wait_with_output(), feed).0 };
        // At the timeout the process is dropped, which kills it.
        let ended = tokio::time::timeout(KUBECTL, ended).await.map_err(|_| Error::Timeout {
            what: format!("the end of kubectl {}", args.join(" ")),
            after: KUBECTL,
            last: "it was killed".to_owned(),
        })?;
        let output = ended.doing(doing)?;
        Ok(KubectlOutput {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}
