//! A connection and those who live on it: at most one that joins, waits or holds, and before it those
//! that have left and whose leave the server has not confirmed yet.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::tenant::{Tenant, unresponsive};
use super::{Keeper, lock};
use crate::broker::{Answer, Endpoint, Frame, Link, LinkError, Route, await_socket};
use crate::error::{Error, Result, Status};
use crate::lock::LossReason;
use crate::protocol::{Input, Phase, Stop};

/// How many frames one visit reads: a flooded channel must not starve the other lines.
const FRAMES_A_VISIT: usize = 512;

/// What a [`Line::stop`] came upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The acquire was joining: the server had not answered yet.
    Joining,
    /// It was waiting.
    Waiting,
    /// It held.
    Held,
    /// It had ended already.
    Ended,
}

/// A connection and its tenants.
pub(crate) struct Line {
    key: usize,
    keeper: Arc<Keeper>,
    endpoint: Arc<Endpoint>,
    answer_timeout: Duration,
    core: Mutex<Core>,
}

struct Core {
    /// `None` once the connection has ended, for ever.
    link: Option<Link>,
    /// Why it has ended.
    ending: Option<Error>,
    /// In the order of joining; all but the last are leaving.
    tenants: VecDeque<Tenant>,
    /// Pongs that named nobody, so far: each must count.
    legacy: u32,
    timer: Option<Instant>,
    /// What the keeper is to wake up for, as far as it was told: `Some(true)` with writing.
    armed: Option<bool>,
    /// A calling thread waits for the socket; the keeper is to stay away.
    driven: bool,
    /// Close as soon as nobody lives here.
    retired: bool,
    /// Those who have moved out, until the mutex is free again: see [`Access`].
    gone: Vec<Tenant>,
}

/// A line's core while its mutex is held. With the last tenant of a dropped lock its client may go,
/// which comes back to retire this very line: no tenant is dropped before the mutex is free.
struct Access<'a> {
    // The order matters: fields are dropped from the first to the last.
    core: MutexGuard<'a, Core>,
    gone: Vec<Tenant>,
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
        self.gone = std::mem::take(&mut self.core.gone);
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
    ) -> Result<Arc<Self>> {
        let link = Link::dial(endpoint, route).map_err(|error| error.describe(endpoint))?;
        let socket = link.socket().clone();
        let core = Core {
            link: Some(link),
            ending: None,
            tenants: VecDeque::new(),
            legacy: 0,
            timer: None,
            armed: None,
            driven: false,
            retired: false,
            gone: Vec::new(),
        };
        let line = Arc::new(Self {
            key: keeper.new_key(),
            keeper: keeper.clone(),
            endpoint: endpoint.clone(),
            answer_timeout,
            core: Mutex::new(core),
        });
        keeper.adopt(&line, &socket).map_err(|error| {
            Error::new(Status::Internal, format!("the connection cannot be polled: {error}"))
        })?;
        Ok(line)
    }

    pub(crate) fn key(&self) -> usize {
        self.key
    }

    /// Moves a tenant in and lets it join; [`drive`](Self::drive) has to follow. Fails, with nothing
    /// done, if the connection has ended or is too slow in confirming the last leave.
    pub(crate) fn move_in(&self, tenant: Tenant) -> Result<()> {
        let mut core = self.lock();
        let now = Instant::now();
        self.read(&mut core, now);
        let Core { link: Some(link), tenants, .. } = &mut *core else {
            let silence = || unresponsive(&self.endpoint.to_string());
            return Err(core.ending.clone().unwrap_or_else(silence));
        };
        let slow = link.owed_since().is_some_and(|since| now - since > Duration::from_secs(1));
        if slow && link.is_logged_in() {
            return Err(unresponsive(&self.endpoint.to_string()));
        }
        tenants.push_back(tenant);
        if let Some(tenant) = tenants.back_mut() {
            tenant.carry_out(link);
        }
        core.driven = true;
        self.write(&mut core);
        if let (Some(_), Some(link)) = (core.armed, &core.link)
            && self.keeper.disarm(self.key, link.socket()).is_ok()
        {
            core.armed = None;
        }
        Ok(())
    }

    /// Does what the keeper does, in the calling thread, until the tenant's join is answered or
    /// `until` has come; then leaves the line to the keeper. Saves two thread switches where the
    /// answer is quick, and sleeps in `poll` meanwhile.
    pub(crate) fn drive(&self, ticket: u64, until: Instant) {
        loop {
            let mut core = self.lock();
            self.visit(&mut core);
            let joining = core.tenant(ticket).is_some_and(|t| t.phase() == Phase::Joining);
            let left = until.saturating_duration_since(Instant::now());
            let waiting = joining && !left.is_zero();
            let Some(link) = core.link.as_ref().filter(|_| waiting) else {
                core.driven = false;
                return self.settle(&mut core);
            };
            let (socket, write) = (link.socket().clone(), link.wants_write());
            drop(core);
            await_socket(&socket, write, left);
        }
    }

    /// Makes an acquire leave.
    pub(crate) fn stop(&self, ticket: u64, stop: Stop) -> Stopped {
        let mut core = self.lock();
        // What is here already comes first: a grant, or the end of the connection.
        self.visit(&mut core);
        let Core { link: Some(link), tenants, .. } = &mut *core else {
            return Stopped::Ended;
        };
        let Some(tenant) = tenants.iter_mut().find(|tenant| tenant.ticket() == ticket) else {
            return Stopped::Ended;
        };
        let stopped = match tenant.phase() {
            Phase::Joining => Stopped::Joining,
            Phase::Waiting | Phase::SteppingAside | Phase::Aside => Stopped::Waiting,
            Phase::Held if !tenant.is_holding() => Stopped::Waiting,
            Phase::Held if stop != Stop::Release => return Stopped::Held,
            Phase::Held => Stopped::Held,
            Phase::Leaving | Phase::Gone => Stopped::Ended,
        };
        tenant.stop(Instant::now(), stop, link);
        let ended = tenant.phase() == Phase::Gone;
        let ready = link.is_logged_in();
        if ended {
            core.move_out(ticket);
        }
        self.write(&mut core);
        if !ready {
            let error = Error::new(Status::Disconnected, "given up before the login was answered");
            self.evict(&mut core, LossReason::Disconnected, &error);
        }
        self.settle(&mut core);
        stopped
    }

    /// Whether the connection can take another tenant, now or soon.
    pub(crate) fn is_usable(&self) -> bool {
        self.lock().link.is_some()
    }

    /// Closes the connection as soon as nobody lives on it.
    pub(crate) fn retire(&self) {
        let mut core = self.lock();
        core.retired = true;
        self.settle(&mut core);
    }

    /// The keeper's visit: the socket has shown a sign of life, or a timer is due.
    pub(super) fn attend(&self, fired: bool) {
        let mut core = self.lock();
        if fired {
            core.armed = None;
        }
        if core.driven {
            return;
        }
        self.visit(&mut core);
        self.settle(&mut core);
    }

    /// Ends the connection because the library itself has failed.
    pub(super) fn abandon(&self, why: &str) {
        let error = Error::new(Status::Internal, why);
        self.evict(&mut self.lock(), LossReason::Internal, &error);
    }

    fn lock(&self) -> Access<'_> {
        Access { core: lock(&self.core), gone: Vec::new() }
    }

    /// Writes, reads, and looks at the timers if all was read: silence is not to be judged before.
    fn visit(&self, core: &mut Core) {
        let now = Instant::now();
        self.write(core);
        if self.read(core, now) {
            self.ring(core, Instant::now());
        }
        self.write(core);
    }

    fn write(&self, core: &mut Core) {
        let Some(link) = &mut core.link else {
            return;
        };
        if let Err(error) = link.flush() {
            self.fail(core, &error);
        }
    }

    /// Reads what is there; `true` if that was all.
    fn read(&self, core: &mut Core, now: Instant) -> bool {
        for _ in 0..FRAMES_A_VISIT {
            let Some(link) = &mut core.link else {
                return false;
            };
            match link.next_frame() {
                Ok(Some(frame)) => self.take(core, frame, now),
                Ok(None) => return true,
                Err(error) => {
                    self.fail(core, &error);
                    return false;
                }
            }
        }
        false
    }

    fn take(&self, core: &mut Core, frame: Frame, now: Instant) {
        let Core { link: Some(link), tenants, legacy, .. } = core else {
            return;
        };
        // A leave and the next join follow each other in one stream: until the leave is confirmed,
        // all that comes is for the one who leaves.
        let Some(tenant) = tenants.front_mut() else {
            return;
        };
        let input = match frame {
            Frame::Answer(Answer::Token(token)) => return tenant.drawn(token),
            Frame::Answer(answer) => tenant.input_of(answer),
            Frame::Message { channel, payload } => {
                *legacy = legacy.wrapping_add(1);
                tenant.read(&channel, &payload, *legacy)
            }
            Frame::TakenAway => {
                let why = "the server took the subscription away";
                let error = Error::new(Status::Disconnected, why);
                return self.evict(core, LossReason::Unsubscribed, &error);
            }
        };
        let Some(input) = input else {
            return;
        };
        tenant.handle(now, input, link);
        if let Some(why) = tenant.broken() {
            let error = Error::new(Status::NotRedis, format!("{}: {why}", self.endpoint));
            self.evict(core, LossReason::Protocol, &error);
        } else if tenant.phase() == Phase::Gone {
            let ticket = tenant.ticket();
            core.move_out(ticket);
        }
    }

    fn ring(&self, core: &mut Core, now: Instant) {
        let Core { link: Some(link), tenants, .. } = core else {
            return;
        };
        if link.owed_since().is_some_and(|since| now >= since + self.answer_timeout) {
            let error = match link.is_connected() {
                true => unresponsive(&self.endpoint.to_string()),
                false => {
                    let text = format!("cannot connect to {} in time", self.endpoint);
                    Error::new(Status::Unresponsive, text)
                }
            };
            return self.evict(core, LossReason::Unresponsive, &error);
        }
        let Some(tenant) = tenants.back_mut() else {
            return;
        };
        while let Some((_, timer)) = tenant.next_timer().filter(|(at, _)| *at <= now) {
            tenant.handle(now, Input::Timer(timer), link);
        }
        if tenant.is_unhealthy() {
            let text =
                format!("{} does not pass messages on: a health check failed", self.endpoint);
            let error = Error::new(Status::Unresponsive, text);
            self.evict(core, LossReason::Unresponsive, &error);
        }
    }

    fn fail(&self, core: &mut Core, error: &LinkError) {
        let reason = match error {
            LinkError::Garbage(_) | LinkError::Refused(_) => LossReason::Protocol,
            LinkError::Connect(_) | LinkError::Closed(_) => LossReason::Disconnected,
        };
        self.evict(core, reason, &error.describe(&self.endpoint));
    }

    /// Ends the connection and tells whoever lived on it.
    fn evict(&self, core: &mut Core, reason: LossReason, error: &Error) {
        core.close(self);
        core.ending = Some(error.clone());
        for tenant in core.tenants.drain(..) {
            tenant.evicted(reason, error);
            core.gone.push(tenant);
        }
    }

    /// Tells the keeper what to wake up for. A connection on which nobody lives and nothing is owed
    /// sleeps unwatched in the pool: whoever takes it next finds out whether it still stands.
    fn settle(&self, core: &mut Core) {
        let Some(link) = &core.link else {
            return;
        };
        let idle = core.tenants.is_empty() && link.is_quiet();
        if idle && core.retired {
            return core.close(self);
        }
        let write = link.wants_write();
        let armed = (!idle).then_some(write);
        if armed.is_some() && core.armed != armed {
            match self.keeper.arm(self.key, link.socket(), write) {
                Ok(()) => core.armed = armed,
                Err(error) => {
                    let text = format!("the connection cannot be polled: {error}");
                    let error = Error::new(Status::Internal, text);
                    return self.evict(core, LossReason::Internal, &error);
                }
            }
        }
        let owed = link.owed_since().map(|since| since + self.answer_timeout);
        let timer = core.tenants.back().and_then(Tenant::next_timer).map(|(at, _)| at);
        let next = [owed, timer].into_iter().flatten().min();
        self.keeper.reschedule(self.key, core.timer, next);
        core.timer = next;
    }
}

impl Core {
    fn tenant(&self, ticket: u64) -> Option<&Tenant> {
        self.tenants.iter().find(|tenant| tenant.ticket() == ticket)
    }

    fn move_out(&mut self, ticket: u64) {
        let place = self.tenants.iter().position(|tenant| tenant.ticket() == ticket);
        self.gone.extend(place.and_then(|place| self.tenants.remove(place)));
    }

    fn close(&mut self, line: &Line) {
        if let Some(link) = self.link.take() {
            line.keeper.dismiss(line.key, link.socket(), self.timer.take());
            link.close();
        }
    }
}
