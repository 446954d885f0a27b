//! Where the server is and how to log in there.

mod cluster;
mod cluster_url;
mod dialect;
mod sentinel;
mod sentinel_url;
mod server;
mod url;
mod vigil;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use cluster::Cluster;
pub(super) use cluster::Node;
pub(crate) use dialect::Dialect;
pub(crate) use sentinel::{Attendance, Doubt, Sentinels};
use server::Server;
pub(crate) use vigil::Ear;

use super::memory::Memory;
use super::tls::Tls;
use crate::error::{Error, Result, Status};
use crate::options::ClientOptions;

/// A server, or how to find one, and a login. Shown without the login.
#[derive(Clone)]
pub(crate) struct Endpoint {
    target: Target,
    pub(super) login: Login,
    tls: Option<Tls>,
    dialect: Arc<Dialect>,
}

/// Who logs in, and into which database.
#[derive(Clone, Default)]
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) db: i64,
}

/// What a URL leads to.
#[derive(Clone)]
enum Target {
    /// One server.
    Server(Server),
    /// The master that sentinels name.
    Sentinel(Arc<Sentinels>),
    /// What a sentinel has named.
    Master(sentinel::Master),
    /// Whichever of a cluster's nodes has a slot.
    Cluster(Arc<Cluster>),
    /// One of them.
    Node(Node),
    /// A broker of this process.
    Memory(Memory),
}

/// One way to a server that needs no further look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Where to connect to.
    pub(crate) place: Place,
    /// The server's name as it was given, without the port: what a certificate has to be for.
    pub(crate) host: Arc<str>,
}

impl Route {
    /// The IP address and port, if it has those.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self.place {
            Place::Tcp(address) => Some(address),
            _ => None,
        }
    }
}

/// What can be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An IP address and a port.
    Tcp(SocketAddr),
    /// The path of a socket.
    Unix(PathBuf),
    /// A broker of this process.
    Memory(Memory),
}

impl Endpoint {
    /// Reads a URL. No part of it is repeated in an error but its scheme: the rest may be secret.
    pub(crate) fn parse(url: &str, options: &ClientOptions) -> Result<Self> {
        url::parse(url, options)
    }

    /// Which protocol it is spoken to in, which connections may find out.
    pub(crate) fn dialect(&self) -> &Arc<Dialect> {
        &self.dialect
    }

    /// The name of the user that logs in.
    pub(crate) fn user(&self) -> &str {
        self.login.user.as_deref().unwrap_or("default")
    }

    /// The error for a connection that was not made in time. A Redis server without TLS says nothing to who
    /// begins a handshake.
    pub(crate) fn too_slow(&self) -> Error {
        let hint = if self.tls.is_some() { "; perhaps it does not speak TLS there" } else { "" };
        Error::new(Status::Unresponsive, format!("cannot connect to {self} in time{hint}"))
    }

    /// What may be wrong where a server breaks off before it has answered anything.
    pub(super) fn tls_hint(&self) -> &'static str {
        match (&self.target, &self.tls) {
            (Target::Server(Server::Tcp(..)), None) => "; perhaps it expects TLS (rediss://)",
            _ => "",
        }
    }

    /// How to speak TLS there, if that is to be spoken.
    pub(super) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// The routes to the server, in a cluster to the one that has the slot, or to any. Looks host names up,
    /// which may take as long as the system's resolver likes: see [`needs_lookup`](Self::needs_lookup).
    pub(crate) fn routes(&self, slot: Option<u16>) -> Result<Vec<Route>> {
        match &self.target {
            Target::Server(server) => server.routes(),
            Target::Sentinel(sentinels) => sentinels.routes(),
            Target::Master(master) => master.server.routes(),
            Target::Cluster(cluster) => cluster.routes(slot),
            Target::Node(node) => node.server.routes(),
            Target::Memory(memory) => {
                Ok(vec![Route { place: Place::Memory(memory.clone()), host: "".into() }])
            }
        }
    }

    /// The routes, if they can be told at once.
    pub(crate) fn ready_routes(&self, slot: Option<u16>) -> Option<Result<Vec<Route>>> {
        match &self.target {
            Target::Sentinel(sentinels) => sentinels.fresh_routes(),
            Target::Cluster(cluster) => cluster.ready_routes(slot),
            _ => (!self.needs_lookup()).then(|| self.routes(slot)),
        }
    }

    /// What a connection by one of the routes is to: the same, or the one server that was found.
    pub(crate) fn at(self: &Arc<Self>, route: &Route) -> Arc<Self> {
        let target = match (&self.target, &route.place) {
            (Target::Sentinel(sentinels), Place::Tcp(at)) => {
                Target::Master(sentinels.master_at(&route.host, *at))
            }
            (Target::Cluster(cluster), Place::Tcp(at)) => {
                Target::Node(cluster.node_at(&route.host, *at))
            }
            _ => return self.clone(),
        };
        Arc::new(self.with(target))
    }

    /// The cluster that is to be asked where a slot is, if any.
    pub(crate) fn cluster(&self) -> Option<&Arc<Cluster>> {
        match &self.target {
            Target::Cluster(cluster) => Some(cluster),
            Target::Node(node) => Some(node.cluster()),
            _ => None,
        }
    }

    /// The node of a cluster that it is.
    pub(super) fn node(&self) -> Option<&Node> {
        match &self.target {
            Target::Node(node) => Some(node),
            _ => None,
        }
    }

    /// The same login somewhere else.
    fn with(&self, target: Target) -> Self {
        let (login, tls) = (self.login.clone(), self.tls.clone());
        Self { target, login, tls, dialect: self.dialect.clone() }
    }

    /// The host, where it is one server that has one.
    fn host(&self) -> Option<&str> {
        match &self.target {
            Target::Server(Server::Tcp(host, _)) => Some(host),
            _ => None,
        }
    }

    /// Who is to be asked where the server is, if anybody.
    pub(crate) fn sentinels(&self) -> Option<&Arc<Sentinels>> {
        match &self.target {
            Target::Sentinel(sentinels) => Some(sentinels),
            _ => None,
        }
    }

    /// Whether a server that says it is a replica is the wrong one.
    pub(super) fn wants_master(&self) -> bool {
        matches!(self.target, Target::Master(_))
    }

    /// Whether [`routes`](Self::routes) may block.
    fn needs_lookup(&self) -> bool {
        match &self.target {
            Target::Server(server) => server.needs_lookup(),
            Target::Sentinel(_) => true,
            Target::Master(master) => master.server.needs_lookup(),
            Target::Cluster(_) => true,
            Target::Node(node) => node.server.needs_lookup(),
            Target::Memory(_) => false,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Server(server) => server.fmt(f),
            Target::Sentinel(sentinels) => sentinels.fmt(f),
            Target::Master(master) => master.fmt(f),
            Target::Cluster(cluster) => cluster.fmt(f),
            Target::Node(node) => node.fmt(f),
            Target::Memory(memory) => memory.fmt(f),
        }
    }
}

/// Several, as they stand in a URL.
fn list(endpoints: &[Endpoint]) -> String {
    let shown: Vec<_> = endpoints.iter().map(Endpoint::to_string).collect();
    shown.join(",")
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is read, shown so, and has this login.
    pub(super) fn reads(
        (url, shown): (&str, &str),
        (user, password, db): (Option<&str>, Option<&str>, i64),
    ) {
        let endpoint = Endpoint::parse(url, &ClientOptions::new()).unwrap();
        assert_eq!(endpoint.to_string(), shown);
        assert_eq!(endpoint.login.user.as_deref(), user, "{url}");
        assert_eq!(endpoint.login.password.as_deref(), password, "{url}");
        assert_eq!(endpoint.login.db, db, "{url}");
    }

    /// It is refused with that status, and the part that is wrong is named, but no secret.
    pub(super) fn refuses(url: &str, status: Status, part: &str) {
        let error = Endpoint::parse(url, &ClientOptions::new()).expect_err(url);
        assert_eq!(error.status(), status, "{url}: {error}");
        assert!(error.to_string().contains(part), "{url}: {error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn reads_what_the_documentation_promises() {
        for (url, shown, user, password, db) in [
            ("redis://127.0.0.1", "127.0.0.1:6379", None, None, 0),
            ("redis://h:7/3", "h:7", None, None, 3),
            ("redis://:p%40ss@h", "h:6379", None, Some("p@ss"), 0),
            ("redis://me:p@[::1]:7/", "[::1]:7", Some("me"), Some("p"), 0),
            ("unix:///tmp/r.sock?db=2&pass=x", "/tmp/r.sock", None, Some("x"), 2),
            ("redis+unix:///tmp/r.sock", "/tmp/r.sock", None, None, 0),
            ("memory://my%20Tests", "memory://my Tests", None, None, 0),
        ] {
            reads((url, shown), (user, password, db));
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
            ("memory:", Status::Invalid),
            ("memory://", Status::Invalid),
            ("memory:hunter2", Status::Invalid),
            ("memory://hunter2@x", Status::Invalid),
            ("memory://:hunter2@x", Status::Invalid),
            ("memory://x:7", Status::Invalid),
            ("memory://x/3", Status::Invalid),
            ("memory://x?hunter2", Status::Invalid),
            ("memory://x#hunter2", Status::Invalid),
            ("memory://%ff", Status::Invalid),
            ("rediss://:hunter2@h#insecure", Status::Invalid),
        ] {
            refuses(url, status, "");
        }
        let endpoint = Endpoint::parse("redis://me:hunter2@h", &ClientOptions::new()).unwrap();
        assert!(!format!("{endpoint} {endpoint:?}").contains("hunter2"));
    }

    #[test]
    fn names_the_part_that_is_wrong() {
        for (url, part) in [
            ("redis://:hunter2@", "host"),
            ("redis://:hunter2@h:99999", "port"),
            ("redis://:hunter2@h:x", "port"),
            ("redis://:hunter2@[::1", "IPv6"),
            ("redis://:hunter2@h/notadb", "database"),
            ("redis://:hunter2@h/-1", "database"),
            ("redis://%ff:hunter2@h", "Username"),
            ("redis://u:hunter2%ff@h", "Password"),
            ("redis://:hunter2@h?protocol=hunter2", "protocol"),
            ("redis://:hunter2@h?hunter2=1", "parameter that is not known"),
            ("redis://:hunter2@h?db=3", "known are protocol"),
            ("unix:///s?password=hunter2", "known are protocol, db, user, pass"),
            ("unix:///s#hunter2", "fragment"),
            ("redis://h#hunter2", "fragment"),
        ] {
            refuses(url, Status::Invalid, part);
        }
    }
}
