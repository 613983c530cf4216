//! Decides whether to connect to the API server through the proxy of the environment, as kubectl does.
//!
//! kube takes the proxy from `HTTPS_PROXY`, but compares `NO_PROXY` with the proxy's host rather than the cluster's.

use std::{env, net::IpAddr};

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

/// Whether `NO_PROXY` excludes the cluster from the proxy.
pub(super) fn is_bypassed(cluster: &Uri) -> bool {
    let list =
        ["NO_PROXY", "no_proxy"].into_iter().find_map(|name| env::var(name).ok().filter(|list| !list.is_empty()));
    bypasses(cluster, &list.unwrap_or_default())
}

/// Adds three rules of Go's `httpproxy`, which kubectl uses, to those of [`Matcher`]: no proxy for this host, `*` for
/// everything, and `*.example.com` for `.example.com`.
fn bypasses(cluster: &Uri, list: &str) -> bool {
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

    #[test]
    fn follows_the_rules_of_go() {
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
            assert_eq!(bypasses(&cluster, list), bypassed, "{host} with NO_PROXY={list}");
        }
    }

    /// Go excludes only the domains below it.
    #[test]
    fn a_domain_with_a_leading_dot_includes_the_domain_itself() {
        assert!(bypasses(&"https://example.com".parse().unwrap(), ".example.com"));
    }
}
