//! The run of one seed: what happens next, one event at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use portalock::protocol::Names;

use crate::agenda::{Agenda, Event, MS, Moment, SECOND};
use crate::dice::Dice;
use crate::faults::ALL_FAULTS;
use crate::host::{Actor, Doing, Host};
use crate::judge::Judge;
use crate::net::{Conn, Packet};
use crate::node::Node;
use crate::setup::Setup;

/// How often those who wait are looked at.
const LOOK_EVERY: Moment = 250 * MS;
/// More events than any run should need: one that goes on and on is a fault too.
const MOST_EVENTS: u64 = 3_000_000;

#[derive(Clone, Debug, Default)]
pub struct Stats {
    pub events: u64,
    pub commands: u64,
    pub acquires: u64,
    pub sections: u64,
    pub timeouts: u64,
    pub failures: u64,
    pub losses: u64,
    pub kills: u64,
    pub connections: u64,
    pub virtual_time: Moment,
    pub faults: [u64; ALL_FAULTS.len()],
}

pub struct World {
    pub setup: Setup,
    pub dice: Dice,
    pub now: Moment,
    /// The instant of the run's beginning: the only one that is not virtual, and of no consequence.
    base: Instant,
    pub agenda: Agenda,
    pub node: Node,
    /// What has come to a server that does nothing.
    pub stalled: Option<Vec<(usize, Packet)>>,
    pub stalled_since: Moment,
    pub down: bool,
    pub names: Vec<Arc<Names>>,
    pub conns: Vec<Conn>,
    pub hosts: Vec<Host>,
    pub actors: Vec<Actor>,
    pub next_ticket: u64,
    pub judge: Judge,
    pub stats: Stats,
    trace: Option<Box<dyn FnMut(String)>>,
}

/// What became of a run.
pub struct Outcome {
    pub violation: Option<String>,
    pub stats: Stats,
    /// How much of a bound was used up at most.
    pub tightest: f64,
}

impl World {
    pub fn new(setup: Setup, mut dice: Dice) -> Self {
        let names = |n| Arc::new(Names::new(&format!("lock-{n}")).expect("a name"));
        let host = |n: usize| Host {
            alive: true,
            skew: dice.below(setup.skew + 1),
            actors: (0..setup.actors.len()).filter(|a| setup.actors[*a].host == n).collect(),
            ..Host::default()
        };
        let hosts = (0..setup.hosts).map(host).collect();
        let mut node = Node::default();
        node.reply_first = setup.reply_first;
        Self {
            now: 0,
            base: Instant::now(),
            agenda: Agenda::default(),
            node,
            stalled: None,
            stalled_since: 0,
            down: false,
            names: (0..setup.locks).map(names).collect(),
            // A connection's number is what the server calls it by, from 1.
            conns: vec![Conn::none()],
            hosts,
            actors: setup.actors.iter().map(|_| Actor::new(0)).collect(),
            next_ticket: 0,
            judge: Judge::new(&setup),
            stats: Stats::default(),
            trace: None,
            dice,
            setup,
        }
    }

    pub fn traced(mut self, trace: impl FnMut(String) + 'static) -> Self {
        self.trace = Some(Box::new(trace));
        self
    }

    pub fn trace(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace(format!("{:>10.3} ms  {}", self.now as f64 / MS as f64, what()));
        }
    }

    pub fn instant(&self) -> Instant {
        self.base + Duration::from_micros(self.now)
    }

    /// When that is, rounded up: a timer must not be looked at too early.
    pub fn moment(&self, at: Instant) -> Moment {
        at.saturating_duration_since(self.base).as_nanos().div_ceil(1_000) as Moment
    }

    pub fn run(mut self) -> Outcome {
        let described = self.setup.describe();
        self.trace(|| described);
        for host in 0..self.hosts.len() {
            self.start_actors(host);
        }
        self.agenda.put(self.dice.below(self.setup.fault_every), Event::Mishap);
        self.agenda.put(LOOK_EVERY, Event::Look);
        while self.judge.violation.is_none() && self.is_going_on() {
            let Some((at, event)) = self.agenda.next() else { break };
            debug_assert!(at >= self.now, "time runs backwards");
            self.now = at;
            self.stats.events += 1;
            self.happen(event);
        }
        self.finish_run()
    }

    /// Until all that was begun has ended; the judge says when that takes too long.
    fn is_going_on(&mut self) -> bool {
        if self.stats.events >= MOST_EVENTS {
            self.judge.violates(format!("{MOST_EVENTS} events and no end"));
        }
        let over = self.now > self.setup.acquires_until && self.now > self.setup.faults_until;
        if over && self.actors.iter().all(|a| matches!(a.doing, Doing::Idle(_))) {
            return false;
        }
        if self.now > self.setup.acquires_until + 60 * SECOND {
            self.judge.violates("somebody neither gets the lock nor gives up".to_owned());
        }
        true
    }

    /// Whoever is never served is to be found out as well.
    fn look(&mut self) {
        self.judge.look(self.now);
        self.agenda.put(self.now + LOOK_EVERY, Event::Look);
    }

    fn finish_run(mut self) -> Outcome {
        self.stats.commands = self.node.commands;
        self.stats.connections = self.conns.len() as u64 - 1;
        self.stats.virtual_time = self.now;
        if let Some(what) = self.judge.violation.clone() {
            self.trace(|| format!("BROKEN {what}"));
        }
        let tightest = self.judge.tightest;
        Outcome { violation: self.judge.violation, stats: self.stats, tightest }
    }

    fn happen(&mut self, event: Event) {
        if let Some((host, life)) = event.process() {
            let place = &mut self.hosts[host];
            if place.life != life || !place.alive {
                return;
            }
            if let Some(put_off) = &mut place.paused {
                put_off.push(event);
                return;
            }
        }
        match event {
            Event::Up(conn) => self.up_arrives(conn),
            Event::Down(conn) => self.down_arrives(conn),
            Event::GiveUp { conn, since } => self.give_up(conn, since),
            Event::Visit { host, line, .. } => self.visit(host, line),
            Event::Ring { host, line, due, .. } => self.ring(host, line, due),
            Event::Act { actor, .. } => self.act(actor),
            Event::Cancel { actor, serial, .. } => self.cancel(actor, serial),
            Event::Look => self.look(),
            Event::Mishap => self.mishap(),
            Event::Relief(relief) => self.relieve(relief),
            Event::LossKnown { actor, serial, since, paused } => {
                self.must_know_of_loss(actor, serial, since, paused);
            }
            Event::TimeUp { actor, serial, paused } => self.must_have_ended(actor, serial, paused),
        }
    }
}

impl Event {
    /// Which process does it, if one does.
    fn process(self) -> Option<(usize, u32)> {
        match self {
            Self::Visit { host, life, .. }
            | Self::Ring { host, life, .. }
            | Self::Act { host, life, .. }
            | Self::Cancel { host, life, .. } => Some((host, life)),
            _ => None,
        }
    }
}
