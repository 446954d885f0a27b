//! What is simulated: drawn from the seed before anything happens.

use std::time::Duration;

use portalock::protocol::Mutant;
use portalock::simulation::Plan;
use portalock::{Status, Wait};

use crate::agenda::{MS, Moment, SECOND};
use crate::dice::Dice;
use crate::faults::{ALL_FAULTS, Fault};

/// Between two counts, for the first in line; as in `src/acquire.rs`.
pub const COUNT_EVERY: Moment = 22 * MS;
/// How long the first ping waits for its answers; likewise.
pub const ASK_AGAIN: Moment = 50 * MS;
/// The longest pause between two attempts; as in `src/pursuit.rs`.
pub const BACKOFF: Moment = 250 * MS;
/// How long a thread takes to wake up.
pub const WAKE: Moment = 2 * MS;

pub struct Setup {
    pub hosts: usize,
    pub locks: usize,
    pub actors: Vec<Role>,
    /// How long a packet takes, now and then much longer.
    pub latency: (Moment, Moment),
    pub spike: Option<Moment>,
    pub answer_timeout: Moment,
    /// Per lock: how long a member may be silent.
    pub unavailable: Vec<Moment>,
    pub reply_first: bool,
    pub keeps_counters: bool,
    /// How far the hosts' clocks may be apart.
    pub skew: Moment,
    pub faults: Vec<Fault>,
    pub fault_every: Moment,
    /// From then on nothing goes wrong any more.
    pub faults_until: Moment,
    /// From then on nobody begins to acquire.
    pub acquires_until: Moment,
    /// Which hosts' processes have one connection for all their locks.
    pub shares: Vec<bool>,
    pub mutant: Option<Mutant>,
}

/// One thread that wants one lock, over and over.
#[derive(Clone)]
pub struct Role {
    pub host: usize,
    pub lock: usize,
    /// How many of eight acquires are to read.
    pub reads: u64,
    pub waits: [Wait; 2],
    pub section: (Moment, Moment),
    pub think: (Moment, Moment),
    pub health_every: Moment,
    pub fencing: bool,
    /// One of so many acquires is cancelled; none if zero.
    pub cancels: u64,
}

impl Setup {
    pub fn draw(dice: &mut Dice) -> Self {
        let hosts = dice.between(2, 6) as usize;
        let locks = dice.pick(&[1, 1, 1, 1, 2, 3]);
        let crowd = dice.between(2, 9) as usize;
        let lock_of = |n: usize| n % locks;
        let latency = dice.pick(&[(20, 200), (100, 2 * MS), (MS, 5 * MS), (2 * MS, 20 * MS)]);
        let spike = dice.one_in(3).then(|| dice.pick(&[30 * MS, 60 * MS, 120 * MS]));
        // A deadline that a sound network may miss proves nothing.
        let patient = 4 * (latency.1 + spike.unwrap_or(0));
        let mut actors: Vec<_> =
            (0..crowd).map(|n| Role::draw(dice, hosts, lock_of(n), n)).collect();
        for role in actors.iter_mut().filter(|role: &&mut Role| role.health_every > 0) {
            role.health_every = role.health_every.max(patient);
        }
        let faults_until = dice.between(2 * SECOND, 6 * SECOND);
        Self {
            hosts,
            locks,
            actors,
            latency,
            spike,
            answer_timeout: dice.pick(&[SECOND, 5 * SECOND]),
            unavailable: (0..locks)
                .map(|_| dice.pick(&[300 * MS, 500 * MS, SECOND]).max(patient))
                .collect(),
            reply_first: dice.one_in(3),
            keeps_counters: !dice.one_in(4),
            skew: dice.pick(&[0, 0, 0, 5 * MS, 50 * MS]),
            faults: draw_faults(dice),
            fault_every: dice.pick(&[50 * MS, 200 * MS, 700 * MS, 2 * SECOND]),
            faults_until,
            acquires_until: faults_until + dice.between(SECOND, 3 * SECOND),
            // With dice of their own: whoever shares nothing goes the way it would go without this.
            shares: draw_shares(&mut dice.clone(), hosts),
            mutant: None,
        }
    }

    pub fn is_calm(&self) -> bool {
        self.faults.is_empty()
    }

    /// The longest that a packet takes while nothing is wrong.
    pub fn slowest(&self) -> Moment {
        self.latency.1 + self.spike.unwrap_or(0)
    }

    pub fn longest_section(&self, lock: usize) -> Moment {
        let roles = self.actors.iter().filter(|role| role.lock == lock);
        roles.map(|role| role.section.1).max().unwrap_or(0)
    }

    pub fn describe(&self) -> String {
        let who = |role: &Role| {
            let Role { host, lock, reads, waits, health_every, fencing, .. } = role;
            format!(
                "host {host}, lock {lock}: reads {reads}/8, {waits:?}, health {} ms{}{}",
                health_every / MS,
                if *fencing { ", fencing" } else { "" },
                if self.shares[*host] { ", shares its connection" } else { "" }
            )
        };
        let actors: Vec<_> = self.actors.iter().map(who).collect();
        format!(
            "{} hosts; packets {:?} us, spikes {:?}; unavailable {:?} us; faults {:?} every {} ms \
             until {} ms; acquires until {} ms\n  {}",
            self.hosts,
            self.latency,
            self.spike,
            self.unavailable,
            self.faults,
            self.fault_every / MS,
            self.faults_until / MS,
            self.acquires_until / MS,
            actors.join("\n  ")
        )
    }
}

/// In most runs nobody.
fn draw_shares(dice: &mut Dice, hosts: usize) -> Vec<bool> {
    let some = dice.one_in(3);
    (0..hosts).map(|_| some && dice.one_in(2)).collect()
}

/// None at all, each kind for itself, a few, or the lot.
fn draw_faults(dice: &mut Dice) -> Vec<Fault> {
    let mut all = ALL_FAULTS.to_vec();
    dice.shuffle(&mut all);
    let kinds = dice.pick(&[0, 0, 1, 1, 2, 3, ALL_FAULTS.len()]);
    all.truncate(kinds);
    all
}

impl Role {
    fn draw(dice: &mut Dice, hosts: usize, lock: usize, n: usize) -> Self {
        let short = [MS, 20 * MS, 100 * MS, 400 * MS];
        let span = |dice: &mut Dice| {
            let most = dice.pick(&short);
            (most / 10, most)
        };
        Self {
            host: if n < hosts { n } else { dice.index(hosts) },
            lock,
            reads: dice.pick(&[0, 0, 0, 2, 4, 8]),
            waits: [draw_wait(dice), draw_wait(dice)],
            section: span(dice),
            think: span(dice),
            health_every: dice.pick(&[0, 100 * MS, 300 * MS, SECOND, 3 * SECOND]),
            fencing: dice.one_in(3),
            cancels: dice.pick(&[0, 0, 3]),
        }
    }
}

fn draw_wait(dice: &mut Dice) -> Wait {
    match dice.below(8) {
        0 => Wait::Once,
        1 => Wait::For(Duration::from_millis(dice.between(20, 300))),
        2 => Wait::For(Duration::from_millis(dice.between(300, 3_000))),
        _ => Wait::Forever,
    }
}

/// An acquire's plan; one attempt is bounded as in `src/acquire.rs`.
pub fn plan(wait: Wait, setup: &Setup, lock: usize, now: std::time::Instant) -> Plan {
    let patience = setup.answer_timeout + 2 * setup.unavailable[lock];
    Plan::new(wait, Duration::from_micros(patience), now)
}

/// Whether an acquire that ends so may have been ended by others' doing alone.
pub fn is_about_time(status: Status) -> bool {
    matches!(status, Status::Timeout | Status::Locked | Status::Cancelled)
}
