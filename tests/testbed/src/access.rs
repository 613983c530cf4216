//! Ways into a control plane: as its administrator, as a service account, as anybody, by kubectl.

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

/// How long an answer of the API server may pause.
const SILENCE: Duration = Duration::from_secs(5 * 60);

/// How long kubectl may take.
const KUBECTL: Duration = Duration::from_secs(3 * 60);

/// How long a service account's token holds: longer than any run.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

/// The way in for a service account, by a token that the API server made for it.
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
    ///
    /// # Errors
    ///
    /// When there is no TLS to be had.
    pub fn client(&self) -> Result<Client> {
        Ok(Client::try_from(self.config())?)
    }

    /// For a program of its own; gone with the control plane.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

/// How a kubectl ended and what it said.
#[derive(Debug, Clone)]
pub struct KubectlOutput {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl ControlPlane {
    /// The way in for the cluster's administrator: by client certificate, in the group `system:masters`.
    pub fn admin_config(&self) -> Config {
        let mut config = self.anonymous_config();
        config.auth_info.client_certificate_data = Some(base64(&self.admin.cert_pem));
        config.auth_info.client_key_data = Some(base64(&self.admin.key_pem).into());
        config
    }

    /// A new client for the cluster's administrator. It is bound to the runtime in which it is made.
    ///
    /// # Errors
    ///
    /// When there is no TLS to be had.
    pub fn admin(&self) -> Result<Client> {
        Ok(Client::try_from(self.admin_config())?)
    }

    /// The way in for any user: the administrator's, impersonating. The group `system:authenticated` comes by itself.
    pub fn user(&self, name: &str, groups: &[&str]) -> Config {
        let mut config = self.admin_config();
        config.auth_info.impersonate = Some(name.to_owned());
        config.auth_info.impersonate_groups = Some(groups.iter().map(|&group| group.to_owned()).collect());
        config
    }

    /// The way in for nobody in particular.
    pub fn anonymous_config(&self) -> Config {
        let mut config = Config::new(self.uri.clone());
        // No test waits for ever. A watch hears from the API server once a minute.
        config.read_timeout = Some(SILENCE);
        config.root_cert = Some(vec![self.pki.ca_der.clone()]);
        config
    }

    /// Writes a kubeconfig for `config`, which is gone with the control plane.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
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

    /// The way in for a service account, which must exist.
    ///
    /// # Errors
    ///
    /// When the API server gives it no token.
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
    ///
    /// # Errors
    ///
    /// When there is no kubectl. What it fails at is told by its output.
    pub async fn kubectl(&self, args: &[&str], stdin: Option<&str>) -> Result<KubectlOutput> {
        self.kubectl_as(self.admin_kubeconfig(), args, stdin).await
    }

    /// Runs kubectl with a kubeconfig, with `stdin` if any.
    ///
    /// # Errors
    ///
    /// When there is no kubectl. What it fails at is told by its output.
    pub async fn kubectl_as(&self, kubeconfig: &Path, args: &[&str], stdin: Option<&str>) -> Result<KubectlOutput> {
        let doing = || "run kubectl".to_owned();
        let mut child = Command::new(kubectl().await?)
            .args(args)
            .env("KUBECONFIG", kubeconfig)
            // It keeps what the API server offers there: another run's server offers something else.
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
                // It may end without reading all: then its output says why.
                let _ = pipe.write_all(text.as_bytes()).await;
            }
        };
        let ended = async { tokio::join!(child.wait_with_output(), feed).0 };
        // Dropped, it is killed.
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
