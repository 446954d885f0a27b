//! What may happen next, what comes of it, and what must never come of it.
//!
//! # The reduction
//!
//! Where an acquire has something to read, its own acts (to read, to be told to stop, a timer) touch
//! nothing but its inbox, its contender and the end of its command queue. They commute with every
//! step of the node, which runs the front of that queue and adds to the end of the inbox, and with
//! the acts of all others; nothing that others do enables or disables them, but for the budgets,
//! which only ever shrink. They are thus a persistent set, and reading always ends: no step is put
//! off for ever. So it is enough to go on with the acts of one such acquire, reading among them.
//!
//! * A crash needs no exploring there. To crash with an unread message differs from reading it first
//!   only in what reading may have written, and the node may drop just that when it notices.
//! * Nothing is quiet there, so the timers that need quiet are not concerned. An early act of
//!   another that cost budget may, put later, be free: that is more behaviour, not less.
//! * Any state left out leads, by reading alone, to one that is kept. So whoever can get there from
//!   each kept state can get there from each state; two holders still hold after reading; and what
//!   is checked at an act (below) is checked no later, when more are still subscribed. A promise
//!   that is broken by the one order and not by the other has both granted, which is caught.
//!
//! With two streams this holds only where no message of others can come to be read before one that
//! is there already: `must_read`.
//!
//! `cases::reduction_changes_no_verdict` and the mutants compare both ways of exploring.

use portalock::protocol::{Phase, Stop};

use crate::book::{Book, DEAD, Effect, GONE, REJOIN, Reaction, Stimulus, UNSTARTED};
use crate::case::Case;
use crate::foreign::{ACTS, Act};
use crate::message::{Kind, Message, state_code};
use crate::world::{Acquire, World, just};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The node runs the next command of this connection.
    Serve(u8),
    /// The process reads the next delivery.
    Read(u8),
    /// The process reads the next reply, where these have a stream of their own.
    ReadReply(u8),
    /// The acquire begins.
    Start(u8),
    Release(u8),
    Timeout(u8),
    /// A timer of [`TIMERS`] fires.
    Timer(u8, u8),
    /// The process of this acquire is gone.
    Crash(u8),
    /// The node notices that the connection is gone.
    Notice(u8),
    /// Somebody publishes garbage on the response channel of this acquire.
    Garbage(u8),
    /// Somebody publishes the ping of this acquire again.
    PingAgain(u8),
    /// The stranger does something of its own.
    Foreign(Act),
}

impl Step {
    pub fn pack(self) -> u16 {
        let (kind, who, timer) = match self {
            Self::Serve(who) => (0, who, 0),
            Self::Read(who) => (1, who, 0),
            Self::Start(who) => (2, who, 0),
            Self::Release(who) => (3, who, 0),
            Self::Timeout(who) => (4, who, 0),
            Self::Timer(who, timer) => (5, who, timer),
            Self::Crash(who) => (6, who, 0),
            Self::Notice(who) => (7, who, 0),
            Self::ReadReply(who) => (8, who, 0),
            Self::Foreign(act) => (9, act as u8, 0),
            Self::Garbage(who) => (10, who, 0),
            Self::PingAgain(who) => (11, who, 0),
        };
        kind | u16::from(who) << 4 | u16::from(timer) << 7
    }

    pub fn unpack(bits: u16) -> Self {
        let who = (bits >> 4 & 7) as u8;
        match bits & 15 {
            0 => Self::Serve(who),
            1 => Self::Read(who),
            2 => Self::Start(who),
            3 => Self::Release(who),
            4 => Self::Timeout(who),
            5 => Self::Timer(who, (bits >> 7) as u8),
            6 => Self::Crash(who),
            7 => Self::Notice(who),
            8 => Self::ReadReply(who),
            10 => Self::Garbage(who),
            11 => Self::PingAgain(who),
            _ => Self::Foreign(ACTS[usize::from(who)]),
        }
    }
}

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// Never two holders that cannot hold together.
    Exclusion,
    /// A resolved probe has heard everybody that was counted at its ping and is still subscribed.
    Heard,
    /// Nobody is granted what it has promised to leave to another who still waits for it.
    Promise,
    /// The node's answers always make sense to a contender.
    Sense,
    /// From everywhere all get there, without further mishaps.
    Progress,
}

#[derive(Clone, Debug)]
pub struct Violation {
    pub property: Property,
    pub what: String,
}

pub fn violated<T>(property: Property, what: String) -> Result<T, Violation> {
    Err(Violation { property, what })
}

/// A step that may be taken, and whether it takes nothing but the ordinary course of things.
pub type Choice = (Step, bool);

pub struct Rules<'a> {
    pub case: &'a Case,
    pub book: Book<'a>,
}

impl<'a> Rules<'a> {
    pub fn new(case: &'a Case) -> Self {
        Self { case, book: Book::new(case) }
    }

    pub fn choices(&self, world: &World, choices: &mut Vec<Choice>) {
        choices.clear();
        let quiet = world.is_quiet(self.case);
        if self.case.reduced
            && let Some(reader) = self.case.acquires().find(|who| self.must_read(world, *who))
        {
            return self.own_acts(world, reader, quiet, choices);
        }
        for who in self.case.acquires() {
            self.own_acts(world, who, quiet, choices);
            self.other_acts(world, who, choices);
        }
        let acts = self.stranger_acts(world);
        choices.extend(acts.into_iter().map(|act| (Step::Foreign(act), true)));
    }

    /// Whether the reduction applies: what it can read next is settled, whatever others do.
    fn must_read(&self, world: &World, who: u8) -> bool {
        let Acquire { inbox, replies, commands, .. } = world.at(who);
        let settled = !self.case.two_streams
            || !replies.is_empty()
            || !commands.packed().iter().any(|bits| Message::unpack(*bits).kind.wants_reply());
        !inbox.is_empty() && settled
    }

    /// What touches nothing but the acquire itself and the end of its command queue.
    fn own_acts(&self, world: &World, who: u8, quiet: bool, choices: &mut Vec<Choice>) {
        let acquire = world.at(who);
        if !acquire.inbox.is_empty() {
            choices.push((Step::Read(who), true));
        }
        if !acquire.replies.is_empty() {
            choices.push((Step::ReadReply(who), true));
        }
        if !world.is_active(who) {
            return;
        }
        let facts = self.book.facts(acquire.actor);
        if facts.phase == Phase::Held {
            choices.push((Step::Release(who), true));
        }
        if world.timeouts > 0
            && matches!(
                facts.phase,
                Phase::Joining | Phase::Waiting | Phase::SteppingAside | Phase::Aside
            )
        {
            choices.push((Step::Timeout(who), false));
        }
        if facts.armed[REJOIN] {
            choices.push((Step::Timer(who, REJOIN as u8), true));
        }
        if self.case.timerless || !(quiet || world.premature > 0) {
            return;
        }
        for timer in (0..REJOIN).filter(|timer| facts.armed[*timer]) {
            choices.push((Step::Timer(who, timer as u8), quiet));
        }
    }

    fn other_acts(&self, world: &World, who: u8, choices: &mut Vec<Choice>) {
        let acquire = world.at(who);
        if !acquire.commands.is_empty() {
            choices.push((Step::Serve(who), true));
        }
        if self.may_start(world, who) {
            choices.push((Step::Start(who), true));
        }
        if self.may_notice(world, who) {
            choices.push((Step::Notice(who), true));
        }
        self.noises(world, who, choices);
        let stands_for_its_member = self.case.plan(who).after.is_none();
        if world.crashes > 0 && stands_for_its_member && self.may_crash(world, who) {
            choices.push((Step::Crash(who), false));
        }
    }

    fn noises(&self, world: &World, who: u8, choices: &mut Vec<Choice>) {
        if world.noise == 0 {
            return;
        }
        if world.at(who).subscribed {
            choices.push((Step::Garbage(who), false));
        }
        if world.at(who).pinged {
            choices.push((Step::PingAgain(who), false));
        }
    }

    fn may_notice(&self, world: &World, who: u8) -> bool {
        let acquire = world.at(who);
        let connected = acquire.subscribed || !acquire.commands.is_empty();
        acquire.actor == DEAD && connected && !self.case.reaped
    }

    /// Whether it makes a difference. It does once all is over, too, while commands are left.
    fn may_crash(&self, world: &World, who: u8) -> bool {
        let member = self.case.plan(who).member;
        let mut own = self.case.acquires().filter(|who| self.case.plan(*who).member == member);
        own.any(|who| match world.at(who).actor {
            DEAD => false,
            GONE => !world.at(who).commands.is_empty(),
            _ => true,
        })
    }

    fn may_start(&self, world: &World, who: u8) -> bool {
        if world.at(who).actor != UNSTARTED {
            return false;
        }
        let Some(before) = self.case.plan(who).after else { return true };
        let over = world.at(before).actor == GONE && world.at(before).commands.is_empty();
        over || (self.case.overlap && self.is_leaving(world, before))
    }

    fn is_leaving(&self, world: &World, who: u8) -> bool {
        world.at(who).actor == GONE || world.phase(&self.book, who) == Phase::Leaving
    }

    pub fn take(&mut self, world: &mut World, (step, ordinary): Choice) -> Result<(), Violation> {
        match step {
            Step::Serve(who) => {
                while self.serve(world, who) && self.case.one_pipeline {}
                Ok(())
            }
            Step::Notice(who) => {
                self.unsubscribe(world, who);
                world.at_mut(who).commands.clear();
                Ok(())
            }
            Step::Crash(who) => {
                world.crashes -= 1;
                self.crash(world, self.case.plan(who).member);
                Ok(())
            }
            Step::Start(who) => {
                let reaction = self.book.start(who);
                self.follow(world, who, reaction)
            }
            Step::Read(who) => {
                let message = world.at_mut(who).inbox.pop().expect("something to read");
                if message.kind == Kind::Pong && !message.stale {
                    world.at_mut(who).owed &= !just(message.who);
                }
                self.put(world, who, Stimulus::Delivery(message))
            }
            Step::ReadReply(who) => {
                let message = world.at_mut(who).replies.pop().expect("something to read");
                self.put(world, who, Stimulus::Delivery(message))
            }
            Step::Garbage(who) => {
                world.noise -= 1;
                let stale = world.at(who).reply_stale;
                self.deliver(world, who, Message::new(Kind::Garbage, who).stale(stale));
                Ok(())
            }
            Step::PingAgain(who) => {
                world.noise -= 1;
                self.publish(world, Message::new(Kind::Ping, who));
                Ok(())
            }
            Step::Foreign(act) => self.act_stranger(world, act),
            Step::Release(who) => self.put(world, who, Stimulus::Stop(Stop::Release)),
            Step::Timeout(who) => {
                world.timeouts -= 1;
                self.put(world, who, Stimulus::Stop(Stop::Timeout))
            }
            Step::Timer(who, timer) => {
                world.premature -= u8::from(!ordinary);
                self.put(world, who, Stimulus::Timer(timer))
            }
        }
    }

    fn crash(&self, world: &mut World, member: u8) {
        for who in self.case.acquires().filter(|who| self.case.plan(*who).member == member) {
            let acquire = world.at_mut(who);
            acquire.actor = DEAD;
            acquire.inbox.clear();
            acquire.replies.clear();
            (acquire.owed, acquire.promised) = (0, 0);
            self.age(world, who);
            self.is_out(world, who);
        }
    }

    fn put(&mut self, world: &mut World, who: u8, stimulus: Stimulus) -> Result<(), Violation> {
        let reaction = self.book.react(world.at(who).actor, who, stimulus);
        self.follow(world, who, reaction)
    }

    /// Carries out what a contender does.
    fn follow(&mut self, world: &mut World, who: u8, reaction: Reaction) -> Result<(), Violation> {
        let next = reaction.next;
        world.at_mut(who).actor = next;
        if reaction.resolves && world.at(who).owed != 0 && self.case.watches(Property::Heard) {
            let owed = world.at(who).owed;
            return violated(Property::Heard, format!("#{who} resolved unheard {owed:#b}"));
        }
        for at in self.book.effects(&reaction) {
            self.carry_out(world, who, self.book.effect(at))?;
        }
        if reaction.resolves || self.book.facts(next).phase != Phase::Waiting {
            world.at_mut(who).owed = 0;
        }
        Ok(())
    }

    fn carry_out(&self, world: &mut World, who: u8, effect: Effect) -> Result<(), Violation> {
        match effect {
            Effect::Join => {
                // Back from an absence: what is on its way belongs to the time before.
                self.age(world, who);
                self.write(world, who, &[Kind::Subscribe, Kind::CountJoin]);
            }
            Effect::Count => self.write(world, who, &[Kind::Count]),
            Effect::Roll => self.write(world, who, &[Kind::Roll]),
            Effect::Kill(whom) => {
                world.at_mut(who).commands.push(Message::new(Kind::Kill, whom));
            }
            Effect::Ask { first, exact } => self.ask(world, who, first, exact),
            Effect::Answer { to, stale, state } => self.answer(world, who, to, stale, state),
            Effect::Granted => return self.granted(world, who),
            Effect::Leave => {
                self.is_out(world, who);
                world.at_mut(who).has_left = true;
                self.write(world, who, &[Kind::Unsubscribe, Kind::PublishLeft]);
            }
            Effect::Gone => {}
            Effect::Broken(_) if !self.case.watches(Property::Sense) => {}
            Effect::Broken(why) => return violated(Property::Sense, format!("#{who}: {why}")),
        }
        Ok(())
    }

    fn write(&self, world: &mut World, who: u8, kinds: &[Kind]) {
        for kind in kinds {
            world.at_mut(who).commands.push(Message::new(*kind, who));
        }
    }

    fn ask(&self, world: &mut World, who: u8, first: bool, exact: bool) {
        if !first {
            self.age(world, who);
            self.write(world, who, &[Kind::SubscribeReply]);
        }
        world.at_mut(who).owed = u8::MAX;
        match exact {
            true => self.write(world, who, &[Kind::PublishExact]),
            false => self.write(world, who, &[Kind::Publish, Kind::CountAsk]),
        }
    }

    /// Whatever of its pings is on its way is no longer the present one.
    pub fn age(&self, world: &mut World, who: u8) {
        let of_ping = |kind| {
            use Kind::*;
            matches!(kind, SubscribeReply | Publish | CountAsk | PublishExact | Answer)
                || matches!(kind, Ping | Asked | AskedExact | Refused)
        };
        for acquire in &mut world.acquires {
            for queue in [&mut acquire.inbox, &mut acquire.replies, &mut acquire.commands] {
                queue.each_mut(|m| m.stale |= m.who == who && of_ping(m.kind));
            }
        }
        for queue in [&mut world.foreign.inbox, &mut world.foreign.answers] {
            queue.each_mut(|m| m.stale |= m.who == who);
        }
        let own = world.at_mut(who);
        own.reply_stale = own.subscribed;
        own.pinged = false;
        own.inbox.each_mut(|m| m.stale |= matches!(m.kind, Kind::Pong | Kind::Garbage));
    }

    fn answer(&self, world: &mut World, who: u8, to: u8, stale: bool, state: u8) {
        let answer = Message::new(Kind::Answer, to).stale(stale).count(state);
        world.at_mut(who).commands.push(answer);
        if to == self.case.stranger_number() {
            return;
        }
        let waiting = state == state_code(portalock::protocol::State::Waiting);
        let lower = self.case.plan(to).id < self.case.plan(who).id;
        let unserved = world.is_active(to)
            && matches!(world.phase(&self.book, to), Phase::Joining | Phase::Waiting);
        let before_it_left = stale && world.at(to).has_left;
        if waiting && lower && unserved && !before_it_left && self.case.conflict(who, to) {
            world.at_mut(who).promised |= just(to);
        }
    }

    fn granted(&self, world: &mut World, who: u8) -> Result<(), Violation> {
        let promised = world.at(who).promised;
        if promised != 0 && self.case.watches(Property::Promise) {
            let what = format!("#{who} overtakes those of {promised:#b}");
            return violated(Property::Promise, what);
        }
        self.is_out(world, who);
        let holds =
            |other: &u8| world.is_active(*other) && world.phase(&self.book, *other) == Phase::Held;
        let beside = |other: &u8| *other != who && self.case.conflict(who, *other) && holds(other);
        if self.conflicts(world, who) && self.case.watches(Property::Exclusion) {
            return violated(Property::Exclusion, format!("#{who} holds beside the stranger"));
        }
        match self.case.acquires().find(beside) {
            Some(other) if self.case.watches(Property::Exclusion) => {
                violated(Property::Exclusion, format!("#{who} holds beside #{other}"))
            }
            _ => Ok(()),
        }
    }

    /// It waits no longer: nobody owes it anything, and it owes nobody.
    pub fn is_out(&self, world: &mut World, who: u8) {
        world.at_mut(who).promised = 0;
        for acquire in &mut world.acquires {
            acquire.promised &= !just(who);
        }
    }
}
