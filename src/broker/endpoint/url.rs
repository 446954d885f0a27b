//! Reads URLs.

use redis::{ConnectionAddr, IntoConnectionInfo};

use super::server::Server;
use super::{Endpoint, Login, Target, sentinel_url};
use crate::error::{Error, Result, Status};

pub(super) fn parse(url: &str) -> Result<Endpoint> {
    if url.is_empty() {
        return Err(invalid("the URL is empty"));
    }
    let Some((scheme, _)) = url.split_once(':') else {
        return Err(invalid("the URL has no scheme; expected redis://… or unix://…"));
    };
    if let Some(scheme) = sentinel_url::scheme_of(scheme) {
        return sentinel_url::parse(scheme, url);
    }
    check_scheme(scheme)?;
    let info = url.into_connection_info().map_err(|error| invalid(describe(&error)))?;
    let server = match info.addr() {
        ConnectionAddr::Tcp(host, port) => Server::Tcp(host.clone(), *port),
        ConnectionAddr::Unix(path) if path.as_os_str().is_empty() => {
            return Err(invalid("the URL names no socket path"));
        }
        ConnectionAddr::Unix(path) => Server::Unix(path.clone()),
        _ => return Err(unsupported(scheme)),
    };
    let settings = info.redis_settings();
    let login = Login {
        user: settings.username().filter(|user| !user.is_empty()).map(str::to_owned),
        password: settings.password().map(str::to_owned),
        db: settings.db(),
    };
    Ok(Endpoint { target: Target::Server(server), login })
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

pub(super) fn invalid(message: impl Into<String>) -> Error {
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
