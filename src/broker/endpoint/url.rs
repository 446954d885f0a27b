//! Reads URLs.

use std::sync::Arc;

use percent_encoding::percent_decode_str;
use redis::{ConnectionAddr, IntoConnectionInfo};
use url::Url;

use super::super::tls::Tls;
use super::server::Server;
use super::{Dialect, Endpoint, Login, Target, cluster_url, sentinel_url};
use crate::broker::memory::Memory;
use crate::error::{Error, Result, Status};
use crate::options::ClientOptions;

pub(super) fn parse(url: &str, options: &ClientOptions) -> Result<Endpoint> {
    if url.is_empty() {
        return Err(invalid("the URL is empty"));
    }
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(invalid(
            "the URL has no scheme; expected redis://…, rediss://…, unix://…, redis-sentinel://…, redis-cluster://… or memory://…",
        ));
    };
    let kind = kind_of(scheme)?;
    let encrypted = kind == Kind::Encrypted;
    if !encrypted && options.tls != Default::default() {
        return Err(invalid("the settings for TLS need a rediss:// URL"));
    }
    match kind {
        Kind::Sentinels => return sentinel_url::parse(url, options),
        Kind::Cluster => return cluster_url::parse(url, options),
        Kind::Memory => return memory(url),
        Kind::Plain | Kind::Encrypted => {}
    }
    if rest.contains('#') {
        return Err(invalid(
            "the URL has a fragment (#…), which means nothing here; # itself is %23",
        ));
    }
    // The crate would bring a TLS of its own.
    let plain = if encrypted { format!("redis:{rest}") } else { url.to_owned() };
    let info = plain.as_str().into_connection_info().map_err(|error| {
        // Where it is no URL at all, the crate does not say why.
        let why = Url::parse(&plain).err().map_or_else(|| describe(&error), |why| why.to_string());
        invalid(format!("the URL is not valid: {why}"))
    })?;
    let server = match info.addr() {
        ConnectionAddr::Tcp(host, port) => Server::Tcp(host.clone(), *port),
        ConnectionAddr::Unix(path) if path.as_os_str().is_empty() => {
            return Err(invalid("the URL names no socket path"));
        }
        ConnectionAddr::Unix(path) => Server::Unix(path.clone()),
        _ => return Err(unsupported(scheme)),
    };
    let settings = info.redis_settings();
    if settings.db() < 0 {
        return Err(invalid("the URL is not valid: the database number is negative"));
    }
    let login = Login {
        user: settings.username().filter(|user| !user.is_empty()).map(str::to_owned),
        password: settings.password().map(str::to_owned),
        db: settings.db(),
    };
    let tls = encrypted.then(|| Tls::load(&options.tls)).transpose()?;
    let known: &[&str] = match &server {
        Server::Tcp(..) => &[],
        Server::Unix(_) => &["db", "user", "pass"],
    };
    let dialect = Arc::new(read_query(&plain, known)?);
    Ok(Endpoint { target: Target::Server(server), login, tls, dialect })
}

/// What the crate passes over: it takes RESP2 where nothing is said, and leaves out what it does not know.
fn read_query(url: &str, known: &[&str]) -> Result<Dialect> {
    let url = Url::parse(url).map_err(|_| invalid("the URL is not valid"))?;
    let mut dialect = Dialect::default();
    for (key, value) in url.query_pairs() {
        match &*key {
            "protocol" if matches!(&*value, "2" | "resp2") => dialect = Dialect::resp2_only(),
            "protocol" => {}
            key if known.contains(&key) => {}
            _ => {
                let known = [&["protocol"], known].concat().join(", ");
                let text = format!("the URL has a parameter that is not known; known are {known}");
                return Err(invalid(text));
            }
        }
    }
    Ok(dialect)
}

/// What stands before the hosts, with its `@`, and the hosts.
pub(super) fn split_login(authority: &str) -> (&str, &str) {
    authority.split_at(authority.rfind('@').map_or(0, |at| at + 1))
}

/// `memory://name`, and nothing besides.
fn memory(url: &str) -> Result<Endpoint> {
    let url = Url::parse(url).map_err(|_| invalid("the URL is not valid"))?;
    let beside = [
        ("user", !url.username().is_empty()),
        ("password", url.password().is_some()),
        ("port", url.port().is_some()),
        ("database or path", !matches!(url.path(), "" | "/")),
        ("query", url.query().is_some()),
        ("fragment", url.fragment().is_some()),
    ];
    if let Some((what, _)) = beside.iter().find(|(_, given)| *given) {
        return Err(invalid(format!("a memory:// URL has a name only, and no {what}")));
    }
    let name = percent_decode_str(url.host_str().unwrap_or_default()).decode_utf8();
    let name = name.map_err(|_| invalid("the name in the URL is not valid UTF-8"))?;
    if name.is_empty() {
        return Err(invalid("the URL has no name; expected memory://name"));
    }
    Ok(Endpoint {
        target: Target::Memory(Memory::named(&name)?),
        login: Login::default(),
        tls: None,
        dialect: Arc::default(),
    })
}

/// What a scheme stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A server.
    Plain,
    /// A server that speaks TLS.
    Encrypted,
    /// Sentinels that know a server.
    Sentinels,
    /// Nodes of a cluster.
    Cluster,
    /// A broker of this process.
    Memory,
}

fn kind_of(scheme: &str) -> Result<Kind> {
    match scheme {
        "redis" | "valkey" | "unix" | "redis+unix" | "valkey+unix" => Ok(Kind::Plain),
        "rediss" | "valkeys" => Ok(Kind::Encrypted),
        "redis-sentinel" | "valkey-sentinel" => Ok(Kind::Sentinels),
        "redis-cluster" | "valkey-cluster" => Ok(Kind::Cluster),
        "rediss-sentinel" | "valkeys-sentinel" | "rediss-cluster" | "valkeys-cluster" => {
            Err(unsupported(scheme))
        }
        "memory" => Ok(Kind::Memory),
        _ => Err(Error::new(
            Status::Unsupported,
            "the URL's scheme is not known; expected redis://…, rediss://… or unix://…",
        )),
    }
}

fn unsupported(scheme: &str) -> Error {
    Error::new(Status::Unsupported, format!("this build does not support {scheme}:// URLs"))
}

pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(Status::Invalid, message)
}

/// The crate's own words, without the detail, which may quote the URL.
fn describe(error: &redis::RedisError) -> String {
    let text = error.to_string();
    match error.detail() {
        Some(detail) => text.replace(detail, "").trim_end_matches([':', ' ', '-']).to_owned(),
        None => text,
    }
}
