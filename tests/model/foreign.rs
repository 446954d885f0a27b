//! One member that knows nothing of the queue, as portalocker 4.4 and 4.1 behave on the wire.
//!
//! Two threads. The worker answers pings in their order, with the mode of the moment it reads them; the
//! answer reaches the node later. The main thread is a program of round trips. Where seeing a reply
//! changes what the worker says, running the command and seeing its reply are two steps.

use portalock::protocol::{ForeignStanding, HolderId, Mode, Phase, Standing};

use crate::case::Case;
use crate::message::{Kind, Message, Queue};
use crate::steps::{Property, Rules, Violation, violated};
use crate::world::{World, just};

/// Which portalocker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Elects once and never looks back; does not say whether it is elected.
    V41,
    /// Says so, defers to others who do, and asks again before it holds.
    V44,
}

#[derive(Clone, Copy)]
pub struct Stranger {
    pub version: Version,
    pub wants: Mode,
    pub id: HolderId,
}

/// Where the main thread is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum At {
    /// Not subscribed, asleep until the next attempt.
    #[default]
    Away,
    /// About to count, or asleep before.
    Count,
    /// The count is on its way.
    SeeCount,
    /// About to subscribe to a response channel.
    Open,
    /// About to ping.
    Ping,
    /// Waiting for answers.
    Collect,
    /// About to count once more.
    CountAgain,
    /// About to decide: everybody has answered, and the count is the same.
    Decide,
    /// About to decide: nothing is known.
    DecideBlind,
    /// About to confirm a promotion.
    Confirm,
    Held,
    /// The worker has ended; about to unsubscribe, and then to sleep.
    Leave,
    /// Likewise, for good.
    Release,
    Done,
}

const ATS: [At; 14] = [
    At::Away,
    At::Count,
    At::SeeCount,
    At::Open,
    At::Ping,
    At::Collect,
    At::CountAgain,
    At::Decide,
    At::DecideBlind,
    At::Confirm,
    At::Held,
    At::Leave,
    At::Release,
    At::Done,
];

const PENDING: u8 = 0;
const SHARED: u8 = 1;
const EXCLUSIVE: u8 = 2;
/// Beside the mode in an answer.
const ELECTED: u8 = 4;
/// Likewise: it does not say whether it is elected.
const UNTOLD: u8 = 8;
/// Of a record: somebody has answered.
const HEARD: u8 = 16;

/// The answers are from two of ours at most, and from itself.
const RECORDS: usize = 4;

#[derive(Clone, Copy, Default)]
pub struct Foreign {
    pub at: At,
    pub subscribed: bool,
    pub mode: u8,
    pub elected: bool,
    confirming: bool,
    expected: u8,
    /// By the number of the acquire, itself last.
    records: [u8; RECORDS],
    /// Pings that the worker has not read.
    pub inbox: Queue,
    /// Answers that the node has not run.
    pub answers: Queue,
    /// Answers to the present ping that the main thread has not read.
    pub pongs: Queue,
}

/// What it may do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Act {
    Main,
    Answer,
    ServeAnswer,
    GiveUp,
}

pub const ACTS: [Act; 4] = [Act::Main, Act::Answer, Act::ServeAnswer, Act::GiveUp];

impl Foreign {
    pub fn is_quiet(&self) -> bool {
        use At::*;
        let rests = matches!(self.at, Away | Count | Collect | Confirm | Held | Done);
        rests && [&self.inbox, &self.answers, &self.pongs].iter().all(|queue| queue.is_empty())
    }

    fn code(&self) -> u8 {
        self.mode | if self.elected { ELECTED } else { 0 }
    }

    fn heard(&self) -> u8 {
        self.records.iter().filter(|record| **record & HEARD != 0).count() as u8
    }

    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let flags = [self.subscribed, self.elected, self.confirming];
        let flags = flags.iter().fold(self.mode, |bits, flag| bits << 1 | u8::from(*flag));
        bytes.extend_from_slice(&[self.at as u8, flags, self.expected]);
        bytes.extend_from_slice(&self.records);
        for queue in [&self.inbox, &self.answers, &self.pongs] {
            bytes.push(queue.packed().len() as u8);
            bytes.extend(queue.packed().iter().flat_map(|bits| bits.to_le_bytes()));
        }
    }

    pub fn decode(mut take: impl FnMut() -> u8) -> Self {
        let mut foreign = Self { at: ATS[usize::from(take())], ..Self::default() };
        let flags = take();
        foreign.confirming = flags & 1 != 0;
        foreign.elected = flags & 2 != 0;
        foreign.subscribed = flags & 4 != 0;
        foreign.mode = flags >> 3;
        foreign.expected = take();
        foreign.records = [take(), take(), take(), take()];
        for queue in [&mut foreign.inbox, &mut foreign.answers, &mut foreign.pongs] {
            for _ in 0..take() {
                queue.push_packed(u16::from_le_bytes([take(), take()]));
            }
        }
        foreign
    }
}

/// What one of ours says, as a stranger reads it.
pub fn code_of(holds: Option<Mode>, elected: Option<bool>) -> u8 {
    let mode = match holds {
        None => PENDING,
        Some(Mode::Shared) => SHARED,
        Some(Mode::Exclusive) => EXCLUSIVE,
    };
    mode | match elected {
        None => UNTOLD,
        Some(true) => ELECTED,
        Some(false) => 0,
    }
}

impl Stranger {
    /// What it says, as ours read it.
    pub fn standing(&self, code: u8) -> Standing {
        let told = (self.version == Version::V44).then_some(code & ELECTED != 0);
        Standing::Foreign(match code & 3 {
            PENDING => ForeignStanding::Pending { elected: told },
            SHARED => ForeignStanding::Shared,
            _ => ForeignStanding::Exclusive,
        })
    }
}

impl Case {
    /// The number that it goes by in messages and sets.
    pub fn stranger_number(&self) -> u8 {
        self.plans.len() as u8
    }
}

impl Rules<'_> {
    pub fn stranger_acts(&self, world: &World) -> Vec<Act> {
        let Some(stranger) = self.case.stranger else { return Vec::new() };
        let foreign = &world.foreign;
        let mut acts = Vec::new();
        let works = !matches!(foreign.at, At::Leave | At::Release);
        if works && !foreign.inbox.is_empty() {
            acts.push(Act::Answer);
        }
        if !foreign.answers.is_empty() {
            acts.push(Act::ServeAnswer);
        }
        match foreign.at {
            At::Done => {}
            At::Collect => {
                if !foreign.pongs.is_empty() {
                    acts.push(Act::Main);
                }
                let changed = self.count(world) != foreign.expected;
                if world.is_quiet(self.case) || (changed && stranger.version == Version::V44) {
                    acts.push(Act::GiveUp);
                }
            }
            At::Confirm => {
                acts.push(Act::Main);
                if world.is_quiet(self.case) {
                    acts.push(Act::GiveUp);
                }
            }
            _ => acts.push(Act::Main),
        }
        acts
    }

    fn count(&self, world: &World) -> u8 {
        world.subscribers(self.case).count_ones() as u8
    }

    pub fn act_stranger(&self, world: &mut World, act: Act) -> Result<(), Violation> {
        let stranger = self.case.stranger.expect("a stranger");
        match act {
            Act::Answer => {
                let code = world.foreign.code();
                if let Some(ping) = world.foreign.inbox.pop() {
                    let answer = Message::new(Kind::Answer, ping.who).stale(ping.stale);
                    world.foreign.answers.push(answer.count(code));
                }
            }
            Act::ServeAnswer => {
                if let Some(answer) = world.foreign.answers.pop() {
                    self.deliver_answer(world, self.case.stranger_number(), answer);
                }
            }
            Act::GiveUp if world.foreign.at == At::Confirm => demote(&mut world.foreign),
            Act::GiveUp => world.foreign.at = At::DecideBlind,
            Act::Main => return self.main(world, stranger),
        }
        Ok(())
    }

    fn main(&self, world: &mut World, stranger: Stranger) -> Result<(), Violation> {
        let count = self.count(world);
        let foreign = &mut world.foreign;
        match foreign.at {
            At::Away => {
                foreign.subscribed = true;
                foreign.confirming = false;
                foreign.mode = if stranger.wants == Mode::Shared { SHARED } else { PENDING };
                foreign.at = At::Count;
            }
            At::Count => {
                foreign.expected = count;
                foreign.at = At::SeeCount;
            }
            At::SeeCount if foreign.expected > 1 => foreign.at = At::Open,
            At::SeeCount if stranger.wants == Mode::Shared => return self.hold(world),
            At::SeeCount => {
                foreign.mode = EXCLUSIVE;
                return self.promoted(world, stranger);
            }
            At::Open => {
                foreign.records = [0; RECORDS];
                foreign.pongs.clear();
                let changed = count != foreign.expected && stranger.version == Version::V44;
                foreign.at = if changed { At::DecideBlind } else { At::Ping };
            }
            At::Ping => {
                foreign.at = At::Collect;
                self.age_stranger(world);
                self.publish(world, Message::new(Kind::Ping, self.case.stranger_number()));
            }
            At::Collect => {
                if let Some(pong) = foreign.pongs.pop() {
                    let who = usize::from(pong.who).min(RECORDS - 1);
                    foreign.records[who] = pong.n | HEARD;
                }
                if foreign.heard() >= foreign.expected {
                    foreign.at = At::CountAgain;
                }
            }
            At::CountAgain => {
                let same = count == foreign.expected;
                foreign.at = if same { At::Decide } else { At::DecideBlind };
            }
            At::Decide if foreign.confirming => return self.confirmed(world, stranger),
            At::Decide => return self.decide(world, stranger),
            At::DecideBlind if foreign.confirming => foreign.at = At::Confirm,
            At::DecideBlind if foreign.elected => foreign.at = At::Count,
            At::DecideBlind => foreign.at = At::Leave,
            At::Confirm if count <= 1 => return self.hold(world),
            At::Confirm => {
                foreign.confirming = true;
                foreign.expected = count;
                foreign.at = At::Open;
            }
            At::Held => foreign.at = At::Release,
            At::Leave | At::Release => {
                let done = foreign.at == At::Release;
                foreign.at = if done { At::Done } else { At::Away };
                self.leave_stranger(world);
            }
            At::Done => {}
        }
        Ok(())
    }

    fn leave_stranger(&self, world: &mut World) {
        self.age_stranger(world);
        world.foreign.subscribed = false;
        world.foreign.inbox.clear();
        for acquire in &mut world.acquires {
            acquire.owed &= !just(self.case.stranger_number());
        }
    }

    /// Answers to an earlier ping find nobody.
    fn age_stranger(&self, world: &mut World) {
        let number = self.case.stranger_number();
        for acquire in &mut world.acquires {
            for queue in [&mut acquire.inbox, &mut acquire.commands] {
                queue.each_mut(|m| {
                    m.stale |= m.who == number && matches!(m.kind, Kind::Ping | Kind::Answer);
                });
            }
        }
        for queue in [&mut world.foreign.inbox, &mut world.foreign.answers] {
            queue.each_mut(|m| m.stale |= m.who == number);
        }
        world.foreign.pongs.clear();
    }

    fn promoted(&self, world: &mut World, stranger: Stranger) -> Result<(), Violation> {
        match stranger.version {
            Version::V41 => self.hold(world),
            Version::V44 => {
                world.foreign.at = At::Confirm;
                Ok(())
            }
        }
    }

    fn hold(&self, world: &mut World) -> Result<(), Violation> {
        world.foreign.at = At::Held;
        let beside = self.case.acquires().find(|who| {
            world.is_active(*who)
                && world.phase(&self.book, *who) == Phase::Held
                && self.conflicts(world, *who)
        });
        match beside {
            Some(other) if self.case.watches(Property::Exclusion) => {
                violated(Property::Exclusion, format!("the stranger holds beside #{other}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the stranger holds, and cannot together with this one.
    pub fn conflicts(&self, world: &World, who: u8) -> bool {
        let wants = self.case.stranger.map(|stranger| stranger.wants);
        world.foreign.at == At::Held
            && wants.is_some_and(|wants| !wants.admits(self.case.plan(who).wants))
    }

    /// The records of the others, each with whether its id is lower.
    fn others(&self, world: &World, stranger: Stranger) -> Vec<(u8, bool)> {
        let acquires = self.case.acquires();
        let record = |who: u8| (world.foreign.records[usize::from(who)], who);
        acquires
            .map(record)
            .filter(|(record, _)| record & HEARD != 0)
            .map(|(record, who)| (record, self.case.plan(who).id < stranger.id))
            .collect()
    }

    fn decide(&self, world: &mut World, stranger: Stranger) -> Result<(), Violation> {
        let others = self.others(world, stranger);
        let any = |mode: u8| others.iter().any(|(record, _)| record & 3 == mode);
        if stranger.wants == Mode::Shared {
            let all_shared = others.iter().all(|(record, _)| record & 3 == SHARED);
            if all_shared {
                return self.hold(world);
            }
            world.foreign.at = At::Leave;
            return Ok(());
        }
        let lowest = !others.iter().any(|(record, lower)| record & 3 == PENDING && *lower);
        let newer = stranger.version == Version::V44;
        let told = others.iter().any(|(record, _)| newer && record & ELECTED != 0);
        let forfeits = others.iter().any(|(record, lower)| {
            let untold = record & 3 == PENDING && record & UNTOLD != 0;
            record & 3 == EXCLUSIVE || (*lower && (record & ELECTED != 0 || untold))
        });
        let foreign = &mut world.foreign;
        let was_elected = newer && foreign.elected;
        let elected = match was_elected {
            true => !forfeits,
            false => !any(EXCLUSIVE) && !told && lowest,
        };
        foreign.elected = elected;
        foreign.at = if elected { At::Count } else { At::Leave };
        let waits = any(SHARED) || (was_elected && !lowest);
        if elected && !waits {
            foreign.mode = EXCLUSIVE;
            return self.promoted(world, stranger);
        }
        Ok(())
    }

    fn confirmed(&self, world: &mut World, stranger: Stranger) -> Result<(), Violation> {
        let others = self.others(world, stranger);
        let demotes = others.iter().any(|(record, lower)| {
            record & 3 == SHARED || (record & 3 == EXCLUSIVE && (*lower || record & UNTOLD != 0))
        });
        let unsure = others.iter().any(|(record, lower)| record & 3 == PENDING && *lower);
        if demotes {
            demote(&mut world.foreign);
        } else if unsure {
            world.foreign.at = At::Confirm;
        } else {
            return self.hold(world);
        }
        Ok(())
    }
}

fn demote(foreign: &mut Foreign) {
    foreign.mode = PENDING;
    foreign.elected = false;
    foreign.confirming = false;
    foreign.at = At::Leave;
}
