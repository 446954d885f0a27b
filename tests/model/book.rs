//! Every contender met so far.
//!
//! What a contender does depends on itself and its input alone, and there are few different ones: a
//! state of the world therefore holds but the number of a contender in this book, and each input to
//! each contender is run once, through the real code, and looked up from then on.
//! Contenders with the same [`std::hash::Hash`] count as one (see `Contender`).

use portalock::protocol::{
    Contender, Count, Event, ForeignStanding, HolderId, Input, MemberId, Mode, Output, Phase, Ping,
    Record, ReplyTo, Standing, State, Stop, Suspect, Time, Timer, Timing,
};

use crate::case::Case;
use crate::fingerprint::{ByFingerprint, ByWord, of_value};
use crate::foreign::code_of;
use crate::message::{DELIVERIES, Kind, Message, state_code};
use crate::world::{Set, just};

/// The number of a contender in the book.
pub type Actor = u32;

/// The acquire has not begun.
pub const UNSTARTED: Actor = 0;
/// The acquire is over.
pub const GONE: Actor = 1;
/// The process is gone.
pub const DEAD: Actor = 2;

/// The last is a sleep that ends, whenever it likes.
pub const TIMERS: [Timer; 4] = [Timer::AskAgain, Timer::Count, Timer::Recheck, Timer::Rejoin];
pub const REJOIN: usize = 3;

const TIMING: Timing = Timing {
    count_every: Time::from_millis(20),
    ask_again: Time::from_millis(200),
    unavailable: Time::from_secs(5),
    check_interval: Time::from_millis(250),
    health_every: Time::ZERO,
};

/// What is put to a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stimulus {
    Delivery(Message),
    Timer(u8),
    Stop(Stop),
}

impl Stimulus {
    fn code(self) -> u64 {
        match self {
            Self::Delivery(message) => u64::from(message.pack()),
            Self::Timer(timer) => 1 << 16 | u64::from(timer),
            Self::Stop(stop) => 2 << 16 | stop as u64,
        }
    }
}

/// What a contender does, with ping numbers made relative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Join,
    Ask { first: bool, exact: bool },
    Count,
    Roll,
    Kill(u8),
    Answer { to: u8, stale: bool, state: u8 },
    Granted,
    Leave,
    Gone,
    Broken(&'static str),
}

#[derive(Clone, Copy)]
pub struct Reaction {
    pub next: Actor,
    /// The probe is resolved by this, and was not before.
    pub resolves: bool,
    effects: (u32, u32),
}

/// What the world needs to know of a contender.
#[derive(Clone, Copy)]
pub struct Facts {
    pub phase: Phase,
    /// Which of [`TIMERS`] are armed.
    pub armed: [bool; 4],
}

pub struct Book<'a> {
    case: &'a Case,
    contenders: Vec<Contender>,
    facts: Vec<Facts>,
    numbers: ByFingerprint<Actor>,
    reactions: ByWord<Reaction>,
    effects: Vec<Effect>,
}

impl<'a> Book<'a> {
    pub fn new(case: &'a Case) -> Self {
        let nobody = Facts { phase: Phase::Gone, armed: [false; 4] };
        Self {
            case,
            contenders: vec![gone(); 3],
            facts: vec![nobody; 3],
            numbers: ByFingerprint::default(),
            reactions: ByWord::default(),
            effects: Vec::new(),
        }
    }

    pub fn facts(&self, actor: Actor) -> &Facts {
        &self.facts[actor as usize]
    }

    pub fn effects(&self, reaction: &Reaction) -> std::ops::Range<usize> {
        reaction.effects.0 as usize..reaction.effects.1 as usize
    }

    pub fn effect(&self, at: usize) -> Effect {
        self.effects[at]
    }

    /// How many different contenders were met.
    pub fn len(&self) -> usize {
        self.contenders.len()
    }

    pub fn start(&mut self, who: u8) -> Reaction {
        let plan = self.case.plan(who);
        let mut begun = Contender::new(plan.id, plan.wants, TIMING).with_mutant(self.case.mutant);
        if let Some(link) = self.case.link(who) {
            begun.move_to_link(link);
        }
        self.enter(begun, who, None)
    }

    pub fn react(&mut self, actor: Actor, who: u8, stimulus: Stimulus) -> Reaction {
        let key = u64::from(actor) << 18 | stimulus.code();
        if let Some(reaction) = self.reactions.get(&key) {
            return *reaction;
        }
        let before = &self.contenders[actor as usize];
        let resolved = before.is_resolved();
        let input = self.input(before, who, stimulus);
        let mut after = before.clone();
        after.handle(Time::ZERO, input);
        let reaction = self.enter(after, who, Some(resolved));
        self.reactions.insert(key, reaction);
        reaction
    }

    fn enter(&mut self, mut after: Contender, who: u8, resolved: Option<bool>) -> Reaction {
        let resolves = resolved == Some(false) && after.is_resolved();
        let from = self.effects.len() as u32;
        while let Some(output) = after.next_output() {
            let effect = self.effect_of(output, who);
            self.effects.extend(effect);
        }
        let effects = (from, self.effects.len() as u32);
        Reaction { next: self.number(after), resolves, effects }
    }

    fn number(&mut self, contender: Contender) -> Actor {
        if contender.phase() == Phase::Gone {
            return GONE;
        }
        let next = self.contenders.len() as Actor;
        let number = *self.numbers.entry(of_value(&contender)).or_insert(next);
        if number == next {
            let armed = TIMERS.map(|timer| contender.due(timer).is_some());
            self.facts.push(Facts { phase: contender.phase(), armed });
            self.contenders.push(contender);
        } else if self.case.audited {
            self.audit(&contender, &self.contenders[number as usize]);
        }
        number
    }

    /// Two that hash alike do the same, and become two that hash alike, whatever they are told.
    fn audit(&self, one: &Contender, other: &Contender) {
        let me = self.case.who_is(one.id());
        let told = |contender: &Contender, stimulus| {
            let mut after = contender.clone();
            after.handle(Time::ZERO, self.input(contender, me, stimulus));
            let mut effects = Vec::new();
            while let Some(output) = after.next_output() {
                effects.extend(self.effect_of(output, me));
            }
            (effects, TIMERS.map(|timer| after.due(timer).is_some()), of_value(&after))
        };
        for stimulus in self.stimuli() {
            assert_eq!(
                told(one, stimulus),
                told(other, stimulus),
                "{one:?} {other:?} {stimulus:?}"
            );
        }
    }

    fn stimuli(&self) -> impl Iterator<Item = Stimulus> {
        let messages = self.case.acquires().flat_map(|who| {
            DELIVERIES.into_iter().flat_map(move |kind| {
                (0..24).map(move |n| {
                    Message::new(kind, who).stale(n % 2 == 1).count(n / 2 % 3).beside(n / 6)
                })
            })
        });
        let stops = [Stop::Release, Stop::Timeout, Stop::Cancel].map(Stimulus::Stop);
        messages.map(Stimulus::Delivery).chain((0..4).map(Stimulus::Timer)).chain(stops)
    }

    fn input(&self, contender: &Contender, who: u8, stimulus: Stimulus) -> Input {
        match stimulus {
            Stimulus::Delivery(message) => self.delivered(contender, who, message),
            Stimulus::Timer(timer) => Input::Timer(TIMERS[usize::from(timer)]),
            Stimulus::Stop(stop) => Input::Stop(stop),
        }
    }

    fn delivered(&self, contender: &Contender, me: u8, message: Message) -> Input {
        let Message { kind, who, stale, n, m } = message;
        let number = contender.ping_number().wrapping_sub(u32::from(stale));
        let (n, m) = (u64::from(n), u64::from(m));
        match kind {
            Kind::Joined => Input::Joined { members: n },
            Kind::Ping if who == me => self.ping(me, contender.reply_to(number)),
            Kind::Ping => self.ping(who, token(self.id_of(who), stale)),
            Kind::Pong => Input::Pong { number, record: self.record(who, message) },
            Kind::Garbage => Input::Pong { number, record: self.garbage() },
            Kind::Asked => {
                Input::Asked { number, count: Count::Beside { receivers: n, members: m } }
            }
            Kind::AskedExact => Input::Asked { number, count: Count::Exact(n) },
            Kind::Refused => Input::ExactRefused { number },
            Kind::Counted => Input::Counted { members: n },
            Kind::Rolled => Input::Rolled(Some(self.roll(message.set()))),
            Kind::Left => Input::Event(Event::Left(self.case.plan(who).id)),
            Kind::Unsubscribed => Input::Unsubscribed,
            command => unreachable!("{command:?} is never delivered"),
        }
    }

    fn roll(&self, set: Set) -> Vec<Suspect> {
        let listed = self.case.acquires().filter(|who| set & just(*who) != 0);
        let suspect = |who| Suspect {
            client: u64::from(self.case.connection(who)),
            bears: self.case.bears(who),
        };
        let mut suspects: Vec<_> = listed.map(suspect).collect();
        // Of a link there is one line, however many of its members there are.
        suspects.dedup();
        suspects
    }

    fn ping(&self, who: u8, token: u128) -> Input {
        if who == self.case.stranger_number() {
            let asker = portalock::protocol::Asker::Stranger;
            return Input::Ping(Ping { reply_to: ReplyTo::Token(token), asker });
        }
        let plan = self.case.plan(who);
        let asker = portalock::protocol::Asker::Member {
            id: plan.id,
            wants: plan.wants,
            link: self.case.link(who),
        };
        Input::Ping(Ping { reply_to: ReplyTo::Token(token), asker })
    }

    fn id_of(&self, who: u8) -> HolderId {
        match self.case.stranger {
            Some(stranger) if who == self.case.stranger_number() => stranger.id,
            _ => self.case.plan(who).id,
        }
    }

    fn record(&self, who: u8, message: Message) -> Record {
        if let (Some(stranger), true) = (self.case.stranger, who == self.case.stranger_number()) {
            let id = portalock::protocol::MemberId::Hex(stranger.id);
            return Record { id, link: None, standing: stranger.standing(message.n) };
        }
        let state = message.state();
        let plan = self.case.plan(who);
        let id = portalock::protocol::MemberId::Hex(plan.id);
        let standing = Standing::Queue { wants: plan.wants, state };
        Record { id, link: self.case.link(who), standing }
    }

    /// What reads as nothing else passes for a member that is too old to say more.
    fn garbage(&self) -> Record {
        let standing = Standing::Foreign(ForeignStanding::Exclusive);
        Record { id: MemberId::Legacy(0), link: None, standing }
    }

    fn effect_of(&self, output: Output, who: u8) -> Option<Effect> {
        Some(match output {
            Output::Join { .. } => Effect::Join,
            Output::Ask { exact, subscribe, .. } => Effect::Ask { first: !subscribe, exact },
            Output::Count => Effect::Count,
            Output::Roll => Effect::Roll,
            Output::Kill(suspect) => Effect::Kill(suspect.client as u8),
            Output::Pong { to, answer } => {
                let (to, stale) = self.asked_by(&to);
                let wants = self.case.plan(who).wants;
                let truthful = answer.state != State::Held || answer.holds == Some(wants);
                assert!(truthful, "an answer that contradicts itself");
                let state = match to == self.case.stranger_number() {
                    true => code_of(answer.holds, answer.elected),
                    false => state_code(answer.state),
                };
                Effect::Answer { to, stale, state }
            }
            Output::Granted => Effect::Granted,
            Output::Queued { .. } => return None,
            Output::Leave => Effect::Leave,
            Output::Gone => Effect::Gone,
            Output::Broken(why) => Effect::Broken(why),
            Output::CheckHealth { .. } | Output::Unhealthy => unreachable!("no such timer fires"),
            Output::Verify { .. } | Output::Verified => unreachable!("nobody asks for it"),
        })
    }

    fn asked_by(&self, to: &ReplyTo) -> (u8, bool) {
        let ReplyTo::Token(token) = to else { unreachable!("all members use tokens") };
        let who = self.case.who_is(HolderId(token >> 63 << 63));
        (who, *token == self::token(self.id_of(who), true))
    }
}

/// The contender of everybody whose acquire is over: late replies may still reach it.
fn gone() -> Contender {
    let mut contender = Contender::new(HolderId(0), Mode::Shared, TIMING);
    for input in [Input::Stop(Stop::Cancel), Input::Unsubscribed] {
        contender.handle(Time::ZERO, input);
    }
    while contender.next_output().is_some() {}
    assert_eq!(contender.phase(), Phase::Gone);
    contender
}

/// To whoever answers, the token of somebody else's ping is but an address.
fn token(id: HolderId, stale: bool) -> u128 {
    id.0 + if stale { 1 } else { 2 }
}
