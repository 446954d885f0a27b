//! Where the server is and how to log in there.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use redis::{ConnectionAddr, IntoConnectionInfo};

use crate::error::{Error, Result, Status};

/// A server and a login. Shown without the login.
#[derive(Clone)]
pub(crate) struct Endpoint {
    address: Address,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) db: i64,
}

#[derive(Clone)]
enum Address {
    Tcp(String, u16),
    Unix(PathBuf),
}

/// One way to a server that needs no further look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// An IP address and a port.
    Tcp(SocketAddr),
    /// The path of a socket.
    Unix(PathBuf),
}

impl Endpoint {
    /// Reads a URL. No part of it is repeated in an error but its scheme: the rest may be secret.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        if url.is_empty() {
            return Err(invalid("the URL is empty"));
        }
        let Some((scheme, _)) = url.split_once(':') else {
            return Err(invalid("the URL has no scheme; expected redis://… or unix://…"));
        };
        check_scheme(scheme)?;
        let info = url.into_connection_info().map_err(|error| invalid(describe(&error)))?;
        let address = match info.addr() {
            ConnectionAddr::Tcp(host, port) => Address::Tcp(host.clone(), *port),
            ConnectionAddr::Unix(path) if path.as_os_str().is_empty() => {
                return Err(invalid("the URL names no socket path"));
            }
            ConnectionAddr::Unix(path) => Address::Unix(path.clone()),
            _ => return Err(unsupported(scheme)),
        };
        let login = info.redis_settings();
        Ok(Self {
            address,
            user: login.username().filter(|user| !user.is_empty()).map(str::to_owned),
            password: login.password().map(str::to_owned),
            db: login.db(),
        })
    }

    /// The name of the user that logs in.
    pub(crate) fn user(&self) -> &str {
        self.user.as_deref().unwrap_or("default")
    }

    /// The routes to the server. Looks host names up, which may take as long as the system's
    /// resolver likes: see [`needs_lookup`](Self::needs_lookup).
    pub(crate) fn routes(&self) -> Result<Vec<Route>> {
        let (host, port) = match &self.address {
            Address::Unix(path) => return Ok(vec![Route::Unix(path.clone())]),
            Address::Tcp(host, port) => (host.as_str(), *port),
        };
        let unknown = |why: String| Error::new(Status::Unreachable, why);
        let found = (host, port)
            .to_socket_addrs()
            .map_err(|error| unknown(format!("host {host:?} cannot be found: {error}")))?;
        let routes: Vec<_> = found.map(Route::Tcp).collect();
        if routes.is_empty() {
            return Err(unknown(format!("host {host:?} has no address")));
        }
        Ok(routes)
    }

    /// Whether [`routes`](Self::routes) may block.
    pub(crate) fn needs_lookup(&self) -> bool {
        match &self.address {
            Address::Unix(_) => false,
            Address::Tcp(host, _) => host.parse::<IpAddr>().is_err(),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

fn check_scheme(scheme: &str) -> Result<()> {
    match scheme {
        "redis" | "valkey" | "unix" | "redis+unix" | "valkey+unix" => Ok(()),
        "rediss" | "valkeys" => Err(unsupported(scheme)),
        _ => Err(Error::new(
            Status::Unsupported,
            "the URL's scheme is not known; expected redis://… or unix://…",
        )),
    }
}

fn unsupported(scheme: &str) -> Error {
    Error::new(Status::Unsupported, format!("this build does not support {scheme}:// URLs"))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Status::Invalid, message)
}

/// The crate's own words, without the detail, which may quote the URL.
fn describe(error: &redis::RedisError) -> String {
    let text = error.to_string();
    let words = match error.detail() {
        Some(detail) => text.replace(detail, "").trim_end_matches([':', ' ', '-']).to_owned(),
        None => text,
    };
    format!("the URL is not valid: {words}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_documentation_promises() {
        for (url, shown, user, password, db) in [
            ("redis://127.0.0.1", "127.0.0.1:6379", None, None, 0),
            ("redis://h:7/3", "h:7", None, None, 3),
            ("redis://:p%40ss@h", "h:6379", None, Some("p@ss"), 0),
            ("redis://me:p@[::1]:7/", "[::1]:7", Some("me"), Some("p"), 0),
            ("unix:///tmp/r.sock?db=2&pass=x", "/tmp/r.sock", None, Some("x"), 2),
            ("redis+unix:///tmp/r.sock", "/tmp/r.sock", None, None, 0),
        ] {
            let endpoint = Endpoint::parse(url).unwrap();
            assert_eq!(endpoint.to_string(), shown);
            assert_eq!(endpoint.user.as_deref(), user, "{url}");
            assert_eq!(endpoint.password.as_deref(), password, "{url}");
            assert_eq!(endpoint.db, db, "{url}");
        }
    }

    #[test]
    fn refuses_the_rest_without_repeating_it() {
        for (url, status) in [
            ("", Status::Invalid),
            ("hunter2", Status::Invalid),
            ("redis:", Status::Invalid),
            ("redis://:hunter2@", Status::Invalid),
            ("redis://:hunter2@h:99999", Status::Invalid),
            ("redis://:hunter2@h/notadb", Status::Invalid),
            ("redis://:hunter2@h?protocol=hunter2", Status::Invalid),
            ("unix:", Status::Invalid),
            ("http://u:hunter2@h", Status::Unsupported),
            ("rediss://:hunter2@h", Status::Unsupported),
        ] {
            let error = Endpoint::parse(url).expect_err(url);
            assert_eq!(error.status(), status, "{url}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        let endpoint = Endpoint::parse("redis://me:hunter2@h").unwrap();
        assert!(!format!("{endpoint} {endpoint:?}").contains("hunter2"));
    }
}
