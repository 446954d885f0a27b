//! Packets, and what each end does about them.

use std::cell::RefCell;
use std::mem::take;
use std::rc::Rc;
use std::time::Duration;

use portalock::protocol::LinkId;
use portalock::simulation::Station;

use crate::agenda::{Event, MS, Moment};
use crate::host::Line;
use crate::net::{Conn, End, OUTPUT_LIMIT, Packet, Plug, SEND_BUFFER, Socket, WINDOW};
use crate::setup::WAKE;
use crate::world::World;

const URL: &str = "redis://server";

impl World {
    /// How long a packet takes now.
    pub fn latency(&mut self, host: usize) -> Moment {
        let (least, most) = self.setup.latency;
        let mut late = self.dice.skewed(least, most);
        if let Some(spike) = self.setup.spike
            && self.dice.one_in(50)
        {
            late += self.dice.below(spike);
        }
        late + self.hosts[host].crawls.unwrap_or(0)
    }

    /// The connections of the process that runs on this host.
    pub fn conns_of(&self, host: usize) -> Vec<usize> {
        let life = self.hosts[host].life;
        let own = |conn: &usize| {
            let Conn { host: its, life: its_life, finished, .. } = &self.conns[*conn];
            *its == host && *its_life == life && !finished
        };
        (1..self.conns.len()).filter(own).collect()
    }

    /// A process begins to connect.
    pub fn dial(&mut self, host: usize) -> usize {
        let (conn, line) = (self.conns.len(), self.hosts[host].lines.len());
        let socket = Rc::new(RefCell::new(Socket::default()));
        let life = self.hosts[host].life;
        self.conns.push(Conn::new(host, life, line, socket.clone()));
        let answer_timeout = Duration::from_micros(self.setup.answer_timeout);
        let station = Station::new(Plug(socket.clone()), URL, answer_timeout, self.instant());
        let mut station = station.expect("a URL");
        if self.setup.shares[host] {
            let id = LinkId(u128::from(self.dice.word()));
            station = station.shared(id, self.instant());
            self.hosts[host].hub = Some(line);
        }
        let new = Line { station, socket, conn, retired: false, visit_due: false, ring_due: None };
        self.hosts[host].lines.push(Some(new));
        self.send_up(conn, Packet::Syn);
        line
    }

    fn send_up(&mut self, conn: usize, packet: Packet) {
        let late = self.latency(self.conns[conn].host);
        let at = self.conns[conn].up.push(self.now + late, packet);
        self.agenda.put(at, Event::Up(conn));
    }

    pub fn send_down(&mut self, conn: usize, packet: Packet) {
        let late = self.latency(self.conns[conn].host);
        let at = self.conns[conn].down.push(self.now + late, packet);
        self.agenda.put(at, Event::Down(conn));
    }

    /// Mostly in one piece, now and then cut anywhere.
    fn pieces(&mut self, host: usize, mut bytes: Vec<u8>) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        let crawls = self.hosts[host].crawls.is_some();
        while bytes.len() > 1 && (crawls || self.dice.one_in(6)) && pieces.len() < 5 {
            let rest = bytes.split_off(1 + self.dice.index(bytes.len() - 1));
            pieces.push(std::mem::replace(&mut bytes, rest));
        }
        pieces.push(bytes);
        pieces
    }

    /// The client sends its last, unless it has done so.
    pub fn finish(&mut self, conn: usize) {
        if !std::mem::replace(&mut self.conns[conn].finished, true) {
            self.send_up(conn, Packet::Fin);
        }
    }

    pub fn up_arrives(&mut self, conn: usize) {
        if self.hosts[self.conns[conn].host].cut[0] {
            return;
        }
        while let Some(packet) = self.conns[conn].up.pop(self.now) {
            match &mut self.stalled {
                // The system of a server that does nothing still accepts.
                Some(waiting) if packet != Packet::Syn => waiting.push((conn, packet)),
                _ => self.reach_server(conn, packet),
            }
        }
    }

    pub fn reach_server(&mut self, conn: usize, packet: Packet) {
        match packet {
            Packet::Syn if self.down => self.send_down(conn, Packet::Refused),
            Packet::Syn => {
                self.node.accept(conn);
                self.send_down(conn, Packet::Accepted);
            }
            Packet::Data(bytes) if self.node.knows(conn) => {
                self.node.feed(conn, &bytes);
                self.flush_node();
            }
            Packet::Data(_) => self.send_down(conn, Packet::Reset),
            _ => self.drop_from_server(conn, None),
        }
    }

    /// The server lets go of a connection; the client is to find out by `last`, if at all.
    pub fn drop_from_server(&mut self, conn: usize, last: Option<Packet>) {
        self.node.drop_client(conn);
        if let Some(last) = last {
            self.send_down(conn, last);
        }
        self.connection_lost(conn);
    }

    /// Sends what the server has written, and ends those that it ends.
    pub fn flush_node(&mut self) {
        for kill in self.node.take_kills() {
            self.stats.kills += 1;
            self.was_killed(kill.by, kill.whom);
            self.drop_from_server(kill.whom, Some(Packet::Fin));
        }
        for conn in self.node.take_dirty() {
            self.flush_down(conn);
        }
    }

    /// Sends as much as the client's window takes.
    fn flush_down(&mut self, conn: usize) {
        let under_way =
            self.conns[conn].down.bytes() + self.conns[conn].socket.borrow().inbox.len();
        let Some(out) = self.node.output(conn) else { return };
        let rest = out.split_off(out.len().min(WINDOW.saturating_sub(under_way)));
        let bytes = std::mem::replace(out, rest);
        let too_much = out.len() > OUTPUT_LIMIT;
        if !bytes.is_empty() {
            let host = self.conns[conn].host;
            for piece in self.pieces(host, bytes) {
                self.send_down(conn, Packet::Data(piece));
            }
        }
        if too_much {
            self.trace(|| format!("server closes connection {conn}: it does not read"));
            let host = self.conns[conn].host;
            self.judge.trouble(Some(host), self.now, self.now);
            self.drop_from_server(conn, Some(Packet::Fin));
        }
    }

    pub fn down_arrives(&mut self, conn: usize) {
        let host = self.conns[conn].host;
        if self.hosts[host].cut[1] {
            return;
        }
        let here = self.hosts[host].life == self.conns[conn].life && self.hosts[host].alive;
        while let Some(packet) = self.conns[conn].down.pop(self.now) {
            if here {
                self.reach_client(conn, packet);
            }
        }
        self.flush_down(conn);
    }

    fn reach_client(&mut self, conn: usize, packet: Packet) {
        let end = match packet {
            Packet::Accepted => {
                self.conns[conn].socket.borrow_mut().connected = true;
                return self.wake_line(conn);
            }
            Packet::Data(bytes) => {
                self.conns[conn].socket.borrow_mut().inbox.extend(bytes);
                return self.wake_line(conn);
            }
            Packet::Refused => End::Refused,
            Packet::Fin => End::Closed,
            _ => End::Reset,
        };
        self.end_for_client(conn, end);
    }

    pub fn end_for_client(&mut self, conn: usize, end: End) {
        let first = *self.conns[conn].socket.borrow_mut().ended.get_or_insert(end) == end;
        if first {
            self.wake_line(conn);
        }
    }

    /// A poll tells the keep-alive thread, but for those whom nobody watches.
    fn wake_line(&mut self, conn: usize) {
        let Conn { host, life, line, .. } = self.conns[conn];
        if self.hosts[host].life != life {
            return;
        }
        let idle = match self.line(host, line) {
            Some(line) => line.station.is_idle(),
            None => true,
        };
        if !idle {
            let late = self.dice.below(WAKE);
            self.visit_in(host, line, late);
        }
    }

    pub fn line(&mut self, host: usize, line: usize) -> Option<&mut Line> {
        self.hosts[host].lines.get_mut(line)?.as_mut()
    }

    fn visit_in(&mut self, host: usize, line: usize, late: Moment) {
        let (at, life) = (self.now + late, self.hosts[host].life);
        let Some(place) = self.line(host, line) else { return };
        if !std::mem::replace(&mut place.visit_due, true) {
            self.agenda.put(at, Event::Visit { host, life, line });
        }
    }

    pub fn visit(&mut self, host: usize, line: usize) {
        let now = self.instant();
        self.open_gate(host, line);
        if let Some(place) = self.line(host, line) {
            place.visit_due = false;
            place.station.visit(now);
        }
        self.pump(host, line);
    }

    pub fn ring(&mut self, host: usize, line: usize, due: Moment) {
        let now = self.instant();
        let Some(place) = self.line(host, line).filter(|place| place.ring_due == Some(due)) else {
            return;
        };
        place.ring_due = None;
        if place.station.next_timer().is_some_and(|at| at <= now) {
            return self.visit(host, line);
        }
        self.set_timer(host, line);
    }

    /// How much the system takes from the process next: now and then less than it has.
    pub fn open_gate(&mut self, host: usize, line: usize) {
        let little = self.dice.one_in(60).then(|| self.dice.index(200));
        let Some(place) = self.hosts[host].lines.get(line).and_then(Option::as_ref) else { return };
        let room = SEND_BUFFER.saturating_sub(self.conns[place.conn].up.bytes());
        place.socket.borrow_mut().room = little.unwrap_or(room).min(room);
    }

    /// After every call into a line: what it has written, what it has said, and when it wants to be
    /// looked at.
    pub fn pump(&mut self, host: usize, line: usize) {
        let Some(place) = self.line(host, line) else { return };
        if place.retired && place.station.is_idle() {
            place.station.close();
        }
        let (conn, told, stands) = (place.conn, place.station.told(), place.station.stands());
        let watched = stands && !place.station.is_idle();
        let mut socket = place.socket.borrow_mut();
        let (bytes, closed) = (take(&mut socket.outbox), socket.closed);
        let choked = take(&mut socket.choked);
        let readable = socket.is_readable();
        drop(socket);
        if !bytes.is_empty() {
            for piece in self.pieces(host, bytes) {
                self.send_up(conn, Packet::Data(piece));
            }
        }
        if closed || !stands {
            self.finish(conn);
        }
        self.may_have_decided(host, line);
        for (ticket, what) in told {
            self.heard(host, ticket, what);
        }
        if watched && (choked || readable) {
            let late = if choked { self.dice.between(100, 20 * MS) } else { self.dice.below(WAKE) };
            self.visit_in(host, line, late);
        }
        self.flush_down(conn);
        self.set_timer(host, line);
    }

    fn set_timer(&mut self, host: usize, line: usize) {
        let Some(next) = self.line(host, line).and_then(|line| line.station.next_timer()) else {
            return;
        };
        let due = self.moment(next).max(self.now);
        let life = self.hosts[host].life;
        let Some(place) = self.line(host, line) else { return };
        if place.ring_due.is_none_or(|known| due < known) {
            place.ring_due = Some(due);
            let at = due + self.dice.below(WAKE);
            self.agenda.put(at, Event::Ring { host, life, line, due });
        }
    }
}
