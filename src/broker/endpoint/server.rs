//! One server at one address.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use super::{Place, Route};
use crate::error::{Error, Result, Status};

/// The address of a server.
#[derive(Clone)]
pub(super) enum Server {
    /// A host, by name or by IP address, and a port.
    Tcp(String, u16),
    /// The path of a socket.
    Unix(PathBuf),
}

impl Server {
    /// The routes there; may block where [`needs_lookup`](Self::needs_lookup) says so.
    pub(super) fn routes(&self) -> Result<Vec<Route>> {
        let (host, port) = match self {
            Self::Unix(path) => {
                return Ok(vec![Route { place: Place::Unix(path.clone()), host: "".into() }]);
            }
            Self::Tcp(host, port) => (host.as_str(), *port),
        };
        let unknown = |why: String| Error::new(Status::Unreachable, why);
        let found = (host, port)
            .to_socket_addrs()
            .map_err(|error| unknown(format!("host {host:?} cannot be found: {error}")))?;
        let route = |address| Route { place: Place::Tcp(address), host: host.into() };
        let routes: Vec<_> = found.map(route).collect();
        if routes.is_empty() {
            return Err(unknown(format!("host {host:?} has no address")));
        }
        Ok(routes)
    }

    /// Whether that is its address, of one that is known by its address.
    pub(super) fn is_at(&self, at: SocketAddr) -> bool {
        match self {
            Self::Tcp(host, port) => {
                at.port() == *port && host.parse::<IpAddr>().is_ok_and(|host| host == at.ip())
            }
            Self::Unix(_) => false,
        }
    }

    /// Whether [`routes`](Self::routes) may block.
    pub(super) fn needs_lookup(&self) -> bool {
        match self {
            Self::Unix(_) => false,
            Self::Tcp(host, _) => host.parse::<IpAddr>().is_err(),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}
