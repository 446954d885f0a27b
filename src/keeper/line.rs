//! A [`Berth`] with all it needs in production: a socket, a mutex, and the keeper that wakes it.

use std::fmt;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::bell::Bell;
use super::berth::{Berth, Stopped};
use super::claim::Claim;
use super::tenant::Tenant;
use super::{Heard, Keeper, Task, lock};
use crate::broker::{Endpoint, LinkError, Route, Sockets, Wire, await_any};
use crate::error::{Error, Result, Status};
use crate::lock::LossReason;
use crate::protocol::{LinkId, Names, Phase, Stop};
use crate::stats::Counters;

/// A connection and its tenants.
pub(crate) struct Line {
    key: usize,
    keeper: Arc<Keeper>,
    sockets: Sockets,
    /// Where it leads, if that is an IP address.
    address: Option<SocketAddr>,
    /// Where those who share the connection read when it was last heard of.
    heard: Option<Arc<Heard>>,
    /// Where its client counts.
    counters: Arc<Counters>,
    core: Mutex<Core>,
}

/// What makes a connection one that many share.
pub(crate) struct Sharing {
    /// What it goes by.
    pub(crate) id: LinkId,
    /// Where it is noted when the server was last heard of.
    pub(crate) heard: Arc<Heard>,
}

/// What a thread waits for that serves its own connection meanwhile.
pub(crate) trait Attempt {
    /// Whose it is.
    fn names(&self) -> &Names;
    /// Its number.
    fn ticket(&self) -> u64;
    /// Whether there is something for the thread to look at.
    fn has_news(&self) -> bool;
    /// Has the bell rung when there is.
    fn hang(&self, bell: &Arc<Bell>);
}

struct Core {
    berth: Berth<Wire>,
    timer: Option<Instant>,
    /// What the keeper is to wake up for, as far as it was told: of each socket, whether for writing too.
    armed: Option<[bool; 2]>,
    /// The calling thread of this acquire waits for the socket; the keeper is to stay away.
    driver: Option<u64>,
    /// Its login was answered, and it was counted.
    opened: bool,
    /// Close as soon as nobody lives here.
    retired: bool,
    /// The connection has ended, and the keeper has let go of it.
    dismissed: bool,
}

/// A line's core while its mutex is held. With the last tenant of a dropped lock its client may go,
/// which comes back to retire this very line: no tenant is dropped before the mutex is free.
struct Access<'a> {
    // The order matters: fields are dropped from the first to the last.
    core: MutexGuard<'a, Core>,
    gone: Vec<Claim>,
}

impl Deref for Access<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl DerefMut for Access<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}

impl Drop for Access<'_> {
    fn drop(&mut self) {
        self.gone = self.core.berth.take_gone();
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Line {
    /// Begins to connect; nothing waits.
    pub(crate) fn dial(
        keeper: &Arc<Keeper>,
        endpoint: &Arc<Endpoint>,
        route: &Route,
        answer_timeout: Duration,
        sharing: Option<Sharing>,
        counters: Arc<Counters>,
    ) -> Result<Arc<Self>> {
        let now = Instant::now();
        let wires = Wire::dial(endpoint, route)
            .map_err(|e| LinkError::Connect(e).describe(endpoint, false))?;
        let sockets = Sockets::of(&wires.0, wires.1.as_ref());
        let berth = Berth::new(wires, endpoint, answer_timeout, now);
        let (berth, heard) = match sharing {
            Some(sharing) => (berth.shared(sharing.id, now), Some(sharing.heard)),
            None => (berth, None),
        };
        let core = Core {
            berth,
            timer: None,
            armed: None,
            driver: None,
            opened: false,
            retired: false,
            dismissed: false,
        };
        let line = Arc::new(Self {
            key: keeper.new_key(),
            keeper: keeper.clone(),
            sockets,
            address: route.address(),
            heard,
            counters,
            core: Mutex::new(core),
        });
        keeper.adopt(&line, &line.sockets).map_err(|error| no_poll(&error))?;
        Ok(line)
    }

    /// Where it leads, if that is an IP address.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    pub(crate) fn key(&self) -> usize {
        self.key
    }

    /// Moves a tenant in and lets it join; [`drive`](Self::drive) has to follow. Fails, with nothing
    /// done, if the connection has ended or is too slow in confirming the last leave.
    pub(crate) fn move_in(&self, tenant: Tenant) -> Result<()> {
        let mut core = self.lock();
        let ticket = tenant.ticket();
        let patience = core.berth.patience(tenant.patience());
        let moved = core.berth.move_in(tenant, Instant::now());
        if moved.is_err() || !core.berth.stands() {
            self.settle(&mut core);
            return moved;
        }
        core.berth.transports().for_each(|wire| wire.tune(patience));
        if core.driver.is_some() {
            // Whoever drives already serves all that live here.
            return Ok(());
        }
        core.driver = Some(ticket);
        if core.armed.is_some() && self.keeper.disarm(self.key, &self.sockets).is_ok() {
            core.armed = None;
        }
        Ok(())
    }

    /// Does what the keeper does, in the calling thread, until the tenant's join is answered or
    /// `until` has come; then leaves the line to the keeper. Saves two thread switches where the
    /// answer is quick, and sleeps in `poll` meanwhile.
    pub(crate) fn drive(&self, names: &Names, ticket: u64, until: Instant) {
        loop {
            let mut core = self.lock();
            if core.driver != Some(ticket) {
                return;
            }
            core.berth.visit(Instant::now(), Instant::now);
            let joining = core.berth.phase_of(names, ticket) == Some(Phase::Joining);
            let left = until.saturating_duration_since(Instant::now());
            if !joining || left.is_zero() {
                return self.leave_to_keeper(core);
            }
            let write = core.berth.wants_write();
            drop(core);
            await_any(&self.sockets, write, None, Some(left));
        }
    }

    /// As [`drive`](Self::drive), and goes on until there is news of the attempt, or until then. A thread
    /// that waits hears of its grant itself, instead of being woken by the keeper when that has heard.
    /// Where others live on the connection too, and where there are no descriptors left, it is left to
    /// the keeper after `brief`.
    pub(crate) fn serve(&self, attempt: &impl Attempt, brief: Instant, until: Option<Instant>) {
        if self.heard.is_some() {
            return self.drive(attempt.names(), attempt.ticket(), brief);
        }
        let mut bell: Option<Arc<Bell>> = None;
        loop {
            let mut core = self.lock();
            if core.driver != Some(attempt.ticket()) {
                return;
            }
            let now = Instant::now();
            core.berth.visit(now, Instant::now);
            bell.iter().for_each(|bell| bell.listen());
            let over = attempt.has_news() || until.is_some_and(|until| until <= now);
            if over || !core.berth.stands() {
                return self.leave_to_keeper(core);
            }
            let phase = core.berth.phase_of(attempt.names(), attempt.ticket());
            let write = core.berth.wants_write();
            let timer = [core.berth.next_timer(), until].into_iter().flatten().min();
            match &bell {
                Some(bell) => {
                    drop(core);
                    bell.sleep(&self.sockets, write, timer);
                }
                // Most are answered at once, and need no bell.
                None if phase == Some(Phase::Joining) && now < brief => {
                    drop(core);
                    await_any(&self.sockets, write, None, Some(brief - now));
                }
                None => {
                    bell = self.hang_bell(&mut core, attempt);
                    if bell.is_none() {
                        return self.leave_to_keeper(core);
                    }
                }
            }
        }
    }

    fn hang_bell(&self, core: &mut Core, attempt: &impl Attempt) -> Option<Arc<Bell>> {
        let bell = Arc::new(Bell::new().ok()?);
        // The keeper's timer is for this thread, too, as long as it serves.
        self.keeper.reschedule(self.key, core.timer.take(), None);
        attempt.hang(&bell);
        Some(bell)
    }

    fn leave_to_keeper(&self, mut core: Access<'_>) {
        core.driver = None;
        self.settle(&mut core);
    }

    /// Makes an acquire leave.
    pub(crate) fn stop(&self, names: &Names, ticket: u64, stop: Stop) -> Stopped {
        let mut core = self.lock();
        let stopped = core.berth.stop(names, ticket, stop, Instant::now());
        self.settle(&mut core);
        stopped
    }

    /// Whether the connection can take another tenant, now or soon.
    pub(crate) fn is_usable(&self) -> bool {
        self.lock().berth.stands()
    }

    /// What it goes by, if it is shared.
    pub(crate) fn link_id(&self) -> Option<LinkId> {
        self.lock().berth.link_id()
    }

    /// Closes the connection as soon as nobody lives on it.
    pub(crate) fn retire(&self) {
        let mut core = self.lock();
        core.retired = true;
        self.settle(&mut core);
    }

    /// Ends the connection and tells whoever lives on it.
    pub(crate) fn evict(&self, reason: LossReason, error: &Error) {
        let mut core = self.lock();
        core.berth.evict(reason, error);
        self.settle(&mut core);
    }

    /// Has a message sent for a held lock that has to come back.
    pub(crate) fn verify(&self, names: &Names) {
        let mut core = self.lock();
        core.berth.verify(names, Instant::now());
        self.settle(&mut core);
    }

    fn lock(&self) -> Access<'_> {
        Access { core: lock(&self.core), gone: Vec::new() }
    }

    /// Tells the keeper what to wake up for. A connection on which nobody lives and nothing is owed
    /// sleeps unwatched in the pool: whoever takes it next finds out whether it still stands.
    fn settle(&self, core: &mut Core) {
        if let (Some(heard), Some(at)) = (&self.heard, core.berth.heard_of()) {
            heard.note(at);
        }
        self.count(core);
        let idle = core.berth.is_idle();
        if idle && core.retired {
            core.berth.close();
        }
        if !core.berth.stands() {
            return self.dismiss(core);
        }
        if core.driver.is_some() {
            // Whoever drives sees to all of that, and comes by here at the end.
            return;
        }
        let armed = (!idle).then_some(core.berth.wants_write());
        if let Some(write) = armed.filter(|_| core.armed != armed) {
            if let Err(error) = self.keeper.arm(self.key, &self.sockets, write) {
                core.berth.evict(LossReason::Internal, &no_poll(&error));
                return self.dismiss(core);
            }
            core.armed = armed;
        }
        let next = core.berth.next_timer().map(|due| self.keeper.roughly(due));
        self.keeper.reschedule(self.key, core.timer, next);
        core.timer = next;
    }

    fn count(&self, core: &mut Core) {
        if !core.opened && core.berth.is_logged_in() {
            core.opened = true;
            core.berth.transports().for_each(|_| self.counters.connected());
            log::debug!(connection = self.key; "connected");
        }
        match core.berth.take_checks() {
            0 => {}
            checks => self.counters.checked(checks),
        }
    }

    fn dismiss(&self, core: &mut Core) {
        if !std::mem::replace(&mut core.dismissed, true) {
            self.keeper.dismiss(self.key, &self.sockets, core.timer.take());
        }
    }
}

impl Task for Line {
    fn attend(&self, fired: bool) {
        let mut core = self.lock();
        if fired {
            core.armed = None;
        }
        if core.driver.is_some() {
            // Whoever drives looks at the timers too.
            let timer = core.timer.take();
            return self.keeper.reschedule(self.key, timer, None);
        }
        core.berth.visit(Instant::now(), Instant::now);
        self.settle(&mut core);
    }

    fn abandon(&self, why: &str) {
        let mut core = self.lock();
        core.driver = None;
        core.berth.evict(LossReason::Internal, &Error::new(Status::Internal, why));
        self.settle(&mut core);
    }
}

fn no_poll(error: &std::io::Error) -> Error {
    Error::new(Status::Internal, format!("the connection cannot be polled: {error}"))
}
