//! A cluster: which of its nodes is the master of a slot, as one of them last said.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::ServerError;

use super::server::Server;
use super::{Endpoint, Route, Target, list};
use crate::broker::commands::Commands;
use crate::broker::dialogue::Dialogue;
use crate::broker::reply::Said;
use crate::error::{Error, Result, Status};
use crate::mutex::lock;

/// How long one node may take to be connected to and to answer.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long what was heard is good for new connections.
const FRESH: Duration = Duration::from_secs(1);
/// How long an acquire takes another's failure to hear of it for its own.
const DOUBT: Duration = Duration::from_millis(100);

/// The nodes that were named, and what was heard from them.
pub(crate) struct Cluster {
    seeds: Vec<Endpoint>,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    /// Which seed to ask first: the one that answered last.
    first: usize,
    map: Option<Map>,
    /// Where nodes said that a slot is, to be gone to once.
    hints: HashMap<u16, Server>,
    /// What was asked last in vain, and when; `None` after an answer.
    doubt: Option<(Instant, Error)>,
}

/// Which slots which masters serve.
struct Map {
    asked: Instant,
    /// Nothing has gone wrong since.
    trusted: bool,
    ranges: Vec<Range>,
}

#[derive(Clone)]
struct Range {
    first: u16,
    last: u16,
    master: Server,
}

/// One node, as the master of some slots.
#[derive(Clone)]
pub(in crate::broker) struct Node {
    pub(super) server: Server,
    cluster: Arc<Cluster>,
}

impl Cluster {
    pub(super) fn new(seeds: Vec<Endpoint>) -> Self {
        Self { seeds, heard: Mutex::default() }
    }

    /// The routes to the master of a slot, or of any, if it is known without asking. What a node said that
    /// does not have the slot comes first, and is gone by once.
    pub(super) fn ready_routes(&self, slot: Option<u16>) -> Option<Result<Vec<Route>>> {
        let mut heard = lock(&self.heard);
        let hint = slot.and_then(|slot| heard.hints.get(&slot).cloned());
        if let Some(server) = hint.filter(|server| !server.needs_lookup()) {
            slot.map(|slot| heard.hints.remove(&slot));
            return Some(server.routes());
        }
        if let Some((at, error)) = &heard.doubt
            && at.elapsed() < DOUBT
        {
            return Some(Err(error.clone()));
        }
        let map = heard.map.as_ref().filter(|map| map.trusted && map.asked.elapsed() < FRESH)?;
        match map.master_of(slot) {
            Ok(server) if server.needs_lookup() => None,
            Ok(server) => Some(server.routes()),
            Err(error) => Some(Err(error)),
        }
    }

    /// The same; asks, unless it is known.
    pub(super) fn routes(&self, slot: Option<u16>) -> Result<Vec<Route>> {
        if let Some(routes) = self.ready_routes(slot) {
            return routes;
        }
        let hint = slot.and_then(|slot| lock(&self.heard).hints.remove(&slot));
        match hint {
            Some(server) => server.routes(),
            None => self.survey(slot)?.routes(),
        }
    }

    /// Asks one node after the other until one tells that it sees the cluster stand.
    fn survey(&self, slot: Option<u16>) -> Result<Server> {
        let candidates = self.candidates();
        let mut failure: Option<Error> = None;
        for (at, endpoint) in candidates {
            match ask(&endpoint) {
                Ok(map) => {
                    let master = map.master_of(slot);
                    let mut heard = lock(&self.heard);
                    heard.first = at.unwrap_or(heard.first);
                    heard.doubt = None;
                    heard.map = Some(map);
                    return master;
                }
                // What time will not mend says more than that one of them is away.
                Err(error) if failure.as_ref().is_none_or(Error::is_retryable) => {
                    failure = Some(error);
                }
                Err(_) => {}
            }
        }
        let error = match failure {
            Some(error) if !error.is_retryable() => error,
            Some(error) => {
                let text = format!("no node of {self} can tell who serves the lock: {error}");
                Error::new(Status::Unreachable, text)
            }
            None => Error::new(Status::Unreachable, format!("{self} has no nodes")),
        };
        lock(&self.heard).doubt = Some((Instant::now(), error.clone()));
        Err(error)
    }

    /// Whom to ask: the seeds, with their numbers, then the masters that are known and are none.
    fn candidates(&self) -> Vec<(Option<usize>, Endpoint)> {
        let heard = lock(&self.heard);
        let count = self.seeds.len();
        let seeds = (heard.first..heard.first + count).map(|at| at % count);
        let mut all: Vec<_> = seeds.map(|at| (Some(at), self.seeds[at].clone())).collect();
        let ranges = heard.map.iter().flat_map(|map| &map.ranges);
        for master in ranges.map(|range| &range.master) {
            let endpoint = self.seeds[0].with(Target::Server(master.clone()));
            let name = endpoint.to_string();
            if all.iter().all(|(_, known)| known.to_string() != name) {
                all.push((None, endpoint));
            }
        }
        all
    }

    /// Something went wrong at a node: it is to be asked anew who serves what. Another seed is asked first,
    /// as it may be the one that was asked that is cut off.
    pub(crate) fn distrust(&self) {
        let mut heard = lock(&self.heard);
        if let Some(map) = heard.map.as_mut().filter(|map| map.trusted) {
            map.trusted = false;
            heard.first = (heard.first + 1) % self.seeds.len();
        }
    }

    /// Whether a connection by this route leads to the master of the slot, as far as was heard.
    pub(crate) fn leads_to(&self, slot: Option<u16>, at: Option<SocketAddr>) -> bool {
        let heard = lock(&self.heard);
        let Some(map) = heard.map.as_ref().filter(|map| map.trusted) else {
            return false;
        };
        match (map.master_of(slot), at) {
            (Ok(server), Some(at)) if !server.needs_lookup() => server.is_at(at),
            _ => false,
        }
    }

    /// What a connection to a host by one of its addresses goes by.
    pub(super) fn node_at(self: &Arc<Self>, host: &str, at: SocketAddr) -> Node {
        let host = if host.is_empty() { at.ip().to_string() } else { host.to_owned() };
        Node { server: Server::Tcp(host, at.port()), cluster: self.clone() }
    }
}

impl Map {
    fn master_of(&self, slot: Option<u16>) -> Result<Server> {
        let serves =
            |range: &&Range| slot.is_none_or(|slot| range.first <= slot && slot <= range.last);
        let nobody = || {
            let slot = slot.unwrap_or_default();
            Error::new(Status::Unreachable, format!("no node of the cluster serves slot {slot}"))
        };
        self.ranges.iter().find(serves).map(|range| range.master.clone()).ok_or_else(nobody)
    }
}

impl Node {
    /// What an answer says that a node gives for a slot that it does not serve, or not at present.
    pub(in crate::broker) fn objection(&self, error: &ServerError) -> Option<Error> {
        let words = error.details().unwrap_or_default();
        let text = match error.code() {
            "MOVED" => self.moved(words),
            "CLUSTERDOWN" => {
                format!("{self} does not see the cluster stand, or not all of it: {words}")
            }
            "READONLY" | "MASTERDOWN" => format!("{self} is a replica"),
            _ => return None,
        };
        Some(Error::new(Status::Disconnected, text))
    }

    /// Takes note of where a slot is, for the next who looks for it.
    fn moved(&self, words: &str) -> String {
        if let Some((slot, server)) = self.read_moved(words) {
            let text = format!("slot {slot} of the cluster is at {server}, and not at {self}");
            lock(&self.cluster.heard).hints.insert(slot, server);
            return text;
        }
        format!("{self} does not serve the lock's slot of the cluster")
    }

    fn read_moved(&self, words: &str) -> Option<(u16, Server)> {
        let (slot, place) = words.split_once(' ')?;
        let (host, port) = place.rsplit_once(':')?;
        let host = match (host, &self.server) {
            ("", Server::Tcp(own, _)) => own,
            ("?", _) => return None,
            (host, _) => host,
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Some((slot.parse().ok()?, Server::Tcp(host, port.parse().ok()?)))
    }

    pub(super) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }
}

/// Asks one node.
fn ask(endpoint: &Endpoint) -> Result<Map> {
    Dialogue::hold(endpoint, PATIENCE, |mut dialogue| converse(&mut dialogue, endpoint))
}

fn converse(dialogue: &mut Dialogue, endpoint: &Endpoint) -> Result<Map> {
    let asked = Instant::now();
    let mut commands = Commands::default();
    commands.question(&["CLUSTER", "INFO"]);
    commands.question(&["CLUSTER", "SLOTS"]);
    dialogue.send(commands);
    let info = dialogue.answer()?;
    let slots = dialogue.answer()?;
    match &info {
        Said::Text(text) if text.contains("cluster_state:ok") => {}
        Said::Text(_) => {
            let text = format!("{endpoint} does not see the cluster stand, or not all of it");
            return Err(Error::new(Status::Unreachable, text));
        }
        Said::Refused { code, words } => return Err(refused(endpoint, code, words)),
        _ => return Err(nonsense(endpoint)),
    }
    let ranges = match &slots {
        Said::Items(ranges) => ranges.iter().map(|range| read_range(range, endpoint)).collect(),
        Said::Refused { code, words } => return Err(refused(endpoint, code, words)),
        _ => None,
    };
    let ranges = ranges.ok_or_else(|| nonsense(endpoint))?;
    Ok(Map { asked, trusted: true, ranges })
}

/// `[first, last, [host, port, …], replicas…]`. A node that does not know its own host leaves it out: it is
/// where it was asked.
fn read_range(range: &Said, asked: &Endpoint) -> Option<Range> {
    let Said::Items(parts) = range else { return None };
    let [Said::Number(first), Said::Number(last), Said::Items(master), ..] = parts.as_slice()
    else {
        return None;
    };
    let [host, Said::Number(port), ..] = master.as_slice() else { return None };
    let host = match host {
        Said::Text(host) if !host.is_empty() && host != "?" => host.clone(),
        _ => asked.host()?.to_owned(),
    };
    let number = |number: i64| u16::try_from(number).ok();
    Some(Range {
        first: number(*first)?,
        last: number(*last)?,
        master: Server::Tcp(host, number(*port)?),
    })
}

fn refused(endpoint: &Endpoint, code: &str, words: &str) -> Error {
    match code {
        "NOPERM" => {
            let text = format!(
                "{endpoint} says: {code} {words} (missing rules: +cluster|slots +cluster|info)"
            );
            Error::new(Status::Denied, text)
        }
        _ if words.contains("cluster support disabled") => {
            Error::new(Status::Unsupported, format!("{endpoint} is no node of a cluster"))
        }
        _ => Error::new(Status::Server, format!("{endpoint} says: {code} {words}")),
    }
}

fn nonsense(endpoint: &Endpoint) -> Error {
    Error::new(Status::NotRedis, format!("{endpoint} is no node of a cluster"))
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the cluster of {}", list(&self.seeds))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (of a cluster)", self.server)
    }
}
