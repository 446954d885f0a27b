//! Where the server is, and the warm connections to it.

use std::fmt;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::broker::{Dialogue, Endpoint, Route};
use crate::doctor::{self, Finding};
use crate::error::{Error, Result, Status};
use crate::events::{Event, Events};
use crate::fork::Generation;
use crate::inspect::{self, Holder, Reaped};
use crate::keeper::{Heard, Keeper, Line, Sharing, Tenant, lock, spawn};
use crate::lock::Lock;
use crate::options::{ClientOptions, LockOptions};
use crate::protocol::{LinkId, Names};
use crate::pursuit::worth_another;
use crate::stats::{Counters, Stats};
use crate::watch::Watch;

/// A Redis server to hold locks on. Cheap to clone; safe to use from any thread.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

/// What a client's locks share.
pub(crate) struct Shared {
    endpoint: Arc<Endpoint>,
    options: ClientOptions,
    generation: Generation,
    /// Connections on which nobody holds or waits, the latest used last.
    pool: Mutex<Vec<Arc<Line>>>,
    /// The connection that all locks share, if they do.
    hub: Option<Hub>,
    /// Who looks that the connections lead to the master, where sentinels say which that is.
    watch: Option<Arc<Watch>>,
    /// The event queue, once somebody has asked for it.
    events: OnceLock<Events>,
    counters: Arc<Counters>,
}

/// The connection that all locks of a client share.
struct Hub {
    line: Mutex<Option<Arc<Line>>>,
    heard: Arc<Heard>,
}

impl Hub {
    fn new() -> Self {
        Self { line: Mutex::new(None), heard: Arc::new(Heard::new()) }
    }

    /// The connection, if it stands.
    fn line(&self) -> Option<Arc<Line>> {
        lock(&self.line).clone().filter(|line| line.is_usable())
    }

    /// The connection, or a new one in the place of one that has ended.
    fn line_or(&self, dial: impl FnOnce(Sharing) -> Result<Arc<Line>>) -> Result<Arc<Line>> {
        let mut place = lock(&self.line);
        if let Some(line) = place.as_ref().filter(|line| line.is_usable()) {
            return Ok(line.clone());
        }
        let id = LinkId(Uuid::now_v7().as_u128());
        let line = dial(Sharing { id, heard: self.heard.clone() })?;
        *place = Some(line.clone());
        Ok(line)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Client {
    /// Takes the server's URL: `redis://[user[:password]@]host[:port][/db]`, `rediss://…` for the same
    /// with TLS, `unix:///path[?db=N&user=…&pass=…]`, or `redis-sentinel://host[:port][,…]/master[/db]`, with
    /// more in `docs/sentinel.md`, or `redis-cluster://host[:port][,…]` (`docs/cluster.md`); `memory://name` is a
    /// broker inside this process, for tests. Nothing is connected yet.
    ///
    /// # Errors
    /// `Invalid` where the URL is none, or a file for TLS cannot be used, `Tls` where the system trusts nobody,
    /// `Unsupported` for a scheme that is not known, `Forked` for a `memory://` name of which a parent of this
    /// process has a broker.
    pub fn new(url: &str, options: ClientOptions) -> Result<Self> {
        let endpoint = Endpoint::parse(url, &options)?;
        let shared = Shared {
            watch: endpoint.sentinels().cloned().map(Watch::new),
            endpoint: Arc::new(endpoint),
            hub: options.shared_connection.then(Hub::new),
            options,
            generation: Generation::now(),
            pool: Mutex::default(),
            events: OnceLock::new(),
            counters: Arc::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Names a lock. Nothing is sent.
    ///
    /// # Errors
    /// `Invalid` where the name is empty, over-long, holds a NUL byte or ends in `-lock-events`;
    /// `Forked` where a parent of this process made the client.
    pub fn lock(&self, name: &str, options: LockOptions) -> Result<Lock> {
        self.shared.generation.check()?;
        Ok(Lock::new(self.shared.clone(), Arc::new(self.shared.names_of(name)?), options))
    }

    /// Connects, logs in and asks for an answer, all within `timeout`; tells the round-trip time of
    /// the last.
    ///
    /// # Errors
    /// What keeps the server from being used.
    pub fn ping(&self, timeout: Duration) -> Result<Duration> {
        self.converse(None, timeout, |dialogue| dialogue.round_trip())
    }

    /// Who is on a lock's channel, holders first, then waiters in their order. Reads and changes
    /// nothing.
    ///
    /// # Errors
    /// `Unclear` where some members do not answer within `timeout`: that is not "nobody".
    pub fn holders(&self, name: &str, timeout: Duration) -> Result<Vec<Holder>> {
        let names = self.shared.names_of(name)?;
        self.converse(names.slot(), timeout, |dialogue| inspect::holders(dialogue, &names))
    }

    /// Pings a lock's channel and ends the connections of those members that do not answer within
    /// `timeout`, by their exact names.
    ///
    /// # Errors
    /// `Denied` where the user may not list or end connections.
    pub fn reap_silent(&self, name: &str, timeout: Duration) -> Result<Reaped> {
        let names = self.shared.names_of(name)?;
        let done = self
            .converse(names.slot(), timeout, |dialogue| inspect::reap_silent(dialogue, &names))?;
        self.shared.counters.reaped(done.killed as u64);
        Ok(done)
    }

    /// What this client, with its clones and locks, has done since it was made. Reads memory only: nothing
    /// is sent, and nobody is waited for.
    ///
    /// # Errors
    /// `Forked` where a parent of this process made the client.
    pub fn stats(&self) -> Result<Stats> {
        self.shared.generation.check()?;
        Ok(self.shared.counters.read())
    }

    /// Looks what about the server endangers locks: its kind, its settings, what this user may do there, and
    /// the way to it; the worst first. `name` is a lock that is to be used there; without one, what the user
    /// may do is told of commands only. Reads and changes nothing.
    ///
    /// # Errors
    /// What keeps the server from being looked at: it is away, or does not accept the login.
    pub fn examine(&self, name: Option<&str>, timeout: Duration) -> Result<Vec<Finding>> {
        let unnamed = || format!("portalock-doctor-{}", Uuid::now_v7().simple());
        if self.shared.endpoint.cluster().is_some() {
            let text =
                "a cluster cannot be examined as a whole: examine its nodes, by redis:// URLs";
            return Err(Error::new(Status::Unsupported, text));
        }
        let names = self.shared.names_of(&name.map_or_else(unnamed, str::to_owned))?;
        let user = self.shared.endpoint.user();
        let until = Instant::now() + timeout.min(crate::options::MAX_SPAN);
        let examine =
            |dialogue: &mut Dialogue| doctor::examine(dialogue, user, &names, name.is_some());
        let mut findings = match self.converse(None, timeout, examine) {
            Ok(findings) => findings,
            Err(error) => vec![doctor::of_failure(&error).ok_or(error)?],
        };
        let roll = self.shared.endpoint.sentinels().map(|sentinels| sentinels.call_roll(until));
        findings.extend(roll.map(|roll| doctor::judge_sentinels(&roll)));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        Ok(findings)
    }

    /// Begins to keep events, those of all locks of this client, and gives a descriptor that can be read
    /// as long as there is one to be fetched. It is to be polled and not to be read, and stays the
    /// client's. Up to [`MAX_EVENTS`](crate::MAX_EVENTS) are kept; what is more is counted.
    ///
    /// # Errors
    /// `Internal` where the system has no descriptor left; `Forked`.
    pub fn event_descriptor(&self) -> Result<RawFd> {
        self.shared.generation.check()?;
        self.shared.event_queue().map(Events::descriptor)
    }

    /// Takes the next event out, or waits for one: `None` if there is none within `timeout` (`None` for
    /// ever). Begins to keep events if that was not done before.
    ///
    /// # Errors
    /// As [`event_descriptor`](Self::event_descriptor); `Invalid` once [`close_events`](Self::close_events)
    /// was called.
    pub fn next_event(&self, timeout: Option<Duration>) -> Result<Option<Event>> {
        self.shared.generation.check()?;
        let until = timeout.map(|span| Instant::now() + span.min(crate::options::MAX_SPAN));
        self.shared.event_queue()?.next(until)
    }

    /// Keeps no more events and wakes whoever waits for one.
    pub fn close_events(&self) {
        if let Some(events) = self.shared.events.get()
            && self.shared.generation.is_ours()
        {
            events.close();
        }
    }

    /// Holds a dialogue over a connection of its own, at the first address that works. Where a cluster sends
    /// it elsewhere, or has changed, it goes on there.
    fn converse<T>(
        &self,
        slot: Option<u16>,
        timeout: Duration,
        talk: impl Fn(&mut Dialogue) -> Result<T>,
    ) -> Result<T> {
        self.shared.generation.check()?;
        let until = Instant::now() + timeout.min(crate::options::MAX_SPAN);
        let mut hops = self.shared.hops();
        loop {
            let error = match self.converse_once(slot, until, &talk) {
                Err(error) if hops > 0 && worth_another(error.status()) => error,
                outcome => return outcome,
            };
            self.shared.distrust();
            hops -= 1;
            if hops == 0 || until <= Instant::now() {
                return Err(error);
            }
        }
    }

    fn converse_once<T>(
        &self,
        slot: Option<u16>,
        until: Instant,
        talk: &impl Fn(&mut Dialogue) -> Result<T>,
    ) -> Result<T> {
        let mut failure = None;
        let left = until.saturating_duration_since(Instant::now());
        for route in self.shared.routes_within(slot, left)? {
            let endpoint = self.shared.endpoint.at(&route);
            let attempt = || {
                let mut dialogue = Dialogue::open(&endpoint, &route, until)?;
                self.hear_out(&mut dialogue, talk)
            };
            match endpoint.dialect().try_in(attempt) {
                Ok(result) => return Ok(result),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(|| Error::new(Status::Unreachable, "the server has no address")))
    }

    fn hear_out<T>(
        &self,
        dialogue: &mut Dialogue,
        talk: impl Fn(&mut Dialogue) -> Result<T>,
    ) -> Result<T> {
        let outcome = talk(dialogue);
        if dialogue.is_logged_in() {
            self.shared.counters.connected();
        }
        outcome
    }
}

/// How often an acquire or a question goes on at once where a cluster sends it elsewhere.
const HOPS: u8 = 3;

impl Shared {
    fn names_of(&self, name: &str) -> Result<Names> {
        let names = match self.endpoint.cluster() {
            Some(_) => Names::in_one_slot(name),
            None => Names::new(name),
        };
        names.map_err(|error| Error::new(Status::Invalid, error.to_string()))
    }

    /// How often to go on at once where the server says that another one is to be gone to.
    pub(crate) fn hops(&self) -> u8 {
        if self.endpoint.cluster().is_some() { HOPS } else { 0 }
    }

    /// Has it looked up anew where the server is, after something went wrong there.
    pub(crate) fn distrust(&self) {
        if let Some(cluster) = self.endpoint.cluster() {
            cluster.distrust();
        }
    }

    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    fn event_queue(&self) -> Result<&Events> {
        if let Some(events) = self.events.get() {
            return Ok(events);
        }
        let new = Events::new()?;
        Ok(self.events.get_or_init(|| new))
    }

    /// Whether events are kept.
    pub(crate) fn keeps_events(&self) -> bool {
        self.events.get().is_some()
    }

    /// Keeps an event, if events are wanted.
    pub(crate) fn report(&self, event: Event, lock_closed: &AtomicBool) {
        if let Some(events) = self.events.get() {
            events.push(event, lock_closed);
        }
    }

    /// Forgets the events of a lock that was closed.
    pub(crate) fn forget_events(&self, tag: usize) {
        if let Some(events) = self.events.get() {
            events.forget(tag);
        }
    }

    /// Whether it is known that the server speaks RESP2 only.
    pub(crate) fn speaks_resp2(&self) -> bool {
        self.endpoint.dialect().is_resp2()
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        self.options.connect_timeout
    }

    /// The routes to the server, if they can be told without a look-up.
    pub(crate) fn ready_routes(&self, slot: Option<u16>) -> Option<Result<Vec<Route>>> {
        self.endpoint.ready_routes(slot)
    }

    /// Looks the server's name up in a thread of its own and hands the result to `then`.
    pub(crate) fn look_up(
        self: &Arc<Self>,
        slot: Option<u16>,
        then: impl FnOnce(Result<Vec<Route>>) + Send + 'static,
    ) -> Result<()> {
        let shared = self.clone();
        spawn("portalock-look", move || then(shared.endpoint.routes(slot))).map_err(|error| {
            Error::new(Status::Internal, format!("no thread to look the host up: {error}"))
        })
    }

    fn routes_within(self: &Arc<Self>, slot: Option<u16>, timeout: Duration) -> Result<Vec<Route>> {
        if let Some(routes) = self.ready_routes(slot) {
            return routes;
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        self.look_up(slot, move |routes| drop(sender.send(routes)))?;
        receiver.recv_timeout(timeout).unwrap_or_else(|_| Err(self.lookup_timeout()))
    }

    pub(crate) fn lookup_timeout(&self) -> Error {
        let text = format!("the address of {} was not found in time", self.endpoint);
        Error::new(Status::Unreachable, text)
    }

    /// Where it is noted when the connection that all locks share was last heard of.
    pub(crate) fn heard(&self) -> Option<&Heard> {
        self.hub.as_ref().map(|hub| &*hub.heard)
    }

    /// Moves a tenant into a warm connection, if there is one.
    pub(crate) fn move_into_warm(
        &self,
        slot: Option<u16>,
        tenant: impl Fn() -> Tenant,
    ) -> Option<Arc<Line>> {
        if let Some(hub) = &self.hub {
            return hub.line().filter(|line| line.move_in(tenant()).is_ok());
        }
        loop {
            let line = self.take_warm(slot)?;
            if line.move_in(tenant()).is_ok() {
                return Some(line);
            }
            line.retire();
        }
    }

    /// The connection that was used last, of those that lead to where the slot is.
    fn take_warm(&self, slot: Option<u16>) -> Option<Arc<Line>> {
        let mut pool = lock(&self.pool);
        let Some(cluster) = self.endpoint.cluster() else {
            return pool.pop();
        };
        let at = pool.iter().rposition(|line| cluster.leads_to(slot, line.address()))?;
        Some(pool.remove(at))
    }

    /// Moves a tenant into a new connection.
    pub(crate) fn move_into_new(&self, route: &Route, tenant: Tenant) -> Result<Arc<Line>> {
        let keeper = Keeper::get_soon()?;
        let timeout = self.options.connect_timeout;
        let dial = |sharing| {
            let counters = self.counters.clone();
            let endpoint = self.endpoint.at(route);
            let line = Line::dial(&keeper, &endpoint, route, timeout, sharing, counters)?;
            if let Some(watch) = &self.watch {
                watch.keep(&line, route)?;
            }
            Ok(line)
        };
        let line = match &self.hub {
            Some(hub) => hub.line_or(|sharing| dial(Some(sharing)))?,
            None => dial(None)?,
        };
        line.move_in(tenant)?;
        // While the first bytes are on their way: to start a thread takes about as long as those.
        keeper.begin()?;
        Ok(line)
    }

    /// Takes a connection back.
    pub(crate) fn give_back(&self, line: Arc<Line>) {
        if self.hub.is_some() || !line.is_usable() {
            return;
        }
        let surplus = {
            let mut pool = lock(&self.pool);
            pool.push(line);
            (pool.len() > self.options.pool_size).then(|| pool.remove(0))
        };
        if let Some(line) = surplus {
            line.retire();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.generation.is_ours() {
            return;
        }
        self.watch.iter().for_each(|watch| watch.end());
        let shared = self.hub.as_ref().and_then(|hub| lock(&hub.line).take());
        for line in lock(&self.pool).drain(..).chain(shared) {
            line.retire();
        }
    }
}
