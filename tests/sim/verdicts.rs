//! What the judge has to see of the world.

use portalock::protocol::Phase;

use crate::agenda::{Event, MS, Moment};
use crate::host::Doing;
use crate::judge::{Hold, MARGIN, Wait};
use crate::setup::WAKE;
use crate::world::World;

/// What is beyond doubt alive has had no trouble for as long as somebody may be silent and this.
const BEYOND_DOUBT: Moment = 300 * MS;

impl World {
    fn is_subscribed(&self, conn: usize, lock: usize) -> bool {
        self.node.is_subscribed(conn, self.names[lock].channel())
    }

    /// Somebody holds from now on.
    pub fn is_granted(&mut self, actor: usize, token: Option<u64>) {
        let Some(wait) = self.judge.ended(actor, self.now) else { return };
        let Wait { begun, conn, .. } = wait;
        let hold = Hold { lock: begun.lock, mode: begun.mode, conn };
        // Whom the server has let go of does not count any more, and is about to find out.
        if self.is_subscribed(conn, begun.lock) {
            self.must_be_alone(actor, &hold);
            if let Some(token) = token {
                self.judge.token(actor, begun.lock, token);
            }
        }
        self.judge.holds.insert(actor, hold);
        self.path_may_be_broken(actor);
    }

    fn must_be_alone(&mut self, actor: usize, hold: &Hold) {
        let beside = |(other, its): &(&usize, &Hold)| {
            **other != actor
                && its.lock == hold.lock
                && !its.mode.admits(hold.mode)
                && self.is_subscribed(its.conn, its.lock)
        };
        if let Some((other, _)) = self.judge.holds.iter().find(beside) {
            let what = format!("actor {actor} holds lock {} beside actor {other}", hold.lock);
            self.judge.violates(what);
        }
    }

    /// The protocol may have granted the lock some time before its holder is told: it is when a fencing
    /// token has to be drawn.
    pub fn may_have_decided(&mut self, host: usize, line: usize) {
        let lives_here = |actor: &&usize| {
            let me = &self.actors[**actor];
            me.line == line && matches!(me.doing, Doing::Trying { .. })
        };
        let here: Vec<_> = self.hosts[host].actors.iter().filter(lives_here).copied().collect();
        for actor in here {
            let ticket = self.actors[actor].ticket;
            let phase = self.line(host, line).and_then(|place| place.station.phase_of(ticket));
            match phase {
                Some(Phase::Held) if self.judge.decided(actor) => self.must_be_next(actor),
                Some(Phase::SteppingAside | Phase::Aside) => self.judge.stepped_aside(actor),
                _ => {}
            }
        }
    }

    /// Who was in the queue, and known to all in it, is not overtaken.
    fn must_be_next(&mut self, actor: usize) {
        let Some(me) = self.judge.waits.get(&actor) else { return };
        if !self.is_subscribed(me.conn, me.begun.lock) {
            return;
        }
        let passed = |(other, its): &(&usize, &Wait)| {
            its.begun.lock == me.begun.lock
                && its.queued
                && !its.stepped_aside
                && !self.judge.in_line[**other]
                && its.id < me.id
                && !its.begun.mode.admits(me.begun.mode)
                && self.is_subscribed(its.conn, its.begun.lock)
        };
        if let Some((other, its)) = self.judge.waits.iter().find(passed) {
            let what = format!("actor {actor} ({}) overtakes actor {other} ({})", me.id, its.id);
            self.judge.violates(what);
        }
    }

    pub fn has_lost(&mut self, actor: usize) {
        self.stats.losses += 1;
        self.judge.left(actor);
        self.must_have_had_trouble(actor, "has lost the lock");
    }

    pub fn has_failed(&mut self, actor: usize) {
        self.must_have_had_trouble(actor, "has failed");
    }

    fn must_have_had_trouble(&mut self, actor: usize, what: &str) {
        if self.setup.is_calm() {
            self.judge.violates(format!("actor {actor} {what}, and nothing was wrong"));
        }
    }

    /// A reaper has ended a connection: not that of somebody who is there.
    pub fn was_killed(&mut self, by: usize, whom: usize) {
        let (host, life) = (self.conns[whom].host, self.conns[whom].life);
        self.trace(|| format!("connection {by} has connection {whom} of host {host} ended"));
        let lives = self.hosts[host].life == life && self.hosts[host].is_well();
        let silent_for = self.setup.unavailable.iter().max().copied().unwrap_or(0);
        let longest = silent_for + BEYOND_DOUBT + 4 * self.setup.slowest();
        let well_for = self.now - self.hosts[host].well_since;
        let at_work =
            !self.conns[whom].finished && self.conns[whom].socket.borrow().ended.is_none();
        if lives && at_work && (well_for >= longest || self.hosts[host].well_since == 0) {
            self.judge.violates(format!(
                "connection {by} ended connection {whom} of host {host}, which had answered all \
                 the time"
            ));
        }
    }

    /// The server has let go of a connection.
    pub fn connection_lost(&mut self, conn: usize) {
        let here = self.judge.holds.iter().filter(|(_, hold)| hold.conn == conn);
        let holders: Vec<_> = here.map(|(actor, _)| *actor).collect();
        for actor in holders {
            self.put_loss_known(actor, self.now, self.now);
        }
    }

    /// From now on nothing gets through to or from this host, or any.
    pub fn paths_broke(&mut self, host: Option<usize>) {
        let of_host = |actor: &&usize| host.is_none_or(|h| self.setup.actors[**actor].host == h);
        let holders: Vec<usize> = self.judge.holds.keys().filter(of_host).copied().collect();
        for actor in holders {
            self.put_loss_known(actor, self.now, self.now);
        }
    }

    /// Somebody holds from now on, and may be cut off already.
    fn path_may_be_broken(&mut self, actor: usize) {
        let Some(hold) = self.judge.holds.get(&actor) else { return };
        let host = &self.hosts[self.setup.actors[actor].host];
        if !self.node.knows(hold.conn) {
            self.put_loss_known(actor, self.now, self.now);
        } else if host.is_cut() {
            self.put_loss_known(actor, host.cut_since, self.now);
        } else if self.stalled.is_some() {
            self.put_loss_known(actor, self.stalled_since, self.now);
        }
    }

    /// A health check comes after an interval at the latest, and is overdue after another or after the time
    /// that a member may be silent. Without health checks the end of the connection has to get here.
    fn put_loss_known(&mut self, actor: usize, since: Moment, from: Moment) {
        let role = &self.setup.actors[actor];
        let bound = match role.health_every {
            0 => 2 * self.setup.slowest(),
            every => every + every.min(self.setup.unavailable[role.lock]),
        };
        let (at, serial) = (from + bound + MARGIN + 4 * WAKE, self.actors[actor].serial);
        let paused = self.paused_for(role.host);
        self.agenda.put(at, Event::LossKnown { actor, serial, since, paused });
    }

    /// How long a host has been paused in all.
    fn paused_for(&self, host: usize) -> Moment {
        let host = &self.hosts[host];
        match host.paused {
            Some(_) => host.paused_for + self.now - host.paused_since,
            None => host.paused_for,
        }
    }

    pub fn must_know_of_loss(&mut self, actor: usize, serial: u64, since: Moment, paused: Moment) {
        let same = self.actors[actor].serial == serial;
        let Some(hold) = self.judge.holds.get(&actor).copied().filter(|_| same) else { return };
        let role = &self.setup.actors[actor];
        let paused_for = self.paused_for(role.host);
        if paused_for > paused {
            let at = self.now + paused_for - paused;
            let event = Event::LossKnown { actor, serial, since, paused: paused_for };
            return self.agenda.put(at, event);
        }
        let host = &self.hosts[role.host];
        let cut = host.is_cut() && host.cut_since <= since;
        let stalled = self.stalled.is_some() && self.stalled_since <= since;
        let dropped = !self.node.knows(hold.conn);
        let can_know = match role.health_every {
            0 => dropped && host.is_well() && host.well_since <= since,
            _ => cut || stalled || dropped,
        };
        if can_know {
            let late = (self.now - since) / MS;
            self.judge.violates(format!(
                "actor {actor} has not been told for {late} ms that its connection {} is of no use",
                hold.conn
            ));
        }
    }

    pub fn time_up_at(&mut self, actor: usize, deadline: Moment) {
        let (serial, host) = (self.actors[actor].serial, self.setup.actors[actor].host);
        let paused = self.paused_for(host);
        self.agenda.put(deadline + MARGIN, Event::TimeUp { actor, serial, paused });
    }

    pub fn must_have_ended(&mut self, actor: usize, serial: u64, paused: Moment) {
        let me = &self.actors[actor];
        let under_way = matches!(me.doing, Doing::Trying { .. } | Doing::Resting(_));
        if me.serial != serial || !under_way {
            return;
        }
        let paused_for = self.paused_for(self.setup.actors[actor].host);
        if paused_for > paused {
            let event = Event::TimeUp { actor, serial, paused: paused_for };
            return self.agenda.put(self.now + paused_for - paused, event);
        }
        self.judge.violates(format!("actor {actor} still waits, and its time is up"));
    }
}
