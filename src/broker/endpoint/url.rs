//! Reads URLs.

use redis::{ConnectionAddr, IntoConnectionInfo};

use super::super::tls::Tls;
use super::server::Server;
use super::{Endpoint, Login, Target};
use crate::error::{Error, Result, Status};
use crate::options::ClientOptions;

pub(super) fn parse(url: &str, options: &ClientOptions) -> Result<Endpoint> {
    if url.is_empty() {
        return Err(invalid("the URL is empty"));
    }
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(invalid("the URL has no scheme; expected redis://… or unix://…"));
    };
    let encrypted = check_scheme(scheme)?;
    if encrypted && rest.contains('#') {
        return Err(invalid("the URL has a fragment (#…), which means nothing here"));
    }
    if !encrypted && options.tls != Default::default() {
        return Err(invalid("the settings for TLS need a rediss:// URL"));
    }
    // The crate would bring a TLS of its own.
    let plain = if encrypted { format!("redis:{rest}") } else { url.to_owned() };
    let info = plain.as_str().into_connection_info().map_err(|error| invalid(describe(&error)))?;
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
    let tls = encrypted.then(|| Tls::load(&options.tls)).transpose()?;
    Ok(Endpoint { target: Target::Server(server), login, tls })
}

/// Whether the scheme asks for TLS.
fn check_scheme(scheme: &str) -> Result<bool> {
    match scheme {
        "redis" | "valkey" | "unix" | "redis+unix" | "valkey+unix" => Ok(false),
        "rediss" | "valkeys" => Ok(true),
        _ => Err(Error::new(
            Status::Unsupported,
            "the URL's scheme is not known; expected redis://…, rediss://… or unix://…",
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
