//! The state machine of one acquire, from joining the channel to having left it.

mod asking;
mod health;
mod io;
mod reaping;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use super::Time;
use super::id::{HolderId, LinkId, MemberId};
use super::message::{Answer, Asker, Event, Mode, Ping, Standing, State};
use super::mutant::Mutant;
use super::probe::Probe;
use super::roster::{Blocked, Roster};
use health::Health;

pub use io::{Bears, Input, Output, Phase, Stop, Suspect, Timer, Timing};

/// One acquire of one lock.
#[derive(Clone, Debug)]
pub struct Contender {
    id: HolderId,
    wants: Mode,
    /// The link that it lives on, if others do too.
    link: Option<LinkId>,
    timing: Timing,
    phase: Phase,
    /// A ping was heard before the join pipeline was through.
    heard_ping: bool,
    roster: Roster,
    /// The number of the latest ping, or of the next one where none was sent since joining.
    number: u32,
    probe: Probe,
    /// A stranger has pinged since the latest ping: it may not promote.
    stale: bool,
    /// Plain counts have proved ambiguous on this channel.
    want_exact: bool,
    /// The server refuses exact counts.
    exact_refused: bool,
    /// The number of subscribers was asked for and not answered yet.
    counting: bool,
    counted_at: Time,
    /// When the queue last moved: somebody left, or everybody was heard.
    stirred_at: Time,
    /// When a ping was last answered.
    said_at: Time,
    /// When somebody ahead last asked round: those behind need not.
    checked_at: Time,
    /// When the channel was last left for a foreign member's sake.
    aside_at: Time,
    health: Health,
    /// The place in line that was last made known.
    told: Option<usize>,
    /// What was held until leaving.
    left_as: Option<Mode>,
    outputs: VecDeque<Output>,
    mutant: Option<Mutant>,
    late: Option<Box<(HolderId, Mode)>>,
}

impl Contender {
    /// Begins an acquire; the first output is [`Output::Join`].
    pub fn new(id: HolderId, wants: Mode, timing: Timing) -> Self {
        Self {
            id,
            wants,
            link: None,
            timing,
            phase: Phase::Joining,
            heard_ping: false,
            roster: Roster::default(),
            number: 0,
            probe: Probe::Unasked,
            stale: false,
            want_exact: false,
            exact_refused: false,
            counting: false,
            counted_at: Time::ZERO,
            stirred_at: Time::ZERO,
            said_at: Time::ZERO,
            checked_at: Time::ZERO,
            aside_at: Time::ZERO,
            health: Health::default(),
            told: None,
            left_as: None,
            outputs: VecDeque::from([Output::Join { number: 0 }]),
            mutant: None,
            late: None,
        }
    }

    /// Puts it, before anything has happened, on a link that others live on too, on other channels. Its
    /// health is the link's then: how often it wanted that checked is handed over.
    pub fn move_to_link(&mut self, link: LinkId) -> Time {
        self.link = Some(link);
        std::mem::take(&mut self.timing.health_every)
    }

    /// The link that it lives on, if others do too.
    pub fn link(&self) -> Option<LinkId> {
        self.link
    }

    /// Whether somebody else on the same link may hold by this one's hold: a reader beside a reader, a
    /// writer in a writer's place. Not if somebody elsewhere comes first.
    pub fn lets_in(&self, id: HolderId, wants: Mode) -> bool {
        let alike = self.phase == Phase::Held && self.wants == wants && self.link.is_some();
        alike && self.roster.blocked(&MemberId::Hex(id), wants) == Blocked::No
    }

    /// How long is long for it.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Switches a known fault on. Does nothing without the `mutants` feature.
    #[doc(hidden)]
    pub fn with_mutant(mut self, mutant: Option<Mutant>) -> Self {
        self.mutant = mutant;
        self
    }

    /// The id of this acquire.
    pub fn id(&self) -> HolderId {
        self.id
    }

    /// What it wants, or holds.
    pub fn wants(&self) -> Mode {
        self.wants
    }

    /// Where it stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The number of the latest ping, or of the next one where none was sent since joining.
    pub fn ping_number(&self) -> u32 {
        self.number
    }

    /// Whether everybody counted at the latest ping has answered.
    pub fn is_resolved(&self) -> bool {
        matches!(self.probe, Probe::Resolved { .. })
    }

    /// The token of the response channel of ping `number`: unique as long as ids are, and known
    /// without asking.
    pub fn reply_to(&self, number: u32) -> u128 {
        self.id.0.wrapping_add(u128::from(number))
    }

    /// Which ping a response channel's token belongs to, if to one of ours.
    pub fn number_of(&self, token: u128) -> Option<u32> {
        let number = u32::try_from(token.wrapping_sub(self.id.0)).ok()?;
        (number <= self.number).then_some(number)
    }

    /// Next thing to do, oldest first. To be emptied after every input.
    pub fn next_output(&mut self) -> Option<Output> {
        let next = self.outputs.pop_front();
        if next.is_none() && self.phase == Phase::Held {
            // A holder has little to say, and there may be many.
            self.outputs = VecDeque::new();
        }
        next
    }

    /// The earliest timer, and when it is due.
    pub fn next_timer(&self) -> Option<(Time, Timer)> {
        use Timer::*;
        let all = [AskAgain, Count, Recheck, Rejoin, Health, Overdue];
        let armed = all.into_iter().filter_map(|timer| self.due(timer).map(|at| (at, timer)));
        armed.min_by_key(|(at, _)| *at)
    }

    /// Takes note of what happened at `now`.
    pub fn handle(&mut self, now: Time, input: Input) {
        let late = self.late.take_if(|_| matches!(input, Input::Pong { .. }));
        match input {
            Input::Joined { members } => self.joined(now, members),
            Input::Ping(ping) => self.pinged(now, ping),
            Input::Pong { number, record } => self.answered(number, record),
            Input::Event(Event::Left(id)) => {
                self.stirred_at = now;
                self.left(MemberId::Hex(id));
            }
            Input::Asked { number, count } => self.asked(now, number, count),
            Input::ExactRefused { number } => self.exact_refused(now, number),
            Input::Rolled(roll) => self.rolled(now, roll),
            Input::Healthy { number } => self.healthy(number),
            Input::Verify => self.verify(),
            Input::Counted { members } => self.counted(now, members),
            Input::Timer(timer) => self.timer(now, timer),
            Input::Stop(_) => self.leave(),
            Input::Unsubscribed => self.unsubscribed(now),
        }
        if let Some((id, wants)) = late.map(|late| *late) {
            self.roster.overwrite(MemberId::Hex(id), waiting(wants));
        }
        self.decide(now);
    }

    fn join(&mut self) {
        self.number += 1;
        self.phase = Phase::Joining;
        self.probe = Probe::Unasked;
        self.heard_ping = false;
        self.stale = false;
        self.roster.clear();
        self.outputs.push_back(Output::Join { number: self.number });
    }

    fn joined(&mut self, now: Time, members: u64) {
        if self.phase != Phase::Joining {
            return;
        }
        if members == 0 {
            return self.broken("subscribed, yet the server counts no subscriber");
        }
        let heard_ping = self.heard_ping && !self.is_mutant(Mutant::AloneDespitePing);
        if members == 1 && !heard_ping {
            return self.grant(now);
        }
        self.phase = Phase::Waiting;
        self.ask(now);
    }

    fn pinged(&mut self, now: Time, ping: Ping) {
        match ping.asker {
            Asker::Member { id, .. } if id == self.id => return self.echoed(now, &ping),
            Asker::Member { id, wants, link } => {
                self.note_link(link);
                self.note_asker(now, id, wants);
                if let Probe::Open(open) = &mut self.probe {
                    open.pinged_by(MemberId::Hex(id));
                }
            }
            Asker::Observer => {}
            Asker::Stranger => self.stale = true,
        }
        self.heard_ping = true;
        if let Some(answer) = self.answer(ping.asker == Asker::Stranger) {
            let to = ping.reply_to;
            self.said_at = now;
            self.outputs.push_back(Output::Pong { to, answer });
        }
    }

    /// Rule 3: the record comes before the promise.
    fn note_asker(&mut self, now: Time, id: HolderId, wants: Mode) {
        // A holder gives way to nobody; but who waits elsewhere comes before some who wait on its link.
        let listens = self.phase == Phase::Held && self.link.is_some();
        if !listens && !matches!(self.phase, Phase::Joining | Phase::Waiting) {
            return;
        }
        if id < self.id {
            self.checked_at = now;
        }
        if self.is_mutant(Mutant::ForgetAsker) {
            return;
        }
        if self.is_mutant(Mutant::PingOverwritesPong) {
            self.late = Some(Box::new((id, wants)));
            return;
        }
        self.roster.note(MemberId::Hex(id), waiting(wants));
    }

    fn answer(&self, foreign: bool) -> Option<Answer> {
        let (state, holds) = match self.phase {
            Phase::Joining | Phase::Waiting => (State::Waiting, None),
            Phase::Held => (State::Held, Some(self.wants)),
            Phase::Leaving | Phase::SteppingAside if self.is_mutant(Mutant::LeaveInSilence) => {
                return None;
            }
            Phase::Leaving | Phase::SteppingAside => (State::Leaving, self.left_as),
            Phase::Aside | Phase::Gone => return None,
        };
        Some(if foreign {
            self.answer_to_stranger(state, holds)
        } else {
            Answer { state, holds, elected: Some(false) }
        })
    }

    /// A stranger believes that the members it counted are those that answered, and does not see one
    /// join, answer and leave in the place of another that has not answered yet. So to strangers the
    /// queue speaks with one voice: as long as somebody else in it holds, may hold by now, or has not
    /// been heard, whoever waits or gives up says that the lock is held. Without `elected` such an
    /// answer also stops one that has promoted itself already and merely asks again to confirm it.
    fn answer_to_stranger(&self, state: State, holds: Option<Mode>) -> Answer {
        let next = state == State::Waiting
            && self.is_resolved()
            && self.place() == 1
            && !self.roster.has_queue_holder();
        match holds {
            None if next => Answer { state, holds, elected: Some(true) },
            None if self.is_mutant(Mutant::PendingToStrangers) => {
                Answer { state, holds, elected: Some(false) }
            }
            None => Answer { state, holds: Some(Mode::Exclusive), elected: None },
            Some(_) => Answer { state, holds, elected: None },
        }
    }

    /// Rules 4 and 7, looked at again after every input.
    fn decide(&mut self, now: Time) {
        if self.phase != Phase::Waiting || !self.look(now) {
            return;
        }
        let blocked = self.blocked();
        if blocked == Blocked::No {
            return if self.stale { self.ask(now) } else { self.grant(now) };
        }
        let ahead = self.waiters_ahead();
        if self.told != Some(ahead) {
            self.told = Some(ahead);
            self.outputs.push_back(Output::Queued { ahead });
        }
        if blocked == Blocked::ByStranger {
            self.step_aside();
        }
    }

    fn blocked(&self) -> Blocked {
        let barges = self.is_mutant(Mutant::ReadersBarge) && self.wants == Mode::Shared;
        if barges && !self.roster.holds(Mode::Exclusive) {
            return Blocked::No;
        }
        self.roster.blocked(&MemberId::Hex(self.id), self.wants)
    }

    fn grant(&mut self, now: Time) {
        self.phase = Phase::Held;
        self.start_health(now);
        if self.link.is_none() {
            self.roster.clear();
        }
        self.outputs.push_back(Output::Granted);
    }

    fn leave(&mut self) {
        match self.phase {
            Phase::Held => self.left_as = Some(self.wants),
            Phase::Joining | Phase::Waiting => self.left_as = None,
            Phase::SteppingAside => {
                self.phase = Phase::Leaving;
                return;
            }
            Phase::Aside => return self.gone(),
            Phase::Leaving | Phase::Gone => return,
        }
        self.phase = Phase::Leaving;
        self.roster.clear();
        self.outputs.push_back(Output::Leave);
    }

    /// Rule 7: a foreign writer asks everybody again before it holds, and a waiter that stays would
    /// never let it come to an end.
    fn step_aside(&mut self) {
        self.left_as = None;
        self.phase = Phase::SteppingAside;
        self.outputs.push_back(Output::Leave);
    }

    fn unsubscribed(&mut self, now: Time) {
        match self.phase {
            Phase::Leaving => self.gone(),
            Phase::SteppingAside => {
                self.phase = Phase::Aside;
                self.aside_at = now;
                self.counted_at = now;
            }
            Phase::Aside | Phase::Gone => {}
            _ => self.broken("the subscription was taken away"),
        }
    }

    fn gone(&mut self) {
        self.phase = Phase::Gone;
        self.outputs.push_back(Output::Gone);
    }

    fn broken(&mut self, why: &'static str) {
        self.phase = Phase::Gone;
        self.outputs.push_back(Output::Broken(why));
    }

    fn waiters_ahead(&self) -> usize {
        self.roster.waiters_ahead(&MemberId::Hex(self.id))
    }

    /// The place in line, from 1.
    fn place(&self) -> u32 {
        u32::try_from(self.waiters_ahead()).unwrap_or(u32::MAX).saturating_add(1)
    }

    fn is_mutant(&self, mutant: Mutant) -> bool {
        cfg!(feature = "mutants") && self.mutant == Some(mutant)
    }
}

fn waiting(wants: Mode) -> Standing {
    let state = State::Waiting;
    Standing::Queue { wants, state }
}

/// All that may still matter. Left out are the times and the ping's number: two contenders that
/// differ in these alone behave alike to an explorer that lets any armed timer fire at any moment.
/// So is what only its phase gives a meaning to.
impl Hash for Contender {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.id, self.wants, self.phase, &self.outputs).hash(hasher);
        match self.phase {
            Phase::Joining => {
                (self.heard_ping, self.stale, &self.roster, &self.late).hash(hasher);
                (self.counting, self.want_exact, self.exact_refused).hash(hasher);
            }
            Phase::Waiting => {
                (&self.roster, &self.late, self.stale, &self.probe).hash(hasher);
                (self.counting, self.want_exact, self.exact_refused).hash(hasher);
            }
            Phase::Aside | Phase::SteppingAside => {
                (self.counting, self.want_exact, self.exact_refused).hash(hasher);
            }
            Phase::Held | Phase::Leaving | Phase::Gone => self.left_as.hash(hasher),
        }
    }
}
