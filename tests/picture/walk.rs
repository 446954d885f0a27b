//! Drives contenders with whatever can happen to them, and notes from which state to which that led.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use portalock::protocol::{
    Asker, Contender, Count, Event, ForeignStanding, HolderId, Input, MemberId, Mode, Output, Ping,
    Record, ReplyTo, Standing, State, Stop, Time, Timing,
};

/// A state, what happened, and the state that it led to; all as the picture names them.
pub type Step = (String, String, String);

const WALKS: u64 = 12_000;
const LENGTH: u64 = 60;
const OWN: HolderId = HolderId(500 << 64);

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn mode(&mut self) -> Mode {
        if self.below(2) == 0 { Mode::Shared } else { Mode::Exclusive }
    }

    /// Of somebody who came before or after.
    fn id(&mut self) -> HolderId {
        HolderId(u128::from(499 + 2 * self.below(2)) << 64)
    }
}

fn timing() -> Timing {
    let ms = Duration::from_millis;
    Timing {
        count_every: ms(20),
        ask_again: ms(50),
        unavailable: ms(1_000),
        check_interval: ms(250),
        health_every: ms(10_000),
    }
}

fn standing(dice: &mut Dice) -> Standing {
    let elected = [None, Some(false), Some(true)][dice.below(3) as usize];
    match dice.below(6) {
        0 => Standing::Foreign(ForeignStanding::Exclusive),
        1 => Standing::Foreign(ForeignStanding::Shared),
        2 => Standing::Foreign(ForeignStanding::Pending { elected }),
        n => {
            let state = [State::Waiting, State::Held, State::Leaving][(n - 3) as usize];
            Standing::Queue { wants: dice.mode(), state }
        }
    }
}

/// Something that can happen to it, likely or not.
fn happening(own: &Contender, dice: &mut Dice, now: &mut Time) -> Input {
    let number = own.ping_number();
    match dice.below(15) {
        0 => Input::Joined { members: dice.below(4) },
        1 => {
            let asker = match dice.below(3) {
                0 => Asker::Member { id: dice.id(), wants: dice.mode(), link: None },
                1 => Asker::Observer,
                _ => Asker::Stranger,
            };
            Input::Ping(Ping { reply_to: ReplyTo::Token(7), asker })
        }
        2 | 3 => {
            let asker = Asker::Member { id: OWN, wants: own.wants(), link: None };
            Input::Ping(Ping { reply_to: ReplyTo::Token(own.reply_to(number)), asker })
        }
        4 | 5 => {
            let record =
                Record { id: MemberId::Hex(dice.id()), link: None, standing: standing(dice) };
            Input::Pong { number, record }
        }
        6 | 7 => Input::Event(Event::Left(dice.id())),
        8 | 9 => {
            let members = 1 + dice.below(3);
            let beside = Count::Beside { receivers: members, members };
            let count = if dice.below(2) == 0 { Count::Exact(members) } else { beside };
            Input::Asked { number, count }
        }
        10 => Input::Counted { members: dice.below(3) },
        11 => Input::Rolled(if dice.below(2) == 0 { None } else { Some(Vec::new()) }),
        12 => [Input::Healthy { number: 1 }, Input::Verify][dice.below(2) as usize].clone(),
        13 if dice.below(6) == 0 => {
            Input::Stop([Stop::Release, Stop::Timeout, Stop::Cancel][dice.below(3) as usize])
        }
        13 if dice.below(2) == 0 => Input::Unsubscribed,
        _ => match own.next_timer() {
            Some((at, timer)) => {
                *now = at.max(*now);
                Input::Timer(timer)
            }
            None => Input::ExactRefused { number },
        },
    }
}

/// `Joined` of `Joined { members: 1 }`.
fn name_of(text: &str) -> String {
    text.split([' ', '(']).next().unwrap_or_default().to_owned()
}

/// What the walks came upon.
#[derive(Default)]
pub struct Walked {
    /// What was done at each change of state, but for answers to pings and the place in line.
    pub steps: BTreeMap<Step, BTreeSet<String>>,
    /// How pings were answered, by state.
    pub answers: BTreeMap<String, BTreeSet<String>>,
}

/// All changes of state that the code makes, as far as many walks come upon them. What a server says that no
/// sound server says is left out: it ends the connection from any state.
pub fn walked() -> Walked {
    let mut walked = Walked::default();
    for seed in 0..WALKS {
        walk(seed, &mut walked);
    }
    walked
}

fn walk(seed: u64, walked: &mut Walked) {
    let mut dice = Dice(seed);
    let mut own = Contender::new(OWN, dice.mode(), timing());
    let mut now = Time::ZERO;
    while own.next_output().is_some() {}
    for _ in 0..LENGTH {
        now += Duration::from_millis(dice.below(30));
        let input = happening(&own, &mut dice, &mut now);
        let (before, name) = (own.phase(), name_of(&format!("{input:?}")));
        let name = if let Input::Timer(timer) = input { format!("{timer:?}") } else { name };
        own.handle(now, input);
        let outputs: Vec<_> = std::iter::from_fn(|| own.next_output()).collect();
        if outputs.iter().any(|output| matches!(output, Output::Broken(_))) {
            return;
        }
        for output in &outputs {
            if let Output::Pong { answer, .. } = output {
                let said = format!("{:?}", answer.state).to_lowercase();
                walked.answers.entry(format!("{before:?}")).or_default().insert(said);
            }
        }
        if own.phase() != before {
            let step = (format!("{before:?}"), name, format!("{:?}", own.phase()));
            let done = outputs.iter().map(|output| name_of(&format!("{output:?}")));
            let done = done.filter(|done| done != "Queued" && done != "Pong");
            walked.steps.entry(step).or_default().extend(done);
        }
    }
}
