//! The threads of the application: as `src/acquire.rs` goes about it, by the library's own plan.

use std::time::Duration;

use portalock::protocol::{Contender, HolderId, Mode, Stop, Timing};
use portalock::simulation::{Ended, Step, Told};
use portalock::{Error, Status};

use crate::agenda::{Event, MS, Moment, SECOND};
use crate::host::{Actor, Doing};
use crate::judge::Begun;
use crate::setup::{ASK_AGAIN, COUNT_EVERY, WAKE, is_about_time, plan};
use crate::world::World;

/// How many unused connections are kept.
const POOL: usize = 8;

fn span(moment: Moment) -> Duration {
    Duration::from_micros(moment)
}

impl World {
    /// The threads of a new process.
    pub fn start_actors(&mut self, host: usize) {
        for actor in self.hosts[host].actors.clone() {
            let serial = self.actors[actor].serial;
            self.actors[actor] = Actor::new(self.now);
            self.actors[actor].serial = serial + 1;
            self.rest(actor);
        }
    }

    fn rest(&mut self, actor: usize) {
        let (least, most) = self.setup.actors[actor].think;
        let until = self.now + self.dice.between(least, most);
        self.actors[actor].doing = Doing::Idle(until);
        self.act_at(actor, until);
    }

    fn act_at(&mut self, actor: usize, at: Moment) {
        let host = self.setup.actors[actor].host;
        let life = self.hosts[host].life;
        self.agenda.put(at, Event::Act { host, life, actor });
    }

    fn wake(&mut self, actor: usize) {
        let late = self.dice.below(WAKE);
        self.act_at(actor, self.now + late);
    }

    pub fn act(&mut self, actor: usize) {
        match self.actors[actor].doing {
            Doing::Idle(until) if self.now >= until => self.begin(actor),
            Doing::Trying { stale } => self.conclude(actor, stale),
            Doing::Resting(until) => self.go_on(actor, until),
            Doing::Holding(_) if self.actors[actor].lost => self.rest(actor),
            Doing::Holding(until) if self.now >= until => self.release(actor),
            _ => {}
        }
    }

    fn begin(&mut self, actor: usize) {
        if self.now >= self.setup.acquires_until {
            return;
        }
        let role = self.setup.actors[actor].clone();
        let wait = self.dice.pick(&role.waits);
        let reads = self.dice.below(8) < role.reads;
        let plan = plan(wait, &self.setup, role.lock, self.instant());
        let deadline = plan.deadline().map(|at| self.moment(at));
        let begun_ms = (self.now + self.hosts[role.host].skew) / MS;
        let me = &mut self.actors[actor];
        me.serial += 1;
        me.plan = Some(plan);
        me.mode = if reads { Mode::Shared } else { Mode::Exclusive };
        me.begun_ms = begun_ms;
        (me.lost, me.cancelled) = (false, false);
        let (serial, mode) = (me.serial, me.mode);
        self.stats.acquires += 1;
        self.trace(|| format!("actor {actor} wants lock {} {mode:?} {wait:?}", role.lock));
        let Some(deadline) = deadline else { return self.begun(actor, serial) };
        self.act_at(actor, deadline);
        self.time_up_at(actor, deadline);
        self.begun(actor, serial);
    }

    fn begun(&mut self, actor: usize, serial: u64) {
        let role = &self.setup.actors[actor];
        let (host, lock, cancels) = (role.host, role.lock, role.cancels);
        let Actor { mode, begun_ms, .. } = self.actors[actor];
        self.judge.begun(actor, Begun { lock, mode, begun_ms, at: self.now });
        if cancels > 0 && self.dice.one_in(cancels) {
            let life = self.hosts[host].life;
            let at = self.now + self.dice.skewed(0, SECOND);
            self.agenda.put(at, Event::Cancel { host, life, actor, serial });
        }
        self.attempt(actor);
    }

    pub fn cancel(&mut self, actor: usize, serial: u64) {
        let me = &mut self.actors[actor];
        if me.serial == serial && matches!(me.doing, Doing::Trying { .. } | Doing::Resting(_)) {
            me.cancelled = true;
            self.trace(|| format!("actor {actor} is cancelled"));
            self.time_up_at(actor, self.now);
            self.wake(actor);
        }
    }

    fn attempt(&mut self, actor: usize) {
        let (now, host) = (self.instant(), self.setup.actors[actor].host);
        let low = u128::from(self.dice.word()) << 16 | u128::from(self.dice.below(1 << 16));
        let me = &mut self.actors[actor];
        if let Some(plan) = &mut me.plan {
            plan.begin(now);
        }
        self.next_ticket += 1;
        me.ticket = self.next_ticket;
        me.id = HolderId(u128::from(me.begun_ms) << 80 | low);
        (me.granted, me.failure, me.ahead) = (false, None, None);
        if let Some(hub) = self.hosts[host].hub.filter(|hub| self.stands(host, *hub))
            && self.move_in(actor, hub)
        {
            return self.pursue(actor, hub, true);
        }
        while let Some(line) = self.hosts[host].pool.pop() {
            if self.move_in(actor, line) {
                return self.pursue(actor, line, true);
            }
            self.retire(host, line);
        }
        let line = self.dial(host);
        match self.move_in(actor, line) {
            true => self.pursue(actor, line, false),
            false => self.judge.violates("a new connection takes nobody in".to_owned()),
        }
    }

    fn stands(&self, host: usize, line: usize) -> bool {
        self.hosts[host].lines[line].as_ref().is_some_and(|place| place.station.stands())
    }

    fn contender(&self, actor: usize) -> Contender {
        let (me, role) = (&self.actors[actor], &self.setup.actors[actor]);
        let unavailable = self.setup.unavailable[role.lock];
        let timing = Timing {
            count_every: span(COUNT_EVERY),
            ask_again: span(ASK_AGAIN.min(unavailable)),
            unavailable: span(unavailable),
            check_interval: span(250 * MS),
            health_every: span(role.health_every),
        };
        Contender::new(me.id, me.mode, timing).with_mutant(self.setup.mutant)
    }

    fn move_in(&mut self, actor: usize, line: usize) -> bool {
        let role = &self.setup.actors[actor];
        let (host, lock, fencing, every) = (role.host, role.lock, role.fencing, role.health_every);
        let unavailable = self.setup.unavailable[lock];
        let (contender, names) = (self.contender(actor), self.names[lock].clone());
        let (ticket, now) = (self.actors[actor].ticket, self.instant());
        self.open_gate(host, line);
        let Some(place) = self.line(host, line) else { return false };
        let conn = place.conn;
        let moved = place.station.move_in(contender, names, fencing, ticket, now).is_ok();
        // As the library tunes its sockets.
        let patience = match every {
            0 => 20 * SECOND,
            every => (every + every.min(unavailable)).max(SECOND),
        };
        let least = if self.setup.shares[host] { self.conns[conn].patience } else { Moment::MAX };
        self.conns[conn].patience = patience.min(least);
        moved
    }

    fn pursue(&mut self, actor: usize, line: usize, stale: bool) {
        let host = self.setup.actors[actor].host;
        let Some(conn) = self.line(host, line).map(|place| place.conn) else { return };
        let me = &mut self.actors[actor];
        me.line = line;
        me.doing = Doing::Trying { stale };
        let id = me.id;
        self.judge.attempted(actor, id, conn);
        self.trace(|| format!("actor {actor} joins as {id} on connection {conn}"));
        self.visit(host, line);
    }

    fn retire(&mut self, host: usize, line: usize) {
        if let Some(place) = self.line(host, line) {
            place.retired = true;
        }
        self.pump(host, line);
    }

    fn give_back(&mut self, actor: usize) {
        let (host, line) = (self.setup.actors[actor].host, self.actors[actor].line);
        if self.setup.shares[host] || !self.stands(host, line) {
            return;
        }
        self.hosts[host].pool.push(line);
        if self.hosts[host].pool.len() > POOL {
            let surplus = self.hosts[host].pool.remove(0);
            self.retire(host, surplus);
        }
    }

    /// What the library tells an acquire.
    pub fn heard(&mut self, host: usize, ticket: u64, what: Told) {
        let of_ticket = |actor: &&usize| self.actors[**actor].ticket == ticket;
        let Some(actor) = self.hosts[host].actors.iter().find(of_ticket).copied() else { return };
        self.trace(|| format!("actor {actor} is told {what:?}"));
        let me = &mut self.actors[actor];
        match what {
            Told::Granted(token) => {
                me.granted = true;
                self.is_granted(actor, token);
            }
            Told::Queued(ahead) => {
                me.ahead = Some(ahead);
                self.judge.queued(actor);
            }
            Told::Failed(error) => {
                me.failure = Some(error);
                self.has_failed(actor);
            }
            Told::Lost(_) => {
                me.lost = true;
                self.has_lost(actor);
            }
            Told::Departed | Told::Other(_) => return,
        }
        self.wake(actor);
    }

    /// As the library's `Acquire::conclude`.
    fn conclude(&mut self, actor: usize, stale: bool) {
        let now = self.instant();
        let me = &mut self.actors[actor];
        if me.granted {
            return self.hold(actor);
        }
        if let Some(error) = me.failure.take() {
            return self.failed(actor, error, stale);
        }
        let Some(plan) = &me.plan else { return };
        let queued = plan.is_once() && me.ahead.is_some();
        if !me.cancelled && !queued && !plan.is_overdue(now) {
            return;
        }
        let stop = if me.cancelled { Stop::Cancel } else { Stop::Timeout };
        match self.stop(actor, stop) {
            Ended::Held => return self.hold(actor),
            Ended::Before if self.actors[actor].granted => return self.hold(actor),
            Ended::Before => {}
            Ended::Joining | Ended::Waiting => self.give_back(actor),
        }
        let error = self.actors[actor].failure.take();
        match error.filter(|_| stop != Stop::Cancel) {
            Some(error) => self.failed(actor, error, false),
            None => self.gives_up(actor),
        }
    }

    fn stop(&mut self, actor: usize, stop: Stop) -> Ended {
        let (host, line) = (self.setup.actors[actor].host, self.actors[actor].line);
        let (ticket, now) = (self.actors[actor].ticket, self.instant());
        self.open_gate(host, line);
        let ended = match self.line(host, line) {
            Some(place) => place.station.stop(ticket, stop, now),
            None => Ended::Before,
        };
        self.pump(host, line);
        ended
    }

    fn failed(&mut self, actor: usize, error: Error, stale: bool) {
        let (now, status) = (self.instant(), error.status());
        let Some(plan) = &mut self.actors[actor].plan else { return };
        match plan.failed(error, stale, now) {
            Step::Retry(at) => {
                let at = self.moment(at);
                self.actors[actor].doing = Doing::Resting(at);
                self.act_at(actor, at.max(self.now));
            }
            Step::End(_) => self.ends(actor, status),
        }
    }

    fn go_on(&mut self, actor: usize, until: Moment) {
        let now = self.instant();
        let me = &mut self.actors[actor];
        let Some(plan) = &mut me.plan else { return };
        if me.cancelled {
            self.gives_up(actor);
        } else if plan.is_overdue(now) {
            let status = plan.spent().status();
            self.ends(actor, status);
        } else if self.now >= until {
            self.attempt(actor);
        }
    }

    fn gives_up(&mut self, actor: usize) {
        let cancelled = self.actors[actor].cancelled;
        self.ends(actor, if cancelled { Status::Cancelled } else { Status::Timeout });
    }

    fn ends(&mut self, actor: usize, status: Status) {
        self.trace(|| format!("actor {actor} gives up: {status:?}"));
        match is_about_time(status) {
            true => self.stats.timeouts += 1,
            false => self.stats.failures += 1,
        }
        self.judge.ended(actor, self.now);
        self.rest(actor);
    }

    fn hold(&mut self, actor: usize) {
        let (least, most) = self.setup.actors[actor].section;
        let until = self.now + self.dice.between(least, most);
        self.stats.sections += 1;
        self.actors[actor].doing = Doing::Holding(until);
        self.act_at(actor, until);
    }

    fn release(&mut self, actor: usize) {
        let ticket = self.actors[actor].ticket;
        self.trace(|| format!("actor {actor} releases"));
        // Its section is over: the next of the same process may be told before this returns.
        self.judge.left(actor);
        self.stop(actor, Stop::Release);
        debug_assert_eq!(self.actors[actor].ticket, ticket);
        self.give_back(actor);
        self.rest(actor);
    }
}
