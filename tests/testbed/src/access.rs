//! Ways into a control plane: as its administrator, as a service account, as anybody.

use std::{fs, path::PathBuf};

use kube::{Client, Config};

use crate::{
    control_plane::ControlPlane,
    error::{Doing, Error, Result},
    pki::base64,
};

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
}
