//! Which clusters are reached past the proxy of the environment.
//!
//! kube takes the proxy from `HTTPS_PROXY` as kubectl does, but asks `NO_PROXY` about the proxy rather than
//! about the cluster.

use std::{env, net::IpAddr};

use ipnet::IpNet;

/// Whether this host is reached directly, whatever `HTTPS_PROXY` says.
pub(super) fn is_bypassed(host: &str) -> bool {
    let list =
        ["NO_PROXY", "no_proxy"].into_iter().find_map(|name| env::var(name).ok().filter(|list| !list.is_empty()));
    bypasses(host, &list.unwrap_or_default())
}

/// Whether a list such as `10.0.0.0/8,.example.com` names this host. Follows Go's `httpproxy`, which kubectl uses:
/// what is local never goes through a proxy, and a domain stands for all below it.
fn bypasses(host: &str, list: &str) -> bool {
    let host = host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    list.split(',').map(|entry| entry.trim().to_ascii_lowercase()).filter(|entry| !entry.is_empty()).any(|entry| {
        if entry == "*" {
            return true;
        }
        if let Some(address) = address {
            let network = entry.parse::<IpNet>().is_ok_and(|network| network.contains(&address));
            return network || entry.trim_matches(['[', ']']).parse() == Ok(address);
        }
        let domain = entry.strip_prefix('*').unwrap_or(&entry);
        match domain.strip_prefix('.') {
            Some(parent) => host.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.')),
            None => host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_go() {
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
            ("example.com", "example.com", true),
            ("k8s.example.com", ".example.com", true),
            ("k8s.example.com", "*.example.com", true),
            ("example.com", ".example.com", false),
            ("badexample.com", "example.com", false),
            ("example.com.evil.org", "example.com", false),
        ] {
            assert_eq!(bypasses(host, list), bypassed, "{host} of {list}");
        }
    }
}
