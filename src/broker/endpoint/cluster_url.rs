//! Reads `redis-cluster://[user:password@]host[:port][,host[:port]…]`.
//!
//! Each node is read as a URL of one server would be.

use std::sync::Arc;

use super::cluster::Cluster;
use super::url::{self, invalid};
use super::{Endpoint, Target};
use crate::error::{Error, Result, Status};
use crate::options::ClientOptions;

pub(super) fn parse(url: &str, options: &ClientOptions) -> Result<Endpoint> {
    let Some((_, rest)) = url.split_once("://") else {
        return Err(invalid("the URL names no node of the cluster"));
    };
    if options.shared_connection {
        let text =
            "locks in a cluster cannot share a connection: each is at the node that has its slot";
        return Err(Error::new(Status::Unsupported, text));
    }
    if rest.contains(['?', '#']) {
        return Err(invalid("the URL of a cluster has no parameters and no fragment"));
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !matches!(path, "" | "0") {
        return Err(invalid("the URL has a database or path; a cluster has database 0 only"));
    }
    let (login, hosts) = url::split_login(authority);
    let node = |host: &str| match host {
        "" => Err(invalid("the host of a node of the cluster is empty in the URL")),
        host => url::parse(&format!("redis://{login}{host}"), options),
    };
    let seeds = hosts.split(',').map(node).collect::<Result<Vec<_>>>()?;
    let first = seeds[0].clone();
    // What one node speaks all do.
    let alike = |seed: Endpoint| Endpoint { dialect: first.dialect.clone(), ..seed };
    let seeds = seeds.into_iter().map(alike).collect();
    Ok(first.with(Target::Cluster(Arc::new(Cluster::new(seeds)))))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{reads, refuses};
    use super::*;

    #[test]
    fn reads_what_the_documentation_promises() {
        for (url, shown, user, password) in [
            ("redis-cluster://a", "the cluster of a:6379", None, None),
            (
                "valkey-cluster://me:p%40@a:1,[::1]:2,b/0",
                "the cluster of a:1,[::1]:2,b:6379",
                Some("me"),
                Some("p@"),
            ),
            ("redis-cluster://:p@a:7/", "the cluster of a:7", None, Some("p")),
        ] {
            reads((url, shown), (user, password, 0));
        }
    }

    #[test]
    fn refuses_the_rest_without_repeating_it() {
        for (url, part) in [
            ("redis-cluster:", "node"),
            ("redis-cluster://", "host"),
            ("redis-cluster://:hunter2@", "host"),
            ("redis-cluster://:hunter2@a,,b", "host"),
            ("redis-cluster://:hunter2@a:99999", "port"),
            ("redis-cluster://:hunter2@a/1", "database"),
            ("redis-cluster://:hunter2@a?hunter2=1", "parameters"),
            ("redis-cluster://:hunter2@a#hunter2", "fragment"),
        ] {
            refuses(url, Status::Invalid, part);
        }
    }

    #[test]
    fn refuses_what_is_not_there() {
        let error = Endpoint::parse("rediss-cluster://a", &ClientOptions::new()).unwrap_err();
        assert_eq!(error.status(), Status::Unsupported);
        let mut options = ClientOptions::new();
        options.shared_connection(true);
        let error = Endpoint::parse("redis-cluster://a", &options).unwrap_err();
        assert_eq!(error.status(), Status::Unsupported);
        assert!(error.to_string().contains("share a connection"), "{error}");
    }
}
