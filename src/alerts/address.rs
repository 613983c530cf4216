//! Which addresses alerts may be sent to: protection against server-side request forgery.
//!
//! A webhook's URL comes from a user who may have permissions in one namespace only, while the operator may reach
//! networks that the user may not. A host name can resolve to any address at any time, so the address is checked when the
//! connection is made.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which addresses are allowed in addition to public ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Private networks. Receivers inside the cluster need this.
    pub private: bool,
    /// The operator's own host. For tests and development.
    pub loopback: bool,
}

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressRefusal {
    /// A cloud's metadata service, which hands out credentials.
    #[error("it is a cloud's metadata service")]
    Metadata,
    /// 169.254.0.0/16, fe80::/10.
    #[error("it is link-local")]
    LinkLocal,
    /// 127.0.0.0/8, ::1.
    #[error("it is a loopback address, which only --webhook-allow-loopback allows")]
    Loopback,
    /// 0.0.0.0/8, ::.
    #[error("it is an unspecified address")]
    Unspecified,
    /// 224.0.0.0/4, 255.255.255.255, ff00::/8.
    #[error("it is a multicast or broadcast address")]
    Multicast,
    /// Private networks, carrier-grade NAT, and benchmarking networks.
    #[error("it is a private address, which --webhook-refuse-private refuses")]
    Private,
    #[error("it is a reserved address")]
    Reserved,
}

/// Metadata services: of most clouds, of containers and pods on AWS, of Alibaba Cloud, of Oracle Cloud, and of Azure's
/// host.
const METADATA_V4: [Ipv4Addr; 6] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
    Ipv4Addr::new(168, 63, 129, 16),
];
/// Metadata services of Google Cloud, Oracle Cloud, Scaleway and Akamai. AWS has a network of them, below.
const METADATA_V6: [Ipv6Addr; 4] = [
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe),
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),
    Ipv6Addr::new(0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1),
];

impl AddressPolicy {
    /// Checks an address before a connection is made.
    ///
    /// If an IPv6 address contains an IPv4 address that a gateway or the kernel would extract, both are checked.
    ///
    /// # Errors
    /// If alerts may not be sent there.
    pub fn check(&self, address: IpAddr) -> Result<(), AddressRefusal> {
        match address {
            IpAddr::V4(address) => self.check_v4(address),
            IpAddr::V6(address) => {
                for embedded in embedded(address).into_iter().flatten() {
                    self.check_v4(embedded)?;
                }
                self.check_v6(address)
            }
        }
    }

    fn check_v4(&self, address: Ipv4Addr) -> Result<(), AddressRefusal> {
        let [a, b, c, _] = address.octets();
        let refusal = match (a, b, c) {
            _ if METADATA_V4.contains(&address) => AddressRefusal::Metadata,
            (0, ..) => AddressRefusal::Unspecified,
            (127, ..) => return allow(self.loopback, AddressRefusal::Loopback),
            (169, 254, _) => AddressRefusal::LinkLocal,
            (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) | (198, 18..=19, _) => {
                return allow(self.private, AddressRefusal::Private);
            }
            (192, 0, 0) => AddressRefusal::Reserved,
            (224..=239, ..) => AddressRefusal::Multicast,
            (255, 255, 255) if address.is_broadcast() => AddressRefusal::Multicast,
            (240..=255, ..) => AddressRefusal::Reserved,
            _ => return Ok(()),
        };
        Err(refusal)
    }

    fn check_v6(&self, address: Ipv6Addr) -> Result<(), AddressRefusal> {
        let refusal = match address.segments() {
            _ if METADATA_V6.contains(&address) => AddressRefusal::Metadata,
            // AWS: fd00:ec2::254 for instances, fd00:ec2::23 for pods.
            [0xfd00, 0xec2, ..] => AddressRefusal::Metadata,
            // A NAT64 gateway may use any prefix. The addresses mostly end with the IPv4 address.
            [.., high, low] if METADATA_V4.contains(&v4(high, low)) => AddressRefusal::Metadata,
            [0, 0, 0, 0, 0, 0, 0, 0] => AddressRefusal::Unspecified,
            [0, 0, 0, 0, 0, 0, 0, 1] => return allow(self.loopback, AddressRefusal::Loopback),
            [0xff00..=0xffff, ..] => AddressRefusal::Multicast,
            [0xfe80..=0xfebf, ..] => AddressRefusal::LinkLocal,
            [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => return allow(self.private, AddressRefusal::Private),
            // Local-use translation (RFC 8215): only the translator knows the position of the IPv4 address.
            [0x64, 0xff9b, 1, ..] => AddressRefusal::Reserved,
            _ => return Ok(()),
        };
        Err(refusal)
    }
}

fn allow(allowed: bool, refusal: AddressRefusal) -> Result<(), AddressRefusal> {
    if allowed { Ok(()) } else { Err(refusal) }
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Ipv4Addr::new(a, b, c, d)
}

/// The IPv4 addresses that an IPv6 address contains.
fn embedded(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let v4 = |high: u16, low: u16| Some(v4(high, low));
    match address.segments() {
        // `::` and `::1` are not IPv4-compatible addresses, unlike the rest of ::/96.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => [None, None],
        // IPv4-compatible, IPv4-mapped, IPv4-translated (RFC 2765), NAT64 (RFC 6052).
        [0, 0, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => [v4(high, low), None],
        // 6to4 (RFC 3056).
        [0x2002, high, low, ..] => [v4(high, low), None],
        // Teredo (RFC 4380): the server, and the client with its bits inverted.
        [0x2001, 0, server_high, server_low, _, _, high, low] => [v4(server_high, server_low), v4(!high, !low)],
        // ISATAP (RFC 5214).
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => [v4(high, low), None],
        _ => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: AddressPolicy, address: &str) -> Result<(), AddressRefusal> {
        policy.check(address.parse().unwrap())
    }

    const STRICT: AddressPolicy = AddressPolicy { private: false, loopback: false };
    const LAX: AddressPolicy = AddressPolicy { private: true, loopback: true };

    #[test]
    fn allows_public_addresses() {
        for address in ["1.1.1.1", "140.82.121.4", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2001:db9::1"] {
            assert_eq!(check(STRICT, address), Ok(()), "{address}");
        }
    }

    #[test]
    fn allows_private_and_loopback_addresses_only_by_flag() {
        use AddressRefusal::{Loopback, Private};
        for (address, refusal) in [
            ("10.96.0.1", Private),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("192.168.1.1", Private),
            ("100.64.0.1", Private),
            ("198.18.0.1", Private),
            ("fd12::1", Private),
            ("fec0::1", Private),
            ("::ffff:10.0.0.1", Private),
            ("127.0.0.1", Loopback),
            ("127.255.0.3", Loopback),
            ("::1", Loopback),
            ("::ffff:127.0.0.1", Loopback),
            ("::127.0.0.1", Loopback),
            ("64:ff9b::7f00:1", Loopback),
            ("2002:7f00:1::", Loopback),
            ("fd12::5efe:127.0.0.1", Loopback),
            ("2001:db9::200:5efe:127.0.0.1", Loopback),
        ] {
            assert_eq!(check(STRICT, address), Err(refusal), "{address}");
            assert_eq!(check(LAX, address), Ok(()), "{address}");
        }
    }

    #[test]
    fn rejects_metadata_link_local_and_reserved_addresses_always() {
        use AddressRefusal::{LinkLocal, Metadata, Multicast, Reserved, Unspecified};
        for (address, refusal) in [
            ("169.254.169.254", Metadata),
            ("169.254.0.1", LinkLocal),
            ("100.100.100.200", Metadata),
            ("192.0.0.192", Metadata),
            ("168.63.129.16", Metadata),
            ("fd00:ec2::254", Metadata),
            ("fd20:ce::254", Metadata),
            ("fd00:ec2::23", Metadata),
            ("fd00:ec2::253", Metadata),
            ("fd00:ec2:0:ffff::1", Metadata),
            ("fd00:c1::a9fe:a9fe", Metadata),
            ("fd00:42::42", Metadata),
            ("fd00:a9fe:a9fe::1", Metadata),
            ("fe80::a9fe:a9fe", Metadata),
            ("::ffff:100.100.100.200", Metadata),
            ("64:ff9b::168.63.129.16", Metadata),
            ("64:ff9b::169.254.170.23", Metadata),
            ("64:ff9b::169.254.1.1", LinkLocal),
            // NAT64 with a network-specific prefix (RFC 6052).
            ("fd64:ff9b::169.254.169.254", Metadata),
            ("2001:db9:1:2:3:4:169.254.169.254", Metadata),
            ("2001:db9:1:2:3:4:169.254.170.2", Metadata),
            ("::ffff:169.254.169.254", Metadata),
            ("::169.254.169.254", Metadata),
            ("::ffff:0:169.254.169.254", Metadata),
            ("64:ff9b::a9fe:a9fe", Metadata),
            ("2002:a9fe:a9fe::1", Metadata),
            ("2001:0:a9fe:a9fe::", Metadata),
            ("2001:0:101:101::5601:5601", Metadata),
            ("fd12::5efe:a9fe:a9fe", Metadata),
            ("2001:db9::200:5efe:a9fe:a9fe", Metadata),
            ("64:ff9b:1:a9fe:a9:fe00::", Reserved),
            ("0.0.0.0", Unspecified),
            ("0.1.2.3", Unspecified),
            ("::", Unspecified),
            ("::ffff:0.0.0.0", Unspecified),
            ("fe80::1", LinkLocal),
            ("febf::1", LinkLocal),
            ("224.0.0.1", Multicast),
            ("255.255.255.255", Multicast),
            ("255.255.255.1", Reserved),
            ("ff02::1", Multicast),
            ("240.0.0.1", Reserved),
            ("192.0.0.8", Reserved),
        ] {
            assert_eq!(check(LAX, address), Err(refusal), "{address}");
        }
    }
}
