//! `--metrics-address`.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    str::FromStr,
};

/// Where to listen: `:8080` on all addresses, or on one, such as `127.0.0.1:8080` or `[::1]:8080`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsAddress {
    /// Absent: all addresses, of IPv6 and IPv4.
    ip: Option<IpAddr>,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be :PORT or IP:PORT, such as :8080 or 127.0.0.1:8080")]
pub struct AddressError;

impl FromStr for MetricsAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text.strip_prefix(':') {
            Some(port) => Ok(Self { ip: None, port: port.parse().map_err(|_| AddressError)? }),
            None => {
                let address: SocketAddr = text.parse().map_err(|_| AddressError)?;
                Ok(Self { ip: Some(address.ip()), port: address.port() })
            }
        }
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            Some(ip) => SocketAddr::from((ip, self.port)).fmt(f),
            None => write!(f, ":{}", self.port),
        }
    }
}

impl MetricsAddress {
    /// Listens.
    ///
    /// # Errors
    /// If the port is in use or not allowed, or this machine does not have the address.
    pub fn bind(&self) -> io::Result<TcpListener> {
        let listener = match self.ip {
            Some(ip) => TcpListener::bind((ip, self.port))?,
            // On Linux, this includes IPv4. A kernel may have no IPv6.
            None => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, self.port)) {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    TcpListener::bind((Ipv4Addr::UNSPECIFIED, self.port))?
                }
                bound => bound?,
            },
        };
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_a_port_or_an_address_with_a_port() {
        for text in [":8080", "127.0.0.1:8080", "[::1]:8080", "0.0.0.0:0"] {
            assert_eq!(text.parse::<MetricsAddress>().unwrap().to_string(), text);
        }
        for wrong in ["", "8080", ":", ":x", ":65536", "localhost:8080", "127.0.0.1", "::1:8080:", "http://a:1"] {
            assert_eq!(wrong.parse::<MetricsAddress>(), Err(AddressError), "{wrong}");
        }
    }

    #[test]
    fn listens_on_all_addresses_and_reports_a_port_in_use() {
        let first = ":0".parse::<MetricsAddress>().unwrap().bind().unwrap();
        let port = first.local_addr().unwrap().port();
        std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let second = format!(":{port}").parse::<MetricsAddress>().unwrap().bind();
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
