//! What must hold, and whether it does.

use std::collections::BTreeMap;

use portalock::protocol::{HolderId, Mode};

use crate::agenda::{MS, Moment};
use crate::faults::Fault;
use crate::setup::{ASK_AGAIN, BACKOFF, Setup, WAKE};

/// What a busy machine, and a packet or two, may add to a bound.
pub const MARGIN: Moment = 20 * MS;

/// An acquire, as it begins.
#[derive(Clone, Copy)]
pub struct Begun {
    pub lock: usize,
    pub mode: Mode,
    pub begun_ms: u64,
    pub at: Moment,
}

/// An acquire that has not ended.
pub struct Wait {
    pub begun: Begun,
    pub id: HolderId,
    pub conn: usize,
    /// Everybody it asked has answered, and knows of it.
    pub queued: bool,
    /// It has left the channel since, for the sake of what looked like a portalocker.
    pub stepped_aside: bool,
    /// The protocol has granted it the lock.
    pub decided: bool,
    /// Whose sections may come first.
    pub ahead: u64,
}

/// A lock that somebody holds, as far as it knows.
#[derive(Clone, Copy)]
pub struct Hold {
    pub lock: usize,
    pub mode: Mode,
    pub conn: usize,
}

struct Trouble {
    host: Option<usize>,
    from: Moment,
    to: Moment,
}

pub struct Judge {
    pub violation: Option<String>,
    pub waits: BTreeMap<usize, Wait>,
    pub holds: BTreeMap<usize, Hold>,
    troubles: Vec<Trouble>,
    /// The highest token that anybody was told, by lock.
    tokens: Vec<u64>,
    /// Which hosts have to do with which lock.
    hosts: Vec<Vec<usize>>,
    /// By lock: what a section, and what follows it, may take.
    turn: Vec<Moment>,
    /// By lock: how long after a trouble it may go on to be felt.
    recovery: Vec<Moment>,
    /// By actor: whether it may have to wait in its process, where those elsewhere do not know of it. Each of
    /// those before it there may be overtaken once, as it may.
    pub in_line: Vec<bool>,
    /// How long it may take until an acquire is known to all.
    arrival: Moment,
    /// The longest that anybody has waited beyond what sections and troubles explain, per bound.
    pub tightest: f64,
}

impl Judge {
    pub fn new(setup: &Setup) -> Self {
        let hosts_of = |lock| {
            let roles = setup.actors.iter().filter(|role| role.lock == lock);
            roles.map(|role| role.host).collect()
        };
        let hand_over = 8 * setup.slowest() + 8 * WAKE + ASK_AGAIN;
        Self {
            violation: None,
            waits: BTreeMap::new(),
            holds: BTreeMap::new(),
            troubles: Vec::new(),
            tokens: vec![0; setup.locks],
            hosts: (0..setup.locks).map(hosts_of).collect(),
            turn: (0..setup.locks).map(|lock| setup.longest_section(lock) + hand_over).collect(),
            recovery: (0..setup.locks).map(|lock| recovery(setup, lock)).collect(),
            in_line: setup.actors.iter().map(|role| setup.shares[role.host]).collect(),
            arrival: 8 * setup.slowest() + 4 * WAKE,
            tightest: 0.0,
        }
    }

    pub fn violates(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    pub fn trouble_begins(&mut self, host: Option<usize>, now: Moment) {
        self.trouble(host, now, Moment::MAX / 2);
    }

    pub fn trouble_ends(&mut self, host: Option<usize>, now: Moment) {
        let open = |t: &&mut Trouble| t.host == host && t.to == Moment::MAX / 2;
        if let Some(trouble) = self.troubles.iter_mut().find(open) {
            trouble.to = now;
        }
    }

    pub fn trouble(&mut self, host: Option<usize>, from: Moment, to: Moment) {
        self.troubles.push(Trouble { host, from, to });
    }

    /// For how long of this span something was wrong, or still felt.
    pub fn excused(&self, lock: usize, from: Moment, to: Moment) -> Moment {
        let concerns = |t: &&Trouble| t.host.is_none_or(|host| self.hosts[lock].contains(&host));
        let (mut sum, mut reached) = (0, from);
        for trouble in self.troubles.iter().filter(concerns) {
            let start = trouble.from.max(reached);
            let end = (trouble.to + self.recovery[lock]).min(to);
            sum += end.saturating_sub(start);
            reached = reached.max(end);
        }
        sum
    }

    pub fn begun(&mut self, actor: usize, begun: Begun) {
        let mut ahead = self.holds.values().filter(|hold| hold.lock == begun.lock).count() as u64;
        let arrival = self.arrival;
        for wait in self.waits.values_mut().filter(|wait| wait.begun.lock == begun.lock) {
            ahead += 1;
            let overtakes = begun.begun_ms <= wait.begun.begun_ms;
            if overtakes || begun.at < wait.begun.at + arrival {
                wait.ahead += 1;
            }
        }
        let id = HolderId(0);
        let (queued, stepped_aside, decided) = (false, false, false);
        let wait = Wait { begun, id, conn: 0, queued, stepped_aside, decided, ahead };
        self.waits.insert(actor, wait);
    }

    pub fn attempted(&mut self, actor: usize, id: HolderId, conn: usize) {
        if let Some(wait) = self.waits.get_mut(&actor) {
            (wait.id, wait.conn) = (id, conn);
            (wait.queued, wait.decided, wait.stepped_aside) = (false, false, false);
        }
    }

    pub fn queued(&mut self, actor: usize) {
        if let Some(wait) = self.waits.get_mut(&actor) {
            wait.queued = true;
        }
    }

    /// Whoever makes way for what looks like a portalocker gives up its place.
    pub fn stepped_aside(&mut self, actor: usize) {
        if let Some(wait) = self.waits.get_mut(&actor) {
            wait.stepped_aside = true;
        }
    }

    /// Takes note that the protocol has granted it the lock; `false` if that is nothing new.
    pub fn decided(&mut self, actor: usize) -> bool {
        match self.waits.get_mut(&actor) {
            Some(wait) => !std::mem::replace(&mut wait.decided, true),
            None => false,
        }
    }

    pub fn left(&mut self, actor: usize) {
        self.holds.remove(&actor);
    }

    pub fn crashed(&mut self, actor: usize) {
        self.holds.remove(&actor);
        self.waits.remove(&actor);
    }

    /// An acquire is over, one way or another: it must not have waited longer than it had to.
    pub fn ended(&mut self, actor: usize, now: Moment) -> Option<Wait> {
        self.must_not_wait_longer(actor, now);
        self.waits.remove(&actor)
    }

    /// Nor must one that is not over yet.
    pub fn look(&mut self, now: Moment) {
        let waiting: Vec<usize> = self.waits.keys().copied().collect();
        for actor in waiting {
            self.must_not_wait_longer(actor, now);
        }
    }

    fn must_not_wait_longer(&mut self, actor: usize, now: Moment) {
        let Some(wait) = self.waits.get(&actor) else { return };
        let Begun { lock, at, .. } = wait.begun;
        let waited = now - at;
        let turns = if self.in_line[actor] { 2 * wait.ahead + 2 } else { wait.ahead + 1 };
        let least = turns * self.turn[lock] + MARGIN;
        if waited <= least {
            return;
        }
        let excused = self.excused(lock, at, now);
        let bound = least + excused;
        self.tightest = self.tightest.max(waited as f64 / bound as f64);
        if waited > bound {
            self.violates(format!(
                "actor {actor} has waited {} ms, of which {} may be blamed on faults, for {} who \
                 came before it: {} ms too long",
                waited / MS,
                excused / MS,
                wait.ahead,
                (waited - bound) / MS
            ));
        }
    }

    pub fn counters_lost(&mut self) {
        self.tokens.fill(0);
    }

    pub fn token(&mut self, actor: usize, lock: usize, token: u64) {
        let highest = self.tokens[lock];
        if token <= highest {
            self.violates(format!("actor {actor} draws token {token} after {highest}"));
        }
        self.tokens[lock] = highest.max(token);
    }
}

/// How long a trouble may be felt once it is over: those who are gone without a word have to be found out
/// and ended, and the k-th in line is k times as patient.
fn recovery(setup: &Setup, lock: usize) -> Moment {
    use Fault::{Crawl, Partition, Pause, Stall, Vanish};
    let unavailable = setup.unavailable[lock];
    let crowd = setup.actors.iter().filter(|role| role.lock == lock).count() as u64;
    let silent = [Crawl, Partition, Pause, Stall, Vanish];
    let is_silent = setup.faults.iter().any(|fault| silent.contains(fault));
    let found_out = if is_silent { (crowd + 3) * unavailable } else { 2 * unavailable };
    found_out + BACKOFF + 12 * setup.slowest()
}
