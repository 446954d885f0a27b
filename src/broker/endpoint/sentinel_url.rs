//! Reads `redis-sentinel://[user:password@]host[:port][,host[:port]…]/master[/db][?…]`.
//!
//! Each sentinel, and each login, is read as a URL of one server would be.

use std::sync::Arc;

use super::sentinel::Sentinels;
use super::url::{self, invalid};
use super::{Endpoint, Target};
use crate::error::Result;
use crate::options::ClientOptions;

const PORT: u16 = 26379;

/// What the part after the question mark sets.
#[derive(Default)]
struct Settings<'a> {
    user: Option<&'a str>,
    password: Option<&'a str>,
    believes_lonely: bool,
}

pub(super) fn parse(url: &str, options: &ClientOptions) -> Result<Endpoint> {
    let Some((_, rest)) = url.split_once("://") else {
        return Err(invalid("the URL names no sentinel"));
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = url::split_login(authority);
    let (master, db) = path.split_once('/').unwrap_or((path, ""));
    check_master(master)?;
    let settings = read_settings(query)?;
    // The host plays no part.
    let of_master = url::parse(&format!("redis://{login}master/{db}"), options)?;
    let of_sentinels = settings.login()?;
    let sentinel = |host: &str| {
        let host = with_port(host)?;
        url::parse(&format!("redis://{of_sentinels}{host}"), options)
    };
    let sentinels = hosts.split(',').map(sentinel).collect::<Result<Vec<_>>>()?;
    let sentinels = Sentinels::new(master.to_owned(), sentinels, settings.believes_lonely);
    Ok(of_master.with(Target::Sentinel(Arc::new(sentinels))))
}

/// Sentinels accept no other names.
fn check_master(name: &str) -> Result<()> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match name {
        "" => Err(invalid("the URL names no master; expected redis-sentinel://host,…/master")),
        name if name.bytes().all(is_good) => Ok(()),
        _ => Err(invalid("the master's name in the URL may have letters, digits and .-_ only")),
    }
}

fn with_port(host: &str) -> Result<String> {
    let after_address = host.rsplit_once(']').map_or(host, |(_, rest)| rest);
    match host {
        "" => Err(invalid("a sentinel's host in the URL is empty")),
        _ if after_address.contains(':') => Ok(host.to_owned()),
        _ => Ok(format!("{host}:{PORT}")),
    }
}

fn read_settings(query: &str) -> Result<Settings<'_>> {
    let mut settings = Settings::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sentinel_user", user)) => settings.user = Some(user),
            Some(("sentinel_password", password)) => settings.password = Some(password),
            Some(("sentinel_majority", "required")) => settings.believes_lonely = false,
            Some(("sentinel_majority", "ignored")) => settings.believes_lonely = true,
            Some(("sentinel_majority", _)) => {
                return Err(invalid(
                    "sentinel_majority in the URL is neither required nor ignored",
                ));
            }
            _ => return Err(invalid("the URL has a parameter that is not known")),
        }
    }
    Ok(settings)
}

impl Settings<'_> {
    /// As it stands in a URL before the host.
    fn login(&self) -> Result<String> {
        match (self.user, self.password) {
            (None, None) => Ok(String::new()),
            (Some(_), None) => Err(invalid("the URL has sentinel_user and no sentinel_password")),
            (user, Some(password)) => {
                Ok(format!("{}:{}@", escape(user.unwrap_or_default()), escape(password)))
            }
        }
    }
}

/// What may stand in a query and not before a host.
fn escape(text: &str) -> String {
    let escape = |c| match c {
        '/' => "%2F".to_owned(),
        '?' => "%3F".to_owned(),
        '@' => "%40".to_owned(),
        ':' => "%3A".to_owned(),
        '[' => "%5B".to_owned(),
        ']' => "%5D".to_owned(),
        other => String::from(other),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{reads, refuses};
    use super::*;
    use crate::error::Status;

    #[test]
    fn reads_what_the_documentation_promises() {
        for (url, shown, user, password, db) in [
            ("redis-sentinel://a/m", "master m of the sentinels a:26379", None, None, 0),
            (
                "valkey-sentinel://me:p%40@a:1,[::1]:2,[::2],b/m.x-1/3",
                "master m.x-1 of the sentinels a:1,[::1]:2,[::2]:26379,b:26379",
                Some("me"),
                Some("p@"),
                3,
            ),
            ("redis-sentinel://:p@a/m/", "master m of the sentinels a:26379", None, Some("p"), 0),
        ] {
            reads((url, shown), (user, password, db));
        }
    }

    #[test]
    fn the_sentinels_have_a_login_of_their_own() {
        let url = "redis-sentinel://me:pw@a/m?sentinel_user=s%20u&sentinel_password=x/y:z%25";
        let endpoint = Endpoint::parse(url, &ClientOptions::new()).unwrap();
        let sentinel = &endpoint.sentinels().unwrap().sentinels()[0];
        assert_eq!(sentinel.login.user.as_deref(), Some("s u"));
        assert_eq!(sentinel.login.password.as_deref(), Some("x/y:z%"));
        let endpoint =
            Endpoint::parse("redis-sentinel://me:pw@a/m", &ClientOptions::new()).unwrap();
        assert_eq!(endpoint.sentinels().unwrap().sentinels()[0].login.password, None);
    }

    #[test]
    fn refuses_the_rest_without_repeating_it() {
        for url in [
            "redis-sentinel:",
            "redis-sentinel://",
            "redis-sentinel://a",
            "redis-sentinel://:hunter2@a/",
            "redis-sentinel://:hunter2@,b/m",
            "redis-sentinel://:hunter2@a:99999/m",
            "redis-sentinel://:hunter2@a/m/hunter2",
            "redis-sentinel://:hunter2@a/hunter2%20m",
            "redis-sentinel://a/m?hunter2=1",
            "redis-sentinel://a/m?sentinel_majority=hunter2",
            "redis-sentinel://a/m?sentinel_user=hunter2",
        ] {
            refuses(url, Status::Invalid, "");
        }
    }
}
