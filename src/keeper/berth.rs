//! What goes on on one connection, without the socket, the mutex and the clock: those who live on it,
//! at most one of whom joins, waits or holds, and before it those that have left and whose leave the
//! server has not confirmed yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::tenant::{Tenant, unresponsive};
use crate::broker::{Answer, Endpoint, Frame, Link, LinkError, Transport};
use crate::error::{Error, Result, Status};
use crate::lock::LossReason;
use crate::protocol::{Input, Phase, Stop};

/// How many frames one visit reads: a flooded channel must not starve the other connections.
const FRAMES_A_VISIT: usize = 512;
/// How long the server may take to confirm a leave before its connection is of no use to the next.
const SLOW_LEAVE: Duration = Duration::from_secs(1);

/// What a [`Berth::stop`] came upon.
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
pub(crate) struct Berth<T> {
    endpoint: Arc<Endpoint>,
    answer_timeout: Duration,
    /// `None` once the connection has ended, for ever.
    link: Option<Link<T>>,
    /// Why it has ended.
    ending: Option<Error>,
    /// In the order of joining; all but the last are leaving.
    tenants: VecDeque<Tenant>,
    /// Pongs that named nobody, so far: each must count.
    legacy: u32,
    /// When reading was broken off, if there may be more.
    unread: Option<Instant>,
    /// Those who have moved out, to be dropped by whoever has no mutex of theirs.
    gone: Vec<Tenant>,
}

impl<T: Transport> Berth<T> {
    /// A connection that was begun, on which nobody lives yet.
    pub(crate) fn new(
        transport: T,
        endpoint: &Arc<Endpoint>,
        answer_timeout: Duration,
        now: Instant,
    ) -> Self {
        Self {
            endpoint: endpoint.clone(),
            answer_timeout,
            link: Some(Link::new(transport, endpoint, now)),
            ending: None,
            tenants: VecDeque::new(),
            legacy: 0,
            unread: None,
            gone: Vec::new(),
        }
    }

    /// What carries the bytes, as long as the connection stands.
    pub(crate) fn transport(&self) -> Option<&T> {
        self.link.as_ref().map(Link::transport)
    }

    /// Whether something waits to be written.
    pub(crate) fn wants_write(&self) -> bool {
        self.link.as_ref().is_some_and(Link::wants_write)
    }

    /// Whether nobody lives here and nothing is owed.
    pub(crate) fn is_idle(&self) -> bool {
        self.tenants.is_empty() && self.link.as_ref().is_none_or(Link::is_quiet)
    }

    /// The phase of one who lives here.
    pub(crate) fn phase_of(&self, ticket: u64) -> Option<Phase> {
        self.tenants.iter().find(|tenant| tenant.ticket() == ticket).map(Tenant::phase)
    }

    /// When the next timer is due.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let owed = self.link.as_ref()?.owed_since().map(|since| since + self.answer_timeout);
        let timer = self.tenants.back().and_then(Tenant::next_timer).map(|(at, _)| at);
        [owed, timer, self.unread].into_iter().flatten().min()
    }

    /// Those who have moved out since this was last called.
    pub(crate) fn take_gone(&mut self) -> Vec<Tenant> {
        std::mem::take(&mut self.gone)
    }

    /// Moves a tenant in and lets it join. Fails, with nothing done, if the connection has ended or is
    /// too slow in confirming the last leave.
    pub(crate) fn move_in(&mut self, tenant: Tenant, now: Instant) -> Result<()> {
        self.read(now, || now);
        let Some(link) = &mut self.link else {
            let silence = || unresponsive(&self.endpoint.to_string());
            return Err(self.ending.clone().unwrap_or_else(silence));
        };
        let slow = link
            .owed_since()
            .is_some_and(|since| now.saturating_duration_since(since) > SLOW_LEAVE);
        if slow && link.is_logged_in() {
            return Err(unresponsive(&self.endpoint.to_string()));
        }
        self.tenants.push_back(tenant);
        if let Some(tenant) = self.tenants.back_mut() {
            tenant.carry_out(now, link);
        }
        self.write(now);
        Ok(())
    }

    /// Writes, reads, and looks at the timers if all was read: silence is not to be judged before.
    /// `clock` tells the time anew where reading may have taken long, or this process stood still.
    pub(crate) fn visit(&mut self, now: Instant, clock: impl Fn() -> Instant) {
        self.write(now);
        if self.read(now, &clock) {
            self.ring(clock());
        }
        self.write(now);
    }

    /// Makes an acquire leave.
    pub(crate) fn stop(&mut self, ticket: u64, stop: Stop, now: Instant) -> Stopped {
        // What is here already comes first: a grant, or the end of the connection.
        self.visit(now, || now);
        let (Some(link), Some(tenant)) =
            (&mut self.link, self.tenants.iter_mut().find(|tenant| tenant.ticket() == ticket))
        else {
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
        tenant.handle(now, Input::Stop(stop), link);
        let (ended, ready) = (tenant.phase() == Phase::Gone, link.is_logged_in());
        if ended {
            self.move_out(ticket);
        }
        self.write(now);
        if !ready {
            let error = Error::new(Status::Disconnected, "given up before the login was answered");
            self.evict(LossReason::Disconnected, &error);
        }
        stopped
    }

    /// Has a message sent for a held lock that has to come back.
    pub(crate) fn verify(&mut self, ticket: u64, now: Instant) {
        let tenant = self.tenants.iter_mut().find(|tenant| tenant.ticket() == ticket);
        if let (Some(link), Some(tenant)) = (&mut self.link, tenant) {
            tenant.handle(now, Input::Verify, link);
            self.write(now);
        }
    }

    /// Ends the connection and tells whoever lives on it.
    pub(crate) fn evict(&mut self, reason: LossReason, error: &Error) {
        if let Some(mut link) = self.link.take() {
            link.close();
        }
        self.ending = Some(error.clone());
        for tenant in self.tenants.drain(..) {
            tenant.evicted(reason, error);
            self.gone.push(tenant);
        }
    }

    /// Ends a connection on which nobody lives.
    pub(crate) fn close(&mut self) {
        if let Some(mut link) = self.link.take() {
            link.close();
        }
    }

    fn write(&mut self, now: Instant) {
        let Some(link) = &mut self.link else {
            return;
        };
        if let Err(error) = link.flush(now) {
            self.fail(&error);
        }
    }

    /// Reads what is there, and tells of a grant if that was all; `true` if it was.
    fn read(&mut self, now: Instant, clock: impl Fn() -> Instant) -> bool {
        let mut frames = 0;
        let mut all = self.read_some(now, &mut frames);
        // Behind what was read just now may be the end of the connection: a grant would be a lie.
        while all && self.tenants.back().is_some_and(Tenant::is_granted) {
            let before = frames;
            self.link.as_mut().into_iter().for_each(Link::look_again);
            all = self.read_some(now, &mut frames);
            if frames == before {
                break;
            }
        }
        self.unread = (!all && self.link.is_some()).then_some(now);
        if let (true, Some(link), Some(tenant)) = (all, &mut self.link, self.tenants.back_mut()) {
            tenant.tell_grant(clock(), link);
        }
        all
    }

    fn read_some(&mut self, now: Instant, frames: &mut usize) -> bool {
        while *frames < FRAMES_A_VISIT {
            let Some(link) = &mut self.link else {
                return false;
            };
            match link.next_frame(now) {
                Ok(Some(frame)) => self.take(frame, now),
                Ok(None) => return true,
                Err(error) => {
                    self.fail(&error);
                    return false;
                }
            }
            *frames += 1;
        }
        false
    }

    fn take(&mut self, frame: Frame, now: Instant) {
        // A leave and the next join follow each other in one stream: until the leave is confirmed,
        // all that comes is for the one who leaves.
        let (Some(link), Some(tenant)) = (&mut self.link, self.tenants.front_mut()) else {
            return;
        };
        // Before what it says is known: a lock that is held has been verified.
        tenant.heard_of(link.heard_of());
        let input = match frame {
            Frame::Answer(Answer::Token(token)) => return tenant.drawn(token),
            Frame::Answer(Answer::Killed(count)) => return tenant.killed(count),
            Frame::Answer(Answer::Alive) => return tenant.proved(),
            Frame::Answer(answer) => tenant.input_of(answer),
            Frame::Message { channel, payload } => {
                self.legacy = self.legacy.wrapping_add(1);
                tenant.read(&channel, &payload, self.legacy)
            }
            Frame::TakenAway => {
                let why = "the server took the subscription away";
                let error = Error::new(Status::Disconnected, why);
                return self.evict(LossReason::Unsubscribed, &error);
            }
        };
        let Some(input) = input else {
            return;
        };
        tenant.handle(now, input, link);
        if let Some(why) = tenant.broken() {
            let error = Error::new(Status::NotRedis, format!("{}: {why}", self.endpoint));
            self.evict(LossReason::Protocol, &error);
        } else if tenant.phase() == Phase::Gone {
            let ticket = tenant.ticket();
            self.move_out(ticket);
        }
    }

    fn ring(&mut self, now: Instant) {
        let Some(link) = &mut self.link else {
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
            return self.evict(LossReason::Unresponsive, &error);
        }
        let Some(tenant) = self.tenants.back_mut() else {
            return;
        };
        while let Some((_, timer)) = tenant.next_timer().filter(|(at, _)| *at <= now) {
            tenant.handle(now, Input::Timer(timer), link);
        }
        if tenant.is_unhealthy() {
            let text =
                format!("{} does not pass messages on: a health check failed", self.endpoint);
            let error = Error::new(Status::Unresponsive, text);
            self.evict(LossReason::Unresponsive, &error);
        }
    }

    fn fail(&mut self, error: &LinkError) {
        let reason = match error {
            LinkError::Garbage(_) | LinkError::Refused(_) => LossReason::Protocol,
            LinkError::Connect(_) | LinkError::Closed(_) => LossReason::Disconnected,
        };
        self.evict(reason, &error.describe(&self.endpoint));
    }

    fn move_out(&mut self, ticket: u64) {
        let place = self.tenants.iter().position(|tenant| tenant.ticket() == ticket);
        self.gone.extend(place.and_then(|place| self.tenants.remove(place)));
    }
}
