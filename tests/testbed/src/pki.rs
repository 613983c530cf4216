//! Generates the certificates and keys of a control plane.

use std::{fs, path::Path};

use base64::{Engine, prelude::BASE64_STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use crate::error::{Doing, Result};

/// The certificate authority of the API server, the kubelets and their clients.
pub(crate) struct Pki {
    issuer: Issuer<'static, KeyPair>,
    /// The authority's certificate.
    pub ca_pem: String,
    /// The same as DER.
    pub ca_der: Vec<u8>,
}

/// A certificate and its key.
pub(crate) struct Pair {
    pub cert_pem: String,
    pub key_pem: String,
    pub cert_der: Vec<u8>,
    pub key_der: Vec<u8>,
}

impl Pki {
    pub(crate) fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "orchestr-testbed");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let ca = params.self_signed(&key)?;
        Ok(Self { ca_pem: ca.pem(), ca_der: ca.der().to_vec(), issuer: Issuer::new(params, key) })
    }

    /// A certificate for a server on 127.0.0.1.
    pub(crate) fn server(&self, name: &str) -> Result<Pair> {
        let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"].map(String::from);
        let params = CertificateParams::new(names)?;
        self.issue(params, name, None, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client certificate that identifies a user and one of the user's groups.
    pub(crate) fn client(&self, user: &str, group: &str) -> Result<Pair> {
        let params = CertificateParams::default();
        self.issue(params, user, Some(group), ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        name: &str,
        group: Option<&str>,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Pair> {
        params.distinguished_name.push(DnType::CommonName, name);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &self.issuer)?;
        Ok(Pair {
            cert_pem: cert.pem(),
            key_pem: key.serialize_pem(),
            cert_der: cert.der().to_vec(),
            key_der: key.serialize_der(),
        })
    }

    /// Writes the files that the API server reads to `dir`.
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        let put = |name: &str, text: &str| {
            let path = dir.join(name);
            fs::write(&path, text).doing(|| format!("write {}", path.display()))
        };
        put("ca.crt", &self.ca_pem)?;
        let server = self.server("kube-apiserver")?;
        put("apiserver.crt", &server.cert_pem)?;
        put("apiserver.key", &server.key_pem)?;
        let kubelet_client = self.client("kube-apiserver-kubelet-client", "system:masters")?;
        put("kubelet-client.crt", &kubelet_client.cert_pem)?;
        put("kubelet-client.key", &kubelet_client.key_pem)?;
        // The public key, because the API server cannot read an EC private key in this format for verifying tokens.
        let tokens = KeyPair::generate()?;
        put("tokens.key", &tokens.serialize_pem())?;
        put("tokens.pub", &tokens.public_key_pem())
    }
}

/// PEM, base64-encoded as in a kubeconfig.
pub(crate) fn base64(pem: &str) -> String {
    BASE64_STANDARD.encode(pem)
}
