//! What goes wrong, and how it is mended.

use portalock::protocol::ReplyTo;

use crate::agenda::{Event, MS, Moment, SECOND};
use crate::host::Doing;
use crate::net::{End, Packet};
use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A process is stopped for a while.
    Pause,
    /// A process is gone; its system closes its connections.
    Crash,
    /// A machine is gone without a word.
    Vanish,
    /// A machine is cut off, both ways or one way; nobody is told.
    Partition,
    /// A machine's packets crawl: it is a slow reader.
    Crawl,
    /// A connection is reset on the way.
    Reset,
    /// The server ends a connection.
    Kick,
    /// The server does nothing for a while.
    Stall,
    /// The server is started anew.
    Restart,
    /// Somebody floods a channel of a lock with what means nothing.
    Flood,
    /// Somebody subscribes by pattern.
    Onlooker,
}

pub const ALL_FAULTS: [Fault; 11] = [
    Fault::Pause,
    Fault::Crash,
    Fault::Vanish,
    Fault::Partition,
    Fault::Crawl,
    Fault::Reset,
    Fault::Kick,
    Fault::Stall,
    Fault::Restart,
    Fault::Flood,
    Fault::Onlooker,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relief {
    Resume(usize),
    Reboot(usize),
    Heal(usize),
    Hurry(usize),
    Unstall,
    Boot,
    OnlookerLeaves,
}

impl World {
    pub fn mishap(&mut self) {
        if self.setup.is_calm() || self.now >= self.setup.faults_until {
            return;
        }
        let kinds = self.setup.faults.clone();
        let fault = self.dice.pick(&kinds);
        let host = self.dice.index(self.hosts.len());
        let span = self.dice.skewed(5 * MS, 2 * SECOND);
        if self.bring(fault, host, span) {
            self.stats.faults[fault as usize] += 1;
        }
        let pause = self.dice.between(self.setup.fault_every / 4, self.setup.fault_every * 2);
        self.agenda.put(self.now + pause, Event::Mishap);
    }

    fn bring(&mut self, fault: Fault, host: usize, span: Moment) -> bool {
        match fault {
            Fault::Pause | Fault::Crash | Fault::Vanish | Fault::Partition | Fault::Crawl => {
                if !self.hosts[host].is_well() {
                    return false;
                }
                self.trace(|| format!("FAULT  {fault:?} of host {host}, {} ms", span / MS));
                self.judge.trouble_begins(Some(host), self.now);
                self.strike(fault, host, span);
                true
            }
            Fault::Reset | Fault::Kick => self.disconnect(fault),
            Fault::Stall | Fault::Restart => self.stop_server(fault, span),
            Fault::Flood => self.flood(),
            Fault::Onlooker => {
                self.trace(|| "FAULT  somebody subscribes by pattern".to_owned());
                self.node.onlookers += 1;
                self.relieve_in(span, Relief::OnlookerLeaves);
                true
            }
        }
    }

    fn relieve_in(&mut self, span: Moment, relief: Relief) {
        self.agenda.put(self.now + span, Event::Relief(relief));
    }

    fn strike(&mut self, fault: Fault, host: usize, span: Moment) {
        match fault {
            Fault::Pause => {
                self.hosts[host].paused = Some(Vec::new());
                self.hosts[host].paused_since = self.now;
                self.relieve_in(span, Relief::Resume(host));
            }
            Fault::Crash | Fault::Vanish => {
                self.crash(host, fault == Fault::Vanish);
                self.relieve_in(span, Relief::Reboot(host));
            }
            Fault::Partition => {
                let ways = [[true, true], [true, true], [true, false], [false, true]];
                self.hosts[host].cut = self.dice.pick(&ways);
                self.hosts[host].cut_since = self.now;
                self.relieve_in(span, Relief::Heal(host));
                self.system_gives_up(host);
                self.paths_broke(Some(host));
            }
            _ => {
                self.hosts[host].crawls = Some(self.dice.between(5 * MS, 60 * MS));
                self.relieve_in(span, Relief::Hurry(host));
            }
        }
    }

    /// A system gives up a peer that acknowledges nothing.
    fn system_gives_up(&mut self, host: usize) {
        let since = self.now;
        for conn in self.conns_of(host) {
            let patience = self.conns[conn].patience;
            let at = since + patience + self.dice.below(patience / 2);
            self.agenda.put(at, Event::GiveUp { conn, since });
        }
    }

    pub fn give_up(&mut self, conn: usize, since: Moment) {
        let host = &self.hosts[self.conns[conn].host];
        if host.is_cut() && host.cut_since == since {
            self.end_for_client(conn, End::TimedOut);
        }
    }

    fn crash(&mut self, host: usize, vanishes: bool) {
        for conn in self.conns_of(host) {
            if vanishes {
                let kept = self.dice.index(self.conns[conn].up.len() + 1);
                self.conns[conn].up.truncate(kept);
                self.conns[conn].finished = true;
            } else {
                self.finish(conn);
            }
        }
        let victim = &mut self.hosts[host];
        victim.life += 1;
        victim.alive = false;
        victim.lines.clear();
        victim.pool.clear();
        victim.hub = None;
        for actor in victim.actors.clone() {
            self.judge.crashed(actor);
            self.actors[actor].doing = Doing::Idle(Moment::MAX);
        }
    }

    fn disconnect(&mut self, fault: Fault) -> bool {
        let clients = self.node.clients();
        if clients.is_empty() || self.stalled.is_some() {
            return false;
        }
        let conn = self.dice.pick(&clients);
        let host = self.conns[conn].host;
        self.trace(|| format!("FAULT  {fault:?} of connection {conn} of host {host}"));
        self.judge.trouble(Some(host), self.now, self.now);
        if fault == Fault::Reset {
            self.conns[conn].finished = true;
            self.end_for_client(conn, End::Reset);
            self.drop_from_server(conn, None);
        } else {
            self.drop_from_server(conn, Some(Packet::Fin));
        }
        true
    }

    fn stop_server(&mut self, fault: Fault, span: Moment) -> bool {
        if self.stalled.is_some() || self.down {
            return false;
        }
        self.trace(|| format!("FAULT  {fault:?} of the server, {} ms", span / MS));
        self.judge.trouble_begins(None, self.now);
        if fault == Fault::Stall {
            self.stalled = Some(Vec::new());
            self.stalled_since = self.now;
            self.relieve_in(span, Relief::Unstall);
            self.paths_broke(None);
            return true;
        }
        for conn in self.node.clients() {
            let last = if self.dice.one_in(2) { Packet::Fin } else { Packet::Reset };
            self.drop_from_server(conn, Some(last));
        }
        self.node.restart(self.setup.keeps_counters);
        if !self.setup.keeps_counters {
            self.judge.counters_lost();
        }
        self.down = true;
        self.relieve_in(span, Relief::Boot);
        true
    }

    fn flood(&mut self) -> bool {
        let lock = self.dice.index(self.names.len());
        let channel = self.some_channel(lock);
        let messages = self.dice.skewed(10, 1_500);
        let payload = vec![b'?'; self.dice.skewed(1, 60) as usize];
        if self.down || self.stalled.is_some() {
            return false;
        }
        self.trace(|| format!("FAULT  {messages} messages on {channel}"));
        self.judge.trouble(None, self.now, self.now + 200 * MS);
        for _ in 0..messages {
            self.node.publish(channel.as_bytes(), &payload);
        }
        self.flush_node();
        true
    }

    /// Of the lock, of its events, or of an answer to somebody.
    fn some_channel(&mut self, lock: usize) -> String {
        let (actor, number) = (self.dice.index(self.actors.len()), self.dice.below(3));
        let asker = ReplyTo::Token(self.actors[actor].id.0.wrapping_add(number.into()));
        let names = &self.names[self.setup.actors[actor].lock];
        match self.dice.below(4) {
            0 => self.names[lock].events().to_owned(),
            1 => self.names[lock].channel().to_owned(),
            _ => names.response_channel(&asker),
        }
    }

    pub fn relieve(&mut self, relief: Relief) {
        self.trace(|| format!("MENDED {relief:?}"));
        match relief {
            Relief::Resume(host) => self.resume(host),
            Relief::Reboot(host) => {
                self.hosts[host].alive = true;
                self.is_well_again(host);
                self.start_actors(host);
            }
            Relief::Heal(host) => {
                self.hosts[host].cut = [false; 2];
                self.is_well_again(host);
                for conn in 0..self.conns.len() {
                    if self.conns[conn].host == host {
                        let late = self.latency(host);
                        self.agenda.put(self.now + late, Event::Up(conn));
                        self.agenda.put(self.now + late, Event::Down(conn));
                    }
                }
            }
            Relief::Hurry(host) => {
                self.hosts[host].crawls = None;
                self.is_well_again(host);
            }
            Relief::Unstall => self.unstall(),
            Relief::Boot => {
                self.down = false;
                self.judge.trouble_ends(None, self.now);
            }
            Relief::OnlookerLeaves => self.node.onlookers -= 1,
        }
    }

    fn is_well_again(&mut self, host: usize) {
        self.hosts[host].well_since = self.now;
        self.judge.trouble_ends(Some(host), self.now);
    }

    fn resume(&mut self, host: usize) {
        let paused = &mut self.hosts[host];
        let put_off = paused.paused.take().unwrap_or_default();
        paused.paused_for += self.now - paused.paused_since;
        for event in put_off {
            self.agenda.put(self.now, event);
        }
        self.is_well_again(host);
    }

    /// All that has come meanwhile is read now, connection by connection, in any order.
    fn unstall(&mut self) {
        let waiting = self.stalled.take().unwrap_or_default();
        self.judge.trouble_ends(None, self.now);
        let mut conns: Vec<usize> = waiting.iter().map(|(conn, _)| *conn).collect();
        conns.sort_unstable();
        conns.dedup();
        self.dice.shuffle(&mut conns);
        for conn in conns {
            for (_, packet) in waiting.iter().filter(|(other, _)| *other == conn) {
                self.reach_server(conn, packet.clone());
            }
        }
    }
}
