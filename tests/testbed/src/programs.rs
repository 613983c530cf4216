//! The command lines of etcd and the API server.

use std::{ffi::OsString, path::Path};

use crate::{
    binaries::Binaries,
    control_plane::Options,
    process::{Env, Program},
};

pub(crate) fn etcd(run: &Path, binaries: &Binaries, port: u16) -> Program {
    let data = run.join("etcd");
    let url = format!("http://127.0.0.1:{port}");
    // There are no other members, so any free port will do.
    let peer = "http://127.0.0.1:0";
    let args = [
        format!("--data-dir={}", data.display()),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // The data is deleted after the run, so it need not survive a power failure.
        "--unsafe-no-fsync".to_owned(),
        // For loading 150,000 pods in large transactions.
        format!("--quota-backend-bytes={}", 8_u64 << 30),
        format!("--max-request-bytes={}", 16 << 20),
        "--max-txn-ops=1000".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    Program { name: "etcd", path: binaries.etcd.clone(), args: args.map(OsString::from).to_vec(), env: Env::Clean }
}

pub(crate) fn api_server(run: &Path, binaries: &Binaries, options: &Options, port: u16, etcd_port: u16) -> Program {
    let file = |name: &str| run.join(name).display().to_string();
    let mut args = vec![
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-signing-key-file={}", file("tokens.key")),
        format!("--service-account-key-file={}", file("tokens.pub")),
        // There is only one API server, and its loopback address is not valid in an EndpointSlice.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--kubelet-certificate-authority={}", file("ca.crt")),
        format!("--kubelet-client-certificate={}", file("kubelet-client.crt")),
        format!("--kubelet-client-key={}", file("kubelet-client.key")),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        format!("--feature-gates=WatchList={}", options.streaming_lists),
    ];
    if options.audit_log {
        args.push(format!("--audit-policy-file={}", file("audit.yaml")));
        args.push(format!("--audit-log-path={}", file("audit.log")));
    }
    args.extend(options.extra_api_server_args.iter().cloned());
    Program {
        name: "kube-apiserver",
        path: binaries.kube_apiserver.clone(),
        args: args.into_iter().map(OsString::from).collect(),
        env: Env::Clean,
    }
}
