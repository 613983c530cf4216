//! The shape of a probe in JSON.

use arcstr::ArcStr;
use serde::Deserialize;

use crate::pods::{
    Probe,
    pod::first_word,
    probe::{Handler, Timing},
};

use super::fields::{Text, first, or_default, text};

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ProbeJson {
    exec: Option<ExecJson>,
    http_get: Option<HttpGetJson>,
    tcp_socket: Option<TcpSocketJson>,
    grpc: Option<GrpcJson>,
    #[serde(deserialize_with = "or_default")]
    initial_delay_seconds: i64,
    #[serde(deserialize_with = "or_default")]
    timeout_seconds: i64,
    #[serde(deserialize_with = "or_default")]
    period_seconds: i64,
    #[serde(deserialize_with = "or_default")]
    failure_threshold: i64,
    termination_grace_period_seconds: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ExecJson {
    #[serde(deserialize_with = "first")]
    command: Option<ArcStr>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct HttpGetJson {
    #[serde(deserialize_with = "text")]
    scheme: ArcStr,
    #[serde(deserialize_with = "text")]
    host: ArcStr,
    port: Option<PortJson>,
    #[serde(deserialize_with = "text")]
    path: ArcStr,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TcpSocketJson {
    #[serde(deserialize_with = "text")]
    host: ArcStr,
    port: Option<PortJson>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GrpcJson {
    #[serde(deserialize_with = "or_default")]
    port: i64,
    #[serde(deserialize_with = "text")]
    service: ArcStr,
}

/// A port or its name.
#[derive(Deserialize)]
#[serde(untagged)]
enum PortJson {
    Number(i64),
    Name(Text),
}

fn port(port: Option<PortJson>) -> ArcStr {
    match port {
        None => arcstr::literal!("0"),
        Some(PortJson::Number(number)) => number.to_string().into(),
        Some(PortJson::Name(Text(name))) => name,
    }
}

impl From<ProbeJson> for Box<Probe> {
    fn from(json: ProbeJson) -> Self {
        let handler = match json {
            ProbeJson { exec: Some(exec), .. } => {
                Handler::Exec { program: first_word(&exec.command.unwrap_or_default()) }
            }
            ProbeJson { http_get: Some(get), .. } => {
                Handler::HttpGet { scheme: get.scheme, host: get.host, port: port(get.port), path: get.path }
            }
            ProbeJson { tcp_socket: Some(socket), .. } => {
                Handler::TcpSocket { host: socket.host, port: port(socket.port) }
            }
            ProbeJson { grpc: Some(grpc), .. } => {
                Handler::Grpc { port: grpc.port.to_string().into(), service: grpc.service }
            }
            _ => Handler::Unknown,
        };
        let timing = Timing {
            initial_delay: json.initial_delay_seconds,
            period: json.period_seconds,
            timeout: json.timeout_seconds,
            failure_threshold: json.failure_threshold,
            termination_grace: json.termination_grace_period_seconds,
        };
        Self::new(Probe::new(&handler, &timing))
    }
}
