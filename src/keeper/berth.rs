//! What goes on on one connection, without the socket, the mutex and the clock: those who live on it, by
//! their channels. On a connection of its own one at a time joins, waits or holds; a shared one has many.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::mem::take;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::claim::Claim;
use super::pulse::{Beat, Pulse};
use super::room::{Fault, Room};
use super::tenant::{Tenant, unresponsive};
use crate::broker::{Answer, Commands, Endpoint, Frame, Link, LinkError, Transport};
use crate::error::{Error, Result, Status};
use crate::lock::LossReason;
use crate::protocol::{LinkId, Names, Phase, Stop};

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

/// The channel that a room is found by.
#[derive(Clone)]
struct Door(Arc<Names>);

impl Ord for Door {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.channel().as_bytes().cmp(other.0.channel().as_bytes())
    }
}

impl PartialOrd for Door {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Door {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Door {}

impl Borrow<[u8]> for Door {
    fn borrow(&self) -> &[u8] {
        self.0.channel().as_bytes()
    }
}

/// A connection and its tenants.
pub(crate) struct Berth<T> {
    endpoint: Arc<Endpoint>,
    answer_timeout: Duration,
    /// `None` once the connection has ended, for ever.
    link: Option<Link<T>>,
    /// Why it has ended.
    ending: Option<Error>,
    /// Its own health, if it is shared.
    pulse: Option<Pulse>,
    /// Boxed: a node of the map has room for eleven.
    rooms: BTreeMap<Door, Box<Room>>,
    /// When which room is to be looked after.
    timers: BTreeMap<(Instant, u64), Door>,
    /// Where there may be grants to be told.
    granted: Vec<Door>,
    /// Counts rooms and tenants.
    next_number: u64,
    /// Pongs that named nobody, so far: each must count.
    legacy: u32,
    /// When reading was broken off, if there may be more.
    unread: Option<Instant>,
    /// Those who have moved out, to be dropped by whoever has no mutex of theirs.
    gone: Vec<Claim>,
}

impl<T: Transport> Berth<T> {
    /// A connection that was begun, on which nobody lives yet.
    pub(crate) fn new(
        transports: (T, Option<T>),
        endpoint: &Arc<Endpoint>,
        answer_timeout: Duration,
        now: Instant,
    ) -> Self {
        Self {
            endpoint: endpoint.clone(),
            answer_timeout,
            link: Some(Link::new(transports, endpoint, now)),
            ending: None,
            pulse: None,
            rooms: BTreeMap::new(),
            timers: BTreeMap::new(),
            granted: Vec::new(),
            next_number: 0,
            legacy: 0,
            unread: None,
            gone: Vec::new(),
        }
    }

    /// Makes it one that many share.
    pub(crate) fn shared(mut self, id: LinkId, now: Instant) -> Self {
        let pulse = Pulse::new(id);
        let mut commands = Commands::default();
        pulse.begin(&mut commands);
        self.link.as_mut().into_iter().for_each(|link| link.queue(take(&mut commands), now, None));
        self.pulse = Some(pulse);
        self
    }

    /// What it goes by, if it is shared.
    pub(crate) fn link_id(&self) -> Option<LinkId> {
        self.pulse.as_ref().map(Pulse::link)
    }

    /// Whether the connection stands, as far as is known.
    pub(crate) fn stands(&self) -> bool {
        self.link.is_some()
    }

    /// What carries the bytes, as long as the connection stands: one, or two.
    pub(crate) fn transports(&self) -> impl Iterator<Item = &T> {
        self.link.iter().flat_map(Link::transports)
    }

    /// Whether something waits to be written, by the first and by the second.
    pub(crate) fn wants_write(&self) -> [bool; 2] {
        self.link.as_ref().map_or([false; 2], Link::wants_write)
    }

    /// Whether nobody lives here and nothing is owed.
    pub(crate) fn is_idle(&self) -> bool {
        self.rooms.is_empty() && self.link.as_ref().is_none_or(Link::is_quiet)
    }

    /// When the latest of those commands was sent that the server has answered.
    pub(crate) fn heard_of(&self) -> Option<Instant> {
        self.link.as_ref().map(Link::heard_of)
    }

    /// Whether the login was answered.
    pub(crate) fn is_logged_in(&self) -> bool {
        self.link.as_ref().is_some_and(Link::is_logged_in)
    }

    /// How many health checks were sent since this was last called.
    pub(crate) fn take_checks(&mut self) -> u64 {
        self.link.as_mut().map_or(0, Link::take_checks)
    }

    /// After how long a silence the system may give the connection up, if who moves in wants this.
    pub(crate) fn patience(&mut self, patience: Duration) -> Duration {
        self.pulse.as_mut().map_or(patience, |pulse| pulse.patience(patience))
    }

    /// The phase of one who lives here.
    pub(crate) fn phase_of(&self, names: &Names, ticket: u64) -> Option<Phase> {
        self.rooms.get(names.channel().as_bytes())?.phase_of(ticket)
    }

    /// When the next timer is due.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let owed = self.link.as_ref()?.owed_since().map(|since| since + self.answer_timeout);
        let timer = self.timers.first_key_value().map(|((at, _), _)| *at);
        let pulse = self.pulse.as_ref().and_then(Pulse::next_timer);
        [owed, timer, pulse, self.unread].into_iter().flatten().min()
    }

    /// Those who have moved out since this was last called.
    pub(crate) fn take_gone(&mut self) -> Vec<Claim> {
        take(&mut self.gone)
    }

    /// Moves a tenant in and lets it join. Fails, with nothing done, if the connection has ended or is
    /// too slow in confirming the last leave.
    pub(crate) fn move_in(&mut self, mut tenant: Tenant, now: Instant) -> Result<()> {
        self.read(now, || now);
        let Some(link) = &mut self.link else {
            let silence = || unresponsive(&self.endpoint.to_string());
            return Err(self.ending.clone().unwrap_or_else(silence));
        };
        let slow = link
            .owed_since()
            .is_some_and(|since| now.saturating_duration_since(since) > SLOW_LEAVE);
        // Whoever shares a connection has no better one.
        if slow && link.is_logged_in() && self.pulse.is_none() {
            return Err(unresponsive(&self.endpoint.to_string()));
        }
        self.next_number += 2;
        tenant.number(self.next_number);
        if let Some(pulse) = &mut self.pulse {
            let every = tenant.move_to_link(pulse.link());
            pulse.take_in(every, tenant.unavailable(), now);
        }
        let door = Door(tenant.names().clone());
        let number = self.next_number + 1;
        let new = || Box::new(Room::new(door.0.clone(), number));
        let room = self.rooms.entry(door.clone()).or_insert_with(new);
        room.enter(Box::new(tenant), now, link);
        self.look_after(&door);
        self.tell(now);
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
    pub(crate) fn stop(&mut self, names: &Names, ticket: u64, stop: Stop, now: Instant) -> Stopped {
        // What is here already comes first: a grant, or the end of the connection.
        self.visit(now, || now);
        let room = self.rooms.get_mut(names.channel().as_bytes());
        let (Some(link), Some(room)) = (&mut self.link, room) else {
            return Stopped::Ended;
        };
        let door = Door(room.names().clone());
        let stopped = room.stop(ticket, stop, now, link, &mut self.gone);
        let ready = link.is_logged_in();
        self.look_after(&door);
        self.tell(now);
        self.write(now);
        let alone = self.pulse.is_none() || self.rooms.is_empty();
        if !ready && alone && !matches!(stopped, Stopped::Ended) {
            let error = Error::new(Status::Disconnected, "given up before the login was answered");
            self.evict(LossReason::Disconnected, &error);
        }
        stopped
    }

    /// Has a message sent for a held lock that has to come back.
    pub(crate) fn verify(&mut self, names: &Names, now: Instant) {
        let room = self.rooms.get_mut(names.channel().as_bytes());
        if let (Some(link), Some(room)) = (&mut self.link, room) {
            room.verify(now, link);
            self.write(now);
        }
    }

    /// Ends the connection and tells whoever lives on it.
    pub(crate) fn evict(&mut self, reason: LossReason, error: &Error) {
        if let Some(mut link) = self.link.take() {
            link.close();
        }
        self.ending = Some(error.clone());
        self.timers.clear();
        self.granted.clear();
        for room in take(&mut self.rooms).into_values() {
            room.evict(reason, error, &mut self.gone);
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

    /// Reads what is there, and tells of grants if that was all; `true` if it was.
    fn read(&mut self, now: Instant, clock: impl Fn() -> Instant) -> bool {
        let mut frames = 0;
        let mut all = self.read_some(now, &mut frames);
        // Behind what was read just now may be the end of the connection: a grant would be a lie.
        while all && !self.granted.is_empty() {
            let before = frames;
            self.link.as_mut().into_iter().for_each(Link::look_again);
            all = self.read_some(now, &mut frames);
            if frames == before {
                break;
            }
        }
        self.unread = (!all && self.link.is_some()).then_some(now);
        if all {
            self.tell_grants(clock());
        }
        all
    }

    /// Tells of grants that something other than reading has brought about.
    fn tell(&mut self, now: Instant) {
        if !self.granted.is_empty() {
            self.read(now, || now);
        }
    }

    fn tell_grants(&mut self, now: Instant) {
        for door in take(&mut self.granted) {
            if let (Some(link), Some(room)) = (&mut self.link, self.rooms.get_mut(&door)) {
                room.tell_grants(now, link);
                self.look_after(&door);
            }
        }
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
        match frame {
            Frame::Answer(answer) => self.answered(answer, now),
            Frame::Message { channel, payload } => self.received(&channel, &payload, now),
            Frame::TakenAway => {
                let why = "the server took the subscription away";
                let error = Error::new(Status::Disconnected, why);
                self.evict(LossReason::Unsubscribed, &error);
            }
        }
    }

    fn answered(&mut self, answer: Answer, now: Instant) {
        let Some(link) = &mut self.link else { return };
        let Some(owner) = link.answered_to().cloned() else { return };
        let door = Door(owner.names);
        if let Some(room) = self.rooms.get_mut(&door) {
            room.answered(owner.serial, answer, now, link, &mut self.gone);
            self.look_after(&door);
        }
    }

    fn received(&mut self, channel: &[u8], payload: &[u8], now: Instant) {
        self.legacy = self.legacy.wrapping_add(1);
        let own = self.pulse.as_mut().is_some_and(|pulse| pulse.read(channel, payload));
        let derived = || Names::channel_of(channel).and_then(|of| self.rooms.get_key_value(of));
        let found = self.rooms.get_key_value(channel).or_else(derived);
        let Some(door) = found.map(|(door, _)| door.clone()).filter(|_| !own) else {
            return;
        };
        if let (Some(link), Some(room)) = (&mut self.link, self.rooms.get_mut(&door)) {
            room.read((channel, payload), self.legacy, now, link);
            self.look_after(&door);
        }
    }

    /// Sees to what has become of a room.
    fn look_after(&mut self, door: &Door) {
        let Some(room) = self.rooms.get_mut(door) else {
            return;
        };
        match room.fault() {
            Some(Fault::Broken(why)) => {
                let error = Error::new(Status::NotRedis, format!("{}: {why}", self.endpoint));
                return self.evict(LossReason::Protocol, &error);
            }
            Some(Fault::Unhealthy) => return self.unhealthy(),
            None => {}
        }
        if room.has_grants() {
            self.granted.push(door.clone());
        }
        let next = room.next_timer();
        let old = std::mem::replace(&mut room.timer, next);
        if old != next {
            old.map(|at| self.timers.remove(&(at, room.number)));
            next.map(|at| self.timers.insert((at, room.number), door.clone()));
        }
        if room.is_empty() {
            self.rooms.remove(door);
        }
        if let Some(pulse) = self.pulse.as_mut().filter(|_| self.rooms.is_empty()) {
            pulse.rest();
        }
    }

    fn unhealthy(&mut self) {
        let text = format!("{} does not pass messages on: a health check failed", self.endpoint);
        self.evict(LossReason::Unresponsive, &Error::new(Status::Unresponsive, text));
    }

    fn ring(&mut self, now: Instant) {
        let Some(link) = &mut self.link else {
            return;
        };
        if link.owed_since().is_some_and(|since| now >= since + self.answer_timeout) {
            let error = match link.is_connected() {
                true => unresponsive(&self.endpoint.to_string()),
                false => self.endpoint.too_slow(),
            };
            return self.evict(LossReason::Unresponsive, &error);
        }
        while let Some(entry) = self.timers.first_entry().filter(|entry| entry.key().0 <= now) {
            let door = entry.remove();
            if let (Some(link), Some(room)) = (&mut self.link, self.rooms.get_mut(&door)) {
                room.timer = None;
                room.ring(now, link);
                self.look_after(&door);
            }
        }
        self.ring_pulse(now);
    }

    fn ring_pulse(&mut self, now: Instant) {
        let (Some(link), Some(pulse)) = (&mut self.link, &mut self.pulse) else {
            return;
        };
        match pulse.ring(now) {
            Beat::None => {}
            Beat::Check => {
                let mut commands = Commands::default();
                pulse.check(now, &mut commands);
                link.queue(commands, now, None);
            }
            Beat::Missed => self.unhealthy(),
        }
    }

    fn fail(&mut self, error: &LinkError) {
        let reason = match error {
            LinkError::Garbage(_) | LinkError::Refused(_) => LossReason::Protocol,
            LinkError::Connect(_) | LinkError::Closed(_) => LossReason::Disconnected,
            LinkError::Demoted(_) => LossReason::Demoted,
        };
        self.evict(reason, &error.describe(&self.endpoint, self.is_logged_in()));
    }
}
