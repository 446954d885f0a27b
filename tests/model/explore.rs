//! The search: breadth first, so that the first fault found has a shortest trace.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::case::Case;
use crate::fingerprint::{ByFingerprint, of_bytes};
use crate::live::Graph;
use crate::steps::{Choice, Property, Rules, Step, Violation};
use crate::world::World;

/// Where to stop.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub states: usize,
    pub time: Duration,
}

impl Bounds {
    pub const NONE: Self = Self { states: u32::MAX as usize, time: Duration::MAX };
}

/// What was found.
pub struct Outcome {
    pub states: usize,
    pub transitions: usize,
    pub depth: usize,
    /// Everything within the case's budgets was visited.
    pub complete: bool,
    pub violation: Option<Violation>,
    /// How it comes about, a line for each step.
    pub trace: String,
}

impl Outcome {
    pub fn property(&self) -> Option<Property> {
        self.violation.as_ref().map(|v| v.property)
    }
}

pub fn explore(case: &Case) -> Outcome {
    explore_within(case, Bounds::NONE)
}

pub fn explore_within(case: &Case, bounds: Bounds) -> Outcome {
    let begun = Instant::now();
    let mut search = Search::new(case);
    let violation = search.run(bounds, begun);
    let outcome = search.outcome(violation);
    report(case, &outcome, search.rules.book.len(), begun.elapsed());
    outcome
}

/// Past the test harness's capture: how much was explored is what a green run is worth.
fn report(case: &Case, outcome: &Outcome, contenders: usize, spent: Duration) {
    let Outcome { states, transitions, depth, complete, .. } = outcome;
    let cut = if *complete { "" } else { ", cut short" };
    let rate = *states as f64 / spent.as_secs_f64().max(1e-6) / 1e6;
    let verdict = outcome.property().map_or("holds".to_owned(), |p| format!("{p:?} violated"));
    let line = format!(
        "model: {}: {verdict}: {states} states, {transitions} transitions, depth {depth}, \
         {contenders} contenders, {:.1} s, {rate:.2} M states/s{cut}\n",
        case.name,
        spent.as_secs_f64(),
    );
    // Nowhere to report to is no reason to fail.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

struct Search<'a> {
    case: &'a Case,
    rules: Rules<'a>,
    seen: ByFingerprint<u32>,
    /// How each state was first reached: from which, and by what.
    parents: Vec<(u32, u16, bool)>,
    graph: Graph,
    transitions: usize,
    depth: usize,
    complete: bool,
    /// The encoded states of the next level.
    next: Vec<u8>,
    scratch: Vec<u8>,
    choices: Vec<Choice>,
    /// The step that broke a property, from the state of this number.
    last: Option<(u32, Choice)>,
}

impl<'a> Search<'a> {
    fn new(case: &'a Case) -> Self {
        Self {
            case,
            rules: Rules::new(case),
            seen: ByFingerprint::default(),
            parents: Vec::new(),
            graph: Graph::default(),
            transitions: 0,
            depth: 0,
            complete: true,
            next: Vec::new(),
            scratch: Vec::new(),
            choices: Vec::new(),
            last: None,
        }
    }

    fn run(&mut self, bounds: Bounds, begun: Instant) -> Option<Violation> {
        self.visit(&World::new(self.case), (0, 0, true));
        let mut number = 0;
        while !self.next.is_empty() {
            let level = std::mem::take(&mut self.next);
            let mut rest = level.as_slice();
            while !rest.is_empty() {
                let world = World::decode(self.case, &mut rest);
                if let Err(violation) = self.expand(number, &world) {
                    return Some(violation);
                }
                number += 1;
                let spent = number % 4096 == 0 && begun.elapsed() > bounds.time;
                if spent || self.parents.len() > bounds.states {
                    self.complete = false;
                    return self.stuck();
                }
            }
            self.depth += 1;
        }
        self.stuck()
    }

    fn expand(&mut self, number: u32, world: &World) -> Result<(), Violation> {
        let mut choices = std::mem::take(&mut self.choices);
        self.rules.choices(world, &mut choices);
        for choice in &choices {
            let mut after = *world;
            if let Err(violation) = self.rules.take(&mut after, *choice) {
                self.last = Some((number, *choice));
                return Err(violation);
            }
            self.transitions += 1;
            let target = self.visit(&after, (number, choice.0.pack(), choice.1));
            // A mishap must not be what everybody gets there by.
            if choice.1 && self.case.live {
                self.graph.edge(target);
            }
        }
        self.choices = choices;
        if self.case.live {
            self.graph.state(world.is_done(self.case));
        }
        Ok(())
    }

    fn visit(&mut self, world: &World, parent: (u32, u16, bool)) -> u32 {
        self.scratch.clear();
        world.encode(self.case, &mut self.scratch);
        let next = self.parents.len() as u32;
        let number = *self.seen.entry(of_bytes(&self.scratch)).or_insert(next);
        if number == next {
            self.parents.push(parent);
            self.next.extend_from_slice(&self.scratch);
        }
        number
    }

    fn stuck(&mut self) -> Option<Violation> {
        if !self.case.live {
            return None;
        }
        let number = self.graph.first_stuck(self.parents.len())?;
        self.last = Some((number, (Step::Read(0), true)));
        let what = "from here not all can get there".to_owned();
        Some(Violation { property: Property::Progress, what })
    }

    fn outcome(&mut self, violation: Option<Violation>) -> Outcome {
        let trace = match &violation {
            Some(violation) => self.trace(violation),
            None => String::new(),
        };
        Outcome {
            states: self.parents.len(),
            transitions: self.transitions,
            depth: self.depth,
            complete: self.complete,
            violation,
            trace,
        }
    }

    fn trace(&mut self, violation: &Violation) -> String {
        let (mut number, last) = self.last.expect("where it happened");
        let mut steps = Vec::new();
        if violation.property != Property::Progress {
            steps.push(last);
        }
        while number != 0 {
            let (from, step, ordinary) = self.parents[number as usize];
            steps.push((Step::unpack(step), ordinary));
            number = from;
        }
        steps.reverse();
        let mut text =
            format!("{}: {:?} violated: {}\n", self.case.name, violation.property, violation.what);
        let mut world = World::new(self.case);
        for choice in steps {
            let line = describe(&world, choice);
            // The last step is the one that fails.
            let _ = self.rules.take(&mut world, choice);
            let _ = writeln!(text, "  {line}{}", self.phases(&world));
        }
        text
    }

    fn phases(&self, world: &World) -> String {
        let phase = |who| match world.is_active(who) {
            true => format!("{:?}", world.phase(&self.rules.book, who)),
            false => ["unstarted", "gone", "dead"][world.at(who).actor as usize].to_owned(),
        };
        let phases: Vec<String> = self.case.acquires().map(phase).collect();
        format!("  [{}]", phases.join(" "))
    }
}

fn describe(world: &World, (step, ordinary): Choice) -> String {
    let message = match step {
        Step::Serve(who) => world.at(who).commands.peek(),
        Step::Read(who) => world.at(who).inbox.peek(),
        Step::ReadReply(who) => world.at(who).replies.peek(),
        _ => None,
    };
    let mishap = if ordinary { "" } else { " (mishap)" };
    let Some(m) = message else { return format!("{step:?}{mishap}") };
    let age = if m.stale { " stale" } else { "" };
    format!("{step:?} {:?} about #{} n={} m={}{age}", m.kind, m.who, m.n, m.m)
}
