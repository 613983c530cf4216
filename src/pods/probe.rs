//! What a probe does, in a few words, and the API's defaults for it.

use arcstr::ArcStr;

use super::{
    Probe, UndeclaredPort,
    pod::{seconds, within},
};

/// The longest description of a probe, in bytes.
const ACTION_LIMIT: usize = 256;

/// The API's default of `periodSeconds`.
const DEFAULT_PERIOD: u32 = 10;
/// The API's default of `timeoutSeconds`.
const DEFAULT_TIMEOUT: u32 = 1;
/// The API's default of `failureThreshold`.
const DEFAULT_FAILURE_THRESHOLD: u32 = 3;

/// The handler of a probe, as both encodings have it. The API server accepts exactly one of these per probe.
#[derive(Debug)]
pub(super) enum Handler {
    HttpGet { scheme: ArcStr, host: ArcStr, port: ArcStr, path: ArcStr },
    TcpSocket { host: ArcStr, port: ArcStr },
    Grpc { port: ArcStr, service: ArcStr },
    Exec { program: ArcStr },
    Unknown,
}

/// The numbers of a probe, as both encodings have them.
#[derive(Debug)]
pub(super) struct Timing {
    pub initial_delay: i64,
    pub period: i64,
    pub timeout: i64,
    pub failure_threshold: i64,
    pub termination_grace: Option<i64>,
}

impl Probe {
    pub(super) fn new(handler: &Handler, timing: &Timing) -> Self {
        // The API server reads 0 as the default.
        let or_default = |value, default| seconds(value).filter(|value| *value > 0).unwrap_or(default);
        Self {
            action: within(handler.action(), ACTION_LIMIT).into(),
            undeclared_port: handler.own_port().map(UndeclaredPort::asked_for),
            initial_delay: seconds(timing.initial_delay).unwrap_or_default(),
            period: or_default(timing.period, DEFAULT_PERIOD),
            timeout: or_default(timing.timeout, DEFAULT_TIMEOUT),
            failure_threshold: or_default(timing.failure_threshold, DEFAULT_FAILURE_THRESHOLD),
            termination_grace: timing.termination_grace.and_then(seconds),
        }
    }
}

impl Handler {
    /// The port, unless it is that of another host.
    fn own_port(&self) -> Option<&ArcStr> {
        match self {
            Self::HttpGet { host, port, .. } | Self::TcpSocket { host, port } if host.is_empty() => Some(port),
            Self::Grpc { port, .. } => Some(port),
            _ => None,
        }
    }

    fn action(&self) -> String {
        match self {
            Self::HttpGet { scheme, host, port, path } => {
                let scheme = match scheme.as_str() {
                    "" | "HTTP" => String::new(),
                    other => format!("{}://", other.to_lowercase()),
                };
                // A query may contain a token.
                let path = path.split(['?', '#']).next().unwrap_or_default();
                let slash = if path.starts_with('/') { "" } else { "/" };
                format!("GET {scheme}{host}:{port}{slash}{path}")
            }
            Self::TcpSocket { host, port } => format!("TCP {host}:{port}"),
            Self::Grpc { port, service } if service.is_empty() => format!("gRPC :{port}"),
            Self::Grpc { port, service } => format!("gRPC :{port} {service}"),
            Self::Exec { program } => format!("exec {program}"),
            Self::Unknown => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing =
        Timing { initial_delay: 0, period: 0, timeout: 0, failure_threshold: 0, termination_grace: None };

    fn http(scheme: &str, host: &str, port: &str, path: &str) -> Handler {
        let [scheme, host, port, path] = [scheme, host, port, path].map(ArcStr::from);
        Handler::HttpGet { scheme, host, port, path }
    }

    #[test]
    fn describes_each_handler_in_a_few_words() {
        for (handler, action) in [
            (http("", "", "8080", "/healthz"), "GET :8080/healthz"),
            (http("HTTP", "", "http", "healthz"), "GET :http/healthz"),
            (http("HTTPS", "", "8443", "/x"), "GET https://:8443/x"),
            (http("HTTP", "db.example.com", "80", ""), "GET db.example.com:80/"),
            (http("HTTP", "", "80", "/ready?token=hunter2"), "GET :80/ready"),
            (Handler::TcpSocket { host: ArcStr::new(), port: "5432".into() }, "TCP :5432"),
            (Handler::TcpSocket { host: "127.0.0.1".into(), port: "sql".into() }, "TCP 127.0.0.1:sql"),
            (Handler::Grpc { port: "9000".into(), service: ArcStr::new() }, "gRPC :9000"),
            (Handler::Grpc { port: "9000".into(), service: "ready".into() }, "gRPC :9000 ready"),
            (Handler::Exec { program: "pg_isready".into() }, "exec pg_isready"),
            (Handler::Unknown, ""),
        ] {
            assert_eq!(Probe::new(&handler, &TIMING).action, action);
        }
        let long = Probe::new(&http("", "", "80", &"/é".repeat(1000)), &TIMING).action;
        assert!(long.len() <= ACTION_LIMIT && long.len() > ACTION_LIMIT - 4, "{}", long.len());
    }

    #[test]
    fn fills_in_the_defaults_of_the_api() {
        let times = |timing: &Timing| {
            let probe = Probe::new(&Handler::Unknown, timing);
            (probe.initial_delay, probe.period, probe.timeout, probe.failure_threshold, probe.termination_grace)
        };
        assert_eq!(times(&TIMING), (0, 10, 1, 3, None));
        let negative =
            Timing { initial_delay: -5, period: -1, timeout: -1, failure_threshold: -1, termination_grace: Some(-1) };
        assert_eq!(times(&negative), (0, 10, 1, 3, None));
        let set =
            Timing { initial_delay: 30, period: 5, timeout: 2, failure_threshold: 6, termination_grace: Some(1 << 40) };
        assert_eq!(times(&set), (30, 5, 2, 6, Some(u32::MAX)));
    }
}
