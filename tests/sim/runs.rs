//! Seeds by the thousand, one for itself, and as many as there is time for.

use std::env;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use portalock::protocol::Mutant;

use crate::agenda::SECOND;
use crate::dice::Dice;
use crate::faults::ALL_FAULTS;
use crate::setup::Setup;
use crate::world::{Outcome, Stats, World};

pub const SEEDS: u64 = 2_000;

pub fn world(seed: u64, mutant: Option<Mutant>) -> World {
    let mut dice = Dice::new(seed);
    let setup = Setup { mutant, ..Setup::draw(&mut dice) };
    World::new(setup, dice)
}

pub fn run(seed: u64, mutant: Option<Mutant>) -> Outcome {
    world(seed, mutant).run()
}

fn setting(name: &str) -> Option<u64> {
    let value = env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

impl Stats {
    fn add(&mut self, other: &Stats) {
        self.events += other.events;
        self.commands += other.commands;
        self.acquires += other.acquires;
        self.sections += other.sections;
        self.timeouts += other.timeouts;
        self.failures += other.failures;
        self.losses += other.losses;
        self.kills += other.kills;
        self.connections += other.connections;
        self.virtual_time += other.virtual_time;
        for (sum, more) in self.faults.iter_mut().zip(other.faults) {
            *sum += more;
        }
    }

    /// Past the test harness's capture: how much was tried is what a green run is worth.
    fn report(&self, seeds: u64, spent: Duration, tightest: f64) {
        let rate = seeds as f64 / spent.as_secs_f64();
        let faults: Vec<_> = ALL_FAULTS.iter().zip(self.faults).collect();
        let hours = self.virtual_time as f64 / SECOND as f64 / 3600.0;
        let line = format!(
            "sim: {seeds} seeds, {:.1} s, {rate:.0} a second; {hours:.1} h of virtual time, {} \
             events, {} commands, {} connections, {} acquires, {} sections, {} gave up, {} failed, \
             {} losses, {} reaped, waits of up to {:.0}% of their bound; faults {faults:?}\n",
            spent.as_secs_f64(),
            self.events,
            self.commands,
            self.connections,
            self.acquires,
            self.sections,
            self.timeouts,
            self.failures,
            self.losses,
            self.kills,
            tightest * 100.0,
        );
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// A seed that broke something, and what.
type Broken = (u64, String);

/// Runs seeds on all processors, from the first on, until one breaks something, or `goes_on` says no.
fn run_many(
    first: u64,
    goes_on: impl Fn(u64) -> bool + Sync,
    mutant: Option<Mutant>,
) -> Result<(), Broken> {
    let begun = Instant::now();
    let (next, broken) = (AtomicU64::new(first), Mutex::new(None::<Broken>));
    let (sum, stop) = (Mutex::new((0, Stats::default(), 0.0)), AtomicBool::new(false));
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !goes_on(seed) {
                break;
            }
            let Outcome { violation, stats, tightest, .. } = run(seed, mutant);
            let mut sum = sum.lock().unwrap();
            sum.0 += 1;
            sum.1.add(&stats);
            sum.2 = tightest.max(sum.2);
            drop(sum);
            if let Some(what) = violation {
                stop.store(true, Ordering::Relaxed);
                let mut broken = broken.lock().unwrap();
                if broken.as_ref().is_none_or(|(other, _)| seed < *other) {
                    *broken = Some((seed, what));
                }
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let (done, sum, tightest) = sum.into_inner().unwrap();
    sum.report(done, begun.elapsed(), tightest);
    broken.into_inner().unwrap().map_or(Ok(()), Err)
}

fn must_hold(outcome: Result<(), Broken>) {
    if let Err((seed, what)) = outcome {
        panic!(
            "seed {seed}: {what}\nreplay it with: PORTALOCK_SIM_SEED={seed} cargo test --profile \
             model --features simulation,mutants --test sim replay -- --nocapture"
        );
    }
}

#[test]
fn two_thousand_seeds_keep_every_promise() {
    must_hold(run_many(1, |seed| seed <= SEEDS, None));
}

#[test]
#[ignore = "long: ./dev soak sim"]
fn soak_until_the_time_is_up() {
    let span = Duration::from_secs(setting("PORTALOCK_SIM_SECONDS").unwrap_or(600));
    let first = setting("PORTALOCK_SIM_FIRST").unwrap_or(SEEDS + 1);
    let begun = Instant::now();
    must_hold(run_many(first, |_| begun.elapsed() < span, None));
}

/// With `PORTALOCK_SIM_SEED`, that seed's trace is printed.
#[test]
fn replay_of_a_seed_happens_as_before() {
    let seed = setting("PORTALOCK_SIM_SEED");
    if let Some(seed) = seed {
        let outcome = world(seed, None).traced(|line| println!("{line}")).run();
        return must_hold(outcome.violation.map_or(Ok(()), |what| Err((seed, what))));
    }
    for seed in 1..=20 {
        assert!(trace_of(seed) == trace_of(seed), "seed {seed} goes another way each time");
    }
}

fn trace_of(seed: u64) -> Vec<String> {
    let (send, lines) = std::sync::mpsc::channel();
    world(seed, None).traced(move |line| send.send(line).unwrap()).run();
    lines.try_iter().collect()
}
